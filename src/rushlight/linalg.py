"""`torch.linalg`: what the families of `ops/` bind to "linalg"."""

from rushlight import surface as _surface

globals().update(_surface.NAMESPACES["linalg"])
