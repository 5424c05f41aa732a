"""What an Op is, and the two registries: of operations, and of the public names built on them.

An operation is one `Op(...)` call: the names of its attributes, a type rule, a lowering and a
derivative. Public functions call ops (`SOFTMAX(x, dim=1)`); `@public` says where each function
is bound.
"""

from __future__ import annotations

import enum
import inspect
import keyword
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn  # rules take operands of any kind

from rushlight import errors
from rushlight.dtypes import (
    NAMED_ONLY,
    Category,
    Standing,
    bool_,
    complex128,
    dtype,
    float64,
    int64,
)
from rushlight.ops import precision
from rushlight.views import Shape, contiguous_strides, numel

Levels = tuple[tuple[int, int], ...]  # (number, batch size) of each, in order of number


class TensorType:
    """Shape and dtype of a value; interned, so equal types are one object.

    `weak` marks a Python number (0-d; float64, int64 or bool), which hardly takes part in
    promotion. `is_meta` marks what has no elements (`on_meta`, trace/placement.py). `levels`
    are the batches of `vmap` that the value has samples of: shape, strides and numel are those
    of one sample, and memory holds all, the batches outermost.
    """

    __slots__ = (
        "dtype", "is_meta", "levels", "nbytes", "numel", "shape", "strides", "weak",
    )  # fmt: skip
    _known: dict[tuple[Shape, dtype, bool, Levels], TensorType] = {}
    _known_meta: dict[tuple[Shape, dtype, Levels], TensorType] = {}

    shape: Shape
    dtype: dtype
    strides: Shape
    numel: int
    nbytes: int  # of what memory holds: all samples
    weak: bool
    is_meta: bool
    levels: Levels

    def __new__(
        cls,
        shape: Shape,
        dtype: dtype,  # type: ignore[valid-type]
        weak: bool = False,
        levels: Levels = (),
    ) -> TensorType:
        found = cls._known.get((shape, dtype, weak, levels))
        if found is None:
            if len(cls._known) > 100_000:  # a bound, not a leak; types in use stay valid
                cls._known.clear()
            key = (shape, dtype, weak, levels)
            found = cls._known[key] = cls._make(shape, dtype, weak, False, levels)
        return found

    @classmethod
    def _make(
        cls,
        shape: Shape,
        dtype: dtype,  # type: ignore[valid-type]
        weak: bool,
        is_meta: bool,
        levels: Levels,
    ) -> TensorType:
        if not hasattr(dtype, "category"):  # NumPy's would be taken for ours in `_known`
            raise TypeError(f"expected a torch.dtype, but got {dtype!r}")
        if dtype.name in NAMED_ONLY:  # type: ignore[attr-defined]
            raise errors.only_named(dtype)
        made = object.__new__(cls)
        made.shape, made.dtype, made.weak, made.is_meta = shape, dtype, weak, is_meta
        made.levels = levels
        made.strides = contiguous_strides(shape)
        made.numel = numel(shape)
        made.nbytes = numel(made.stored) * dtype.itemsize  # type: ignore[attr-defined]
        return made

    def on_meta(self) -> TensorType:
        """The type of a value of this shape and dtype that has no elements."""
        if self.is_meta:
            return self
        key = self.shape, self.dtype, self.levels
        found = self._known_meta.get(key)
        if found is None:
            made = self._make(self.shape, self.dtype, False, True, self.levels)
            found = self._known_meta[key] = made
        return found

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def stored(self) -> Shape:
        """The shape of what memory holds: all samples."""
        return (*[size for _, size in self.levels], *self.shape) if self.levels else self.shape

    def at(self, levels: Levels) -> TensorType:
        """The type of samples of these batches."""
        return TensorType(self.shape, self.dtype, self.weak and not levels, levels)

    @property
    def standing(self) -> Standing:
        """How it takes part in promotion."""
        return Standing(self.dtype, 0 if self.weak else 2 if self.shape else 1)

    def __repr__(self) -> str:
        over = "".join(f" x{size}@{number}" for number, size in self.levels)
        return f"{self.dtype.name}{list(self.shape)}{over}{' on meta' if self.is_meta else ''}"


