"""Einstein summation: any equation, as products of two operands at a time."""

from __future__ import annotations

import string
from typing import Any  # operands are tensors

from rushlight.ops.elementwise import conjugate
from rushlight.ops.registry import Linearity, Op, TensorType, public

_SPREAD = string.ascii_letters[::-1]  # letters for the dimensions of an ellipsis


def _pair_type(a: TensorType, b: TensorType, equation: str) -> TensorType:
    inputs, _, letters = equation.partition("->")
    left, _, right = inputs.partition(",")
    sizes = dict(zip(left, a.shape, strict=True)) | dict(zip(right, b.shape, strict=True))
    return TensorType(tuple(sizes[c] for c in letters), a.dtype)


def _pair_vjp(g: Any, out: Any, a: Any, b: Any, equation: str) -> Any:
    inputs, _, letters = equation.partition("->")
    left, _, right = inputs.partition(",")
    return (
        PAIR(g, conjugate(b), equation=f"{letters},{right}->{left}"),
        PAIR(g, conjugate(a), equation=f"{letters},{left}->{right}"),
    )


PAIR = Op(  # every letter of the output is in an operand; every other one is in both
    "einsum",
    attrs=("equation",),
    type=_pair_type,
    lower=lambda k, a, b, equation: k.contract(equation, a, b),
    vjp=_pair_vjp,
    jvp=Linearity.EACH,
)


@public("torch")
def einsum(equation: Any, *operands: Any) -> Any:
    """Sum of products over the letters that are not in the output.

    Takes `einsum("ij,jk->ik", a, b)` or `einsum(a, [0, 1], b, [1, 2], [0, 2])`; `...` stands
    for any leading dimensions, a repeated letter for a diagonal.

    >>> import rushlight as torch
    >>> torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(3, 2))
    tensor([[3., 3.],
            [3., 3.]])
    """
    text, given = _spelled((equation, *operands))
    terms, output = _terms(text, given)
    parts = [_diagonals(x, term) for x, term in zip(given, terms, strict=True)]
    terms = ["".join(dict.fromkeys(t)) for t in terms]
    _check_sizes(text, terms, parts)
    while len(terms) > 1:
        rest = set(output).union(*terms[2:])
        merged, term = _product(parts[0], terms[0], parts[1], terms[1], rest)
        parts, terms = [merged, *parts[2:]], [term, *terms[2:]]
    return _arranged(parts[0], terms[0], output)


def _spelled(args: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """The equation and operands of either calling form."""
    if isinstance(args[0], str):
        operands = list(args[1:])
        if len(operands) == 1 and isinstance(operands[0], list | tuple):
            operands = list(operands[0])
        if not operands:
            raise ValueError("einsum(): must provide at least one operand")
        return args[0].replace(" ", ""), operands
    operands, lists = list(args[0::2]), list(args[1::2])
    out = operands.pop() if len(args) % 2 else None

    def letters(items: Any) -> str:
        return "".join("..." if i is Ellipsis else string.ascii_letters[i] for i in items)

    equation = ",".join(letters(i) for i in lists)
    return equation + ("" if out is None else "->" + letters(out)), operands


def _terms(equation: str, operands: list[Any]) -> tuple[list[str], str]:
    """Letters of each operand and of the output, with ellipses spelled out."""
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(operands):
        raise RuntimeError(
            f"einsum(): {'more' if len(operands) > len(terms) else 'fewer'} operands were "
            f"provided than specified in the equation '{equation}'"
        )
    used = set(equation)
    spare = [c for c in _SPREAD if c not in used]
    hidden = [x.ndim - len(t.replace("...", "")) for t, x in zip(terms, operands, strict=True)]
    for term, x, extra in zip(terms, operands, hidden, strict=True):
        plain = term.replace("...", "")
        if "." in plain or not all(c in string.ascii_letters for c in plain):
            raise RuntimeError(f"einsum(): invalid subscript in '{term}' of '{equation}'")
        if extra < 0 or (extra and "..." not in term):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(plain)}) does not "
                f"match the number of dimensions ({x.ndim}) for operand '{term}' of "
                f"'{equation}', and no ellipsis was given"
            )
    most = max((e for t, e in zip(terms, hidden, strict=True) if "..." in t), default=0)
    spread = "".join(spare[:most])
    full = [
        t.replace("...", spread[most - e :]) if "..." in t else t
        for t, e in zip(terms, hidden, strict=True)
    ]
    if not arrow:
        joined = "".join(t.replace("...", "") for t in terms)
        return full, spread + "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
    output = output.replace("...", spread)
    for c in output:
        if output.count(c) > 1:
            raise RuntimeError(f"einsum(): output subscript {c} appears more than once")
        if not any(c in t for t in full):
            raise RuntimeError(
                f"einsum(): output subscript {c} does not appear in the equation for any input "
                f"operand"
            )
    return full, output


