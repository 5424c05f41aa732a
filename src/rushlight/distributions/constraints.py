"""What values parameters and samples may take: `constraint.check(value)` says where they do.

Each region is a class of its own, so that `constraint_registry` can tell by it which transform
leads there. Regions with bounds are made by calling the class; the others are ready-made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import errors
from rushlight.tensor import Tensor

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A region of values. `event_dim` last dimensions make one value of it together."""

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """True for each value inside."""
        raise errors.left_to_subclasses(self, "check")

    @property
    def _shown(self) -> str:
        return type(self).__name__.lstrip("_")

    def __repr__(self) -> str:
        return f"{self._shown}()"


# ---- constraints that depend on others


class _Dependent(Constraint):
    """Depends on other parameters, so it cannot be checked by itself; nor is there, if it was
    not said, how many dimensions a value has.
    """

    def __init__(
        self, *, is_discrete: bool | None = None, event_dim: int | None = None
    ) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> Any:  # type: ignore[override]
        return self._known("is_discrete", self._is_discrete)

    @property
    def event_dim(self) -> Any:  # type: ignore[override]
        return self._known("event_dim", self._event_dim)

    @staticmethod
    def _known(name: str, said: Any) -> Any:
        if said is None:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return said

    def __call__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> Any:
        """The same, of what is said about it."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is None else is_discrete,
            event_dim=self._event_dim if event_dim is None else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A constraint that an instance's parameters decide, as a property."""

    def __init__(
        self, fn: Any = None, *, is_discrete: bool = False, event_dim: int = 0
    ) -> None:
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> _DependentProperty:
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on other parameters."""
    return isinstance(constraint, _Dependent)


# ---- constraints made of constraints


class _IndependentConstraint(Constraint):
    """Another constraint, the last dimensions taken together."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        inside = self.base_constraint.check(value)
        count = self.reinterpreted_batch_ndims
        if inside.ndim < count:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.ndim}")
        return inside.flatten(inside.ndim - count).all(-1) if count else inside

    def __repr__(self) -> str:
        given = f"{self.base_constraint!r}, {self.reinterpreted_batch_ndims}"
        return f"{self._shown}({given})"


class MixtureSameFamilyConstraint(Constraint):
    """Inside the support of every component of a mixture, of which it is `base_constraint`."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        kept = value.ndim - self.event_dim
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.ndim}")
        inside = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return inside.flatten(kept).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Sequence(Constraint):
    """Constraints of parts of a tensor, side by side along a dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        assert all(isinstance(c, Constraint) for c in cseq), f"no constraints: {cseq!r}"
        self.cseq, self.dim = list(cseq), dim
        self.is_discrete = any(c.is_discrete for c in self.cseq)
        self.event_dim = max(c.event_dim for c in self.cseq)


class _Cat(_Sequence):
    """Constraints of the parts that `torch.cat` joined along `dim`, of these lengths."""

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        assert len(self.lengths) == len(self.cseq), (
            f"{len(self.lengths)} lengths for {len(self.cseq)} constraints"
        )

    def check(self, value: Tensor) -> Tensor:
        parts = value.split(self.lengths, self.dim)
        return rl.cat([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Sequence):
    """Constraints of the tensors that `torch.stack` joined along `dim`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        super().__init__(cseq, dim)
        self.event_dim += dim + self.event_dim < 0

    def check(self, value: Tensor) -> Tensor:
        parts = value.unbind(self.dim)
        return rl.stack([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)


# ---- numbers between bounds


class _Bounded(Constraint):
    """Numbers between `lower_bound` and `upper_bound`; a subclass says which belong to it."""

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{self._shown}({bounds})"


class _Above(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _Below(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _GreaterThan(_Above):
    """Above a bound."""

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class _GreaterThanEq(_Above):
    """At or above a bound."""

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class _LessThan(_Below):
    """Below a bound."""

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_Between):
    """Between two bounds, which belong to it."""

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    """Between two bounds, of which the lower belongs to it."""

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _IntegerInterval(_Between):
    """Whole numbers between two bounds, which belong to it."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        inside = (value >= self.lower_bound) & (value <= self.upper_bound)
        return inside & (value % 1 == 0)


class _IntegerGreaterThan(_Above):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value % 1 == 0)


# ---- regions without parameters, and vectors of counts


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # all but nan


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _OneHot(Constraint):
    event_dim, is_discrete = 1, True

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Multinomial(Constraint):
    """Whole numbers along the last dimension, at least 0, that make up a sum."""

    event_dim, is_discrete = 1, True

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# ---- matrices


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Tensor) -> Tensor:
        allowed = rl.finfo(value.dtype).eps * value.shape[-1] * 10
        are_units = (value.square().sum(-1).sqrt() - 1).abs() < allowed
        return super().check(value) & are_units.all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return rl.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=rl.bool)


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return ((value - value.mT).abs() <= 1e-6).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return symmetric & (rl.linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return symmetric & (rl.linalg.cholesky_ex(value).info == 0)


cat, stack, independent = _Cat, _Stack, _IndependentConstraint
dependent_property, multinomial = _DependentProperty, _Multinomial
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval = _Interval, _HalfOpenInterval
integer_interval = _IntegerInterval
dependent = _Dependent()
real = _Real()
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
boolean = _Boolean()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
simplex = _Simplex()
one_hot = _OneHot()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
