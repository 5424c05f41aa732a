"""What every distribution has: shapes, checks, and moments to be filled in."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.utils import lazy_property
from rushlight.layout import Size
from rushlight.tensor import Tensor

Shape = Sequence[int]


class Distribution:
    """A batch of distributions of `batch_shape` over values of `event_shape`.

    arg_constraints says which values each parameter may take; with `validate_args` (the
    default) parameters and the values of `log_prob` are checked, which waits for them.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = True

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """The constraint of each parameter, by name."""
        raise NotImplementedError(f"{type(self).__name__} has no arg_constraints")

    @property
    def support(self) -> Any:
        """The constraint that values of the distribution satisfy."""
        raise NotImplementedError(f"{type(self).__name__} has no support")

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions made from now on check values, unless they say themselves."""
        if value not in (True, False):
            raise ValueError(f"expected a bool, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Shape = (),
        event_shape: Shape = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        try:
            parameters = self.arg_constraints
        except NotImplementedError:
            return self._warn_unchecked("arg_constraints", "set `arg_constraints = {}` or ")
        for name, constraint in parameters.items():
            is_late = isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or (is_late and name not in vars(self)):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    def _warn_unchecked(self, missing: str, remedy: str = "") -> None:
        warnings.warn(
            f"{type(self)} does not define `{missing}`. Please {remedy}initialize the "
            f"distribution with `validate_args=False` to turn off validation.",
            stacklevel=5,
        )

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one value."""
        return self._event_shape

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        """The same distributions over a larger batch, sharing parameters."""
        made = object.__new__(type(self)) if _instance is None else _instance
        vars(made).update(vars(self))
        for name, constraint in self.arg_constraints.items():
            if name in vars(self):
                value = vars(self)[name]
                event = value.shape[value.ndim - constraint.event_dim :]
                setattr(made, name, value.expand((*batch_shape, *event)))
        made._batch_shape = Size(batch_shape)
        return made  # type: ignore[no-any-return]

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """An empty one of this type, for an `expand` that a subclass writes; or `_instance`.

        `NotImplementedError` where `cls.expand` would skip the `__init__` of a subclass.
        """
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom "
                "__init__ method must also define a custom .expand() method."
            )
        return object.__new__(type(self))

    # ---- what a distribution says of itself

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The expected square of the distance to the mean."""
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Values drawn without gradient, of shape sample_shape + batch_shape + event_shape."""
        with rl.no_grad():
            return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`."""
        return self.sample((n,))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Values drawn as a function of the parameters, with gradients."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample")

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability (or its density) of values."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The value below which a share `value` of the probability lies."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, along a first dimension."""
        raise NotImplementedError(f"{type(self).__name__} has no enumerate_support")

    def entropy(self) -> Tensor:
        """The expected value of -log_prob."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Tensor:
        """exp of the entropy."""
        return self.entropy().exp()

    # ---- helpers of the distributions

    def _extended_shape(self, sample_shape: Shape = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, event = value.shape, self._event_shape
        if shape[len(shape) - len(event) :] != event:
            raise ValueError(
                f"The right-most size of value must match event_shape: {shape} vs {event}."
            )
        whole = (*self._batch_shape, *event)
        for own, given in zip(reversed(whole), reversed(shape), strict=False):
            if own != given and 1 not in (own, given):
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {shape} vs "
                    f"{Size(whole)}."
                )
        try:
            support = self.support
        except NotImplementedError:
            return self._warn_unchecked("support")
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to "
                f"be within the support ({support!r}) of the distribution {self!r}, but "
                f"found invalid values:\n{value}"
            )

    def _checked(self, value: Any) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def __repr__(self) -> str:
        given = {n: vars(self)[n] for n in self.arg_constraints if n in vars(self)}
        parts = [f"{n}: {v if v.numel() == 1 else v.size()}" for n, v in given.items()]
        return f"{type(self).__name__}({', '.join(parts)})"


class Centred(Distribution):
    """A distribution whose mean and mode are its parameter `loc`."""

    loc: Tensor

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc
