"""Element types and PyTorch's promotion lattice. Pure facts: no tensors here."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any  # operands are of many classes

import numpy as np

from rushlight import errors


class Category(enum.IntEnum):
    """Promotion categories, weakest first: a higher category wins over any lower one."""

    BOOL = 0
    INTEGRAL = 1
    FLOATING = 2
    COMPLEX = 3


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class dtype:
    """One element type. Compared by identity; there is one object for each type."""

    name: str
    itemsize: int
    category: Category
    is_signed: bool
    storage: np.dtype  # the NumPy type of the stored bits (uint16 for bfloat16)
    compute: np.dtype  # the NumPy type the reference evaluator calculates in
    mantissa: int = 0  # explicit fraction bits of a floating type

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return _by_name, (self.name,)

    @property
    def is_floating_point(self) -> bool:
        return self.category is Category.FLOATING

    @property
    def is_complex(self) -> bool:
        return self.category is Category.COMPLEX

    @property
    def is_unsigned(self) -> bool:
        """Integers without a sign, bool left out."""
        return self.category is Category.INTEGRAL and not self.is_signed

    @property
    def is_float8(self) -> bool:
        """Floating-point numbers of eight bits: only stored and converted (float8.py)."""
        return self.category is Category.FLOATING and self.itemsize == 1

    @property
    def is_integral(self) -> bool:
        """Integers and bool."""
        return self.category <= Category.INTEGRAL

    def to_real(self) -> dtype:
        return _REAL_OF.get(self, self)

    def to_complex(self) -> dtype:
        if self is float16:
            raise errors.no_complex_half()
        return _COMPLEX_OF.get(self, self)


def _floating(name: str, size: int, storage: str, compute: str, mantissa: int) -> dtype:
    kind = Category.FLOATING
    return dtype(name, size, kind, True, np.dtype(storage), np.dtype(compute), mantissa)


def _integer(name: str) -> dtype:
    bits = np.dtype(name)
    return dtype(name, bits.itemsize, Category.INTEGRAL, bits.kind == "i", bits, bits)


float64 = _floating("float64", 8, "float64", "float64", 52)
float32 = _floating("float32", 4, "float32", "float32", 23)
float16 = _floating("float16", 2, "float16", "float32", 10)
bfloat16 = _floating("bfloat16", 2, "uint16", "float32", 7)
int64 = _integer("int64")
int32 = _integer("int32")
int16 = _integer("int16")
int8 = _integer("int8")
uint8 = _integer("uint8")
uint16 = _integer("uint16")
uint32 = _integer("uint32")
uint64 = _integer("uint64")


def _float8(name: str, mantissa: int, is_signed: bool = True) -> dtype:
    bits = np.dtype("uint8")
    return dtype(name, 1, Category.FLOATING, is_signed, bits, bits, mantissa)


float8_e4m3fn = _float8("float8_e4m3fn", 3)
float8_e5m2 = _float8("float8_e5m2", 2)
float8_e4m3fnuz = _float8("float8_e4m3fnuz", 3)
float8_e5m2fnuz = _float8("float8_e5m2fnuz", 2)
float8_e8m0fnu = _float8("float8_e8m0fnu", 0, is_signed=False)
bool_ = dtype("bool", 1, Category.BOOL, False, np.dtype("bool"), np.dtype("bool"))
complex64 = dtype(
    "complex64", 8, Category.COMPLEX, True, np.dtype("complex64"), np.dtype("complex64"), 23
)
complex128 = dtype(
    "complex128", 16, Category.COMPLEX, True, np.dtype("complex128"), np.dtype("complex128"), 52
)

ALL = (
    float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8, bool_,
    complex64, complex128, uint16, uint32, uint64, float8_e4m3fn, float8_e5m2, float8_e4m3fnuz,
    float8_e5m2fnuz, float8_e8m0fnu,
)  # fmt: skip
BY_NAME = {t.name: t for t in ALL}


def _named_only() -> Iterator[dtype]:
    """PyTorch's types of elements smaller than a byte, and of bare bits."""
    for bits in range(1, 8):
        yield dtype(f"int{bits}", 1, Category.INTEGRAL, True, np.dtype("i1"), np.dtype("i1"))
        yield dtype(f"uint{bits}", 1, Category.INTEGRAL, False, np.dtype("u1"), np.dtype("u1"))
    for name, size in (("1x8", 1), ("2x4", 1), ("4x2", 1), ("8", 1), ("16", 2)):
        held = np.dtype(f"u{size}")
        yield dtype(f"bits{name}", size, Category.INTEGRAL, False, held, held)
    yield _float8("float4_e2m1fn_x2", 1)


