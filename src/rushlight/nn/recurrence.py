"""Recurrent networks as plain functions of tensors.

The input's part of the gates is one matrix product for the whole sequence; an op of
`ops/recurrence.py` goes through time with it, (steps, batch, gates), to all states.

Note: one recurrence for padded and packed. Packed rows are spread over (steps, batch) after
that product, each sequence from its own start, or in the other direction from its own end, and
what follows it repeats its last row. Outputs and last states are picked from the states that
belong to the sequence; nobody reads the others, so they get no gradient.

The functions take the arguments of `torch.lstm` and its siblings, and of the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.ops.recurrence import GRU, LSTM, RNN
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
Run = Callable[[Tensor, State, Weights], State]  # (steps, batch, gates) to all states


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


# ---- all steps


def _run_rnn(cell: str) -> Run:
    def run(x: Tensor, start: State, w: Weights) -> State:
        return (RNN(x, w.w_hh, *start, cell=cell),)

    return run


def _run_gru(x: Tensor, start: State, w: Weights) -> State:
    bias = x.new_zeros(x.shape[-1]) if w.b_hh is None else w.b_hh
    return (GRU(x, w.w_hh, bias, *start)[0],)


def _run_lstm(x: Tensor, start: State, w: Weights) -> State:
    if w.w_hr is not None:
        return _unroll(_step_lstm, x, start, w)
    return tuple(LSTM(x, w.w_hh, *start)[:2])


def _unroll(step: Step, x: Tensor, start: State, w: Weights) -> State:
    """A step at a time, for cells that have no op of their own."""
    states = [start]
    for part in x.unbind(0):
        states.append(step(part, states[-1], w))
    return tuple(rl.stack(column, 0) for column in zip(*states, strict=True))


def _run_wide(run: Run, x: Tensor, start: State, w: Weights) -> State:
    """All states; half-precision recurrences are calculated in float32."""
    if x.dtype not in (rl.float16, rl.bfloat16):
        return run(x, start, w)
    wide = Weights(*(None if t is None else t.float() for t in w))
    states = run(x.float(), tuple(s.float() for s in start), wide)
    return tuple(s.to(x.dtype) for s in states)


class _Mode(NamedTuple):
    project: Callable[[Tensor, Weights], Tensor]
    step: Step
    run: Run


_MODES = {
    "RNN_TANH": _Mode(_project, _step_tanh, _run_rnn("rnn_tanh")),
    "RNN_RELU": _Mode(_project, _step_relu, _run_rnn("rnn_relu")),
    "LSTM": _Mode(_project, _step_lstm, _run_lstm),
    "GRU": _Mode(_project_gru, _step_gru, _run_gru),
}


# ---- one layer


class _Padded:
    """Rows that lie as (steps, batch, width): all sequences are as long."""

    def enter(self, x: Tensor, is_reversed: bool) -> Tensor:
        return x.flip(0) if is_reversed else x

    def leave(self, states: Tensor, is_reversed: bool) -> Tensor:
        return self.enter(states[1:], is_reversed)

    def last(self, states: Tensor) -> Tensor:
        return states[-1]


class _Packed:
    """Rows that lie as (rows, width), those of a step together, longest sequence first.

    Picking rows is what an embedding does: by indices that were made here, so never negative.
    """

    def __init__(self, batch_sizes: Sequence[int]) -> None:
        sizes = np.asarray(batch_sizes, np.int64)
        self.batch = int(sizes[0])
        sequence, step = np.arange(self.batch), np.arange(len(sizes))[:, None]
        lengths = (sizes > sequence[:, None]).sum(1)  # of each sequence
        starts = np.cumsum(sizes) - sizes  # where each step's rows begin
        turned = lengths - 1 - step  # the steps of each sequence from its end
        reads = np.minimum(step, lengths - 1), np.maximum(turned, 0)
        self._reads = [rl.tensor(starts[at] + sequence) for at in reads]
        is_there = step < lengths
        places = step * self.batch + sequence, turned * self.batch + sequence
        self._places = [rl.tensor(place[is_there]) for place in places]
        self._lasts = rl.tensor(lengths * self.batch + sequence)

    def enter(self, x: Tensor, is_reversed: bool) -> Tensor:
        return F.embedding(self._reads[is_reversed], x)

    def leave(self, states: Tensor, is_reversed: bool) -> Tensor:
        return F.embedding(self._places[is_reversed], states[1:].flatten(0, 1))

    def last(self, states: Tensor) -> Tensor:
        return F.embedding(self._lasts, states.flatten(0, 1))


def _run_layer(
    mode: _Mode,
    rows: Tensor,
    layout: _Padded | _Packed,
    starts: list[State],
    weights: list[Weights],
) -> tuple[Tensor, list[State]]:
    """One layer in one or both directions over all rows."""
    outputs, finals = [], []
    for is_reversed, start, w in zip((False, True), starts, weights, strict=False):
        x = layout.enter(mode.project(rows, w), is_reversed)
        states = _run_wide(mode.run, x, start, w)
        outputs.append(layout.leave(states[0], is_reversed))
        finals.append(tuple(layout.last(s) for s in states))
    return (outputs[0] if len(outputs) == 1 else rl.cat(outputs, -1)), finals


def run_network(
    name: str,
    rows: Tensor,
    layout: _Padded | _Packed,
    hx: State,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, State]:
    """All layers over rows; the last layer's output, and every layer's last state."""
    mode, directions = _MODES[name], 2 if bidirectional else 1
    weights = _group_weights(params, has_biases, num_layers * directions)
    starts = list(zip(*(h.unbind(0) for h in hx), strict=True))
    finals: list[State] = []
    for layer in range(num_layers):
        here = slice(layer * directions, (layer + 1) * directions)
        rows, states = _run_layer(mode, rows, layout, starts[here], weights[here])
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
    if input.shape[0] == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    options = (has_biases, num_layers, dropout, train, bidirectional)
    output, finals = run_network(name, input, _Padded(), hx, params, *options)
    return (output.transpose(0, 1) if batch_first else output), finals


def _recur(name: str, args: tuple[Any, ...], as_state: Callable[[Any], State]) -> Any:
    """Sort out the two forms of the call: padded input, or rows with batch sizes."""
    if len(args) < 8:
        raise TypeError(
            f"{name.lower()}() takes (input, hx, params, ...) or (data, batch_sizes, hx, "
            f"params, ...), but was given {len(args)} arguments"
        )
    is_packed = isinstance(args[1], Tensor) and not isinstance(args[2], (list, tuple))
    is_packed = is_packed or (isinstance(args[1], Tensor) and name == "LSTM")
    if is_packed:
        data, batch_sizes, hx, *rest = args
        return run_network(name, data, _Packed(batch_sizes.tolist()), as_state(hx), *rest)
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
