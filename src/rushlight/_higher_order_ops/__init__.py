"""`torch._higher_order_ops`: where PyTorch keeps control flow that takes functions."""

from rushlight._higher_order_ops.associative_scan import associative_scan
from rushlight.control_flow import cond, while_loop

__all__ = ["associative_scan", "cond", "while_loop"]
