"""Recurrent cells over whole sequences: one op forward and one backward for each kind of cell.

    states[t + 1] = cell(given[t], states[t] @ weight.T)

`given` is the input's part of the gates for all steps, (steps, batch, gates * units), which a
layer makes by one matrix product. Results are all states, the first ones included: (steps + 1,
batch, units). So what a step starts from is a view of them, and the weight's gradient is one
product over all of time.
"""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import config, errors
from rushlight import dtypes as dt
from rushlight.ops.contract import CONTRACT, matmul
from rushlight.ops.elementwise import WHERE
from rushlight.ops.joining import cat, stack
from rushlight.ops.registry import Op, TensorType

# -- what the cells share


def _check(op: str, gates: int, given: TensorType, weight: TensorType, *others: Any) -> None:
    """Refuse operands that do not fit; `others` are (type, wanted shape)."""
    steps, batch, width = given.shape
    units = width // gates
    shapes = [(weight, (gates * units, units)), *others]
    for operand, shape in shapes:
        if operand.dtype is not given.dtype:
            raise errors.mixed_dtypes(op, given.dtype, operand.dtype)
        if operand.shape != shape or width != gates * units:
            raise RuntimeError(
                f"{op}: expected an operand of shape {list(shape)} with an input part of shape "
                f"{list(given.shape)}, got {list(operand.shape)}"
            )
    if given.dtype not in (dt.float32, dt.float64):
        raise errors.wrong_dtype(op, given.dtype, "float32 or float64")
    assert steps, given


def _states(given: TensorType, units: int) -> TensorType:
    steps, batch, _ = given.shape
    return TensorType((steps + 1, batch, units), given.dtype)


def _kept(given: TensorType, width: int) -> TensorType:
    return TensorType((*given.shape[:2], width), given.dtype)


def _outputs(**types: TensorType) -> dict[str, Any]:
    return {name: (t.shape, t.dtype) for name, t in types.items()}


def _lined(k: Any, x: Any) -> Any:
    """x with the elements of its last dimension side by side, as kernels read it."""
    is_lined = x.view is None or x.view.strides[-1] == 1
    return x if is_lined else k.copy(x)


def _whole(k: Any, x: Any) -> Any:
    return x if x.view is None else k.copy(x)


def _is_zero(x: Any) -> bool:
    return bool(x.node.op == "const" and x.node.attrs[0] == 0)


def _weight_slope(gates: Any, hidden: Any) -> Any:
    """The gradient of rows of the weight, from that of their products in all steps."""
    return CONTRACT(gates, hidden[:-1], equation="tbg,tbu->gu")


def _through_sigmoid(out: Any) -> Any:
    return out * (1 - out)


# -- plain networks: tanh or relu


def rnn_type(
    given: TensorType, weight: TensorType, first_hidden: TensorType, cell: str
) -> TensorType:
    _, batch, units = given.shape
    _check("rnn", 1, given, weight, (first_hidden, (batch, units)))
    return _states(given, units)


def rnn_lower(k: Any, given: Any, weight: Any, first_hidden: Any, cell: str) -> Any:
    operands = {
        "given": _lined(k, given),
        "weight": weight,
        "first_hidden": _lined(k, first_hidden),
    }
    hidden = _states(given, weight.shape[1])
    return k.recurrence(cell, operands, _outputs(hidden=hidden))[0]


def rnn_vjp(g: Any, out: Any, given: Any, weight: Any, first_hidden: Any, cell: str) -> Any:
    if config.scopes.grad_enabled:
        gates, first = _rnn_slopes(g, out, weight, cell)
    else:
        gates, first = RNN_GRAD(g, out, weight, cell=cell)
    return gates, _weight_slope(gates, out), first


def _rnn_slopes(g: Any, hidden: Any, weight: Any, cell: str) -> tuple[Any, Any]:
    """The gradient in tensors, for higher orders."""
    after, slope, gates = hidden[1:], g[-1], []
    for t in reversed(range(len(after))):
        if cell == "rnn_tanh":
            through = slope * (1 - after[t] * after[t])
        else:
            through = WHERE(after[t] <= 0, 0, slope)
        gates.append(through)
        slope = matmul(through, weight) + g[t]
    return stack(gates[::-1], 0), slope


RNN = Op(  # all hidden states
    "rnn", attrs=("cell",), type=rnn_type, lower=rnn_lower, vjp=rnn_vjp
)


