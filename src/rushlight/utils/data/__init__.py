"""`torch.utils.data`: the names of `rushlight.data`."""

from rushlight.data import *  # noqa: F403
from rushlight.data import __all__  # noqa: F401
