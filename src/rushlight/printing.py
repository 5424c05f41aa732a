"""How a tensor is written out: the text of `repr(t)` and `print(t)`.

The text is PyTorch's, character for character, because notebooks, doctests and golden logs hold
it. A body (the nested brackets) is made from a NumPy array by `format_array`; `tensor_repr`
adds what the numbers do not say: device, dtype, size of an empty tensor, and the gradient's
function.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rushlight import float8


@dataclasses.dataclass(frozen=True, slots=True)
class PrintOptions:
    """What `set_printoptions` sets; `sci_mode` None lets each tensor decide."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}

_options = PROFILES["default"]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print. A profile is applied first; `sci_mode` is always set, as in
    PyTorch.

    >>> set_printoptions(precision=2)
    >>> set_printoptions(profile="default")
    """
    global _options
    asked: dict[str, Any] = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    base = _options if profile is None else PROFILES.get(profile, _options)
    _options = dataclasses.replace(base, **given, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:  # Any: the options' values differ in type
    """The options in force, as keyword arguments for `set_printoptions`."""
    return dataclasses.asdict(_options)


@contextlib.contextmanager
def printoptions(**changes: Any) -> Iterator[None]:  # Any: passed on to set_printoptions
    """Set print options inside a `with` block and put the old ones back after it."""
    global _options
    before = _options
    set_printoptions(**changes)
    try:
        yield
    finally:
        _options = before


def format_array(array: np.ndarray, dtype_name: str = "", *, indent: int = 7) -> str:
    """The bracketed body of a tensor's text.

    `dtype_name` matters only where NumPy has no such dtype: "bfloat16" says that the array
    holds bfloat16 bits in 16-bit integers, "float8_e5m2" that it holds such bits in bytes.
    `indent` is the width of the text before the first bracket.
    """
    summarise = array.size > _options.threshold
    shown = _shown_part(array) if summarise else array
    if dtype_name == "bfloat16":
        shown = _widen_bfloat16(shown)
    elif dtype_name in float8.NAMES:
        shown = float8.decoded(shown, dtype_name)
    column = _column_of(shown)
    cells = np.empty(shown.shape, dtype=object)
    cells.reshape(-1)[:] = [column.text(value) for value in shown.reshape(-1).tolist()]
    layout = _Layout(array.shape if summarise else None, column.width, column.slack)
    return layout.nested(cells, indent)


def tensor_repr(tensor: Any) -> str:  # Any: the core's Tensor, which imports this room
    """The text of `Tensor.__repr__`; `Parameter` puts its heading in front of it."""
    if tensor._storage.value.type.levels:
        return _batched_repr(tensor)
    name = type(tensor).__name__
    prefix = "tensor(" if name in ("Tensor", "Parameter") else f"{name}("
    body, notes = _body_and_notes(tensor, len(prefix))
    notes += _gradient_note(tensor) + _tangent_note(tensor)
    return _with_notes(prefix + body, notes, len(prefix))


def _batched_repr(tensor: Any) -> str:
    """All samples of a tensor inside `vmap`."""
    from rushlight.ops import batching  # only inside of vmap

    level = batching.levels_of(tensor)[-1]
    inner = textwrap.indent(tensor_repr(batching.leave(tensor.detach(), level, 0)), "    ")
    numbers = [batch.number for batch in batching.active.batches]
    depth = numbers.index(level[0]) + 1 if level[0] in numbers else 0  # 0: after its vmap
    return f"BatchedTensor(lvl={depth}, bdim=0, value=\n{inner}\n)"


# Around the body: prefix and suffixes


def _body_and_notes(tensor: Any, indent: int) -> tuple[str, list[str]]:
    device = [] if tensor.device.type == "cpu" else [f"device='{tensor.device}'"]
    size = [f"size={tuple(tensor.shape)}"]
    dtype = [f"dtype={tensor.dtype}"]
    if tensor.device.type == "meta":
        unusual = tensor.dtype != _default_dtype()
        return "...", device + size + (dtype if unusual else [])
    if tensor.numel() == 0:
        unusual = tensor.dtype != _default_dtype()
        return "[]", device + (size if tensor.dim() != 1 else []) + (dtype if unusual else [])
    body = format_array(_numbers(tensor), _short_name(tensor.dtype), indent=indent)
    hidden = _options.edgeitems == 0
    return body, device + (size if hidden else []) + _dtype_note(tensor, dtype)


def _dtype_note(tensor: Any, note: list[str]) -> list[str]:
    """No dtype where the digits tell it: integers, booleans and the default float and
    complex.
    """
    name, default = _short_name(tensor.dtype), _short_name(_default_dtype())
    complex_of = {"float16": "complex32", "float32": "complex64", "float64": "complex128"}
    told = ("int64", "bool", default, complex_of.get(default))
    return [] if name in told else note


def _gradient_note(tensor: Any) -> list[str]:
    function = tensor.grad_fn
    if function is not None:
        name = getattr(function, "name", None)
        text = name() if callable(name) else type(function).__name__
        return [f"grad_fn=<{text.rsplit('::', 1)[-1]}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []


def _tangent_note(tensor: Any) -> list[str]:
    """The tangent of a dual tensor in the innermost level that it has one in."""
    from rushlight.config import scopes  # printing a plain tensor asks for nothing more

    for level in reversed(scopes.levels):
        if level.holds(tensor):
            return [f"tangent={level.tangent(tensor)}"]
    return []


def _with_notes(text: str, notes: list[str], indent: int) -> str:
    """Put each note behind the text, on a new line where it would pass the line width."""
    last = len(text) - text.rfind("\n") + 1
    for note in notes:
        if last + len(note) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + note
            last = indent + len(note)
        else:
            text += ", " + note
            last += len(note) + 2
    return text + ")"


def _numbers(tensor: Any) -> np.ndarray:
    """The values as NumPy holds them, or the bits of a dtype that it lacks, so that printing
    computes nothing.
    """
    array: np.ndarray = tensor.detach()._array()
    return array


def _short_name(dtype: Any) -> str:
    return str(dtype).rsplit(".", 1)[-1]


def _default_dtype() -> Any:
    import rushlight  # late: the public namespace imports this room

    return rushlight.get_default_dtype()


# Columns: one width and one notation for all the numbers shown


@dataclasses.dataclass(frozen=True, slots=True)
class _Column:
    """How each value is written, and the width it is written in.

    `slack` is the room a line keeps free beside each value besides the width: the separator,
    and for complex numbers the sign or the `j` that is not part of the two widths.
    """

    text: Callable[[Any], str]  # Any: a Python bool, int, float or complex
    width: int
    slack: int = 2


def _column_of(shown: np.ndarray) -> _Column:
    if shown.dtype.kind == "c":
        return _complex_column(shown)
    if shown.dtype.kind == "f":
        return _float_column(shown)
    width = max((len(str(value)) for value in shown.reshape(-1).tolist()), default=1)
    return _Column(lambda value: str(value).rjust(width), width)


def _complex_column(shown: np.ndarray) -> _Column:
    real, imag = _float_column(shown.real), _float_column(shown.imag)

    def text(value: complex) -> str:
        part = imag.text(value.imag).lstrip() + "j"
        sign = "" if part[0] in "+-" else "+"
        return real.text(value.real) + sign + part

    return _Column(text, real.width + imag.width, slack=3)


def _float_column(shown: np.ndarray) -> _Column:
    """One notation for a whole tensor of floats.

    Only finite non-zero values decide. Whole numbers print as `3.`; a range of more than a
    thousand, or a magnitude that the digits cannot hold, prints as `3.0000e+08`. Infinities and
    nan are written in the width that the others need.
    """
    flat = shown.reshape(-1).astype(np.float64, copy=False)
    deciding = flat[np.isfinite(flat) & (flat != 0)]
    whole = bool(np.all(deciding == np.ceil(deciding)))
    scientific = _options.sci_mode
    if scientific is None or not deciding.size:
        scientific = _spans_too_much(np.abs(deciding), whole)
    write = _float_text(scientific, whole)
    width = max((len(write(value)) for value in deciding.tolist()), default=1)
    return _Column(lambda value: write(value).rjust(width), width)


def _spans_too_much(magnitudes: np.ndarray, whole: bool) -> bool:
    if not magnitudes.size:
        return False
    least, most = float(magnitudes.min()), float(magnitudes.max())
    # A quotient of a huge and a subnormal number overflows to inf, which is above any limit.
    with np.errstate(over="ignore"):
        wide = bool(np.float64(most) / np.float64(least) > 1000.0)
    return wide or most > 1.0e8 or (not whole and least < 1.0e-4)


def _float_text(scientific: bool, whole: bool) -> Callable[[float], str]:
    digits = _options.precision

    def write(value: float) -> str:
        if scientific:
            return f"{value:.{digits}e}"
        if whole:
            return f"{value:.0f}" + ("." if math.isfinite(value) else "")
        return f"{value:.{digits}f}"

    return write


def _widen_bfloat16(bits: np.ndarray) -> np.ndarray:
    """bfloat16 is the upper half of a float32, so widening is a shift."""
    words = np.ascontiguousarray(bits).view(np.uint16).astype(np.uint32) << np.uint32(16)
    return words.view(np.float32).reshape(bits.shape)


# Layout: brackets, lines and what is left out


def _shown_part(array: np.ndarray) -> np.ndarray:
    """The corners that a summary prints: the first and last `edgeitems` along each
    dimension.
    """
    edge = _options.edgeitems
    for axis, size in enumerate(array.shape):
        if size > 2 * edge:
            kept = [*range(edge), *range(size - edge, size)]
            array = array.take(kept, axis=axis)
    return array


@dataclasses.dataclass(frozen=True, slots=True)
class _Layout:
    """Nested brackets of ready-made cells; `full_shape` is the unsummarised shape, or None."""

    full_shape: tuple[int, ...] | None
    width: int
    slack: int

    def nested(self, cells: np.ndarray, indent: int, axis: int = 0) -> str:
        if cells.ndim == 0:
            return str(cells[()])
        if cells.ndim == 1:
            return self._row(list(cells), indent, axis)
        parts = [self.nested(part, indent + 1, axis + 1) for part in cells]
        gap = "," + "\n" * (cells.ndim - 1) + " " * (indent + 1)
        return "[" + gap.join(self._with_ellipsis(parts, "...", axis)) + "]"

    def _row(self, texts: list[str], indent: int, axis: int) -> str:
        texts = self._with_ellipsis(texts, " ..." if _options.edgeitems else "...", axis)
        per_line = max(1, (_options.linewidth - indent) // (self.width + self.slack))
        lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"

    def _with_ellipsis(self, texts: list[str], dots: str, axis: int) -> list[str]:
        edge = _options.edgeitems
        if self.full_shape is None or self.full_shape[axis] <= 2 * edge:
            return texts
        return texts[:edge] + [dots] + texts[len(texts) - edge :]