def rnn_grad_lower(k: Any, g: Any, hidden: Any, weight: Any, cell: str) -> Any:
    operands = {"slope": _lined(k, g), "hidden": _whole(k, hidden), "weight": weight}
    gates, first = rnn_grad_type(g, hidden, weight, cell)
    return tuple(k.recurrence_grad(cell, operands, _outputs(gates=gates, first_hidden=first)))


def rnn_grad_type(g: Any, hidden: Any, weight: Any, cell: str) -> tuple[TensorType, TensorType]:
    steps, batch, units = hidden.shape
    gates = TensorType((steps - 1, batch, units), hidden.dtype)
    return gates, TensorType((batch, units), hidden.dtype)


RNN_GRAD = Op(  # gradients of the input's part and of the first state
    "rnn_grad", attrs=("cell",), type=rnn_grad_type, lower=rnn_grad_lower, vjp=None
)


# -- gated recurrent units: reset, update, candidate


def gru_type(
    given: TensorType, weight: TensorType, bias: TensorType, first_hidden: TensorType
) -> tuple[TensorType, TensorType]:
    _, batch, width = given.shape
    units = width // 3
    _check("gru", 3, given, weight, (bias, (width,)), (first_hidden, (batch, units)))
    return _states(given, units), _kept(given, 4 * units)


def gru_lower(k: Any, given: Any, weight: Any, bias: Any, first_hidden: Any) -> Any:
    operands = {
        "given": _lined(k, given),
        "weight": weight,
        "bias": _lined(k, bias),
        "first_hidden": _lined(k, first_hidden),
    }
    units = weight.shape[1]
    outputs = _outputs(hidden=_states(given, units), kept=_kept(given, 4 * units))
    return tuple(k.recurrence("gru", operands, outputs))


def gru_vjp(
    g: Any, out: Any, given: Any, weight: Any, bias: Any, first_hidden: Any
) -> tuple[Any, Any, Any, Any]:
    """The candidate's hidden part has a gradient of its own: the reset gate acts on it."""
    hidden, kept = out
    if config.scopes.grad_enabled:
        gates, candidate, first = _gru_slopes(g[0], hidden, given, weight, bias)
    else:
        gates, candidate, first = GRU_GRAD(g[0], hidden, kept, weight)
    straight = gates[..., : 2 * weight.shape[1]]
    parts = [_weight_slope(straight, hidden), _weight_slope(candidate, hidden)]
    of_bias = cat([straight.sum((0, 1)), candidate.sum((0, 1))], 0)
    return gates, cat(parts, 0), of_bias, first


def _gru_slopes(
    g: Any, hidden: Any, given: Any, weight: Any, bias: Any
) -> tuple[Any, Any, Any]:
    """The gradient in tensors, for higher orders."""
    before = hidden[:-1]
    inner_r, inner_z, inner = (matmul(before, weight.t()) + bias).chunk(3, -1)
    given_r, given_z, given_n = given.chunk(3, -1)
    r, z = (given_r + inner_r).sigmoid(), (given_z + inner_z).sigmoid()
    n = (given_n + r * inner).tanh()
    to_new, to_z = (1 - z) * (1 - n * n), (before - n) * _through_sigmoid(z)
    to_r = inner * _through_sigmoid(r)
    slope, gates, candidates = g[-1], [], []
    for t in reversed(range(len(before))):
        new = slope * to_new[t]
        parts = [new * to_r[t], slope * to_z[t]]
        gates.append(cat([*parts, new], -1))
        candidates.append(new * r[t])
        slope = slope * z[t] + matmul(cat([*parts, new * r[t]], -1), weight) + g[t]
    return stack(gates[::-1], 0), stack(candidates[::-1], 0), slope


GRU = Op(  # all hidden states, and what backward needs
    "gru", type=gru_type, lower=gru_lower, vjp=gru_vjp
)


def gru_grad_type(
    g: Any, hidden: Any, kept: Any, weight: Any
) -> tuple[TensorType, TensorType, TensorType]:
    steps, batch, units = hidden.shape
    kind = hidden.dtype
    gates = TensorType((steps - 1, batch, 3 * units), kind)
    candidate = TensorType((steps - 1, batch, units), kind)
    return gates, candidate, TensorType((batch, units), kind)


def gru_grad_lower(k: Any, g: Any, hidden: Any, kept: Any, weight: Any) -> Any:
    operands = {
        "slope": _lined(k, g),
        "hidden": _whole(k, hidden),
        "kept": _whole(k, kept),
        "weight": weight,
    }
    gates, candidate, first = gru_grad_type(g, hidden, kept, weight)
    outputs = _outputs(gates=gates, candidate=candidate, first_hidden=first)
    return tuple(k.recurrence_grad("gru", operands, outputs))


