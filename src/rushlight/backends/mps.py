"""`torch.backends.mps`: Apple's Metal is not used."""

from typing import NoReturn


def is_available() -> bool:
    """Whether Metal can be used: it cannot."""
    return False


def is_built() -> bool:
    """Whether support for Metal was built in: it was not."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether Metal's host has at least this system."""
    _refuse()


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Whether Metal's host has at least macOS 13."""
    _refuse()


def _refuse() -> NoReturn:
    raise RuntimeError("Cannot execute isOnMacOSorNewer() without MPS backend.")
