"""`torch.special`: what the families of `ops/` bind to "special"."""

from rushlight import surface as _surface

globals().update(_surface.NAMESPACES["special"])
