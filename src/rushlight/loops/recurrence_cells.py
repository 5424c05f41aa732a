"""What one step of a recurrent cell does to a vector of units, forward and backward.

In: the writer of a function and vectors by meaning. Out: vectors again. Never memory: that is
the business of `recurrence_forward` and `recurrence_backward`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rushlight.loops.writer import Arithmetic, Writer


@dataclass(frozen=True, slots=True)
class Before:
    """What a step starts from: for each gate the input's part and the hidden state's, and the
    states (`memory` is the cell state of an LSTM).
    """

    given: list[str]
    products: list[str]
    bias: list[str]
    hidden: str
    memory: str


@dataclass(frozen=True, slots=True)
class After:
    """What a step makes: states, and what backward wants to know of it."""

    hidden: str
    memory: str = ""
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """What backward knows of a step: the gradients of the states after it, those states, the
    ones before it, and what was kept.
    """

    slope: str
    memory_slope: str
    hidden: str
    memory: str
    hidden_before: str
    memory_before: str
    kept: list[str]


@dataclass(frozen=True, slots=True)
class Slopes:
    """Gradients that a step passes on: of each gate's input part, of the candidate's hidden
    part (where that is another), of the cell state before the step, and of the hidden state
    before it, as far as that is not by way of the gates.
    """

    gates: list[str]
    candidate: str = ""
    memory: str = ""
    direct: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of recurrence. `gates` and `kept` count vectors for each vector of units.

    `has_memory`: there is a cell state beside the hidden state. `has_candidate`: the reset gate
    acts on the last gate's hidden part, which so has a bias and a gradient of its own.
    """

    name: str
    gates: int
    kept: int
    has_memory: bool
    has_candidate: bool
    forward: Callable[[Writer, Before], After]
    backward: Callable[[Writer, Known], Slopes]


def functions_of(cell: Cell, arithmetic: Arithmetic) -> frozenset[str]:
    """The vector mathematics that a cell may call."""
    names = ("tanh",) if cell.gates == 1 else ("sigmoid", "tanh")
    return frozenset(f"rl_{name}_{arithmetic.suffix}" for name in names)


def _call(w: Writer, function: str, x: str) -> str:
    return w.mathematics(f"rl_{function}_{w.arithmetic.suffix}", x)


def _of_sigmoid(w: Writer, slope: str, out: str) -> str:
    """A gradient taken through a sigmoid with this result."""
    rest = w.binary("fsub", w.number(1.0), out)
    return w.binary("fmul", slope, w.binary("fmul", out, rest))


def _of_tanh(w: Writer, slope: str, out: str) -> str:
    """A gradient taken through a hyperbolic tangent with this result."""
    return w.binary("fmul", slope, w.fma(_minus(w, out), out, w.number(1.0)))


def _minus(w: Writer, x: str) -> str:
    return w.let(f"fneg {w.arithmetic.vector} {x}")


def _sums(w: Writer, at: Before) -> list[str]:
    return [w.binary("fadd", x, h) for x, h in zip(at.given, at.products, strict=True)]


# ---- plain networks


def _tanh_forward(w: Writer, at: Before) -> After:
    return After(_call(w, "tanh", _sums(w, at)[0]))


def _tanh_backward(w: Writer, at: Known) -> Slopes:
    return Slopes([_of_tanh(w, at.slope, at.hidden)])


def _relu_forward(w: Writer, at: Before) -> After:
    (total,) = _sums(w, at)
    return After(w.choose(w.compare("ole", total, w.number(0.0)), w.number(0.0), total))


def _relu_backward(w: Writer, at: Known) -> Slopes:
    is_off = w.compare("ole", at.hidden, w.number(0.0))
    return Slopes([w.choose(is_off, w.number(0.0), at.slope)])


# ---- long short-term memory: input, forget, candidate and output gates


def _lstm_forward(w: Writer, at: Before) -> After:
    sums = _sums(w, at)
    enter, forget, leave = (_call(w, "sigmoid", sums[gate]) for gate in (0, 1, 3))
    candidate = _call(w, "tanh", sums[2])
    memory = w.fma(forget, at.memory, w.binary("fmul", enter, candidate))
    hidden = w.binary("fmul", leave, _call(w, "tanh", memory))
    return After(hidden, memory, (enter, forget, candidate, leave))


def _lstm_backward(w: Writer, at: Known) -> Slopes:
    enter, forget, candidate, leave = at.kept
    seen = _call(w, "tanh", at.memory)
    into = _of_tanh(w, w.binary("fmul", at.slope, leave), seen)
    memory = w.binary("fadd", at.memory_slope, into)
    gates = [
        _of_sigmoid(w, w.binary("fmul", memory, candidate), enter),
        _of_sigmoid(w, w.binary("fmul", memory, at.memory_before), forget),
        _of_tanh(w, w.binary("fmul", memory, enter), candidate),
        _of_sigmoid(w, w.binary("fmul", at.slope, seen), leave),
    ]
    return Slopes(gates, memory=w.binary("fmul", memory, forget))


# ---- gated recurrent units: reset, update and candidate


def _gru_forward(w: Writer, at: Before) -> After:
    inner = [w.binary("fadd", h, b) for h, b in zip(at.products, at.bias, strict=True)]
    reset, update = (
        _call(w, "sigmoid", w.binary("fadd", at.given[gate], inner[gate])) for gate in (0, 1)
    )
    candidate = _call(w, "tanh", w.fma(reset, inner[2], at.given[2]))
    hidden = w.fma(w.binary("fsub", at.hidden, candidate), update, candidate)
    return After(hidden, kept=(reset, update, candidate, inner[2]))


def _gru_backward(w: Writer, at: Known) -> Slopes:
    reset, update, candidate, inner = at.kept
    apart = w.binary("fsub", at.hidden_before, candidate)
    new = w.binary("fmul", at.slope, w.binary("fsub", w.number(1.0), update))
    new = _of_tanh(w, new, candidate)
    gates = [
        _of_sigmoid(w, w.binary("fmul", new, inner), reset),
        _of_sigmoid(w, w.binary("fmul", at.slope, apart), update),
        new,
    ]
    direct = w.binary("fmul", at.slope, update)
    return Slopes(gates, candidate=w.binary("fmul", new, reset), direct=direct)


CELLS = {
    cell.name: cell
    for cell in (
        Cell("rnn_tanh", 1, 0, False, False, _tanh_forward, _tanh_backward),
        Cell("rnn_relu", 1, 0, False, False, _relu_forward, _relu_backward),
        Cell("gru", 3, 4, False, True, _gru_forward, _gru_backward),
        Cell("lstm", 4, 4, True, False, _lstm_forward, _lstm_backward),
    )
}
