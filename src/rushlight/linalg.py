"""`torch.linalg`: what the families of `ops/` bind to "linalg"."""

from rushlight import surface as _surface
from rushlight.errors import LinAlgError as LinAlgError

globals().update(_surface.NAMESPACES["linalg"])