def all_levels(types: Iterable[TensorType]) -> Levels:
    """Every batch that one of the types has samples of."""
    return tuple(sorted({level for t in types for level in t.levels}))


NUMBER_TYPES = {
    Category.BOOL: TensorType((), bool_, True),
    Category.INTEGRAL: TensorType((), int64, True),
    Category.FLOATING: TensorType((), float64, True),
    Category.COMPLEX: TensorType((), complex128, True),
}


class _NotDifferentiable:
    def __repr__(self) -> str:
        return "NOT_DIFFERENTIABLE"


NOT_DIFFERENTIABLE = _NotDifferentiable()  # results never require grad (comparisons, indices)
Vjp = Callable[..., Any]


def no_derivative(name: str) -> Vjp:
    """The rule of results that require gradients and have none: asking for them raises."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise errors.not_differentiable(name)

    return refuse


class Linearity(enum.Enum):
    """Ops that are their own derivatives; what is linear alone takes no zeros for the rest."""

    TOGETHER = "in all operands together: a sum, a concatenation"
    EACH = "in each operand while the others stay: a product"


class Op:
    """One operation.

    attrs: names of the static attributes, in the order they are recorded.

    type: `type(*operand_types, **attrs) -> TensorType | tuple[TensorType, ...]`; raises for bad
    input.

    lower: `lower(k, *operand_refs, **attrs) -> Ref | tuple[Ref, ...]`.

    vjp: `vjp(g, out, *operands, **attrs) -> gradient | tuple[gradient | None, ...]` in public
    functions of tensors; `g` and `out` are tuples for an op of several results. A gradient of a
    broadcast operand is summed to its shape by the engine. NOT_DIFFERENTIABLE marks results
    without gradient.

    jvp: `jvp(tangents, out, *operands, **attrs) -> tangent` of the one result, or how the op is
    linear, where that is shorter than the transpose of `vjp`; tangents are None for operands
    without one.

    reads: the one of several results that `vjp` reads; None: any of them.
    """

    __slots__ = (
        "attrs", "find_uses", "is_differentiable", "jvp", "lower", "name", "reads", "type",
        "uses", "uses_out", "vjp",
    )  # fmt: skip

    uses: tuple[bool, ...] | None  # which operands the derivative reads; None for all
    uses_out: bool
    is_once = False  # its gradient may not be taken again, even if it reads nothing
    find_uses: Callable[[], tuple[bool, tuple[bool, ...] | None]]

    def __init__(
        self,
        name: str,
        *,
        attrs: Iterable[str] = (),
        type: Callable[..., Any],
        lower: Callable[..., Any],
        vjp: Vjp | _NotDifferentiable | None,
        jvp: Callable[..., Any] | Linearity | None = None,
        reads: int | None = None,
    ) -> None:
        self.name = name
        self.attrs = tuple(attrs)
        self.reads = reads
        self.type = type
        self.lower = lower
        self.is_differentiable = vjp is not NOT_DIFFERENTIABLE
        if vjp is None or isinstance(vjp, _NotDifferentiable):
            vjp = no_derivative(name)
        self.vjp: Vjp = vjp
        self.jvp = jvp
        self.find_uses = lambda: names_used(self.vjp)
        if name in OPS:
            raise ValueError(f"op {name!r} is declared twice")
        OPS[name] = self

    def __call__(self, *operands: Any, **attrs: Any) -> Any:
        """Record the operation on tensors and Python numbers."""
        given = self.in_order(attrs) if self.attrs else ()
        try:
            count = len(operands)
            if count == 1:
                return recorder.record_one(self, operands[0], given)
            if count == 2:
                return recorder.record_two(self, operands[0], operands[1], given)
            return recorder.record(self, operands, given)
        except errors.NotAnOperandError as error:
            place = next((i for i, x in enumerate(operands, 1) if x is error.got), 0)
            raise errors.not_an_operand(self.name, place, error.got) from None

    def in_order(self, attrs: dict[str, Any]) -> tuple[Any, ...]:  # hot
        """Attributes as the declaration orders them."""
        if tuple(attrs) == self.attrs:
            return tuple(attrs.values())
        return tuple([attrs[name] for name in self.attrs])

    def __getattr__(self, name: str) -> Any:
        """`uses` and `uses_out`, found when first asked for: reading bytecode takes time."""
        if name not in ("uses", "uses_out"):
            raise AttributeError(name)
        self.uses_out, self.uses = self.find_uses()
        return getattr(self, name)

    def result_types(
        self, types: Iterable[TensorType], named: dict[str, Any]
    ) -> tuple[TensorType, ...]:
        """What the type rule says of one sample, for every sample."""
        types = tuple(types)
        levels = all_levels(types)
        if levels:
            types = tuple(t.at(()) for t in types)
        made = self.type(*types, **named)
        outs = made if isinstance(made, tuple) else (made,)
        if self.name not in MOVES_BITS:
            self._check_arithmetic((*types, *outs))
        return tuple([t.at(levels) for t in outs]) if levels else outs

    def _check_arithmetic(self, types: Iterable[TensorType]) -> None:
        """Refuse what is only stored: there is no arithmetic of eight-bit floats."""
        for type in types:
            if type.dtype.is_float8:
                raise errors.not_implemented_for(self.name, type.dtype, "a dtype of arithmetic")

    def __repr__(self) -> str:
        return f"Op({self.name})"


class LevelOp(Op):
    """An operation that begins or ends a batch: its type rule sees all levels."""

    __slots__ = ()
    is_once = True  # the batch's number may be another batch's by then

    def result_types(
        self, types: Iterable[TensorType], named: dict[str, Any]
    ) -> tuple[TensorType, ...]:
        return (self.type(*types, **named),)


OPS: dict[str, Op] = {}
MOVES_BITS = frozenset((  # what can be done with elements that are only stored
    "as_strided", "cast", "cat", "clone", "diagonal", "enter_batch", "eq", "expand", "eye",
    "fill", "full", "index", "index_put", "isnan", "leave_batch", "ne", "overwritten", "pad",
    "permute", "recast", "reshape", "roll", "scatter_view", "select", "shared", "slice",
    "split", "spread_batch", "to_meta", "unbind", "unfold", "unrelated", "where", "write",
    "write_region",
))  # fmt: skip
OF_NUMBERS = frozenset(("count_batch", "fill"))  # one-operand ops that take a Python number
_MANY = 1000  # operands that a rule with *operands may have


def names_used(vjp: Vjp) -> tuple[bool, tuple[bool, ...] | None]:
    """Which operands a derivative rule reads, so that only those are saved for backward.

    None for the operands means all; those past the end are not read.
    """
    signature = list(inspect.signature(vjp).parameters.values())
    code = vjp.__code__
    # a name that is only a parameter appears once in the bytecode's variable table and in no
    # load
    loaded = _loaded_names(code)
    out = len(signature) > 1 and signature[1].name in loaded
    operands: list[bool] = []
    for parameter in signature[2:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            if parameter.name in loaded:
                operands.extend([True] * _MANY)
            return out, tuple(operands)
        if parameter.kind is parameter.KEYWORD_ONLY or parameter.kind is parameter.VAR_KEYWORD:
            break
        operands.append(parameter.name in loaded)
    return out, tuple(operands)


_KNOWN_OF_GHOSTS = ("shape", "dtype", "ndim")  # attributes that need no saved elements


def _loaded_names(code: Any) -> set[str]:
    """Local names whose elements the code may read: loads that are more than `x.shape`."""
    import dis  # only at import of an op; keeps the module's own import light

    names: set[str] = set()
    steps = [s for s in dis.get_instructions(code) if s.opname != "CACHE"]
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        if not step.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "MAKE_CELL")):
            continue
        loaded = list(step.argval) if isinstance(step.argval, tuple) else [step.argval]
        if (
            after is not None
            and after.opname == "LOAD_ATTR"
            and after.argval in _KNOWN_OF_GHOSTS
        ):
            loaded.pop()  # the attribute is taken of the last name loaded
        names.update(loaded)
    return names


class Recorder:
    """The trace's entry points, set by `trace/` when it is imported (it comes after this
    room).
    """

    record: Callable[[Op, tuple[Any, ...], tuple[Any, ...]], Any]
    record_one: Callable[[Op, Any, tuple[Any, ...]], Any]
    record_two: Callable[[Op, Any, Any, tuple[Any, ...]], Any]
    view: Callable[[Op, Any, Any, tuple[Any, ...]], Any]  # (op, tensor, view, attrs) -> tensor
    write: Callable[[Any, Any, str], Any]  # (destination, source, name) -> destination
    place_of: Callable[[Any, Any], Any]  # (device, like) -> device
    taken_over: Callable[[Any, Any, Any], Any]  # (function, args, kwargs) of a failed call
    placed: Callable[[Any, Any, Any], Any]  # (factory's result, device, like) -> tensor
    by_name: Callable[[Callable[..., Any], Any, Any], Any]  # (factory, args, kwargs) -> tensor
    beside: Callable[[Any, Any], Any]  # (source, destination) -> source on its device
    on_device: Callable[[Any, Any], Any]  # (tensor, device) -> tensor

    @staticmethod
    def has_tangent(x: Any) -> bool:
        """Whether forward mode differentiates by x (replaced while it does anything)."""
        return False

    @staticmethod
    def apply_view(op: Op, x: Any, attrs: tuple[Any, ...]) -> Any:
        """Take a view op again: its type rule gives the View."""
        named = dict(zip(op.attrs, attrs, strict=True))
        return recorder.view(op, x, op.type(x, **named), attrs)


recorder = Recorder()


@dataclass(frozen=True, slots=True)
class Public:
    """Where one public function is bound: `places` of torch, Tensor, F, linalg, special,
    fft.

    `called` is the function as users call it: with autocast's casts before it, if it has any.
    """

    function: Callable[..., Any]
    called: Callable[..., Any]
    name: str
    places: tuple[str, ...]
    inplace: bool = False
    out: bool = False
    aliases: tuple[str, ...] = field(default=())


PUBLIC: list[Public] = []


def documented(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """State the parameters of a function that takes them as `*args` or by keyword.

    `inspect.signature` then names these, in order, before the function's own keywords; the
    function must take each of them by its name.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(function)
        kinds = inspect.Parameter
        kept = [
            p
            for p in own.parameters.values()
            if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD) and p.name not in names
        ]
        is_odd = any(map(keyword.iskeyword, names))  # `from`: no name for inspect otherwise
        kind = kinds.POSITIONAL_ONLY if is_odd else kinds.POSITIONAL_OR_KEYWORD
        said = [kinds(n, kind, default=None) for n in names]
        at = sum(p.kind is not kinds.KEYWORD_ONLY for p in kept)
        if at and kept[0].default is kinds.empty:
            said = [p.replace(default=kinds.empty) for p in said]
        first = [p.replace(kind=kind) for p in kept[:at]]
        function.__signature__ = own.replace(parameters=[*first, *said, *kept[at:]])  # type: ignore[attr-defined]
        return function

    return declare


def public(
    *places: str,
    name: str | None = None,
    inplace: bool = False,
    out: bool = False,
    aliases: Iterable[str] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Bind the function at `places`; `inplace` also makes `name_`, `out` also takes `out=`."""

    def bind(function: Callable[..., Any]) -> Callable[..., Any]:
        known = name or function.__name__
        if function.__doc__ is None and known.endswith("_"):
            function.__doc__ = f"In-place form of `{known[:-1]}`."
        called = precision.under_autocast(known, function)
        PUBLIC.append(Public(function, called, known, places, inplace, out, tuple(aliases)))
        return called

    return bind
