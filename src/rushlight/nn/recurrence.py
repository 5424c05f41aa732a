"""Recurrent networks as plain functions of tensors.

Note: one recurrence for padded and packed. The rows of all time steps lie under each other; a
list of batch sizes says how many belong to each step. A padded batch is the case in which all
sizes are equal. The input's part of the gates is one matrix product for the whole sequence;
each step adds the hidden state's part, one product of (rows, hidden) with the weight.

The functions take the arguments of `torch.lstm` and its siblings, and of the cells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.tensor import Tensor

State = tuple[Tensor, ...]


class Weights(NamedTuple):
    """The parameters of one layer in one direction."""

    w_ih: Tensor
    w_hh: Tensor
    b_ih: Tensor | None
    b_hh: Tensor | None
    w_hr: Tensor | None


Step = Callable[[Tensor, State, Weights], State]


# ---- one step


def _project(rows: Tensor, w: Weights) -> Tensor:
    """The input's part of the gates, with both biases."""
    bias = None if w.b_ih is None else w.b_ih + w.b_hh
    return F.linear(rows, w.w_ih, bias)


def _project_gru(rows: Tensor, w: Weights) -> Tensor:
    """The input's part of the gates; the hidden bias stays inside the reset gate's reach."""
    return F.linear(rows, w.w_ih, w.b_ih)


def _step_tanh(x: Tensor, state: State, w: Weights) -> State:
    return (rl.tanh(x + F.linear(state[0], w.w_hh)),)


def _step_relu(x: Tensor, state: State, w: Weights) -> State:
    return (rl.relu(x + F.linear(state[0], w.w_hh)),)


def _step_lstm(x: Tensor, state: State, w: Weights) -> State:
    h, c = state
    i, f, g, o = (x + F.linear(h, w.w_hh)).chunk(4, 1)
    c = rl.sigmoid(f) * c + rl.sigmoid(i) * rl.tanh(g)
    h = rl.sigmoid(o) * rl.tanh(c)
    if w.w_hr is not None:
        h = F.linear(h, w.w_hr)
    return h, c


def _step_gru(x: Tensor, state: State, w: Weights) -> State:
    (h,) = state
    x_r, x_z, x_n = x.chunk(3, 1)
    h_r, h_z, h_n = F.linear(h, w.w_hh, w.b_hh).chunk(3, 1)
    n = rl.tanh(x_n + rl.sigmoid(x_r + h_r) * h_n)
    return ((h - n) * rl.sigmoid(x_z + h_z) + n,)


class _Mode(NamedTuple):
    project: Callable[[Tensor, Weights], Tensor]
    step: Step


_MODES = {
    "RNN_TANH": _Mode(_project, _step_tanh),
    "RNN_RELU": _Mode(_project, _step_relu),
    "LSTM": _Mode(_project, _step_lstm),
    "GRU": _Mode(_project_gru, _step_gru),
}


# ---- one layer


def _run_forward(mode: _Mode, parts: Any, state: State, w: Weights) -> tuple[list[Any], State]:
    """Step through the sequence; rows whose sequence has ended leave with their state."""
    outputs, ended = [], []
    for x in parts:
        rows = x.size(0)
        if rows < state[0].size(0):
            ended.append(tuple(s[rows:] for s in state))
            state = tuple(s[:rows] for s in state)
        state = mode.step(x, state, w)
        outputs.append(state[0])
    if ended:
        columns = zip(state, *reversed(ended), strict=True)
        state = tuple(rl.cat(column, 0) for column in columns)
    return outputs, state


def _run_backward(mode: _Mode, parts: Any, start: State, w: Weights) -> tuple[list[Any], State]:
    """Step from the end; rows come in where their sequence ends."""
    outputs = []
    state = tuple(s[: parts[-1].size(0)] for s in start)
    for x in reversed(parts):
        have, rows = state[0].size(0), x.size(0)
        if rows > have:
            pairs = zip(state, start, strict=True)
            state = tuple(rl.cat((s, first[have:rows]), 0) for s, first in pairs)
        state = mode.step(x, state, w)
        outputs.append(state[0])
    return outputs[::-1], state


def _run_layer(
    mode: _Mode, rows: Tensor, sizes: list[int], starts: list[State], weights: list[Weights]
) -> tuple[Tensor, list[State]]:
    """One layer in one or both directions over all rows."""
    outputs, finals = [], []
    for run, start, w in zip((_run_forward, _run_backward), starts, weights, strict=False):
        parts = mode.project(rows, w).split(sizes, 0)
        steps, final = run(mode, parts, start, w)
        outputs.append(rl.cat(steps, 0))
        finals.append(final)
    return (outputs[0] if len(outputs) == 1 else rl.cat(outputs, 1)), finals


