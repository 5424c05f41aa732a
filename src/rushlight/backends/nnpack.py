"""`torch.backends.nnpack`: NNPACK is not used."""


def is_available() -> bool:
    """Whether NNPACK can be used: it cannot."""
    return False
