"""PyTorch's lower spellings against PyTorch, or against the functions they stand for."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from parity import check, check_error, normal

import rushlight
import rushlight.nn.functional as F

torch = pytest.importorskip("torch")

X = normal(2, 3, 4)
CHANNELS = normal(3)
POSITIVE = np.abs(CHANNELS) + 0.5


def test_normalisation():
    known = CHANNELS, CHANNELS, CHANNELS, POSITIVE
    check("batch_norm", X, *known, False, 0.1, 1e-5, False, grad=False)
    check("batch_norm", X, None, None, None, None, True, 0.1, 1e-5, False, second=False)
    check("instance_norm", X, CHANNELS, CHANNELS, None, None, True, 0.1, 1e-5, False,
          second=False)  # fmt: skip
    for dim in (0, 1, 2, -1):
        check("norm_except_dim", X, 2, dim)


@pytest.mark.filterwarnings("ignore")
def test_norms_of_old_names():
    for dims in ([0, 1], [1], []):
        check("frobenius_norm", X[0], dims)
    check("frobenius_norm", X, [0, 2], True)
    check("nuclear_norm", X[0], second=False)
    check("nuclear_norm", X, [0, 2], True, second=False)
    check("nuclear_norm", X, second=False)
    check_error(RuntimeError, "nuclear_norm", CHANNELS)
    check_error(RuntimeError, "frobenius_norm", X, [0, 1, 2])


def test_products():
    check("bilinear", X[:, :, 0], X[:, 0], normal(5, 3, 4), normal(5))
    weight = normal(6, 3, 3)
    check("convolution", normal(2, 3, 8), weight, normal(6), [2], [1], [1], False, [0], 1)
    turned = normal(3, 2, 3, 3)
    check("convolution", normal(1, 3, 4, 4), turned, None, [2, 2], [1, 1], [1, 1], True, [1, 1],
          1, second=False)  # fmt: skip
    check("native_channel_shuffle", normal(2, 6, 3), 3, grad=False)
    with pytest.raises(RuntimeError, match="spatial"):
        rushlight.convolution(
            rushlight.ones(2), rushlight.ones(2), None, [], [], [], False, [], 1
        )


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_losses(reduction):
    target = np.abs(normal(2, 3)) / 9
    x = X[:, :, 0]
    check("binary_cross_entropy_with_logits", x, target, None, POSITIVE, reduction, grad=False)
    check("kl_div", x, target, reduction, second=False)
    check("kl_div", x, target, reduction, log_target=True, second=False)
    check("poisson_nll_loss", x, target, True, False, 1e-8, reduction, second=False)
    scores = np.log(np.full((4, 2, 3), 1 / 3))
    labels, steps, lengths = np.array([[1, 2], [1, 1]]), np.array([4, 4]), np.array([2, 1])
    check("ctc_loss", scores, labels, steps, lengths, 0, reduction, False, second=False)


SIGNS = np.array([1.0, -1.0])


@pytest.mark.parametrize("reduction", [(), (0,), (1,), (2,)])
def test_a_reduction_is_a_number_and_none_if_nothing_is_said(reduction):
    x, y, z = normal(2, 3), normal(2, 3, seed=1), normal(2, 3, seed=2)
    check("hinge_embedding_loss", x[:, 0], SIGNS, 1.0, *reduction, second=False)
    check("margin_ranking_loss", x[:, 0], y[:, 0], SIGNS, 0.5, *reduction, second=False)
    check("cosine_embedding_loss", x, y, SIGNS, 0.1, *reduction, second=False)
    check("triplet_margin_loss", x, y, z, 1.0, 2.0, 1e-6, False, *reduction, second=False)
    check("kl_div", x, np.abs(y), *reduction, second=False)
    check("binary_cross_entropy_with_logits", x, np.abs(y) / 9, None, None, *reduction)


def test_results_are_tuples_where_they_are_in_pytorch():
    check("adaptive_max_pool1d", normal(1, 2, 5), 2, second=False)
    check("broadcast_tensors", normal(2, 1), normal(3))
    assert type(rushlight.broadcast_tensors(rushlight.ones(1))) is tuple
    assert not hasattr(rushlight, "soft_margin_loss")  # PyTorch has it in nn.functional alone


def test_a_reduction_that_there_is_not():
    x = rushlight.ones(2)
    with pytest.raises(ValueError, match="7 is not a valid value"):
        rushlight.kl_div(x, x, 7)


def test_dropout_and_what_was_kept():
    x = rushlight.arange(1.0, 1001).requires_grad_()
    out, keep = rushlight.native_dropout(x, 0.25, True)
    assert rushlight.equal(out, rushlight.where(keep, x / 0.75, 0))
    assert 0.6 < keep.float().mean() < 0.9
    out.sum().backward()
    assert rushlight.equal(x.grad, keep / 0.75)
    for p, train, kept in ((0.5, False, True), (0.0, True, True), (1.0, True, False)):
        out, keep = rushlight.native_dropout(x, p, train)
        assert bool((keep == kept).all())
        assert rushlight.equal(out, x * kept)
    assert not rushlight.native_dropout(x, 0.5, None)[1].all(), "drops, unless told not to"


@pytest.mark.parametrize("train", [True, False, None])
def test_what_was_kept_of_nothing(train):
    torch = pytest.importorskip("torch")
    want = torch.native_dropout(torch.ones(0, 3, dtype=torch.float64), 0.5, train)
    found = rushlight.native_dropout(rushlight.ones(0, 3, dtype=rushlight.float64), 0.5, train)
    assert [str(t.dtype).split(".")[1] for t in found] == [
        str(t.dtype).split(".")[1] for t in want
    ]
    assert [t.shape for t in found] == [t.shape for t in want]


def test_dropout_of_channels_and_in_place():
    x = rushlight.ones(50, 4, 3)
    out = rushlight.feature_dropout(x, 0.5, True)
    assert rushlight.equal(out, out[:, :, :1].expand(50, 4, 3))
    assert set(out.unique().tolist()) == {0.0, 2.0}
    for name in ("dropout_", "feature_dropout_", "alpha_dropout_", "feature_alpha_dropout_"):
        y = x.clone()
        assert getattr(rushlight, name)(y, 0.5, True) is y
        assert not rushlight.equal(y, x)
        assert getattr(rushlight, name)(y, 0.5, False) is y
    check_error(RuntimeError, "feature_dropout", CHANNELS, 0.5, True)


def test_random_slopes_without_training():
    check("rrelu", X, 0.1, 0.3, False)


def test_long_rows_of_a_table_are_scaled_in_place():
    table = rushlight.tensor([[3.0, 4.0], [6.0, 8.0], [0.3, 0.4]])
    index = rushlight.tensor([1, 2])
    assert rushlight.embedding_renorm_(table, index, 1.0, 2.0) is table
    expected = [[3.0, 4.0], [0.6, 0.8], [0.3, 0.4]]
    rushlight.testing.assert_close(table, rushlight.tensor(expected), rtol=1e-5, atol=1e-6)


def test_recurrent_networks():
    layer = rushlight.nn.LSTM(3, 5, batch_first=True)
    x = rushlight.randn(2, 4, 3)
    start = rushlight.zeros(1, 2, 5), rushlight.zeros(1, 2, 5)
    flags = (True, 1, 0.0, False, False, True)
    out, h, c = rushlight.lstm(x, start, layer._flat_weights, *flags)
    expected, (last, memory) = layer(x)
    for a, b in ((out, expected), (h, last), (c, memory)):
        assert rushlight.equal(a, b)
    cell = rushlight.nn.GRUCell(3, 5)
    row, state = x[:, 0], start[0][0]
    weights = cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh
    assert rushlight.equal(rushlight.gru_cell(row, state, *weights), cell(row, state))


# -- copies of views

COPIES = {
    "view": ((4, 3, 2),), "permute": ((2, 0, 1),), "transpose": (0, 2), "squeeze": (),
    "unsqueeze": (1,), "select": (1, 2), "diagonal": (0, 1, 2), "unfold": (2, 2, 1),
    "expand": ((5, 2, 3, 4),), "as_strided": ((2, 2), (3, 1), 1), "narrow": (1, 0, 2),
    "alias": (), "detach": (), "slice": (2, 1, 4, 2), "unbind": (1,), "split": (2, 1),
    "split_with_sizes": ([1, 2], 1),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_views(name):
    check(f"{name}_copy", X, *COPIES[name], second=False, grad=name != "detach")
    x = rushlight.tensor(X.tolist())
    function = getattr(rushlight, f"{name}_copy")
    made = function(x, *COPIES[name])
    for part in made if isinstance(made, tuple) else (made,):
        part.zero_()
    assert rushlight.equal(x, rushlight.tensor(X.tolist()))
    assert "out" in inspect.signature(function).parameters


def test_copies_of_complex_numbers():
    z = rushlight.tensor([1 + 2j, 3 - 1j])
    parts = rushlight.view_as_real_copy(z)
    assert parts.tolist() == [[1.0, 2.0], [3.0, -1.0]]
    assert rushlight.equal(rushlight.view_as_complex_copy(parts), z)
    parts.zero_()
    assert z.tolist() == [1 + 2j, 3 - 1j]


def test_copies_go_into_out():
    x, out = rushlight.arange(6.0).reshape(2, 3), rushlight.empty(0)
    assert rushlight.t_copy(x, out=out) is out
    assert rushlight.equal(out, x.T)


def test_memory_in_another_order():
    for shape, order in (((2, 3, 4), (2, 0, 1)), ((), ()), ((5,), (0,))):
        ours = rushlight.empty_permuted(shape, order, dtype=rushlight.int32)
        theirs = torch.empty_permuted(shape, order, dtype=torch.int32)
        assert ours.stride() == theirs.stride()
        assert tuple(ours.shape) == shape
    for order in ((0, 1), (0, 0, 1), (0, 1, 3)):
        with warnings.catch_warnings():
            check_error(RuntimeError, "empty_permuted", (2, 3, 4), order)


def test_methods_as_functions():
    x = rushlight.ones(2, requires_grad=True) * 2
    assert rushlight.detach_(x) is x
    assert not x.requires_grad
    assert rushlight.is_signed(x)
    assert not rushlight.is_signed(rushlight.ones(1, dtype=rushlight.uint8))
    assert rushlight.fill_(x, 3).tolist() == [3.0, 3.0]
    assert F.batch_norm is not rushlight.batch_norm