# what a program can name and compare with, but no tensor can hold (`TensorType` refuses)
NAMED_ONLY = {t.name: t for t in _named_only()}
ALIASES = {
    "float": float32, "double": float64, "half": float16, "long": int64, "int": int32,
    "short": int16, "cfloat": complex64, "cdouble": complex128,
}  # fmt: skip
_COMPLEX_OF = {float32: complex64, float64: complex128, bfloat16: complex64}
_REAL_OF = {complex64: float32, complex128: float64}
_OF_NUMPY = {t.storage: t for t in ALL if t.storage.name == t.name}
_RANK = {
    int8: 0, int16: 1, int32: 2, int64: 3,
    float32: 1, float64: 2,
    complex64: 0, complex128: 1,
}  # fmt: skip


def _by_name(name: str) -> dtype:
    """Unpickles a dtype."""
    return BY_NAME.get(name) or NAMED_ONLY[name]


def of_numpy(bits: np.dtype) -> dtype:
    """The dtype of a NumPy array; TypeError names the types that can be held."""
    bits = np.dtype(bits)
    found = _OF_NUMPY.get(bits)
    if found is None and bits.newbyteorder("=") in _OF_NUMPY:
        raise ValueError(
            f"given numpy array has byte order different from the native byte order ({bits}). "
            f"Conversion between byte orders is currently not supported."
        )
    if found is None:
        names = ", ".join(t.name for t in ALL)
        raise TypeError(
            f"can't convert np.ndarray of type {bits}. The only supported types are: {names}."
        )
    return found


def of_number(value: complex) -> Category:
    """The promotion category of a Python number. A truth value of NumPy's is a float: it is
    one in PyTorch.
    """
    if isinstance(value, bool):
        return Category.BOOL
    if isinstance(value, int | np.integer):
        return Category.INTEGRAL
    if isinstance(value, float | np.floating | np.bool_):
        return Category.FLOATING
    return Category.COMPLEX


def category_of(operand: Any) -> Category:
    """The promotion category of a tensor or a number."""
    if hasattr(operand, "_storage"):  # numbers of NumPy's have dtypes too, which are not ours
        found: Category = operand.dtype.category
        return found
    return of_number(operand)


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """PyTorch's symmetric promotion of two dtypes of equal standing."""
    a, b = type1, type2
    if a is b:
        return a
    if a in _SET_APART or b in _SET_APART:
        return _promote_set_apart(a, b)
    if a.category is not b.category:
        low, high = sorted((a, b), key=lambda t: t.category)
        if high is complex64 and low is float64:
            return complex128
        return high
    if a.category is Category.FLOATING:
        if {a, b} == {float16, bfloat16}:
            return float32
        return max(a, b, key=lambda t: _RANK.get(t, 0))
    if a.category is Category.INTEGRAL and uint8 in (a, b):
        other = b if a is uint8 else a
        return int16 if other is int8 else other
    return max(a, b, key=lambda t: _RANK[t])


_SET_APART = frozenset(
    (uint16, uint32, uint64, *(t for t in ALL if t.itemsize == 1 and t.category > 1))
)