GRU_GRAD = Op(  # gradients of the input's part, the candidate's hidden part, the first state
    "gru_grad", type=gru_grad_type, lower=gru_grad_lower, vjp=None
)


# -- long short-term memory: input, forget, candidate, output


def lstm_type(
    given: TensorType, weight: TensorType, first_hidden: TensorType, first_memory: TensorType
) -> tuple[TensorType, TensorType, TensorType]:
    _, batch, width = given.shape
    units = width // 4
    state = (batch, units)
    _check("lstm", 4, given, weight, (first_hidden, state), (first_memory, state))
    return _states(given, units), _states(given, units), _kept(given, 4 * units)


def lstm_lower(k: Any, given: Any, weight: Any, first_hidden: Any, first_memory: Any) -> Any:
    operands = {
        "given": _lined(k, given),
        "weight": weight,
        "first_hidden": _lined(k, first_hidden),
        "first_memory": _lined(k, first_memory),
    }
    units = weight.shape[1]
    states, kept = _states(given, units), _kept(given, 4 * units)
    outputs = _outputs(hidden=states, memory=states, kept=kept)
    return tuple(k.recurrence("lstm", operands, outputs))


def lstm_vjp(
    g: Any, out: Any, given: Any, weight: Any, first_hidden: Any, first_memory: Any
) -> tuple[Any, Any, Any, Any]:
    hidden, memory, kept = out
    if config.scopes.grad_enabled:
        gates, first, first_cell = _lstm_slopes(g[0], g[1], hidden, memory, given, weight)
    else:
        gates, first, first_cell = LSTM_GRAD(g[0], g[1], hidden, memory, kept, weight)
    return gates, _weight_slope(gates, hidden), first, first_cell


def _lstm_slopes(
    g: Any, g_memory: Any, hidden: Any, memory: Any, given: Any, weight: Any
) -> tuple[Any, Any, Any]:
    """The gradient in tensors, for higher orders."""
    i, f, a, o = (given + matmul(hidden[:-1], weight.t())).chunk(4, -1)
    i, f, a, o = i.sigmoid(), f.sigmoid(), a.tanh(), o.sigmoid()
    seen = memory[1:].tanh()
    into, to_o = o * (1 - seen * seen), seen * _through_sigmoid(o)
    to_i, to_a = a * _through_sigmoid(i), i * (1 - a * a)
    to_f = memory[:-1] * _through_sigmoid(f)
    slope, cell, gates = g[-1], g_memory[-1], []
    for t in reversed(range(len(given))):
        cell = cell + slope * into[t]
        parts = (cell * to_i[t], cell * to_f[t], cell * to_a[t], slope * to_o[t])
        gates.append(cat(parts, -1))
        slope, cell = matmul(gates[-1], weight) + g[t], cell * f[t] + g_memory[t]
    return stack(gates[::-1], 0), slope, cell


LSTM = Op(  # all hidden states, all cell states, and what backward needs
    "lstm", type=lstm_type, lower=lstm_lower, vjp=lstm_vjp
)


def lstm_grad_type(
    g: Any, g_memory: Any, hidden: Any, memory: Any, kept: Any, weight: Any
) -> tuple[TensorType, TensorType, TensorType]:
    steps, batch, units = hidden.shape
    first = TensorType((batch, units), hidden.dtype)
    return TensorType((steps - 1, batch, 4 * units), hidden.dtype), first, first


def lstm_grad_lower(
    k: Any, g: Any, g_memory: Any, hidden: Any, memory: Any, kept: Any, weight: Any
) -> Any:
    """Often nobody asked for the last cell state, and its gradient is nothing at all."""
    operands = {
        "slope": _lined(k, g),
        "hidden": _whole(k, hidden),
        "memory": _whole(k, memory),
        "kept": _whole(k, kept),
        "weight": weight,
    }
    if not _is_zero(g_memory):
        operands["memory_slope"] = _lined(k, g_memory)
    gates, first, _ = lstm_grad_type(g, g_memory, hidden, memory, kept, weight)
    outputs = _outputs(gates=gates, first_hidden=first, first_memory=first)
    return tuple(k.recurrence_grad("lstm", operands, outputs))


LSTM_GRAD = Op(  # gradients of the input's part and of both first states
    "lstm_grad", type=lstm_grad_type, lower=lstm_grad_lower, vjp=None
)
