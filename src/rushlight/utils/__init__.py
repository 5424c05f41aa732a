"""PyTorch's name for a few rooms: `torch.utils.data` is `rushlight.data`."""

from rushlight.utils import checkpoint, data, dlpack, hooks

__all__ = ["checkpoint", "data", "dlpack", "hooks"]
