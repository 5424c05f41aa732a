"""`torch.return_types`: the named tuples of functions with several results."""

from rushlight.ops.return_types import *  # noqa: F403
