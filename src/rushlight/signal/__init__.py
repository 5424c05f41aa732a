"""`torch.signal`: window functions."""

from rushlight.signal import windows as windows
