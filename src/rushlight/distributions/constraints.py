"""What values parameters and samples may take: `constraint.check(value)` says where they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight.tensor import Tensor


class Constraint:
    """A region of values. `event_dim` last dimensions make one value of it together."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """True for each value inside."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__.lstrip('_')}()"


class _Region(Constraint):
    """A region that a function of elements tells."""

    def __init__(
        self,
        name: str,
        test: Callable[[Tensor], Tensor],
        event_dim: int = 0,
        is_discrete: bool = False,
    ) -> None:
        self.name, self.test = name, test
        self.event_dim, self.is_discrete = event_dim, is_discrete

    def check(self, value: Tensor) -> Tensor:
        return self.test(value)

    def __repr__(self) -> str:
        return self.name


class _Dependent(Constraint):
    """Depends on other parameters, so it cannot be checked by itself."""

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


class dependent_property(property, _Dependent):
    """A constraint that an instance's parameters decide, as a property."""

    def __init__(
        self, fn: Any = None, *, is_discrete: bool = False, event_dim: int = 0
    ) -> None:
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> dependent_property:
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


class _Bounded(Constraint):
    """Between two bounds (either may be missing), of numbers or whole numbers."""

    def __init__(
        self,
        name: str,
        lower: Any = None,
        upper: Any = None,
        *,
        opens: tuple[bool, bool] = (False, False),
        is_discrete: bool = False,
    ) -> None:
        self.name, self.opens, self.is_discrete = name, opens, is_discrete
        self.lower_bound, self.upper_bound = lower, upper

    def check(self, value: Tensor) -> Tensor:
        inside = value == value  # all but nan
        if self.lower_bound is not None:
            low = self.lower_bound
            inside = inside & (value > low if self.opens[0] else value >= low)
        if self.upper_bound is not None:
            high = self.upper_bound
            inside = inside & (value < high if self.opens[1] else value <= high)
        return inside & (value % 1 == 0) if self.is_discrete else inside

    def __repr__(self) -> str:
        bounds = (("lower_bound", self.lower_bound), ("upper_bound", self.upper_bound))
        given = ", ".join(f"{name}={bound}" for name, bound in bounds if bound is not None)
        return f"{self.name}({given})"


class independent(Constraint):
    """Another constraint, the last dimensions taken together."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        inside = self.base_constraint.check(value)
        count = self.reinterpreted_batch_ndims
        return inside.flatten(inside.ndim - count).all(-1) if count else inside

    def __repr__(self) -> str:
        return f"Independent({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


def greater_than(lower_bound: Any) -> Constraint:
    """Above a bound."""
    return _Bounded("GreaterThan", lower_bound, opens=(True, False))


def greater_than_eq(lower_bound: Any) -> Constraint:
    """At or above a bound."""
    return _Bounded("GreaterThanEq", lower_bound)


def less_than(upper_bound: Any) -> Constraint:
    """Below a bound."""
    return _Bounded("LessThan", None, upper_bound, opens=(False, True))


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Between two bounds, which belong to it."""
    return _Bounded("Interval", lower_bound, upper_bound)


def half_open_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Between two bounds, of which the lower belongs to it."""
    return _Bounded("HalfOpenInterval", lower_bound, upper_bound, opens=(False, True))


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Whole numbers between two bounds, which belong to it."""
    return _Bounded("IntegerInterval", lower_bound, upper_bound, is_discrete=True)


def multinomial(upper_bound: int) -> Constraint:
    """Whole numbers along the last dimension, at least 0, that make up a sum."""
    return _Region(
        f"Multinomial(upper_bound={upper_bound})",
        lambda x: (x >= 0).all(-1) & (x.sum(-1) <= upper_bound),
        1,
        is_discrete=True,
    )


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on other parameters."""
    return isinstance(constraint, _Dependent)


def _is_simplex(x: Tensor) -> Tensor:
    return (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6)


def _is_one_hot(x: Tensor) -> Tensor:
    return ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1)


def _is_lower(x: Tensor) -> Tensor:
    return (x.tril() == x).flatten(-2).all(-1)


def _has_unit_rows(x: Tensor) -> Tensor:
    allowed = rl.finfo(x.dtype).eps * x.shape[-1] * 10
    return ((x.square().sum(-1).sqrt() - 1).abs() < allowed).all(-1)


def _is_symmetric(x: Tensor) -> Tensor:
    return ((x - x.mT).abs() <= 1e-6).flatten(-2).all(-1)


def _is_positive_definite(x: Tensor) -> Tensor:
    return _is_symmetric(x) & (rl.linalg.cholesky_ex(x).info == 0)


dependent = _Dependent()
real = _Region("Real()", lambda x: x == x)
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
boolean = _Region("Boolean()", lambda x: (x == 0) | (x == 1), is_discrete=True)
nonnegative_integer = _Bounded("IntegerGreaterThan", 0, is_discrete=True)
positive_integer = _Bounded("IntegerGreaterThan", 1, is_discrete=True)
simplex = _Region("Simplex()", _is_simplex, 1)
one_hot = _Region("OneHot()", _is_one_hot, 1, is_discrete=True)
lower_triangular = _Region("LowerTriangular()", _is_lower, 2)
lower_cholesky = _Region(
    "LowerCholesky()", lambda x: _is_lower(x) & (x.diagonal(0, -2, -1) > 0).all(-1), 2
)
square = _Region(
    "Square()", lambda x: rl.full(x.shape[:-2], x.shape[-2] == x.shape[-1], dtype=rl.bool), 2
)
corr_cholesky = _Region(
    "CorrCholesky()",
    lambda x: lower_cholesky.check(x) & _has_unit_rows(x),
    2,
)
symmetric = _Region("Symmetric()", _is_symmetric, 2)
positive_semidefinite = _Region(
    "PositiveSemidefinite()",
    lambda x: _is_symmetric(x) & (rl.linalg.eigvalsh(x) >= 0).all(-1),
    2,
)
positive_definite = _Region("PositiveDefinite()", _is_positive_definite, 2)
