"""PyTorch's name for a few rooms: `torch.utils.data` is `rushlight.data`."""

from rushlight.utils import data, hooks

__all__ = ["data", "hooks"]
