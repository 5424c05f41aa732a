"""Tables of vectors, looked up by index."""

from __future__ import annotations

from typing import Any

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.ops.embedding import check_dense_grad
from rushlight.tensor import Tensor


class Embedding(Module):
    """A row of `weight` for each index; the row `padding_idx` gets no gradient."""

    __constants__ = [
        "num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type",
        "scale_grad_by_freq", "sparse",
    ]  # fmt: skip

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        check_dense_grad(type(self).__name__, sparse)
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _row_from_front(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        shape = [num_embeddings, embedding_dim]
        if _weight is None:
            empty = rl.empty(shape, device=device, dtype=dtype)
            self.weight = Parameter(empty, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            _check_weight(_weight, shape)
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        _zero_row(self.weight, self.padding_idx)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        parts.extend(_non_defaults(self, ("padding_idx", "max_norm"), None))
        if self.norm_type != 2:
            parts.append(f"norm_type={self.norm_type}")
        parts.extend(_non_defaults(self, ("scale_grad_by_freq",), False))
        if self.sparse:
            parts.append("sparse=True")
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """An embedding of given vectors, which are not trained unless `freeze` is False."""
        rows, columns = _rows_and_columns(embeddings)
        return cls(
            rows,
            columns,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


class EmbeddingBag(Module):
    """The sum, mean or maximum of the rows of each bag of indices."""

    __constants__ = [
        "num_embeddings", "embedding_dim", "max_norm", "norm_type", "scale_grad_by_freq",
        "mode", "sparse", "include_last_offset", "padding_idx",
    ]  # fmt: skip

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        check_dense_grad(type(self).__name__, sparse)
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = _row_from_front(padding_idx, num_embeddings)
        shape = [num_embeddings, embedding_dim]
        if _weight is None:
            self.weight = Parameter(rl.empty(shape, device=device, dtype=dtype))
            self.reset_parameters()
        else:
            _check_weight(_weight, shape)
            self.weight = Parameter(_weight)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        _zero_row(self.weight, self.padding_idx)

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        parts.extend(_non_defaults(self, ("max_norm",), None))
        if self.norm_type != 2:
            parts.append(f"norm_type={self.norm_type}")
        parts.extend(_non_defaults(self, ("scale_grad_by_freq",), False))
        parts.append(f"mode={self.mode!r}")
        parts.extend(_non_defaults(self, ("padding_idx",), None))
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Bags of given vectors, which are not trained unless `freeze` is False."""
        rows, columns = _rows_and_columns(embeddings)
        bag = cls(
            rows,
            columns,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag


def _row_from_front(index: int | None, rows: int) -> int | None:
    if index is None:
        return None
    if not -rows <= index < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return index % rows


def _zero_row(weight: Tensor, index: int | None) -> None:
    if index is not None:
        with rl.no_grad():
            weight[index].fill_(0)


def _check_weight(weight: Tensor, shape: list[int]) -> None:
    if list(weight.shape) != shape:
        raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")


def _rows_and_columns(embeddings: Tensor) -> tuple[int, int]:
    if embeddings.dim() != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
    rows, columns = embeddings.shape
    return rows, columns


def _non_defaults(module: Module, names: tuple[str, ...], default: Any) -> list[str]:
    return [
        f"{name}={getattr(module, name)}"
        for name in names
        if getattr(module, name) is not default
    ]
