"""`vmap`: a function of one sample, called once for all samples of a batch.

Inputs enter a batch (`ops/batching.py`), the function records what it does to one sample, and
results leave the batch. What is recorded is compiled for all samples together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any  # functions of anything

from rushlight import tree, views
from rushlight.ops import batching
from rushlight.ops.joining import cat
from rushlight.tensor import Tensor
from rushlight.trace.tape import next_sequence
from rushlight.trace.write import write

Dims = list[int | None]


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`func` for every sample at once: a new function that takes and returns batches.

    in_dims:    the dimension of each input that the samples are along, as an int or in the
                structure of the positional arguments; None for what all samples share. Keyword
                arguments are shared.
    out_dims:   where the samples are to be in each result (None: a result that is the same for
                all).
    randomness: what random numbers inside are: an 'error', 'different' for each sample, or the
                'same' for all.
    chunk_size: how many samples to compute at a time (all by default): less memory, same bits.

    Raises RuntimeError where samples would have to go different ways: `if x.sum() > 0`,
    `.item()`, results whose shape depends on data, in-place writes of batched into shared.

    >>> import rushlight as torch
    >>> rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.vmap(torch.dot, in_dims=(0, None))(rows, torch.tensor([1.0, 10.0]))
    tensor([21., 43.])
    """
    _check_randomness(randomness)
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(
            f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})"
        )

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        call = _Call(func, in_dims, out_dims, randomness)
        given = call.inputs(args)
        if chunk_size is None or chunk_size >= given.size:
            return call.run(given, kwargs)
        sizes = [chunk_size] * (given.size // chunk_size)
        rest = given.size % chunk_size
        return call.run_chunks(given, kwargs, [*sizes, rest] if rest else sizes)

    return batched


def chunk_vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    chunks: int = 2,
) -> Callable[..., Any]:
    """`vmap` in this many parts, one after the other, of nearly equal size.

    >>> import rushlight as torch
    >>> torch.func.chunk_vmap(lambda x: x * x, chunks=2)(torch.arange(3))
    tensor([0, 1, 4])
    """
    _check_randomness(randomness)
    if chunks is None or chunks <= 0:
        raise ValueError(f"vmap: chunks should be greater than 0. (got {chunks})")

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        call = _Call(func, in_dims, out_dims, randomness)
        given = call.inputs(args)
        small, larger = divmod(given.size, chunks)
        sizes = [small + (i < larger) for i in range(chunks)]
        return call.run_chunks(given, kwargs, [s for s in sizes if s] or [0])

    return batched


def _check_randomness(randomness: str) -> None:
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )


class _Inputs:
    """Flattened arguments, the dimension of each that samples are along, and their number."""

    def __init__(self, leaves: list[Any], dims: Dims, structure: Any, size: int) -> None:
        self.leaves = leaves
        self.dims = dims
        self.structure = structure
        self.size = size

    def part(self, start: int, size: int) -> _Inputs:
        leaves = [
            x if d is None else x.narrow(d, start, size)
            for x, d in zip(self.leaves, self.dims, strict=True)
        ]
        return _Inputs(leaves, self.dims, self.structure, size)


