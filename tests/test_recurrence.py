"""Recurrences in one kernel: against their formula and PyTorch, higher derivatives, and the
promises that bits depend on a sequence alone and that sizes compile nothing.
"""

from __future__ import annotations

import numpy as np
import pytest
from nn_parity import array, assert_same, check_module, pair, torch

import rushlight as rl
from rushlight import compiled
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.loops import recurrence_formula
from rushlight.nn import recurrence
from rushlight.ops.recurrence import GRU, GRU_GRAD, LSTM, LSTM_GRAD, RNN, RNN_GRAD
from rushlight.trace.trace import local

GATES = {"rnn_tanh": 1, "rnn_relu": 1, "gru": 3, "lstm": 4}
NETWORKS = {"RNN": {}, "GRU": {}, "LSTM": {}}
SIZES = [(1, 1, 1), (3, 5, 16), (4, 33, 20), (2, 70, 7), (5, 4, 130), (2, 9, 64)]


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def weight(gates, units, dtype=np.float32):
    return normal(gates * units, units, seed=1, dtype=dtype) / np.sqrt(units).astype(dtype)


def network(kind, *sizes, **options):
    """A layer whose weights are always the same."""
    module = getattr(rl.nn, kind)(*sizes, **options)
    with rl.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(rl.tensor(normal(*parameter.shape, seed=number) * 0.3))
    return module


def operands(cell, steps, batch, units, dtype):
    gates = GATES[cell]
    given = {
        "given": normal(steps, batch, gates * units, dtype=dtype),
        "weight": weight(gates, units, dtype),
        "first_hidden": normal(batch, units, seed=2, dtype=dtype),
    }
    if cell == "gru":
        given["bias"] = normal(gates * units, seed=3, dtype=dtype)
    if cell == "lstm":
        given["first_memory"] = normal(batch, units, seed=4, dtype=dtype)
    return given


def forward(cell, given):
    """The op's results by name, as tensors."""
    given = {
        name: rl.tensor(x) if isinstance(x, np.ndarray) else x for name, x in given.items()
    }
    if cell == "lstm":
        order = ("given", "weight", "first_hidden", "first_memory")
        return dict(zip(("hidden", "memory", "kept"), LSTM(*(given[n] for n in order))))
    if cell == "gru":
        order = ("given", "weight", "bias", "first_hidden")
        return dict(zip(("hidden", "kept"), GRU(*(given[n] for n in order))))
    return {"hidden": RNN(given["given"], given["weight"], given["first_hidden"], cell=cell)}


def backward(cell, slopes, results, weight):
    """The gradient op's results by name, as tensors."""
    if cell == "lstm":
        made = LSTM_GRAD(*slopes, *results.values(), weight)
        return dict(zip(("gates", "first_hidden", "first_memory"), made))
    if cell == "gru":
        made = GRU_GRAD(slopes[0], *results.values(), weight)
        return dict(zip(("gates", "candidate", "first_hidden"), made))
    made = RNN_GRAD(slopes[0], results["hidden"], weight, cell=cell)
    return dict(zip(("gates", "first_hidden"), made))


def assert_close(got, wanted, dtype):
    bound = {np.float32: 1e-5, np.float64: 1e-13}[dtype]
    for name, tensor in got.items():
        limit = bound * max(1.0, np.abs(wanted[name]).max(initial=0.0))
        assert np.abs(tensor.numpy() - wanted[name]).max(initial=0.0) <= limit, name


def wide(given):
    return {name: x.astype(np.float64) for name, x in given.items()}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("cell", GATES)
@pytest.mark.parametrize("steps, batch, units", SIZES)
def test_kernels_compute_the_formula(cell, steps, batch, units, dtype):
    given = operands(cell, steps, batch, units, dtype)
    results = forward(cell, given)
    assert_close(results, recurrence_formula.states(cell, wide(given)), dtype)
    slopes = [normal(steps + 1, batch, units, seed=s, dtype=dtype) for s in (5, 6)]
    made = backward(cell, [rl.tensor(s) for s in slopes], results, rl.tensor(given["weight"]))
    known = {name: x.numpy() for name, x in results.items()} | {"weight": given["weight"]}
    known |= {"slope": slopes[0], "memory_slope": slopes[1]}
    assert_close(made, recurrence_formula.slopes(cell, wide(known)), dtype)


