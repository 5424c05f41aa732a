"""Functions of random values that can be undone, and by how much they stretch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.utils import sum_rightmost
from rushlight.nn import functional as F
from rushlight.tensor import Tensor

Shape = tuple[int, ...]


class Transform:
    """A function of values with its inverse and the logarithm of its volume's change.

    bijective: whether `inv` undoes it. sign: whether it rises (1) or falls (-1). cache_size: 1
    to give back the very argument as inverse of the last result.

    >>> import rushlight as torch
    >>> double = torch.distributions.AffineTransform(0.0, 2.0)
    >>> double(torch.tensor(3.0)), double.inv(torch.tensor(6.0))
    (tensor(6.), tensor(3.))
    """

    domain: Any = constraints.real
    codomain: Any = constraints.real
    bijective = True
    sign: Any = 1

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._last: tuple[Any, Any] = (None, None)

    @property
    def inv(self) -> Transform:
        """The inverse, as a transform."""
        return _Inverse(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """This transform, remembering its last call or not."""
        self._cache_size, self._last = cache_size, (None, None)
        return self

    def __call__(self, x: Tensor) -> Tensor:
        if x is self._last[0]:
            return self._last[1]  # type: ignore[no-any-return]
        y = self._call(x)
        self._remember(x, y)
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if y is self._last[1]:
            return self._last[0]  # type: ignore[no-any-return]
        x = self._inverse(y)
        self._remember(x, y)
        return x

    def _remember(self, x: Tensor, y: Tensor) -> None:
        if self._cache_size:
            self._last = (x, y)

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy / dx| of each value."""
        raise NotImplementedError

    def forward_shape(self, shape: Shape) -> Shape:
        """The shape of results for arguments of a shape."""
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        """The shape of arguments for results of a shape."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._inv = transform
        self.domain, self.codomain = transform.codomain, transform.domain
        self.bijective, self.sign = transform.bijective, transform.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Shape:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"


class ComposeTransform(Transform):
    """One transform after another."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)
        self.bijective = all(part.bijective for part in self.parts)
        self.sign = math.prod(part.sign for part in self.parts)
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
        return _widened(first, backward), _widened(last, forward)

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

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts!r})"


def _widened(constraint: Any, event_dim: int) -> Any:
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
        self.bijective, self.sign = base_transform.bijective, base_transform.sign
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


class ReshapeTransform(Transform):
    """The last dimensions of values in another shape."""

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


class ExpTransform(Transform):
    """y = exp(x)."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x ** exponent, of positive numbers."""

    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else rl.tensor(float(exponent))

    @property
    def sign(self) -> Any:  # type: ignore[override]
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Shape:
        return tuple(rl.broadcast_shapes(shape, self.exponent.shape))

    inverse_shape = forward_shape


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x))."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        kind = rl.finfo(x.dtype)
        return x.sigmoid().clamp(min=kind.tiny, max=1.0 - kind.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        kind = rl.finfo(y.dtype)
        y = y.clamp(min=kind.tiny, max=1.0 - kind.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(Transform):
    """y = log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class TanhTransform(Transform):
    """y = tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|; its inverse gives the positive one of two."""

    codomain = constraints.positive
    bijective = False

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """y = loc + scale * x; `event_dim` last dimensions count as one value."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim
        self.domain = self.codomain = _widened(constraints.real, event_dim)

    @property
    def sign(self) -> Any:  # type: ignore[override]
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x  # type: ignore[no-any-return]

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        scale = self.scale if isinstance(self.scale, Tensor) else rl.tensor(float(self.scale))
        found = scale.abs().log()
        return sum_rightmost(found.expand(x.shape).to(x.dtype), self.event_dim)

    def forward_shape(self, shape: Shape) -> Shape:
        shapes = [getattr(v, "shape", ()) for v in (self.loc, self.scale)]
        return tuple(rl.broadcast_shapes(shape, *shapes))

    inverse_shape = forward_shape


class SoftmaxTransform(Transform):
    """Unconstrained numbers to probabilities; the inverse is one of many."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = False

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """n unconstrained numbers to n + 1 probabilities: each takes its part of what is left."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        parts = _clipped_sigmoid(x - _left(x).log())
        left = (1 - parts).cumprod(-1)
        return F.pad(parts, [0, 1], value=1) * F.pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        crop = y[..., :-1]
        left = (1 - crop.cumsum(-1)).clamp(min=rl.finfo(y.dtype).tiny)
        return crop.log() - left.log() + _left(crop).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        moved = x - _left(x).log()
        return (-moved + F.logsigmoid(moved) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Shape) -> Shape:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Shape) -> Shape:
        return (*shape[:-1], shape[-1] - 1)


def _left(x: Tensor) -> Tensor:
    """How many parts are still to come at each place."""
    size = x.shape[-1]
    return rl.arange(size, 0, -1, dtype=x.dtype)


def _clipped_sigmoid(x: Tensor) -> Tensor:
    kind = rl.finfo(x.dtype)
    return x.sigmoid().clamp(min=kind.tiny, max=1.0 - kind.eps)


class LowerCholeskyTransform(Transform):
    """Unconstrained matrices to lower triangles with a positive diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.diagonal(dim1=-2, dim2=-1).sum(-1)


class PositiveDefiniteTransform(Transform):
    """Unconstrained matrices to positive-definite ones."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(rl.linalg.cholesky(y))


class CumulativeDistributionTransform(Transform):
    """y = the probability of at most x under a distribution."""

    codomain = constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution
        self.domain = distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)  # type: ignore[no-any-return]

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)  # type: ignore[no-any-return]

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)  # type: ignore[no-any-return]
