"""Which transform leads from all numbers to the values that a constraint allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.distributions import constraints, transforms
from rushlight.distributions.transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """Transforms by the class of the constraint that they lead to.

    >>> import rushlight as torch
    >>> d = torch.distributions
    >>> d.transform_to(d.constraints.positive)(torch.zeros(2))
    tensor([1., 1.])
    """

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Make `factory(constraint)` the transform to constraints of this class.

        constraint: a subclass of `Constraint`, or an instance, for its class. Without a factory
        it is a decorator. `TypeError` for anything else.
        """
        if factory is None:
            return lambda given: self.register(constraint, given)
        kind = (
            type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        )
        if not (isinstance(kind, type) and issubclass(kind, constraints.Constraint)):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Transform:
        """The transform to a constraint; `NotImplementedError` where none is registered."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints"
            )
        return factory(constraint)


biject_to = ConstraintRegistry()
"""Transforms that can be undone, with `log_abs_det_jacobian`: for changes of variables."""

transform_to = ConstraintRegistry()
"""Transforms for optimizing over unconstrained numbers: not all can be undone."""


def _register_both(*kinds: Any) -> Callable[[Factory], Factory]:
    def register(factory: Factory) -> Factory:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return register


@_register_both(constraints.real)
def _to_real(constraint: Any) -> Transform:
    return transforms.identity_transform


@_register_both(constraints.greater_than, constraints.greater_than_eq)
def _to_greater(constraint: Any) -> Transform:
    moved = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), moved])


@_register_both(constraints.less_than)
def _to_less(constraint: Any) -> Transform:
    mirrored = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), mirrored])


@_register_both(constraints.interval, constraints.half_open_interval)
def _to_interval(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    unit = transforms.SigmoidTransform()
    if isinstance(low, int | float) and isinstance(high, int | float) and (low, high) == (0, 1):
        return unit
    return transforms.ComposeTransform([unit, transforms.AffineTransform(low, high - low)])


biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda c: transforms.LowerCholeskyTransform())


@transform_to.register(constraints.positive_definite)
@transform_to.register(constraints.positive_semidefinite)
def _to_positive_definite(constraint: Any) -> Transform:
    return transforms.PositiveDefiniteTransform()


@_register_both(constraints.corr_cholesky)
def _to_corr_cholesky(constraint: Any) -> Transform:
    return transforms.CorrCholeskyTransform()


def _register_structured(registry: ConstraintRegistry) -> None:
    """Constraints made of constraints: transforms made of those that a registry has."""

    @registry.register(constraints.independent)
    def _to_independent(constraint: Any) -> Transform:
        base = registry(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    @registry.register(constraints.cat)
    def _to_cat(constraint: Any) -> Transform:
        parts = [registry(c) for c in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    @registry.register(constraints.stack)
    def _to_stack(constraint: Any) -> Transform:
        parts = [registry(c) for c in constraint.cseq]
        return transforms.StackTransform(parts, constraint.dim)


_register_structured(biject_to)
_register_structured(transform_to)
