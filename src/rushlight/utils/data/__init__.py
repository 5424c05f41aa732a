"""`torch.utils.data`: the names of `rushlight.data`."""

from rushlight.data import *
from rushlight.data import __all__
