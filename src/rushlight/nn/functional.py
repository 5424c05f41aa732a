"""`torch.nn.functional`: the stateless functions, as the families of `ops/` bind them to
"F".
"""

from rushlight import surface as _surface

globals().update(_surface.NAMESPACES["F"])