@pytest.mark.parametrize("cell", GATES)
def test_operands_are_read_where_they_lie(cell):
    """Turned, reversed, expanded and cut operands give the bits of whole ones."""
    units, steps, batch = 12, 4, 6
    plain = operands(cell, steps, batch, units, np.float32)
    gates = GATES[cell] * units
    given = rl.tensor(normal(batch, steps + 2, gates + 3))
    strided = {name: rl.tensor(x) for name, x in plain.items()}
    strided["given"] = given.transpose(0, 1).flip(0)[1:-1, :, 2:-1]
    strided["weight"] = rl.tensor(plain["weight"].T.copy()).t()
    strided["first_hidden"] = rl.tensor(normal(batch, 1)).expand(batch, units)
    whole = {name: x.contiguous().clone() for name, x in strided.items()}
    results = forward(cell, strided)
    for name, x in forward(cell, whole).items():
        assert (x.numpy() == results[name].numpy()).all(), name
    slopes = [
        rl.tensor(normal(1, batch, 1, seed=s)).expand(steps + 1, -1, units) for s in (5, 6)
    ]
    made = backward(cell, slopes, results, strided["weight"])
    same = backward(cell, [s.clone() for s in slopes], results, whole["weight"])
    for name, x in same.items():
        assert (x.numpy() == made[name].numpy()).all(), name


# ---- layers


