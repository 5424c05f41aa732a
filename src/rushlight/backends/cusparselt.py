"""`torch.backends.cusparselt`: cuSPARSELt is not used."""


def is_available() -> bool:
    """Whether cuSPARSELt can be used: it cannot."""
    return False
