"""Statements of random programs that call an operator as PyTorch's tests do, with operands of
the program in place of the sample's where they fit.
"""

from __future__ import annotations

import functools
import itertools
import random
import re
import types
import warnings
import zlib
from typing import Any

import program_tables as tables
import torch
from program_draws import (
    DTYPES,
    KINDS,
    PLAIN,
    WEIGHTS,
    Draw,
    Refused,
    execute,
    literal,
    names_of,
    tensors_in,
)


@functools.cache
def database() -> dict[str, Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.full_name: op for op in op_db if not re.search(tables.NOT_SAMPLED, op.full_name)}


@functools.cache
def samples_of(name: str, dtype: torch.dtype) -> list[Any]:
    """Some samples of an operator, always the same ones."""
    seed = zlib.crc32(f"{name} {dtype}".encode())
    torch.manual_seed(seed)
    random.seed(seed)
    __import__("numpy").random.seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        op = database()[name]
        made = op.sample_inputs_func(op, "cpu", dtype, False)  # without a seed for each
        found = [s for s in itertools.islice(made, 60) if _small(s)]
    return found


def _small(sample: Any) -> bool:
    parts = (sample.input, *sample.args, *sample.kwargs.values())
    return all(t.numel() <= 500 for _, t in tensors_in(parts)) and not any(
        t.layout is not torch.strided for _, t in tensors_in(parts)
    )


def sampled(draw: Draw) -> None:
    """A call of some operator as PyTorch's tests call it."""
    if not draw.samples:
        raise Refused
    rng = draw.rng
    name = rng.choice(list(database()))
    op = database()[name]
    allowed = [d for d in DTYPES if d in op.supported_dtypes("cpu")]
    if not allowed:
        raise Refused
    dtype = draw.dtype
    if dtype not in allowed or rng.random() < 0.3:
        dtype = rng.choices(allowed, [WEIGHTS[DTYPES.index(d)] for d in allowed])[0]
    state = torch.get_rng_state()
    found = samples_of(name, dtype)
    torch.set_rng_state(state)
    if not found:
        raise Refused
    sample = rng.choice(found)
    adopted = rng.random() < 0.7 and name not in tables.OF_SORTED
    for adopts in (adopted, False):
        try:
            call(draw, op, sample, adopts)
            return
        except Refused:
            continue
    raise Refused


def call(draw: Draw, op: Any, sample: Any, adopts: bool) -> None:
    """One sample of an operator as a statement, in one of its forms."""
    rng, lines = draw.rng, []
    solves = re.search(tables.SOLVING, op.name) is not None  # equal rows are singular matrices

    def source(value: Any, first: bool = False) -> str:
        if isinstance(value, torch.Tensor):
            if adopts and rng.random() < 0.7:
                try:
                    fits = draw.fitted(value.shape, value.dtype, repeats=not solves)
                    return draw.tempered(fits, value.dtype)
                except Refused:
                    pass
            text = literal(value, 12 if "linalg" in op.name else 4)
            if not first and rng.random() < 0.5:
                return text
            if value.dtype.is_floating_point and rng.random() < 0.6 and op.supports_autograd:
                text += ".requires_grad_()"
            before = draw.new()
            draw.run(f"{before} = {text}")
            lines.append(before)
            return before
        if isinstance(value, torch.Size):
            return repr(tuple(value))
        if isinstance(value, tuple):
            return f"({''.join(source(v) + ', ' for v in value)})"
        if isinstance(value, list):
            return f"[{', '.join(map(source, value))}]"
        if isinstance(value, slice):
            return f"slice({value.start}, {value.stop}, {value.step})"
        if isinstance(value, torch.device):
            return repr(str(value))
        if value is None or value is Ellipsis or isinstance(value, PLAIN):
            return repr(value)
        raise Refused

    x = source(sample.input, True)
    args = [source(a) for a in sample.args]
    args += [f"{k}={source(v)}" for k, v in sample.kwargs.items()]
    form, text = formed(draw, op, x, args)
    try:
        if rng.random() < 0.04:
            text = "with torch.no_grad():\n    " + text
        draw.run(text)
    except Refused:
        for name in reversed(lines):  # inputs that only this call would have used
            if name in names_of(draw.lines[-1])[1]:
                draw.lines.pop()
                del draw.names[name]
        raise
    draw.drawn.append(form)


def formed(draw: Draw, op: Any, x: str, args: list[str]) -> tuple[str, str]:
    """The function, the method, the in-place form, or the one with `out=`."""
    rng = draw.rng
    last = op.name.rsplit(".", 1)[-1]
    aliases = [a.name.removeprefix("torch.") for a in op.aliases]
    names = [n for n in (op.name, *aliases) if _exists(n)]
    forms = []
    new = draw.new()
    if names:
        path = rng.choice(names)
        forms += [(f"torch.{path}", f"{new} = torch.{path}({', '.join([x, *args])})")] * 4
        if op.supports_out and not path.startswith("nn."):
            text = f"torch.{path}({', '.join([x, *args])})"
            forms.append((f"torch.{path}(out=)", with_out(draw, text)))
    if isinstance(getattr(torch.Tensor, last, None), property | types.GetSetDescriptorType):
        forms.append((f"Tensor.{last}", f"{new} = {x}.{last}"))
    elif hasattr(torch.Tensor, last):
        forms += [(f"Tensor.{last}", f"{new} = {x}.{last}({', '.join(args)})")] * 2
    if hasattr(torch.Tensor, last + "_") and not last.startswith("_"):
        forms += [(f"Tensor.{last}_", f"{new} = {x}.{last}_({', '.join(args)})")] * 2
    if not forms:
        raise Refused
    return rng.choice(forms)


def with_out(draw: Draw, call: str) -> str:
    """The call with `out=`: an empty tensor, or one of the program that has nothing to do with
    the arguments.
    """
    new, names = draw.new(), dict(draw.names)
    try:
        execute(f"with torch.no_grad():\n    {new} = {call}", names)
    except Exception:
        raise Refused from None
    read = [t for n in names_of(call)[0] for _, t in tensors_in(names[n])]
    memories = {_memory(t) for t in read}
    outs = []
    for _, made in tensors_in(names[new]):
        fits = [
            e
            for e, t in draw.tensors()
            if t.shape == made.shape
            and t.dtype is made.dtype
            and not t.requires_grad
            and _memory(t) not in memories
        ]
        outs.append(draw.rng.choice([*fits, f"torch.empty(0, dtype={made.dtype})"]))
    out = outs[0] if isinstance(names[new], torch.Tensor) else f"({', '.join(outs)},)"
    return f"with torch.no_grad():\n    {new} = {call[:-1]}, out={out})"


def _memory(t: torch.Tensor) -> int:
    try:
        return t.untyped_storage().data_ptr()
    except RuntimeError:  # it has none
        raise Refused from None


@functools.cache
def _exists(path: str) -> bool:
    found: Any = torch
    for part in path.split("."):
        found = getattr(found, part, None)
    return found is not None


KINDS[sampled] = 45
