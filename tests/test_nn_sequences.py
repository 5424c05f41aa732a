"""Recurrent layers, packed sequences, attention and transformers against PyTorch."""

import numpy as np
import pytest
from nn_parity import array, assert_same, both_raise, check_module, pair, torch

import rushlight as rl

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def build(name, *args, **kwargs):
    return lambda lib: getattr(lib.nn, name)(*args, **kwargs)


OPTIONS = [
    {}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True, "bias": False},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers(name, options):
    check_module(build(name, 3, 4, **options), normal(5, 2, 3), **CLOSE)
    check_module(build(name, 3, 4, **options), normal(5, 3), **CLOSE)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_relu_and_projection():
    check_module(build("RNN", 3, 4, nonlinearity="relu"), normal(5, 2, 3), **CLOSE)
    check_module(build("LSTM", 3, 4, 2, proj_size=2), normal(5, 2, 3), **CLOSE)


def test_a_first_state_is_used():
    h, c = normal(1, 2, 4, seed=1), normal(1, 2, 4, seed=2)
    check_module(build("GRU", 3, 4), normal(5, 2, 3), h, **CLOSE)
    check_module(build("LSTM", 3, 4), normal(5, 2, 3), (h, c), **CLOSE)


@pytest.mark.parametrize("name", ["RNNCell", "GRUCell", "LSTMCell"])
def test_cells(name):
    check_module(build(name, 3, 4), normal(2, 3), **CLOSE)
    check_module(build(name, 3, 4), normal(3), **CLOSE)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(
    "name, options", [("RNN", {}), ("GRU", {}), ("LSTM", {}), ("LSTM", {"proj_size": 2})]
)
@pytest.mark.parametrize("is_sorted", [True, False])
def test_packed_sequences(name, options, is_sorted):
    lengths = [5, 3, 2] if is_sorted else [2, 5, 3]
    ours, theirs = pair(build(name, 3, 4, num_layers=2, bidirectional=True, **options))
    results = []
    for lib, module in ((rl, ours), (torch, theirs)):
        tools = lib.nn.utils.rnn
        x = lib.tensor(normal(5, 3, 3)).requires_grad_(True)
        packed = tools.pack_padded_sequence(x, lengths, enforce_sorted=is_sorted)
        out, state = module(packed)
        padded, sizes = tools.pad_packed_sequence(out, padding_value=-1.0, total_length=6)
        (padded * padded).sum().backward()
        results.append(array([padded, sizes, state, x.grad, out.batch_sizes]))
    assert_same(*results, **CLOSE)


def test_padding_and_unpadding():
    results = []
    for lib in (rl, torch):
        tools = lib.nn.utils.rnn
        parts = [lib.tensor(normal(n, 2, seed=n)) for n in (4, 2, 3)]
        padded = tools.pad_sequence(parts, padding_value=9.0, padding_side="left")
        packed = tools.pack_sequence(parts, enforce_sorted=False)
        results.append(array([padded, packed.data, tools.unpack_sequence(packed)]))
    assert_same(*results)


ATTENTION = [
    {}, {"bias": False, "batch_first": True}, {"add_bias_kv": True, "add_zero_attn": True},
    {"kdim": 3, "vdim": 5},
]  # fmt: skip


@pytest.mark.parametrize("options", ATTENTION)
@pytest.mark.parametrize("need_weights", [True, False])
def test_attention(options, need_weights):
    ours, theirs = pair(build("MultiheadAttention", 4, 2, **options))
    wide = (options.get("kdim", 4), options.get("vdim", 4))
    n, length = (3, 6) if options.get("batch_first") else (6, 3)
    q, k, v = normal(n, length, 4), normal(n, length, wide[0]), normal(n, length, wide[1])
    steps, batch = (6, 3) if options.get("batch_first") else (n, length)
    if options.get("batch_first"):
        steps, batch = length, n
    hidden = np.zeros((batch, steps), bool)
    hidden[:, -1] = True
    mask = np.triu(np.ones((steps, steps), bool), 2)
    results = []
    for lib, module in ((rl, ours), (torch, theirs)):
        x = [lib.tensor(a).requires_grad_(True) for a in (q, k, v)]
        out, weights = module(
            *x,
            key_padding_mask=lib.tensor(hidden),
            attn_mask=lib.tensor(mask),
            need_weights=need_weights,
            average_attn_weights=False,
        )
        (out * out).sum().backward()
        results.append(array([out, weights, [t.grad for t in x]]))
    assert_same(*results, **CLOSE)


@pytest.mark.parametrize("norm_first", [True, False])
def test_transformer_layers(norm_first):
    options = {"dim_feedforward": 8, "dropout": 0.0, "norm_first": norm_first}
    check_module(build("TransformerEncoderLayer", 4, 2, **options), normal(5, 2, 4), **CLOSE)
    decoder = build("TransformerDecoderLayer", 4, 2, activation="gelu", **options)
    check_module(decoder, normal(3, 2, 4), normal(5, 2, 4, seed=1), **CLOSE)


def test_transformer():
    make = build("Transformer", 4, 2, 1, 1, dim_feedforward=8, dropout=0.0, batch_first=True)
    ours, theirs = pair(make)
    assert repr(ours) == repr(theirs)
    results = []
    for lib, module in ((rl, ours), (torch, theirs)):
        mask = lib.nn.Transformer.generate_square_subsequent_mask(3)
        src, tgt = lib.tensor(normal(2, 5, 4)), lib.tensor(normal(2, 3, 4, seed=1))
        results.append(array([mask, module(src, tgt, tgt_mask=mask, tgt_is_causal=True)]))
    assert_same(*results, **CLOSE)


@pytest.mark.parametrize(
    "make",
    [
        build("LSTM", 3, 0),
        build("LSTM", 3, 4, proj_size=4),
        build("GRU", 3, 4, bias=1),
        build("RNN", 3, 4, nonlinearity="sin"),
        build("MultiheadAttention", 5, 2),
        lambda lib: lib.nn.GRU(3, 4)(lib.ones(2, 2, 5)),
        lambda lib: lib.nn.GRU(3, 4)(lib.ones(2, 2, 3), lib.ones(1, 3, 4)),
        lambda lib: lib.nn.GRU(3, 4)(lib.ones(2, 2, 3), lib.ones(1, 4)),
        lambda lib: lib.nn.LSTMCell(3, 4)(lib.ones(2, 2)),
        lambda lib: lib.nn.utils.rnn.pad_sequence([lib.ones(1)], padding_side="top"),
    ],
)
def test_messages_are_pytorchs(make):
    both_raise(make)
