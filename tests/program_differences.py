"""Where programs may have other results in PyTorch: what it leaves undefined, gets wrong, or
does differently on purpose (docs/differences.md). Each rule is as narrow as its reason.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import program_tables as tables
import torch
from program_draws import names_of, overlaps, tensors_in
from torch.utils.checkpoint import CheckpointError

# Results that differ from PyTorch's and are right: random numbers, free signs, bytes;
# PyTorch's bessel_j0 and airy_ai have seven right digits, its other Bessel functions ten, its
# bicubic pixels are off by one; which of equal elements a function points at; what is equal
# after rounding; ihfftn, which leaves what is given as `out` empty.
FREE = (
    r"rand|dropout|poisson|binomial|multinomial|bernoulli|normal_?\(|cauchy|exponential|geometric|"
    r"uniform|gumbel|rrelu|fractional|lowrank|svd|eig|\.qr|lstsq|alpha_dropout|bessel_[jy]|view\(torch|"
    r"_gamma\(|unique|airy|bicubic|ihfft.*out=|kthvalue|topk|mode\(|median\((?!.*values)|sort\((?!.*stable)"
)
# Errors of ours alone: PyTorch makes infinities, lets pass what is empty, or deprecates it; it
# goes backward again where nothing was saved, and does not count the coordinates of a gradient.
# Rounding decides whether a matrix of equal rows has a pivot that is exactly zero.
REFUSED = (
    r"matrix_exp.*torch.bfloat16|softmax.*torch.complex|no sparse gradients|"
    r"((index|masked)_fill|index_put)_: unsupp|cannot resize variables[^$]*addbmm_\(|"
    r"through the graph a second time|torch.gradient expected the coordinates|"
    r"lu: U\[\d+,\d+\] is zero|linalg\.\w+\" not implemented for torch.b?float16|"
    r"ldl_solve: pivots .* are none|gather\(\): Expected dtype|mul: shapes \[0\] and \[0, |"
    r"logical_\w+_: a (view of a )?leaf|"
    r"\"(amax|batch_norm|scaled_dot_product_attention)\" not implemented for torch.complex"
)
# The same in programs that have a certain statement: PyTorch wraps indices of take_along_dim
# around, saves of operands that were made in inference mode only what gradients will need, and
# joins numbers where the batch is empty. Rounding decides how many numbers are unique, and
# convolutions of no channels have as many results as filters here (see `_has_no_elements`).
REFUSED_WITH = (
    ("index out of range", r"take_along_dim\("),
    ("Inference tensors cannot be saved", r"inference_mode"),
    ("zero-dimensional tensor", r"vmap"),
    ("size of the tensor", r"unique(_consecutive)?\("),
    ("cannot be broadcast: sizes 0 and", r"conv(olution|\d)"),
)
# What writes to operands whose version stays what it was (parts that unsafe_chunk gives).
UNSEEN = r"(batch|instance)_norm\(|lambda a: v.*_\(.*_\(a\)"
# Functions whose results never have a history here; PyTorch gives them one that it refuses to
# differentiate.
WITHOUT_HISTORY = r"unique|airy|bicubic|bincount|heaviside|binomial|detach_copy"
# modified_bessel_i0 and i1 have derivatives here alone, comparisons in place have some there.
_OTHER_HISTORY = r"modified_bessel_i|\.(eq|ne|lt|le|gt|ge|less|greater)(_equal)?_\("


Tensors = list[torch.Tensor]


def is_undefined(t: torch.Tensor, derives: bool) -> bool:
    """Whether PyTorch's value may differ from the right one: complex infinities, which its
    functions do not treat as C does, and derivatives that are not a number, which are 0 here
    where the gradient that arrives is 0 (docs/differences.md).
    """
    if t.is_complex():
        return not torch.view_as_real(t.detach().resolve_conj()).isfinite().all()
    return derives and t.is_floating_point() and bool(t.detach().isnan().any())


def has_other_history(line: str, names: dict[str, Any]) -> bool:
    """Whether `requires_grad` may differ: a derivative that depends on nothing has no history
    here, and one of a function that captures what requires a gradient always has.
    """
    if re.search(_OTHER_HISTORY, line):
        return True
    if re.search(r"(batch|instance)_norm\(", line) and _has_no_elements(line, names):
        return True  # PyTorch refuses gradients of running statistics, unless there is no input
    if not re.search(tables.DERIVES, line):
        return False
    made = [t for n in names_of(line)[1] if n in names for _, t in tensors_in(names[n])]
    leaves = [
        t
        for name, value in names.items()
        for _, t in tensors_in(value)
        if name not in names_of(line)[1] and _is_parameter(t)
    ]
    if "torch.func" in line and leaves and not all(t.requires_grad for t in made):
        return True
    return any(t.grad_fn is not None and not _depends(t, leaves) for t in made)


def requires_late(line: str, names: dict[str, Any]) -> bool:
    """Whether a tensor that has views begins to require a gradient: in PyTorch the views say
    that they do too, and lead to no gradient of it.
    """
    if not line.endswith("requires_grad_()") or names_of(line)[1]:
        return False
    memories: dict[str, set[int]] = {}
    for name, value in names.items():
        found = {t.untyped_storage().data_ptr() for _, t in tensors_in(value)}
        memories[name] = found - {0}
    own = set().union(*(memories[name] for name in names_of(line)[0]))
    return sum(bool(own & found) for found in memories.values()) > 1


def _is_parameter(t: torch.Tensor) -> bool:
    try:
        return t.requires_grad and t.is_leaf
    except RuntimeError:  # a view that a write made unusable
        return False


def _depends(t: torch.Tensor, leaves: list[torch.Tensor]) -> bool:
    """Whether PyTorch's derivative of a value is more than rounding, or cannot be had here. By
    what is not finite it is not a number even where it is constant, and what was derived
    forwards through a checkpoint has none: another run saves other tensors.
    """
    if not bool(t.detach().isfinite().all()):
        return False
    weights = torch.linspace(0.5, 1.5, t.numel(), dtype=t.real.dtype).reshape(t.shape)
    total = (t * weights).abs().square().sum()
    try:
        with _hooks_off(leaves):
            gradients = torch.autograd.grad(total, leaves, retain_graph=True, allow_unused=True)
    except CheckpointError:
        return False
    except RuntimeError as error:  # what it needs is freed, overwritten or a zero of PyTorch's
        return "ZeroTensors are immutable" not in str(error)
    least = 1000 * torch.finfo(total.dtype).eps * (1 + float(total.detach()))
    return any(g is not None and bool((~(g.abs() <= least)).any()) for g in gradients)


@contextlib.contextmanager
def _hooks_off(leaves: list[torch.Tensor]) -> Iterator[None]:
    """A hook may make a gradient where there is none."""
    tables = [t._backward_hooks for t in leaves if t._backward_hooks]
    kept = [dict(hooks) for hooks in tables]
    for hooks in tables:
        hooks.clear()
    try:
        yield
    finally:
        for hooks, own in zip(tables, kept):
            hooks.update(own)


def is_refused(error: str, lines: list[str]) -> bool:
    """Whether one of the rules says that only we raise such an error in a program."""
    if re.search(REFUSED, error):
        return True
    text = "\n".join(lines)
    return any(said in error and re.search(line, text) for said, line in REFUSED_WITH)


def is_misread(line: str, names: dict[str, Any]) -> bool:
    """Whether one of the rules says that PyTorch's results of a statement are not to be had."""
    return any(re.search(pattern, line) and rule(line, names) for pattern, rule in FAULTS)


