"""`torch.backends.openmp`: OpenMP is not used."""


def is_available() -> bool:
    """Whether OpenMP can be used: it cannot."""
    return False
