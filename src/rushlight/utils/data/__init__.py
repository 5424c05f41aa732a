"""`torch.utils.data`: the names of `rushlight.data`, also by the modules of old."""

from rushlight.data import *
from rushlight.data import __all__
from rushlight.utils.data import _utils, dataloader, dataset, distributed, sampler
