"""Where several elements are put in one place, only the one that stays gets the gradient."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.nn import functional as F

DUPLICATES = [0, 2, 0, 1, 2]
LAST = [False, False, True, True, True]  # each element: is it the last in its place?


def _assign(base, index, v):
    base = base.clone()
    base[index] = v
    return base


PUTS = {
    "setitem": _assign,
    "index_put": lambda base, index, v: base.index_put((index,), v),
    "index_copy": lambda base, index, v: base.index_copy(0, index, v),
    "scatter": lambda base, index, v: base.scatter(0, index, v),
    "put_": lambda base, index, v: base.clone().put_(index, v),
}


@pytest.mark.parametrize("name", PUTS)
def test_only_the_value_that_stays_gets_the_gradient(name):
    base = torch.zeros(4, requires_grad=True)
    v = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    out = PUTS[name](base, torch.tensor(DUPLICATES), v)
    assert out.tolist() == [3.0, 4.0, 5.0, 0.0]
    (out * torch.tensor([10.0, 20.0, 30.0, 40.0])).sum().backward()
    assert v.grad.tolist() == [0.0, 0.0, 10.0, 20.0, 30.0]
    assert base.grad.tolist() == [0.0, 0.0, 0.0, 40.0]


def test_rows_and_second_derivatives():
    v = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    base = torch.zeros(4, 3, dtype=torch.float64)

    def loss(v):
        return (_assign(base, torch.tensor(DUPLICATES), v) ** 3).sum()

    (first,) = torch.autograd.grad(loss(v), v, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), v)
    stays = torch.tensor(LAST).reshape(5, 1)
    assert torch.allclose(first, torch.where(stays, 3 * v**2, 0))
    assert torch.allclose(second, torch.where(stays, 6 * v, 0))


def test_one_value_for_every_place_counts_each_place_once():
    v = torch.tensor(2.0, requires_grad=True)
    _assign(torch.zeros(4), torch.tensor(DUPLICATES), v).sum().backward()
    assert v.grad.item() == 3.0


def test_accumulated_values_all_get_the_gradient():
    v = torch.ones(5, requires_grad=True)
    torch.zeros(4).index_put((torch.tensor(DUPLICATES),), v, accumulate=True).sum().backward()
    assert v.grad.tolist() == [1.0] * 5


def test_a_pooled_maximum_that_two_windows_share_is_put_back_once():
    x = torch.tensor([[[1.0, 5.0, 2.0, 3.0]]])
    top, index = F.max_pool1d(x, 2, stride=1, return_indices=True)
    top = top.detach().requires_grad_()
    back = F.max_unpool1d(top, index, 2, stride=1, output_size=[4])
    assert back.tolist() == [[[0.0, 5.0, 0.0, 3.0]]]
    back.sum().backward()
    assert top.grad.tolist() == [[[0.0, 1.0, 1.0]]]
