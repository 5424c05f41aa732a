"""The adaptive softmax for many classes of very different frequency (Grave et al., 2017)."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn.container import ModuleList, Sequential
from rushlight.nn.linear import Linear
from rushlight.nn.module import Module
from rushlight.tensor import Tensor

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Frequent classes in a head; the rest in clusters with ever smaller projections."""

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        _check_cutoffs(cutoffs, n_classes)
        where = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **where)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **where),
                    Linear(hidden, size, bias=False, **where),
                )
            )

    def reset_parameters(self) -> None:
        self.head.reset_parameters()
        for down, up in self.tail:
            down.reset_parameters()
            up.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> Any:
        is_batch = target_.dim() > 0
        if is_batch and input_.shape[0] != target_.shape[0]:
            raise RuntimeError(
                "Input and target should have the same size in the batch dimension."
            )
        _check_batch(is_batch, input_.dim(), target_.dim())
        input = input_ if is_batch else input_.unsqueeze(0)
        target = target_ if is_batch else target_.unsqueeze(0)
        chosen = target.tolist()
        self._check_range(chosen)
        head = F.log_softmax(self.head(input), dim=1)
        is_short = target < self.shortlist_size
        output = head.gather(1, rl.where(is_short, target, 0).unsqueeze(1)).squeeze(1)
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            if not any(low <= c < high for c in chosen):
                continue  # as in PyTorch, a cluster without targets gets no gradient
            output = self._of_cluster(i, input, target, head, output)
        loss = (-output).mean()
        return _ASMoutput(output if is_batch else output.squeeze(0), loss)

    def _of_cluster(
        self, i: int, input: Tensor, target: Tensor, head: Tensor, output: Tensor
    ) -> Tensor:
        """`output` with the log-probabilities of the targets in cluster `i` filled in."""
        low, high = self.cutoffs[i], self.cutoffs[i + 1]
        inside = (target >= low) & (target < high)
        local = F.log_softmax(self.tail[i](input), dim=1)
        place = rl.where(inside, target - low, 0).unsqueeze(1)
        found = head[:, self.shortlist_size + i] + local.gather(1, place).squeeze(1)
        return rl.where(inside, found, output)

    def _check_range(self, chosen: list[int]) -> None:
        low, high = min(chosen), max(chosen)
        if low < 0 or high >= self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{low}, {high}] were found. "
            )

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            own = head[:, self.shortlist_size + i].unsqueeze(1)
            parts.append(F.log_softmax(tail(input), dim=1) + own)
        return rl.cat(parts, dim=1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row."""
        return self.log_prob(input).argmax(dim=1)


def _check_cutoffs(cutoffs: list[int], n_classes: int) -> None:
    if not cutoffs:
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    is_sorted = cutoffs == sorted(cutoffs) and len(set(cutoffs)) == len(cutoffs)
    in_range = min(cutoffs) > 0 and max(cutoffs) <= n_classes - 1
    if not is_sorted or not in_range or any(int(c) != c for c in cutoffs):
        raise ValueError(
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
            "order, where each value is between 1 and n_classes-1"
        )


def _check_batch(is_batch: bool, input_dim: int, target_dim: int) -> None:
    if target_dim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if is_batch and input_dim != 2:
        raise RuntimeError(
            "1D target tensor expects 2D input tensors, but found inputs with size"
        )
    if not is_batch and input_dim != 1:
        raise RuntimeError(
            "0D target tensor expects 1D input tensors, but found inputs with size"
        )