def run_network(
    name: str,
    rows: Tensor,
    sizes: list[int],
    hx: State,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, State]:
    """All layers over packed rows; the last layer's output, and every layer's last state."""
    mode, directions = _MODES[name], 2 if bidirectional else 1
    weights = _group_weights(params, has_biases, num_layers * directions)
    starts = list(zip(*(h.unbind(0) for h in hx), strict=True))
    finals: list[State] = []
    for layer in range(num_layers):
        here = slice(layer * directions, (layer + 1) * directions)
        rows, states = _run_layer(mode, rows, sizes, starts[here], weights[here])
        finals.extend(states)
        if dropout and train and layer + 1 < num_layers:
            rows = F.dropout(rows, dropout, True)
    return rows, tuple(rl.stack(column, 0) for column in zip(*finals, strict=True))


def _group_weights(params: Any, has_biases: bool, count: int) -> list[Weights]:
    each = len(params) // count
    groups = []
    for start in range(0, count * each, each):
        part = list(params[start : start + each])
        has_projection = each == (5 if has_biases else 3)
        w_hr = part.pop() if has_projection else None
        b_ih, b_hh = part[2:4] if has_biases else (None, None)
        groups.append(Weights(part[0], part[1], b_ih, b_hh, w_hr))
    return groups


# ---- PyTorch's functions


def _padded(
    name: str,
    input: Tensor,
    hx: State,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool = False,
) -> tuple[Tensor, State]:
    if batch_first:
        input = input.transpose(0, 1)
    steps, batch = input.shape[:2]
    if steps == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    rows, finals = run_network(
        name,
        input.reshape(steps * batch, input.size(2)),
        [batch] * steps,
        hx,
        params,
        has_biases,
        num_layers,
        dropout,
        train,
        bidirectional,
    )
    output = rows.view(steps, batch, rows.size(1))
    return (output.transpose(0, 1) if batch_first else output), finals


def _recur(name: str, args: tuple[Any, ...], as_state: Callable[[Any], State]) -> Any:
    """Sort out the two forms of the call: padded input, or rows with batch sizes."""
    is_packed = isinstance(args[1], Tensor) and not isinstance(args[2], (list, tuple))
    is_packed = is_packed or (isinstance(args[1], Tensor) and name == "LSTM")
    if is_packed:
        data, batch_sizes, hx, *rest = args
        return run_network(name, data, batch_sizes.tolist(), as_state(hx), *rest)
    input, hx, *rest = args
    return _padded(name, input, as_state(hx), *rest)


def _one(hx: Tensor) -> State:
    return (hx,)


def rnn_tanh(*args: Any) -> tuple[Tensor, Tensor]:
    """A recurrent network with tanh; the output and the last hidden states."""
    output, (h,) = _recur("RNN_TANH", args, _one)
    return output, h


def rnn_relu(*args: Any) -> tuple[Tensor, Tensor]:
    """A recurrent network with ReLU; the output and the last hidden states."""
    output, (h,) = _recur("RNN_RELU", args, _one)
    return output, h


def gru(*args: Any) -> tuple[Tensor, Tensor]:
    """Gated recurrent units (Cho et al., 2014); the output and the last hidden states."""
    output, (h,) = _recur("GRU", args, _one)
    return output, h


def lstm(*args: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Long short-term memory; the output and the last hidden and cell states."""
    output, (h, c) = _recur("LSTM", args, tuple)
    return output, h, c


def _cell(name: str, input: Tensor, hx: State, parts: tuple[Any, ...]) -> State:
    w = Weights(*parts, None)
    mode = _MODES[name]
    return mode.step(mode.project(input, w), hx, w)


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> Tensor:
    """One step of `rnn_tanh`."""
    return _cell("RNN_TANH", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> Tensor:
    """One step of `rnn_relu`."""
    return _cell("RNN_RELU", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> Tensor:
    """One step of `gru`."""
    return _cell("GRU", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


def lstm_cell(
    input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> tuple[Tensor, Tensor]:
    """One step of `lstm`: hidden and cell state."""
    h, c = _cell("LSTM", input, tuple(hx), (w_ih, w_hh, b_ih, b_hh))
    return h, c