def _operands(line: str, names: dict[str, Any]) -> Tensors:
    return [t for n in names_of(line)[0] if n in names for _, t in tensors_in(names[n])]


def _made(line: str, names: dict[str, Any]) -> Tensors:
    return [t for n in names_of(line)[1] if n in names for _, t in tensors_in(names[n])]


def _repeats(line: str, names: dict[str, Any]) -> bool:
    """Medians read beyond the elements of an expanded tensor."""
    return "expand(" in line or any(0 in t.stride() for t in _operands(line, names))


def _reads_its_target(line: str, names: dict[str, Any]) -> bool:
    """What writes by position, or adds to itself what it multiplies, reads what it has written
    if that is also its source.
    """
    for call in ast.walk(ast.parse(line)):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if not call.func.attr.endswith("_"):
            continue
        given = [*call.args, *(k.value for k in call.keywords)]
        target = _memories(call.func.value, names)
        if any(target & _memories(value, names) for value in given):
            return True
    return False


def _reads_beside_its_target(line: str, names: dict[str, Any]) -> bool:
    """Element by element, a write that broadcasts a part of its target reads what it has
    written; PyTorch only sees that of parts that have no gaps.
    """
    for call in ast.walk(ast.parse(line)):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if not re.search(r"[^_]_$", call.func.attr) or "lambda" in line:
            continue
        target = ast.unparse(call.func.value)
        if re.search(r"_\(", target):  # would write again
            continue
        written, *read = (
            _layouts(ast.unparse(e), names) for e in (call.func.value, *call.args)
        )
        if any(a[0] == b[0] and a != b for a in written for found in read for b in found):
            return True
    return False


