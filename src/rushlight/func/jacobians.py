"""`jacrev`, `jacfwd` and `hessian`: all derivatives of a function. They are those in the
directions of the identity's rows, computed together (`vmap`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any  # functions of anything

from rushlight import tree
from rushlight.func.arguments import chosen, replaced
from rushlight.func.forward import jvp_of
from rushlight.func.reverse import vjp_of
from rushlight.func.vmap import vmap
from rushlight.ops.ranges import eye

Function = Callable[..., Any]


def jacrev(
    func: Function,
    argnums: Any = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """A function that computes the Jacobian of `func` by reverse mode: cheap for few outputs.

    The Jacobian of an output by an argument has the shape (*output.shape, *argument.shape);
    trees of outputs give trees of them, and a tuple `argnums` a tuple for each output.
    chunk_size is how many of its rows are computed at a time.

    >>> import rushlight as torch
    >>> torch.func.jacrev(torch.square)(torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def inner(*args: Any, **kwargs: Any) -> Any:
        given, given_structure = tree.flatten(chosen(args, argnums))
        result = vjp_of(lambda *own: func(*own, **kwargs), args, argnums, has_aux)
        outs, structure = tree.flatten(result[0])

        def row(*seeds: Any) -> list[Any]:
            gradients = result[1](tree.unflatten(list(seeds), structure))
            return tree.flatten(gradients)[0]

        found = vmap(row, chunk_size=chunk_size)(*identity(outs))
        table = zip(
            *(_rows(outs, x, g) for x, g in zip(given, found, strict=True)), strict=True
        )
        made = [tree.unflatten(list(blocks), given_structure) for blocks in table]
        jacobian = tree.unflatten(made, structure)
        return (jacobian, result[2]) if has_aux else jacobian

    return inner


def _rows(outs: Sequence[Any], x: Any, found: Any) -> list[Any]:
    """The Jacobians of each output by x, from all rows of them."""
    parts = _narrowed(found, 0, [o.numel() for o in outs])
    return [p.reshape((*o._shape, *x._shape)) for o, p in zip(outs, parts, strict=True)]


def _narrowed(x: Any, dim: int, sizes: Sequence[int]) -> list[Any]:
    """What `split` gives, as views that may be written to."""
    ends = list(accumulate(sizes))
    return [x.narrow(dim, end - size, size) for end, size in zip(ends, sizes, strict=True)]


def identity(tensors: Sequence[Any]) -> list[Any]:
    """All elements of `tensors` as directions: a batch for each, the rows of an identity."""
    sizes = [t.numel() for t in tensors]
    count = sum(sizes)
    return [
        rows.to(t.dtype).reshape((count, *t._shape))
        for t, rows in zip(tensors, eye(count).split(sizes, 1), strict=True)
    ]


def jacfwd(
    func: Function, argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Function:
    """A function that computes the Jacobian of `func` by forward mode: cheap for few inputs.

    Results are those of `jacrev`. randomness is that of `vmap`.

    >>> import rushlight as torch
    >>> torch.func.jacfwd(torch.square)(torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def inner(*args: Any, **kwargs: Any) -> Any:
        primals = chosen(args, argnums)
        given, given_structure = tree.flatten(primals)

        def column(*directions: Any) -> Any:
            result = jvp_of(
                lambda own: func(*replaced(args, argnums, own), **kwargs),
                (primals,),
                tree.unflatten(list(directions), given_structure),
                strict=False,
                has_aux=has_aux,
            )
            return result[1], result[2] if has_aux else ()

        by_direction, aux = vmap(column, out_dims=(0, None), randomness=randomness)(
            *identity(given)
        )
        jacobian = tree.map(
            lambda found: tree.unflatten(_columns(found, given), given_structure), by_direction
        )
        return (jacobian, aux) if has_aux else jacobian

    return inner


def _columns(found: Any, given: Sequence[Any]) -> list[Any]:
    """The Jacobians of an output by each input, from all columns of them."""
    shape = found._shape[1:]
    parts = _narrowed(found.movedim(0, -1), -1, [x.numel() for x in given])
    return [p.reshape((*shape, *x._shape)) for p, x in zip(parts, given, strict=True)]


def hessian(func: Function, argnums: Any = 0) -> Function:
    """A function that computes the second derivatives of `func`, which returns one number, by
    forward mode over reverse mode.

    >>> import rushlight as torch
    >>> torch.func.hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