class _Call:
    """One call of a function for all samples of its arguments."""

    def __init__(
        self, func: Callable[..., Any], in_dims: Any, out_dims: Any, randomness: str
    ) -> None:
        self.func = func
        self.in_dims = in_dims
        self.out_dims = out_dims
        self.randomness = randomness

    @property
    def name(self) -> str:
        return getattr(self.func, "__name__", None) or repr(self.func)

    # -- what goes in

    def inputs(self, args: tuple[Any, ...]) -> _Inputs:
        """The arguments, checked against `in_dims`."""
        at = f"vmap({self.name}, in_dims={self.in_dims}, ...)(<inputs>)"
        if not isinstance(self.in_dims, int | tuple) or isinstance(self.in_dims, bool):
            raise ValueError(
                f"{at}: expected `in_dims` to be int or a (potentially nested) tuple matching "
                f"the structure of inputs, got: {type(self.in_dims)}."
            )
        if not args:
            raise ValueError(
                f"vmap({self.name})(<inputs>): got no inputs. There must be at least one "
                f"positional argument to find the batch in."
            )
        leaves, structure = tree.flatten(args)
        wanted = tree.spread_prefix(self.in_dims, structure)
        if wanted is None:
            raise ValueError(
                f"{at}: in_dims is not compatible with the structure of `inputs`: it must have "
                f"the same tuples, lists and dicts as the {len(args)} arguments, down to an "
                f"int or None for all that is below."
            )
        dims = [_in_dim(at, x, dim) for x, dim in zip(leaves, wanted, strict=True)]
        sizes = [x._shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None]
        if not sizes:
            raise ValueError(
                f"{at}: no input has a dimension to map over: every in_dim is None"
            )
        if len(set(sizes)) > 1:
            raise ValueError(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, "
                f"got sizes {sizes} for the mapped dimension"
            )
        return _Inputs(leaves, dims, structure, sizes[0])

    # -- the call

    def run(self, given: _Inputs, kwargs: dict[str, Any]) -> Any:
        """Call the function for all samples together."""
        with batching.batch_of(given.size, self.randomness, next_sequence()) as batch:
            samples = [
                x if d is None else batching.enter(x, batch.number, d)
                for x, d in zip(given.leaves, given.dims, strict=True)
            ]
            made = self.func(*tree.unflatten(list(samples), given.structure), **kwargs)
            results = self._results(made, batch.level)
            for x, sample, d in zip(given.leaves, samples, given.dims, strict=True):
                if d is not None and sample._storage.version:  # it was written in place
                    write(x, batching.leave(sample, batch.level, d), "vmap")
        return results

    def run_chunks(self, given: _Inputs, kwargs: dict[str, Any], sizes: Sequence[int]) -> Any:
        """Call the function for some samples at a time."""
        made, start = [], 0
        for size in sizes:
            made.append(self.run(given.part(start, size), kwargs))
            start += size
        parts = [tree.flatten(m)[0] for m in made]
        _, structure = tree.flatten(made[0])
        dims = self._out_dims(made[0], structure)
        joined = [
            same[0] if d is None else cat(list(same), d if d >= 0 else d + same[0].ndim)
            for d, same in zip(dims, zip(*parts, strict=True), strict=True)
        ]
        return tree.unflatten(joined, structure)

    # -- what comes out

    def _results(self, made: Any, level: tuple[int, int]) -> Any:
        leaves, structure = tree.flatten(made)
        for x in leaves:
            if not isinstance(x, Tensor):
                raise ValueError(
                    f"vmap({self.name}, ...): `{self.name}` must only return Tensors, got type "
                    f"{type(x)}."
                )
        dims = self._out_dims(made, structure)
        results = [self._result(x, level, d) for x, d in zip(leaves, dims, strict=True)]
        return tree.unflatten(results, structure)

    def _result(self, x: Any, level: tuple[int, int], dim: int | None) -> Any:
        if dim is None:
            if level in batching.levels_of(x):
                raise ValueError(
                    f"vmap({self.name}, ...): `{self.name}` can not return a BatchedTensor "
                    f"when out_dim is None"
                )
            return x
        return batching.leave(x, level, views.dim_index("vmap", dim, x.ndim + 1))

    def _out_dims(self, made: Any, structure: Any) -> Dims:
        """`out_dims` for each of the results."""
        at = f"vmap({self.name}, ..., out_dims={self.out_dims})"
        wanted = self.out_dims
        if structure is None and isinstance(wanted, tuple) and len(wanted) == 1:
            wanted = wanted[0]  # PyTorch takes a tuple of one for a function of one result
        dims = tree.spread_prefix(wanted, structure)
        if dims is None:
            raise ValueError(
                f"{at}(<inputs>): out_dims is not compatible with the structure of `outputs`: "
                f"{type(made).__name__} was returned"
            )
        if any(d is not None and (not isinstance(d, int) or isinstance(d, bool)) for d in dims):
            raise ValueError(
                f"{at}: `out_dims` must be an int, None or a python collection of ints that "
                f"say where the samples are to be in the outputs."
            )
        return dims


def _in_dim(at: str, x: Any, dim: Any) -> int | None:
    """The dimension of an input as a plain one; ValueError for what has none."""
    if dim is None:
        return None
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise ValueError(
            f"{at}: Got in_dim={dim} for an input but in_dim must be either an integer "
            f"dimension or None."
        )
    if not isinstance(x, Tensor):
        raise ValueError(
            f"{at}: Got in_dim={dim} for an input but the input is of type {type(x)}. We "
            f"cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -x.ndim <= dim < x.ndim:
        raise ValueError(
            f"{at}: Got in_dim={dim} for some input, but that input is a Tensor of "
            f"dimensionality {x.ndim} so expected in_dim to satisfy -{x.ndim} <= in_dim < "
            f"{x.ndim}."
        )
    return dim % x.ndim
