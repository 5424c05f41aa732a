"""Transforms made of transforms, and those that only rearrange values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import errors
from rushlight.distributions import constraints
from rushlight.distributions.transforms.transform import Shape, Transform
from rushlight.distributions.utils import sum_rightmost
from rushlight.tensor import Tensor


class ComposeTransform(Transform):
    """One transform after another."""

    _compared = ("parts",)

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [p.with_cache(cache_size) for p in parts] if cache_size else list(parts)
        self.bijective = all(part.bijective for part in self.parts)
        if self.parts:
            self.domain, self.codomain = self._ends()

    def _ends(self) -> tuple[Any, Any]:
        """Where values come from and go to, with the dimensions that any part takes
        together.
        """
        first, last = self.parts[0].domain, self.parts[-1].codomain
        backward = last.event_dim
        for part in reversed(self.parts):
            backward += part.domain.event_dim - part.codomain.event_dim
            backward = max(backward, part.domain.event_dim)
        forward = first.event_dim
        for part in self.parts:
            forward += part.codomain.event_dim - part.domain.event_dim
            forward = max(forward, part.codomain.event_dim)
        return widened(first, backward), widened(last, forward)

    def with_cache(self, cache_size: int = 1) -> Any:
        if cache_size == self._cache_size:
            return self
        return ComposeTransform([p.with_cache(cache_size) for p in self.parts], cache_size)

    @property
    def inv(self) -> Transform:
        return ComposeTransform([part.inv for part in reversed(self.parts)])

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return rl.zeros_like(x)
        event_dim, total = self.domain.event_dim, 0.0
        for i, part in enumerate(self.parts):
            after = y if i == len(self.parts) - 1 else part(x)
            own = part.log_abs_det_jacobian(x, after)
            total = total + sum_rightmost(own, event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
            x = after
        return total  # type: ignore[return-value]

    def forward_shape(self, shape: Shape) -> Shape:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    @property
    def sign(self) -> Any:
        return math.prod(part.sign for part in self.parts)

    def __repr__(self) -> str:
        parts = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {parts}\n)"


def widened(constraint: Any, event_dim: int) -> Any:
    """A constraint of values of at least so many dimensions."""
    extra = event_dim - constraint.event_dim
    return constraints.independent(constraint, extra) if extra > 0 else constraint


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last dimensions count as one value."""

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.bijective = base_transform.bijective
        count = reinterpreted_batch_ndims
        self.domain = constraints.independent(base_transform.domain, count)
        self.codomain = constraints.independent(base_transform.codomain, count)

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        found = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(found, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Shape) -> Shape:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return self.base_transform.inverse_shape(shape)

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def __repr__(self) -> str:
        given = f"{self.base_transform!r}, {self.reinterpreted_batch_ndims}"
        return f"{type(self).__name__}({given})"


class ReshapeTransform(Transform):
    """The last dimensions of values in another shape."""

    bijective = True

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(tuple(x.shape)))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(tuple(y.shape)))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Shape) -> Shape:
        return _exchanged(tuple(shape), self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return _exchanged(tuple(shape), self.out_shape, self.in_shape)


def _exchanged(shape: Shape, old: Shape, new: Shape) -> Shape:
    kept = len(shape) - len(old)
    if kept < 0 or shape[kept:] != old:
        raise ValueError(f"Shape mismatch: expected {shape[max(kept, 0) :]} but got {old}")
    return (*shape[:kept], *new)


class _SideBySide(Transform):
    """Transforms of the parts of a tensor along a dimension."""

    _compared = ("transforms", "dim")

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        assert all(isinstance(t, Transform) for t in tseq), f"no transforms: {tseq!r}"
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim
        self.bijective = all(t.bijective for t in self.transforms)

    def with_cache(self, cache_size: int = 1) -> Any:
        if cache_size == self._cache_size:
            return self
        made = super().with_cache(cache_size)
        made.transforms = [t.with_cache(cache_size) for t in self.transforms]
        return made

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        raise errors.left_to_subclasses(self, "_parts")

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        raise errors.left_to_subclasses(self, "_joined")

    def _call(self, x: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._parts(x), strict=True)
        return self._joined([transform(part) for transform, part in pairs])

    def _inverse(self, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._parts(y), strict=True)
        return self._joined([transform._inv_call(part) for transform, part in pairs])

    def _stretches(self, x: Tensor, y: Tensor) -> list[Tensor]:
        trios = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return [transform.log_abs_det_jacobian(*pair) for transform, *pair in trios]


class CatTransform(_SideBySide):
    """Transforms of parts that `torch.cat` joined along `dim`, of these lengths.

    >>> import rushlight as torch
    >>> d = torch.distributions
    >>> both = d.CatTransform([d.ExpTransform(), d.identity_transform], lengths=[1, 2])
    >>> both(torch.zeros(3))
    tensor([1., 0., 0.])
    """

    _compared = ("transforms", "dim", "lengths")

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        assert len(self.lengths) == len(self.transforms), (
            f"{len(self.lengths)} lengths for {len(self.transforms)} transforms"
        )
        self.domain = constraints.cat([t.domain for t in tseq], dim, self.lengths)
        self.codomain = constraints.cat([t.codomain for t in tseq], dim, self.lengths)

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The size of arguments along `dim`."""
        return sum(self.lengths)

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        assert x.size(self.dim) == self.length, (
            f"CatTransform: size {x.size(self.dim)} along {self.dim} instead of {self.length}"
        )
        return x.split(self.lengths, self.dim)

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        return rl.cat(list(parts), self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        found = [
            sum_rightmost(own, self.event_dim - transform.event_dim)
            for transform, own in zip(self.transforms, self._stretches(x, y), strict=True)
        ]
        dim = (self.dim if self.dim < 0 else self.dim - x.ndim) + self.event_dim
        if dim < 0:
            return rl.cat(found, dim)
        return sum(found[1:], found[0])  # the parts are parts of one value


class StackTransform(_SideBySide):
    """Transforms of the tensors that `torch.stack` joined along `dim`.

    >>> import rushlight as torch
    >>> d = torch.distributions
    >>> both = d.StackTransform([d.ExpTransform(), d.identity_transform], dim=1)
    >>> both(torch.zeros(1, 2))
    tensor([[1., 0.]])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)
        self.domain = constraints.stack([t.domain for t in tseq], dim)
        self.codomain = constraints.stack([t.codomain for t in tseq], dim)

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        assert x.size(self.dim) == len(self.transforms), (
            f"StackTransform: size {x.size(self.dim)} along {self.dim} instead of "
            f"{len(self.transforms)}"
        )
        return x.unbind(self.dim)

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        return rl.stack(list(parts), self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self._joined(self._stretches(x, y))
