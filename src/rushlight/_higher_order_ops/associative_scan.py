"""All prefixes of a sequence under an associative operation, in steps that grow by halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any  # trees of tensors

from rushlight import tree
from rushlight.func import vmap
from rushlight.ops.joining import cat, stack
from rushlight.tensor import Tensor

Elements = list[Any]  # of tensors
Combine = Callable[[Elements, Elements], Elements]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """`combine_fn` of all elements up to each one along `dim`, as `cumsum` is for addition.

    combine_fn takes two trees like an element of `xs` and gives one of the same kind; it has to
    be associative. It is called about 2 log2(n) times, on many elements at once (the scan of
    Blelloch, "Prefix sums and their applications", 1990). `combine_mode` says where PyTorch's
    compiler may run it, and changes nothing here.

    Raises ValueError for what is no function, for a tree without tensors, and for sizes along
    `dim` that differ; RuntimeError where `combine_fn` gives another kind of tree.

    >>> import rushlight as torch
    >>> from rushlight._higher_order_ops.associative_scan import associative_scan
    >>> associative_scan(torch.add, torch.tensor([1, 2, 3, 4]), 0)
    tensor([ 1,  3,  6, 10])
    """
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            "Combine_mode must either 'pointwise' or 'generic', but got " + str(combine_mode)
        )
    leaves, structure = tree.flatten(xs)
    if not leaves or not all(isinstance(leaf, Tensor) and leaf.ndim for leaf in leaves):
        raise ValueError("associative_scan: expected tensors with at least one dimension")
    moved = [leaf.movedim(dim, 0) for leaf in leaves]
    if len({leaf.shape[0] for leaf in moved}) != 1:
        sizes = [leaf.shape[0] for leaf in moved]
        raise ValueError(f"associative_scan: sizes along dim {dim} differ: {sizes}")

    def combine(a: Elements, b: Elements) -> Elements:
        one = vmap(combine_fn)(tree.unflatten(a, structure), tree.unflatten(b, structure))
        made, kind = tree.flatten(one)
        if kind != structure:
            raise RuntimeError(
                "associative_scan: combine_fn gives another tree than that of an element"
            )
        return made

    if reverse:
        moved = [leaf.flip(0) for leaf in moved]
    scanned = _scan(combine, moved)
    if reverse:
        scanned = [leaf.flip(0) for leaf in scanned]
    return tree.unflatten([leaf.movedim(0, dim) for leaf in scanned], structure)


def _scan(combine: Combine, x: Elements) -> Elements:
    """The prefixes along dimension 0: of pairs first, then of what lies between them."""
    count = x[0].shape[0]
    if count < 2:
        return x
    even, odd = _every_other(x, 0), _every_other(x, 1)
    ends = _scan(combine, combine([e[: len(o)] for e, o in _pairs(even, odd)], odd))
    if count == 2:
        between: Sequence[Any] = [e[:1] for e in even]
    else:
        later = [e[1:] for e in even]
        before = [end[: len(e)] for end, e in _pairs(ends, later)]
        joined = combine(before, later)
        between = [cat([e[:1], j]) for e, j in _pairs(even, joined)]
    return [_interleaved(b, end) for b, end in _pairs(between, ends)]


def _pairs(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return zip(a, b, strict=True)


def _every_other(x: Elements, first: int) -> Elements:
    return [leaf[first::2] for leaf in x]


def _interleaved(even: Any, odd: Any) -> Any:
    """even[0], odd[0], even[1], ... where there are as many of both, or one even more."""
    count = len(odd)
    mixed = stack([even[:count], odd], 1).flatten(0, 1)
    return mixed if len(even) == count else cat([mixed, even[count:]])
