"""`jvp` and `linearize`: forward mode for functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any  # functions of anything

from rushlight import tree
from rushlight.autograd import engine, tangents
from rushlight.autograd.grad_mode import enable_grad
from rushlight.config import scopes
from rushlight.func.arguments import check_tensors, output_leaves, split_aux
from rushlight.func.reverse import Derivation, finished
from rushlight.tensor import Tensor
from rushlight.trace.inputs import input_of
from rushlight.trace.write import current_node

Function = Callable[..., Any]
_JVP = "jvp(f, primals, tangents)"


def jvp(
    func: Function,
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """The output of `func` at `primals`, and its derivative in the direction `tangents`.

    primals, tangents: tuples of the same structure, the positional arguments of `func`.
    strict:            raise RuntimeError for an output that depends on no primal (its tangent
                       is zero otherwise).
    has_aux:           `func` returns (output, aux); the result is (output, tangent, aux).

    >>> import rushlight as torch
    >>> torch.func.jvp(torch.sin, (torch.tensor(0.0),), (torch.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    _check_pairs(primals, tangents)
    return jvp_of(func, primals, tangents, strict, has_aux)


def _check_pairs(primals: Any, tangents: Any) -> None:
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{_JVP}: Expected primals to be a tuple. E.g. it should be valid to call "
            "f(*primals)."
        )
    leaves, structure = tree.flatten(primals)
    given, own = tree.flatten(tangents)
    if own != structure:
        raise RuntimeError(
            f"{_JVP}: Expected primals and tangents to have the same python structure. For "
            "example, if primals is a tuple of 3 tensors, tangents also must be. Got primals "
            f"{primals!r} and tangents {tangents!r}"
        )
    if not leaves:
        raise RuntimeError(f"{_JVP}: Expected primals to contain at least one Tensor.")
    check_tensors(leaves, f"{_JVP}: Expected primals to only contain Tensors, got")
    check_tensors(given, f"{_JVP}: Expected tangents to only contain Tensors, got")


def jvp_of(func: Function, primals: Any, directions: Any, strict: bool, has_aux: bool) -> Any:
    """`jvp` of checked arguments."""
    leaves, structure = tree.flatten(primals)
    level = tangents.enter()
    try:
        pairs = zip(leaves, tree.flatten(directions)[0], strict=True)
        duals = [tangents.made_dual(x, t, level) for x, t in pairs]
        result = func(*tree.unflatten(duals, structure))
        output, aux = split_aux(_JVP, result, has_aux)
        outs, structure = output_leaves(_JVP, output)
        unpacked = [_unpacked(x, level, strict) for x in outs]
        aux = tree.map(lambda x: tangents.unpacked(x, level)[0], aux) if has_aux else None
    finally:
        tangents.leave(level)
    value, tangent = (
        tree.unflatten([finished(x) for x in part], structure)
        for part in zip(*unpacked, strict=True)
    )
    return (value, tangent, aux) if has_aux else (value, tangent)


def _unpacked(x: Any, level: tangents.Level, strict: bool) -> tuple[Any, Any]:
    value, tangent = tangents.unpacked(x, level)
    if tangent is None:
        if strict:
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the "
                "inputs. This is not allowed with strict=True."
            )
        tangent = x.new_zeros(x._shape)
    return value, tangent


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """The output of `func` at `primals`, and its derivative there as a linear function of
    tangents: `func` is called once, however many tangents follow.

    >>> import rushlight as torch
    >>> output, push = torch.func.linearize(torch.exp, torch.zeros(2))
    >>> push(torch.tensor([1.0, 3.0]))
    tensor([1., 3.])
    """
    level = Derivation(primals)
    try:
        with enable_grad():
            output = func(*level.arguments)
    finally:
        level.close()
    outs, structure = tree.flatten(output)
    linear = _Linear(level, outs)

    def push(*directions: Any) -> Any:
        given, own = tree.flatten(directions)
        if own != level.structure:
            raise RuntimeError(
                f"Expected the tangents {directions!r} to have the same argspec as the primals "
                f"{primals!r}"
            )
        for i, (t, x) in enumerate(zip(given, level.given, strict=True)):
            _check_direction(i, t, x)
        return tree.unflatten(linear.push(given), structure)

    value = [level.finished(x) if isinstance(x, Tensor) else x for x in outs]
    return tree.unflatten(value, structure), push


def _check_direction(i: int, tangent: Any, primal: Any) -> None:
    for what in ("shape", "dtype"):
        own, wanted = getattr(tangent, what), getattr(primal, what)
        if own != wanted:
            raise RuntimeError(
                f"tangent:{i} with {what} {own!r} in flattened pytree doesn't match the {what} "
                f"{wanted!r} of the corresponding primal."
            )


class _Linear:
    """The derivative of a function that has been called: its gradients are recorded once, for
    cotangents that nobody reads, and are linear in them; their transpose takes tangents.
    """

    def __init__(self, level: Derivation, outs: Sequence[Any]) -> None:
        self.level, self.outs = level, outs
        self.smooth = [x for x in outs if isinstance(x, Tensor) and current_node(x) is not None]
        with enable_grad():
            self.cotangents = [
                input_of(tangents.zeros_like(x), is_linked=False) for x in self.smooth
            ]
            self.pulled = level.gradients(self.smooth, self.cotangents, True)
        for c in self.cotangents:
            c._node.is_open = False

    def push(self, directions: Sequence[Any]) -> list[Any]:
        pulled = tree.flatten(self.pulled)[0]
        pairs = [(p, t) for p, t in zip(pulled, directions, strict=True) if p.requires_grad]
        is_history = scopes.grad_enabled and (
            self.level.leads_outside(self.smooth) or any(t.requires_grad for t in directions)
        )
        walk = engine.Walk(True, is_history)
        walk.start([p for p, _ in pairs], [t for _, t in pairs])
        found = iter(walk.run_to([(c._node, 0) for c in self.cotangents]))
        known = {id(x): next(found) for x in self.smooth}
        return [self._tangent(x, known.get(id(x))) for x in self.outs]

    def _tangent(self, out: Any, found: Any) -> Any:
        if found is not None or not isinstance(out, Tensor):
            return out if found is None else found
        return out.new_zeros(out._shape)
