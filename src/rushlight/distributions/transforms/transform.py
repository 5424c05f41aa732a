"""What every transform has: values forth and back, and by how much they stretch."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

from rushlight import errors
from rushlight.distributions import constraints
from rushlight.tensor import Tensor

Shape = tuple[int, ...]


class Transform:
    """A function of values with its inverse and the logarithm of its volume's change.

    bijective: whether `inv` undoes it. cache_size: 1 to give back the very argument as inverse
    of the last result.

    >>> import rushlight as torch
    >>> double = torch.distributions.AffineTransform(0.0, 2.0)
    >>> double(torch.tensor(3.0)), double.inv(torch.tensor(6.0))
    (tensor(6.), tensor(3.))
    """

    domain: Any = constraints.real
    codomain: Any = constraints.real
    bijective: Any = False
    _compared: ClassVar[tuple[str, ...] | None] = None
    """The parameters by which two of a class are equal; None: only one and the same are."""

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._last: tuple[Any, Any] = (None, None)

    @property
    def inv(self) -> Transform:
        """The inverse, as a transform."""
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        """1 where it rises, -1 where it falls; NotImplementedError for what does neither."""
        raise NotImplementedError(f"{type(self).__name__} neither rises nor falls")

    def with_cache(self, cache_size: int = 1) -> Self:
        """This transform, remembering its last call or not."""
        if cache_size == self._cache_size:
            return self
        made = copy.copy(self)
        made._cache_size, made._last = cache_size, (None, None)
        return made

    @property
    def event_dim(self) -> int:
        """How many dimensions one value has, if arguments and results have as many."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return int(self.domain.event_dim)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if self._compared is None or type(self) is not type(other):
            return False
        return all(_same(getattr(self, n), getattr(other, n)) for n in self._compared)

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
        raise errors.left_to_subclasses(self, "_call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise errors.left_to_subclasses(self, "_inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy / dx| of each value."""
        raise errors.left_to_subclasses(self, "log_abs_det_jacobian")

    def forward_shape(self, shape: Shape) -> Shape:
        """The shape of results for arguments of a shape."""
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        """The shape of arguments for results of a shape."""
        return shape

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_last": (None, None)}  # results may not be copied

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _same(a: Any, b: Any) -> bool:
    """Whether two parameters, each a tensor, a number or a transform, are equal."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        equal = a == b
        return bool(equal.all())
    return bool(a == b)


class _InverseTransform(Transform):
    _compared = ("inv",)

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._inv = transform
        self.domain, self.codomain = transform.codomain, transform.domain
        self.bijective = transform.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._inv.with_cache(cache_size).inv

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
