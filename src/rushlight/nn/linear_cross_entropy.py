"""A classifier's last layer and its loss in one module."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from rushlight.nn import functional as F
from rushlight.nn.linear import Linear
from rushlight.nn.loss import _Loss
from rushlight.tensor import Tensor


@dataclasses.dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How PyTorch cuts the logits into chunks.

    The options are accepted and have no effect: whether logits are ever stored is for the
    compiler to decide.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None


class LinearCrossEntropyLoss(_Loss):
    """The cross-entropy of a linear map of the input."""

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__(None, None, reduction)
        _check_options(num_classes, weight, label_smoothing)
        self.in_features = in_features
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        rows = num_classes * math.prod(self.out_features)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        self._check(input, target)
        logits = self.linear(input)
        if self.out_features:
            logits = logits.unflatten(-1, (self.num_classes, *self.out_features))
        return F.cross_entropy(
            logits,
            target,
            weight=self.weight,
            ignore_index=-100 if self.ignore_index is None else self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )

    def _check(self, input: Tensor, target: Tensor) -> None:
        if input.shape[-1] != self.in_features:
            raise RuntimeError(
                "expected equal input and linear_weight last dimensions (in_features), got "
                f"{input.shape[-1]} and {self.in_features}, respectively"
            )
        if input.dim() > 1 and target.dim() > 0 and input.shape[0] != target.shape[0]:
            raise ValueError(
                f"Expected input batch_size ({input.shape[0]}) to match target batch_size "
                f"({target.shape[0]})."
            )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


def _check_options(num_classes: int, weight: Tensor | None, label_smoothing: float) -> None:
    if weight is not None and tuple(weight.shape) != (num_classes,):
        raise RuntimeError(
            f"LinearCrossEntropyLoss: expected weight shape to be ({num_classes},), got "
            f"{tuple(weight.shape)}"
        )
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(
            f"LinearCrossEntropyLoss: expected label_smoothing to be in range [0, 1], got "
            f"{label_smoothing}"
        )
