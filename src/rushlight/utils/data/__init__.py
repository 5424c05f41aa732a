"""`torch.utils.data`: the names of `rushlight.data`, and the modules they are also reached by."""

from rushlight.data import *
from rushlight.data import __all__
from rushlight.utils.data import dataloader, dataset, distributed, sampler
