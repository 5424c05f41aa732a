"""`torch.fft`: what the families of `ops/` bind to "fft"."""

from rushlight import surface as _surface
from rushlight.tensor import Tensor as Tensor

globals().update(_surface.NAMESPACES["fft"])