OPTIONS = [
    {"num_layers": 2}, {"bidirectional": True, "num_layers": 2, "bias": False},
    {"batch_first": True, "bidirectional": True},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("batch, units", [(1, 5), (9, 20)])
def test_layers_are_pytorchs(kind, options, batch, units):
    directions = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    h, c = (normal(directions, batch, units, seed=s) for s in (1, 2))
    x = normal(batch, 7, 3) if "batch_first" in options else normal(7, batch, 3)
    state = (h, c) if kind == "LSTM" else h
    close = {"rtol": 1e-4, "atol": 2e-5}
    check_module(lambda lib: getattr(lib.nn, kind)(3, units, **options), x, state, **close)


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_other_dtypes(kind, dtype):
    ours, theirs = pair(lambda lib: getattr(lib.nn, kind)(3, 20, 2))
    results = []
    for lib, module in ((rl, ours), (torch, theirs)):
        module.to(getattr(lib, dtype))
        x = lib.tensor(normal(6, 4, 3)).to(getattr(lib, dtype)).requires_grad_(True)
        out, state = module(x)
        assert out.dtype == x.dtype
        out.sum().backward()
        floats = [out, x.grad, *(p.grad for p in module.parameters())]
        results.append(array([t.detach().to(lib.float64) for t in floats]))
    tight = dtype == "float64"
    assert_same(*results, rtol=1e-9 if tight else 0.1, atol=1e-9 if tight else 0.25)


FUNCTIONS = {
    "rnn_tanh": recurrence.rnn_tanh,
    "rnn_relu": recurrence.rnn_relu,
    "gru": recurrence.gru,
    "lstm": recurrence.lstm,
}


@pytest.mark.parametrize("cell", GATES)
def test_first_and_second_derivatives(cell):
    rng, gates, units = np.random.default_rng(8), GATES[cell], 2
    shapes = [(3, 1, 1)] + [(1, 1, units)] * (1 + (cell == "lstm"))
    shapes += [(gates * units, 1), (gates * units, units), (gates * units,), (gates * units,)]
    inputs = [rl.tensor(rng.standard_normal(s)).requires_grad_(True) for s in shapes]

    def run(x, *rest):
        state, params = (rest[:-4] if cell == "lstm" else rest[0]), rest[-4:]
        return FUNCTIONS[cell](x, state, params, True, 1, 0.0, False, False, False)

    assert gradcheck(run, inputs)
    assert gradgradcheck(run, inputs)


# ---- packed sequences


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_packed_sequence_has_the_bits_it_has_alone(kind):
    tools, lengths = rl.nn.utils.rnn, [4, 9, 1, 6]
    module = network(kind, 3, 20, num_layers=2, bidirectional=True)
    alone = [rl.tensor(normal(n, 3, seed=n)) for n in lengths]
    packed = tools.pack_sequence(alone, enforce_sorted=False)
    out, state = module(packed)
    hidden = state[0] if kind == "LSTM" else state
    for i, part in enumerate(tools.unpack_sequence(out)):
        want, last = module(alone[i])
        last = last[0] if kind == "LSTM" else last
        assert (part.detach().numpy() == want.detach().numpy()).all()
        assert (hidden[:, i].detach().numpy() == last.detach().numpy()).all()


def test_what_follows_a_sequence_has_no_gradient():
    """The last row is read again for the steps that follow it: that must add nothing."""
    tools = rl.nn.utils.rnn
    module = network("GRU", 3, 5, bidirectional=True)
    gradients = []
    for lengths in ([6, 2], [2]):
        parts = [rl.tensor(normal(n, 3, seed=n)).requires_grad_(True) for n in lengths]
        out, state = module(tools.pack_sequence(parts))
        tools.unpack_sequence(out)[-1].sum().backward()
        gradients.append(parts[-1].grad.numpy())
    np.testing.assert_allclose(*gradients, rtol=1e-6, atol=1e-7)


# ---- bits and compiling


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_row_has_the_same_bits_in_any_batch(kind):
    module = network(kind, 5, 20)
    x = normal(6, 37, 5)

    def run(rows):
        given = rl.tensor(np.ascontiguousarray(x[:, rows])).requires_grad_(True)
        out, _ = module(given)
        (out * out).sum().backward()
        return out.detach().numpy(), given.grad.numpy()

    together = run(list(range(37)))
    for rows in ([0], [36], [3, 35], list(range(30, 37))):
        for got, want in zip(run(rows), together, strict=True):
            assert (got.view("u4") == want[:, rows].view("u4")).all()


def _step(module, optimizer, steps, batch, state=None):
    out, state = module(rl.randn(steps, batch, 4), state)
    optimizer.zero_grad()
    out[-1].square().mean().backward()
    optimizer.step()
    return tuple(h.detach() for h in state) if isinstance(state, tuple) else state.detach()


def _compiled():
    return compiled.kernels.counters.kernels + compiled.kernels.counters.disk_hits


@pytest.mark.parametrize("kind", NETWORKS)
def test_new_lengths_and_batches_compile_no_kernel(kind):
    module = network(kind, 4, 24, bidirectional=True)
    optimizer = rl.optim.SGD(module.parameters(), 1e-2)
    for steps, batch in ((32, 40), (24, 32), (48, 48)):
        _step(module, optimizer, steps, batch)
    before = _compiled()
    for steps, batch in ((16, 40), (40, 48), (37, 36)):
        _step(module, optimizer, steps, batch)
    assert _compiled() == before


def test_new_lengths_of_packed_sequences_compile_no_kernel():
    module = network("LSTM", 4, 24, bidirectional=True)

    def compiled_by(lengths):
        tools, x = rl.nn.utils.rnn, rl.randn(max(lengths), len(lengths), 4)
        packed = tools.pack_padded_sequence(x, rl.tensor(lengths))
        assert packed.data.isfinite().all()  # packing is done before the count begins
        before = _compiled()
        module(packed)[0].data.sum().backward()
        assert module.weight_hh_l0.grad.isfinite().all()
        return _compiled() - before

    compiled_by([32, 30, 25, 20])
    compiled_by([31, 29, 24, 16])
    assert compiled_by([40, 33, 20, 18, 12]) == 0


@pytest.mark.parametrize("kind", NETWORKS)
def test_windows_with_a_carried_state_record_nothing_new(kind):
    """As language models are trained: a state goes on from window to window, detached."""
    module = network(kind, 4, 24, num_layers=2, dropout=0.2)
    optimizer = rl.optim.Adam(module.parameters(), 1e-3)
    state = None
    for _ in range(4):
        state = _step(module, optimizer, 12, 8, state)
    edges, before = local.trace.edges, _compiled()
    for _ in range(3):
        state = _step(module, optimizer, 12, 8, state)
    assert (local.trace.edges, _compiled()) == (edges, before)


# ---- errors


@pytest.mark.parametrize(
    "given, weight, state",
    [((2, 3, 16), (16, 4), (2, 4)), ((2, 3, 16), (12, 4), (3, 4)), ((2, 3, 9), (8, 2), (3, 2))],
)
def test_operands_that_do_not_fit_are_refused(given, weight, state):
    with pytest.raises(RuntimeError, match="lstm: expected an operand of shape"):
        LSTM(rl.zeros(given), rl.zeros(weight), rl.zeros(state), rl.zeros(state))


def test_a_state_of_another_dtype_is_refused():
    for lib in (rl, torch):
        module = lib.nn.GRU(3, 4)
        with pytest.raises(RuntimeError, match="dtype"):
            module(lib.zeros(5, 2, 3), lib.zeros(1, 2, 4, dtype=lib.float64))
