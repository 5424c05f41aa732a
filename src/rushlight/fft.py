"""`torch.fft`: what the families of `ops/` bind to "fft"."""

from rushlight import surface as _surface

globals().update(_surface.NAMESPACES["fft"])
