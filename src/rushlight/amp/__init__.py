"""`torch.amp`: parts of a program in lower precision, and losses scaled to survive float16.

In comes a block of code or a loss; matrix products inside the block run in bfloat16 or float16
by the table of `ops/precision.py`. This room never names single operations.
"""

from rushlight.amp import autocast_mode, grad_scaler
from rushlight.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from rushlight.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
