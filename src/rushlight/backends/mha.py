"""`torch.backends.mha`: the switch of PyTorch's fast path for encoder layers.

There is one path here, so the switch decides nothing.
"""

_fast_path = True


def get_fastpath_enabled() -> bool:
    """What was set last; on at first."""
    return _fast_path


def set_fastpath_enabled(value: bool) -> None:
    """Remember a choice."""
    global _fast_path
    _fast_path = bool(value)
