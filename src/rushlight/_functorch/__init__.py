"""`torch._functorch`: the room of PyTorch's graph transforms; only its settings are here."""

from rushlight._functorch import config

__all__ = ["config"]
