"""Dropping values or whole channels at random in training."""

from __future__ import annotations

from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.tensor import Tensor


class _Dropout(Module):
    """Drops with probability `p`; a subclass gives the function, which says what."""

    __constants__ = ["p", "inplace"]
    FUNCTION: str

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self.FUNCTION)(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Sets values to zero and scales the rest so that the mean stays."""

    FUNCTION = "dropout"


class Dropout1d(_Dropout):
    """Sets whole channels of (N, C, L) to zero."""

    FUNCTION = "dropout1d"


class Dropout2d(_Dropout):
    """Sets whole channels of (N, C, H, W) to zero."""

    FUNCTION = "dropout2d"


class Dropout3d(_Dropout):
    """Sets whole channels of (N, C, D, H, W) to zero."""

    FUNCTION = "dropout3d"


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance, for SELU networks (Klambauer et al., 2017)."""

    FUNCTION = "alpha_dropout"


class FeatureAlphaDropout(_Dropout):
    """Alpha dropout of whole channels."""

    FUNCTION = "feature_alpha_dropout"

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