def _value_of(expression: str, names: dict[str, Any]) -> Any:
    """What a part of a statement gives; None for what means nothing by itself, since it has a
    lambda's parameter or needs what the statement makes first.
    """
    try:
        with torch.no_grad():
            return eval(expression, dict(names))
    except (NameError, TypeError):
        return None


def _layouts(expression: str, names: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Where the tensors of an expression are stored, and how."""
    value = _value_of(expression, names)
    return [
        (t.untyped_storage().data_ptr(), t.storage_offset(), t.shape, t.stride())
        for _, t in tensors_in(value)
        if t.numel()
    ]


def _shares_memory(line: str, names: dict[str, Any]) -> bool:
    """A function that writes to what it captures is given a part of that: as above."""
    found = {n: _layouts(n, names) for n in names_of(line)[0]}
    memories = [{layout[0] for layout in layouts} for layouts in found.values()]
    return sum(map(len, memories)) > len(set().union(*memories))


def _normalises_its_statistics(line: str, names: dict[str, Any]) -> bool:
    """Running statistics are written channel by channel, between reads of the input."""
    for call in ast.walk(ast.parse(line)):
        if isinstance(call, ast.Call) and "_norm" in ast.unparse(call.func):
            found = [_memories(value, names) for value in call.args]
            if sum(map(len, found)) > len(set().union(*found)):
                return True
    return False


def _memories(expression: ast.expr, names: dict[str, Any]) -> set[int]:
    """Where the tensors of an expression are stored."""
    value = _value_of(ast.unparse(expression), names)
    return {t.untyped_storage().data_ptr() for _, t in tensors_in(value)} - {0}


def _has_failed(line: str, names: dict[str, Any]) -> bool:
    """Factors of a matrix that has none, as `info` says, are what was there."""
    return any(t.dtype is torch.int32 and bool(t.any()) for t in _made(line, names))


def _has_no_pivot(line: str, names: dict[str, Any]) -> bool:
    """Rounding decides at which column a singular matrix runs out of pivots, and which of its
    rows has one that is no more than rounding.
    """
    infos = [t for t in _made(line, names)[2:] if t.dtype is torch.int32]
    upper = [
        t.detach() for t in _made(line, names) if t.dtype.is_floating_point or t.is_complex()
    ]
    return any(bool(t.any()) for t in infos) or any(map(_has_tiny_pivot, upper[-1:]))


def _has_tiny_pivot(upper: torch.Tensor) -> bool:
    sizes = upper.abs()
    least = 100 * torch.finfo(upper.dtype).eps * sizes.amax((-2, -1), keepdim=True)
    pivots = sizes.diagonal(dim1=-2, dim2=-1)
    return sizes.numel() > 0 and bool((pivots <= least[..., 0]).any())


def _is_conjugate(line: str, names: dict[str, Any]) -> bool:
    """A conjugate view is compared as a copy, which is set to nothing."""
    return any(t.is_conj() or t.is_neg() for t in _operands(line, names))


def _is_infinite_somewhere(line: str, names: dict[str, Any]) -> bool:
    """Derivatives at infinities: PyTorch has zeros of its own that stay zero by NaN."""
    reals = [t.detach() for t in _operands(line, names) if t.is_floating_point()]
    return any(not bool(t.isfinite().all()) for t in reals)


def _has_even_rows(line: str, names: dict[str, Any]) -> bool:
    """Rows of equal numbers are normalised to the rounding error of their mean."""
    rows = [t.detach() for t in _operands(line, names) if t.dim() and t.shape[-1] > 1]
    return any(bool((t == t[..., :1]).all(-1).any()) for t in rows)


def _has_bytes(line: str, names: dict[str, Any]) -> bool:
    """Pixels of eight bits are rounded after each dimension, by weights of few bits; 255 as a
    target is equal to -1.
    """
    return any(t.dtype is torch.uint8 for t in _operands(line, names))


def _repeats_indices(line: str, names: dict[str, Any]) -> bool:
    """All values that were put in one place have its gradient, not just the one that is there
    (docs/differences.md).
    """
    made = [t for t in _made(line, names) if t.requires_grad]
    return any(int((t.detach() != 0).sum()) < _values_put(line, names) for t in made)


def _values_put(line: str, names: dict[str, Any]) -> int:
    """How many values that are not zero the unpooling of a statement was given."""
    for call in ast.walk(ast.parse(line)):
        if isinstance(call, ast.Call) and "unpool" in ast.unparse(call.func):
            given = call.args[0] if call.args else call.keywords[0].value
            return int((_value_of(ast.unparse(given), names) != 0).sum())
    return 0


def _outgrows(line: str, names: dict[str, Any]) -> bool:
    """A tensor that grows takes the others of its memory along; here it has memory of its own
    from then on (docs/differences.md).
    """

    def memory(t: torch.Tensor) -> int:
        return t.untyped_storage().data_ptr()

    return any(
        memory(t) == memory(other) and t.numel() > other.numel()
        for t in _made(line, names)
        for other in _operands(line, names)
    )


def _has_nan_boundary(line: str, names: dict[str, Any]) -> bool:
    """A search by halves goes on behind a boundary that is not a number: those are the last."""
    for call in ast.walk(ast.parse(line)):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            at = {"searchsorted": 0, "bucketize": 1}.get(call.func.attr)
            found = None if at is None else _value_of(ast.unparse(call.args[at]), names)
            if any(bool(t.isnan().any()) for _, t in tensors_in(found)):
                return True
    return False


def _has_nan(line: str, names: dict[str, Any]) -> bool:
    """Margins that are not a number count as kept; of several in a window the last is taken."""
    return any(bool(t.detach().isnan().any()) for t in _operands(line, names))


_FACTORED = r"cholesky_inverse|ldl_solve"


def _has_complex_diagonal(line: str, names: dict[str, Any]) -> bool:
    """LAPACK takes the diagonal of a factor as real where it multiplies, and that of a
    Hermitian one where it divides.
    """
    for call in ast.walk(ast.parse(line)):
        if isinstance(call, ast.Call) and re.search(_FACTORED, ast.unparse(call.func)):
            value = call.args[0] if call.args else call.func.value
            factor = eval(ast.unparse(value), dict(names)).detach()
            if factor.is_complex() and bool(factor.diagonal(dim1=-2, dim2=-1).imag.any()):
                return True
    return False


def _is_infinite(line: str, names: dict[str, Any]) -> bool:
    """The sigmoid of a large negative number is zero where it should be subnormal."""
    made = [t.detach() for t in _made(line, names)]
    return any(not bool(t.isfinite().all()) for t in made)


def _is_narrow(line: str, names: dict[str, Any]) -> bool:
    """Bins of histograms are found in numbers of eight bits; powers of a matrix overflow."""
    return any(t.dtype in (torch.bfloat16, torch.float16) for t in _made(line, names))


def _derives_thrice(line: str, names: dict[str, Any]) -> bool:
    """Statistics are constants from the third derivative of a normalisation on, which finite
    differences do not agree with.
    """
    return len(re.findall(tables.DERIVES, line)) + line.count("hessian") > 1


def _is_singular(line: str, names: dict[str, Any]) -> bool:
    """The condition of a matrix that is singular up to rounding."""
    return any(
        bool((t.detach().abs() > 0.01 / torch.finfo(t.dtype).eps).any())
        for t in _made(line, names)
    )


def _has_no_elements(line: str, names: dict[str, Any]) -> bool:
    """A convolution of no channels has as many results as its input, not its filter."""
    return any(t.numel() == 0 for t in _operands(line, names))


def _overlaps(line: str, names: dict[str, Any]) -> bool:
    """Tangents are laid out as what they belong to, so those of what overlaps overlap."""
    return any(overlaps(t) for t in _operands(line, names))


def _has_negative_size(line: str, names: dict[str, Any]) -> bool:
    """The derivative by a negative absolute value has the wrong sign."""
    reals = [t.detach() for t in _operands(line, names) if t.is_floating_point()]
    return any(bool((t < 0).any()) for t in reals)


def _has_history(line: str, names: dict[str, Any]) -> bool:
    """Means and deviations that native_group_norm gives have a history without gradients;
    as_strided_scatter has the wrong ones (docs/differences.md).
    """
    return any(t.requires_grad for t in _operands(line, names))


def _requires_gradient(line: str, names: dict[str, Any]) -> bool:
    """Logical functions in place leave the history as it was before the write, linear functions
    have none of where they were taken.
    """
    return any(t.requires_grad for t in _made(line, names) + _operands(line, names))


def _vanishes(line: str, names: dict[str, Any]) -> bool:
    """The GELU of a number below -8 loses all its digits to 1 + erf."""
    return any(
        t.is_floating_point() and bool((t.detach() < -3).any()) for t in _operands(line, names)
    ) and any(bool((t.detach() == 0).any()) for t in _made(line, names))


FAULTS: tuple[tuple[str, Callable[[str, dict[str, Any]], bool]], ...] = (
    (r"median\(", _repeats),
    (r"masked_scatter_|index_put_|\.put_\(|add(mm|bmm|mv|r)_\(", _reads_its_target),
    (r"_\(", _reads_beside_its_target),
    (r"lambda a: v.*_\(.*_\(a\)", _shares_memory),
    (r"cholesky_inverse|ldl_solve\(.*hermitian=True", _has_complex_diagonal),
    (r"logical_\w+_\(|linearize\(", _requires_gradient),
    (r"(?i)gelu\(", _vanishes),
    (r"sigmoid\(\)\.log\(\)", _is_infinite),
    (r"_ex\(", _has_failed),
    (r"\.lu(_factor|_factor_ex)?\(", _has_no_pivot),
    (r"histc|matrix_exp", _is_narrow),
    (r"(?i)layer_?norm|group_?norm|batch_?norm|instance_?norm", _derives_thrice),
    (r"(batch|instance)_norm\(", _normalises_its_statistics),
    (r"cond\(", _is_singular),
    (r"conv", _has_no_elements),
    (r"polar\(", _has_negative_size),
    (r"native_group_norm|as_strided_scatter", _has_history),
    (tables.DERIVES, _is_infinite_somewhere),
    (r"upsample|interpolate", _has_bytes),
    (r"max_pool", _has_nan),
    (r"searchsorted\(|bucketize\(", _has_nan_boundary),
    (r"(layer|group|instance|batch)_norm", _has_even_rows),
    (r"is_set_to", _is_conjugate),
    (r"multi(label)?_margin_loss", _has_nan),
    (r"cosine_embedding_loss", _has_bytes),
    (r"max_unpool", _repeats_indices),
    (r"addbmm_\(|resize_", _outgrows),
    (tables.FORWARD, _overlaps),
)