def _diagonals(x: Any, term: str) -> Any:
    """x with the dimensions of a repeated letter replaced by their diagonal."""
    for c in dict.fromkeys(term):
        while term.count(c) > 1:
            first, second = term.index(c), term.rindex(c)
            if x.shape[first] != x.shape[second]:
                raise RuntimeError(
                    f"einsum(): subscript {c} is repeated for operand of shape "
                    f"{list(x.shape)} but the sizes don't match"
                )
            x = x.diagonal(0, first, second).movedim(-1, first)
            term = term[:second] + term[second + 1 :]
    return x


def _check_sizes(equation: str, terms: list[str], operands: list[Any]) -> None:
    sizes: dict[str, int] = {}
    for term, x in zip(terms, operands, strict=True):
        for c, size in zip(term, x.shape, strict=True):
            known = sizes.setdefault(c, size)
            if known == 1:
                sizes[c] = size
            elif size not in (1, known):
                shapes = ", ".join(str(list(o.shape)) for o in operands)
                raise RuntimeError(
                    "einsum(): operands do not broadcast with remapped shapes in "
                    f"'{equation}': shapes {shapes}: subscript {c} has size {known} and size "
                    f"{size}"
                )


def _product(a: Any, left: str, b: Any, right: str, rest: set[str]) -> tuple[Any, str]:
    """The product of two operands, summed over letters that nothing later needs."""
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"einsum: expected operands of one dtype, got {a.dtype!r} and {b.dtype!r}"
        )
    a, left = _drop_ones(a, left, b, right)
    b, right = _drop_ones(b, right, a, left)
    a, left = _reduce_alone(a, left, rest | set(right))
    b, right = _reduce_alone(b, right, rest | set(left))
    kept = [c for c in dict.fromkeys(left + right) if c in rest]
    out = "".join(kept)
    return PAIR(a, b, equation=f"{left},{right}->{out}"), out


def _reduce_alone(x: Any, term: str, needed: set[str]) -> tuple[Any, str]:
    """x summed over the letters that only it has."""
    dims = [i for i, c in enumerate(term) if c not in needed]
    if not dims:
        return x, term
    return x.sum(dims), "".join(c for c in term if c in needed)


def _drop_ones(x: Any, term: str, other: Any, others: str) -> tuple[Any, str]:
    """x without dimensions of size 1 that the other operand has larger."""
    sizes = dict(zip(others, other.shape, strict=True))
    drop = [i for i, c in enumerate(term) if x.shape[i] == 1 and sizes.get(c, 1) != 1]
    for i in reversed(drop):
        x, term = x.squeeze(i), term[:i] + term[i + 1 :]
    return x, term


def _arranged(x: Any, term: str, output: str) -> Any:
    """x summed over letters not in the output, in the output's order."""
    dims = [i for i, c in enumerate(term) if c not in output]
    if dims:
        x = x.sum(dims)
        term = "".join(c for c in term if c in output)
    if term == output:
        return x
    return x.permute([term.index(c) for c in output])
