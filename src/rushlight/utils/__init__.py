"""PyTorch's name for a few rooms: `torch.utils.data` is `rushlight.data`. Nothing lives here."""

from rushlight.utils import data, hooks
