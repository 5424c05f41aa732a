"""Forward mode: the tangent of every differentiable op, dual tensors, custom functions."""

from __future__ import annotations

import numpy as np
import pytest
from differentiable_programs import Step, steps, x

import rushlight as torch
import rushlight.autograd.forward_ad as fwAD
from rushlight.autograd import tangents
from rushlight.ops.registry import OPS

# Ops without a step of their own to check, and why.
VIEWS = {
    "reshape", "permute", "expand", "slice", "select", "pick", "diagonal", "as_strided",
    "unfold", "split", "unbind",
}  # fmt: skip
ONLY_HISTORY = {"write_region", "overwritten"}  # gradient nodes, which no program computes
REFUSED = {  # one kernel for the first gradient; further ones use formulas in tensors
    "attention_grad", "rnn_grad", "gru_grad", "lstm_grad",
}  # fmt: skip
WITHOUT = {  # PyTorch has no derivative either, or there is nothing to differentiate
    "floor_divide", "geqrf", "count_batch", "to_meta", "nextafter_half",
}  # fmt: skip
BATCHES = {"enter_batch", "leave_batch", "spread_batch"}  # test_func.py differentiates vmap
EXEMPT = VIEWS | ONLY_HISTORY | REFUSED | WITHOUT | BATCHES
NAMES = [op.name for op in OPS.values() if op.is_differentiable and op.name not in EXEMPT]
# Differentiable by definition rather than by numbers: their gradient is what PyTorch says.
DEFINED = {
    "ctc_loss": "the gradient includes the normalisation of the scores",
    "ctc_loss_gradient": "only linear in the cotangent",
    "linalg.cholesky": "the operand is symmetric: a direction that is not leaves the domain",
    "linalg.eigh": "as for cholesky",
    "linalg.eigvalsh": "as for cholesky",
    "linalg.lstsq": "only the solution has a derivative",
    "linalg.lu_factor": "pivots are part of the results",
    "median": "its second operand is found among the elements of the first",
    "padded_embedding": "the gradient of the padding is zero by definition",
    "unrelated": "the gradient is zero by definition",
    "cast": "rounds to float32",
}
# Operands that have a derivative, and how many results have one, where that is not all of them.
OPERANDS = {
    "zeta": (1,), "gammainc": (1,), "gammaincc": (1,), "resample": (0,), "resample_grad": (0,),
}  # fmt: skip
RESULTS = {"attention": 1, "gru": 1, "lstm": 2}


@pytest.fixture(scope="module")
def recorded() -> dict[str, Step]:
    return steps()


def directions(step: Step) -> list:
    """A random tangent for each operand that may have one."""
    stream = np.random.default_rng(5)
    chosen = OPERANDS.get(step.op.name, range(len(step.operands)))
    return [
        torch.from_numpy(_normal(stream, o)).to(o.dtype)
        if i in chosen and hasattr(o, "_storage") and tangents.is_smooth(o)
        else None
        for i, o in enumerate(step.operands)
    ]


def _normal(stream, o):
    drawn = stream.standard_normal(tuple(o.shape))
    return drawn + 1j * stream.standard_normal(tuple(o.shape)) if o.is_complex() else drawn


def results(step: Step, operands) -> tuple:
    out = step.op(*operands, **dict(zip(step.op.attrs, step.attrs, strict=True)))
    return out if isinstance(out, tuple) else (out,)


@pytest.mark.parametrize("name", NAMES)
def test_the_tangent_of_an_op_is_its_derivative_in_a_direction(name, recorded):
    assert name in recorded, "add a program that records it to differentiable_programs.py"
    step = recorded[name]
    given = directions(step)
    out = results(step, step.operands)
    whole = out if len(out) > 1 else out[0]
    found = tangents.tangents_of(step.op, step.attrs, step.operands, given, whole)
    transposed = tangents.transposed(
        step.op, step.attrs, [_tensor(o) for o in step.operands], given, whole
    )
    for made, other in zip(found, transposed, strict=True):
        if made is not None:
            torch.testing.assert_close(made, other)
    if name in DEFINED:
        return
    eps = 1e-6
    up, down = (
        results(step, [o if t is None else o + sign * eps * t for o, t in pairs(step, given)])
        for sign in (1, -1)
    )
    count = RESULTS.get(name, len(out))
    for made, a, b in zip(found[:count], up[:count], down[:count], strict=True):
        if made is not None:
            torch.testing.assert_close(made, (a - b) / (2 * eps), rtol=1e-4, atol=1e-6)


def pairs(step, given):
    return zip(step.operands, given, strict=True)


def _tensor(o):
    return o if hasattr(o, "_storage") else torch.tensor(o)


def test_every_exempt_op_exists():
    assert set(OPS) >= EXEMPT | set(DEFINED)
