"""`assert_close`: are two results equal, up to a tolerance that fits their dtype?"""

from __future__ import annotations

import cmath
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

# Any, below: what is compared may be of every type, and tensors are the core's.

# dtype name -> (rtol, atol); everything else is compared exactly.
TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
_NUMBER_DTYPES = {float: "float64", complex: "complex128", int: "int64", bool: "bool"}

Message = str | Callable[[str], str] | None
Place = tuple[Any, ...]


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Message = None,
) -> None:
    """Raise an AssertionError unless `actual` is close to `expected`.

    Close is `|actual - expected| <= atol + rtol * |expected|`. Both may be tensors, arrays,
    numbers, None, or sequences and mappings of such; the tolerances follow the dtypes unless
    both are given. `msg` replaces the message, or is a function of it.

    >>> torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-7)
    """
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}."
        )
    tolerances = None if rtol is None or atol is None else (rtol, atol)
    if tolerances is not None and min(tolerances) < 0:
        raise ValueError(f"assert_close: tolerances cannot be negative: {rtol=}, {atol=}")
    rules = _Rules(
        tolerances,
        equal_nan,
        allow_subclasses,
        device=check_device,
        dtype=check_dtype,
        layout=check_layout,
        stride=check_stride,
    )
    try:
        for one, other, place in list(_pairs(actual, expected, (), rules)):
            _compare(one, other, place, rules)
    except _Difference as difference:
        raise AssertionError(_message(difference, msg)) from None


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: Message = "",
) -> None:
    """The older form of `assert_close`: dtype and device may differ, and nan equals nan."""
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=False,
        check_dtype=False,
        msg=msg or None,
    )


def default_tolerances(*inputs: Any) -> tuple[float, float]:
    """The loosest (rtol, atol) of the dtypes of some tensors, or of dtypes themselves."""
    names = [_dtype_name(getattr(one, "dtype", one)) for one in inputs]
    pairs = [TOLERANCES.get(name, (0.0, 0.0)) for name in names]
    return max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)


@dataclasses.dataclass(frozen=True, slots=True)
class _Rules:
    tolerances: tuple[float, float] | None
    equal_nan: bool
    allow_subclasses: bool
    device: bool
    dtype: bool
    layout: bool
    stride: bool

    def tolerances_for(self, *dtype_names: str) -> tuple[float, float]:
        return self.tolerances or default_tolerances(*dtype_names)


class _Difference(Exception):
    def __init__(self, text: str, place: Place) -> None:
        super().__init__(text)
        self.place = place


def _message(difference: _Difference, msg: Message) -> str:
    if isinstance(msg, str):
        return msg
    text = str(difference) + _whereabouts(difference.place)
    return text if msg is None else msg(text)


def _whereabouts(place: Place) -> str:
    if not place:
        return ""
    return "\n\nThe failure occurred for item " + "".join(f"[{step!r}]" for step in place)


# Containers


def _pairs(actual: Any, expected: Any, place: Place, rules: _Rules) -> Iterator[Any]:
    """The leaves of two containers of the same form, side by side."""
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            raise _Difference(
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", place
            )
        for i in range(len(actual)):
            yield from _pairs(actual[i], expected[i], (*place, i), rules)
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        _check_keys(actual, expected, place)
        for key in actual:
            yield from _pairs(actual[key], expected[key], (*place, key), rules)
    else:
        if not _comparable(actual, expected, rules):
            raise TypeError(
                "No comparison pair was able to handle inputs of type "
                f"{type(actual)} and {type(expected)}." + _whereabouts(place)
            )
        yield actual, expected, place


def _is_sequence(obj: Any) -> bool:
    return isinstance(obj, Sequence) and not isinstance(obj, str | bytes)


def _check_keys(actual: Mapping[Any, Any], expected: Mapping[Any, Any], place: Place) -> None:
    missing = [key for key in expected if key not in actual]
    extra = [key for key in actual if key not in expected]
    if missing or extra:
        raise _Difference(
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {missing}\n"
            f"Additional keys in the actual mapping: {extra}",
            place,
        )


def _comparable(actual: Any, expected: Any, rules: _Rules) -> bool:
    if actual is None or expected is None:
        return True
    if _is_number(actual) and _is_number(expected):
        return True
    kinds = type(actual), type(expected)
    related = issubclass(kinds[0], kinds[1]) or issubclass(kinds[1], kinds[0])
    if not related or (kinds[0] is not kinds[1] and not rules.allow_subclasses):
        return False
    return isinstance(actual, np.ndarray) or _is_tensor(actual)


def _is_number(obj: Any) -> bool:
    return isinstance(obj, bool | int | float | complex | np.bool_ | np.number)


def _is_tensor(obj: Any) -> bool:
    import rushlight  # late: the public namespace imports this room

    return isinstance(obj, rushlight.Tensor)


def _compare(actual: Any, expected: Any, place: Place, rules: _Rules) -> None:
    if actual is None or expected is None:
        if actual is not expected:
            raise _Difference(f"None mismatch: {actual} is not {expected}", place)
    elif _is_number(actual):
        _compare_numbers(actual, expected, place, rules)
    else:
        _compare_tensors(actual, expected, place, rules)


# Numbers


def _compare_numbers(actual: Any, expected: Any, place: Place, rules: _Rules) -> None:
    one, other = _plain(actual), _plain(expected)
    if isinstance(one, bool) and isinstance(other, bool):
        if one is not other:
            raise _Difference(f"Booleans mismatch: {one} is not {other}", place)
        return
    if rules.dtype and type(actual) is not type(expected):
        raise _Difference(
            f"The (d)types do not match: {type(actual)} != {type(expected)}.", place
        )
    names = [_NUMBER_DTYPES[type(number)] for number in (one, other)]
    _check_scalar(one, other, rules.tolerances_for(*names), place, rules)