def _promote_set_apart(a: dtype, b: dtype) -> dtype:
    """Of unsigned integers and floating-point numbers the latter; nothing else is defined."""
    for one, other in ((a, b), (b, a)):
        if one.is_unsigned and other.is_floating_point and other not in _SET_APART:
            return other
    if a.is_float8 or b.is_float8:
        raise RuntimeError(
            f"Promotion for Float8 Types is not supported, attempted to promote {a.name} and "
            f"{b.name}"
        )
    raise RuntimeError(
        f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
        f"{a.name} and {b.name}"
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """How one operand takes part in promotion: its dtype and whether it is dimensioned."""

    dtype: dtype
    level: int  # 2 dimensioned tensor, 1 zero-dimensional tensor, 0 Python number


def result_type(operands: list[Standing], default: dtype) -> dtype:
    """The dtype of an operation: dimensioned operands beat 0-d ones, which beat numbers.

    A weaker operand only matters when its category is higher than that of all stronger ones.
    """
    result: dtype | None = None
    for level in (2, 1, 0):
        here: dtype | None = None
        for operand in operands:
            if operand.level == level:
                own = operand.dtype
                here = own if here is None else promote_types(here, own)
        if here is None:
            continue
        if result is None:
            result = here
        elif here.category > result.category:
            result = _lift(result, here, level, default)
    if result is None:
        raise ValueError("result_type: no operands")
    return result


def _lift(result: dtype, weaker: dtype, level: int, default: dtype) -> dtype:
    if level == 0 and weaker.category is Category.FLOATING:
        return default
    if weaker.category is Category.COMPLEX and (level == 0 or result.is_floating_point):
        real = result if result.is_floating_point else default
        return real.to_complex()
    return weaker


def number_dtype(category: Category, default: dtype) -> dtype:
    """The dtype a Python number takes when it becomes a tensor by itself."""
    if category is Category.COMPLEX:
        return default.to_complex()
    return (bool_, int64, default)[category]


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether a value of one dtype may be written into another without losing its category."""
    return from_.category <= to.category


_RESOLUTIONS = {float64: 1e-15, float32: 1e-6, float16: 1e-3, bfloat16: 1e-2}


class _Limits:
    """What `finfo` and `iinfo` share: equal for the same dtype, and no keys, as in PyTorch."""

    dtype: str
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.dtype == self.dtype


class finfo(_Limits):
    """Limits of a floating dtype: bits, eps, max, min, tiny, smallest_normal, resolution."""

    def __init__(self, type: dtype | None = None) -> None:
        from rushlight import config  # config imports this module

        type = type or config.default_dtype()
        if type.category < Category.FLOATING:
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle "
                f"'{type!r}'"
            )
        type = type.to_real()
        self.dtype = type.name
        self.bits = type.itemsize * 8
        self.eps = 0.125 if type is float8_e5m2fnuz else 2.0**-type.mantissa  # as in PyTorch
        self.resolution = _RESOLUTIONS.get(type, 1.0)
        if type.is_float8:
            self._read(type)
            return
        exponent = {float64: 1023, float32: 127, float16: 15, bfloat16: 127}[type]
        self.max = (2.0 - self.eps) * 2.0**exponent
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0 ** (1 - exponent)

    def _read(self, type: dtype) -> None:
        """The limits of eight bits, from the numbers that they stand for."""
        from rushlight import float8  # only for these

        numbers = float8.table(type.name)
        finite = numbers[np.isfinite(numbers)].astype(np.float64)
        self.max, self.min = float(finite.max()), float(finite.min())
        smallest = float8.smallest_normal(type.name)
        self.tiny = self.smallest_normal = smallest

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo(_Limits):
    """Limits of an integer dtype: bits, max, min."""

    def __init__(self, type: dtype) -> None:
        if type.category is not Category.INTEGRAL:
            raise TypeError(
                f"torch.iinfo() requires an integer input type. Use torch.finfo to handle "
                f"'{type!r}'"
            )
        self.dtype = type.name
        self.bits = type.itemsize * 8
        limits = np.iinfo(type.storage)
        self.min, self.max = int(limits.min), int(limits.max)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
