"""PyTorch's name for a few rooms: `torch.utils.data` is `rushlight.data`."""

from rushlight.utils import checkpoint, data, dlpack, hooks
from rushlight.utils.swapping import swap_tensors

__all__ = ["checkpoint", "data", "dlpack", "hooks", "swap_tensors"]
