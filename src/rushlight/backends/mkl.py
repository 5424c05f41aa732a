"""`torch.backends.mkl`: MKL is not used."""


def is_available() -> bool:
    """Whether MKL can be used: it cannot."""
    return False
