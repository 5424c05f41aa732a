"""`torch.utils.hooks`: the handle that takes a hook away again."""

from rushlight.nn.hooks import RemovableHandle  # noqa: F401
