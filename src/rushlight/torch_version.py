"""`torch.torch_version`: the class of `__version__` under PyTorch's address."""

from rushlight.version import TorchVersion as TorchVersion

__all__ = ["TorchVersion"]