def _plain(number: Any) -> bool | int | float | complex:
    value: bool | int | float | complex = number.item() if hasattr(number, "item") else number
    return value


def _check_scalar(
    one: Any, other: Any, tolerances: tuple[float, float], place: Place, rules: _Rules
) -> None:
    rtol, atol = tolerances
    if one == other or (rules.equal_nan and cmath.isnan(one) and cmath.isnan(other)):
        return
    absolute = abs(one - other)
    if cmath.isfinite(absolute) and absolute <= atol + rtol * abs(other):
        return
    relative = absolute / abs(other) if other != 0 else float("inf")
    lines = [f"Expected {other} but got {one}."]
    lines.append(f"Absolute difference: {absolute}" + _allowed(atol, tolerances))
    lines.append(f"Relative difference: {relative}" + _allowed(rtol, tolerances))
    raise _Difference("\n".join([_heading("Scalars", tolerances), *lines]), place)


def _heading(what: str, tolerances: tuple[float, float]) -> str:
    return f"{what} are not {'close' if any(tolerances) else 'equal'}!\n"


def _allowed(tolerance: float, tolerances: tuple[float, float]) -> str:
    return f" (up to {tolerance} allowed)" if any(tolerances) else ""


# Tensors and arrays


def _compare_tensors(actual: Any, expected: Any, place: Place, rules: _Rules) -> None:
    _check_attributes(actual, expected, place, rules)
    if any(_device(one).startswith("meta") for one in (actual, expected)):
        return
    tolerances = rules.tolerances_for(_dtype_name(actual.dtype), _dtype_name(expected.dtype))
    one, other = _values(actual), _values(expected)
    if one.ndim == 0:
        _check_scalar(one.item(), other.item(), tolerances, place, rules)
        return
    one, other = _promoted(one, other)
    close = _is_close(one, other, tolerances, rules.equal_nan)
    if not close.all():
        raise _Difference(_report(one, other, close, tolerances), place)


def _check_attributes(actual: Any, expected: Any, place: Place, rules: _Rules) -> None:
    asked: list[tuple[str, bool, Callable[[Any], Any]]] = [
        ("shape", True, lambda one: one.shape),
        ("layout", rules.layout, lambda one: getattr(one, "layout", None)),
        ("stride()", rules.stride, _stride),
        ("device", rules.device, _device),
        ("dtype", rules.dtype, lambda one: one.dtype),
    ]
    for name, checked, get in asked:
        first, second = get(actual), get(expected)
        if checked and first != second:
            text = f"The values for attribute '{name}' do not match: {first} != {second}."
            raise _Difference(text, place)


def _stride(one: Any) -> tuple[int, ...]:
    if isinstance(one, np.ndarray):
        return tuple(step // one.itemsize for step in one.strides)
    return tuple(one.stride())


def _device(one: Any) -> str:
    return "cpu" if isinstance(one, np.ndarray) else str(one.device)


def _dtype_name(dtype: Any) -> str:
    return str(dtype).rsplit(".", 1)[-1]


def _values(one: Any) -> np.ndarray:
    """The numbers, in a dtype that NumPy has: the small floats it lacks are widened."""
    if isinstance(one, np.ndarray):
        return one
    name = _dtype_name(one.dtype)
    if name == "bfloat16" or name.startswith("float8"):
        one = one.detach().float()
    array: np.ndarray = one.detach().numpy(force=True)
    return array


def _promoted(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both in one dtype; booleans and small integers widened so that differences fit."""
    common = np.result_type(one.dtype, other.dtype)
    if common.kind in "biu":
        common = np.dtype(np.uint64 if common == np.uint64 else np.int64)
    return one.astype(common, copy=False), other.astype(common, copy=False)


def _absolute(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    if one.dtype.kind in "iu":
        # The difference of two 64-bit integers fits an unsigned one, wrapped or not.
        return np.asarray(np.maximum(one, other) - np.minimum(one, other)).view(np.uint64)
    with np.errstate(invalid="ignore", over="ignore"):
        difference: np.ndarray = np.abs(one - other)
    return difference


def _is_close(
    one: np.ndarray, other: np.ndarray, tolerances: tuple[float, float], equal_nan: bool
) -> np.ndarray:
    rtol, atol = tolerances
    close: np.ndarray = one == other
    if equal_nan and one.dtype.kind in "fc":
        close |= np.isnan(one) & np.isnan(other)
    if not any(tolerances):
        return close
    with np.errstate(invalid="ignore", over="ignore"):
        absolute = _absolute(one, other)
        close |= np.isfinite(absolute) & (absolute <= atol + np.abs(rtol * other))
    return close


def _report(
    one: np.ndarray, other: np.ndarray, close: np.ndarray, tolerances: tuple[float, float]
) -> str:
    wrong = int(close.size - np.count_nonzero(close))
    absolute = _absolute(one, other)
    magnitude = np.abs(other.astype(np.float32) if other.dtype.kind in "iu" else other)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        relative = (absolute / magnitude).astype(magnitude.dtype)
    share = f"{wrong} / {close.size} ({wrong / close.size:.1%})"
    rtol, atol = tolerances
    lines = [_heading("Tensor-likes", tolerances), f"Mismatched elements: {share}"]
    for name, difference, limit in (("absolute", absolute, atol), ("relative", relative, rtol)):
        difference = np.where(close, np.zeros((), difference.dtype), difference)
        index = tuple(int(i) for i in np.unravel_index(difference.argmax(), close.shape))
        text = f"Greatest {name} difference: {difference[index].item()} at index {index}"
        lines.append(text + _allowed(limit, tolerances))
    return "\n".join(lines)
