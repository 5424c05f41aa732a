"""Counts of a program's products are PyTorch's, for each module and in all."""

import importlib

import pytest

import rushlight
from rushlight.utils.flop_counter import FlopCounterMode


def total(t, run, display=False):
    mode = importlib.import_module(f"{t.__name__}.utils.flop_counter").FlopCounterMode
    with mode(display=display) as counter:
        kept = run(t)
    del kept
    return counter.get_total_flops()


def train(t, layer, *shape):
    """One backward; the layer, whose gradients are computed because somebody has it."""
    layer(t.ones(*shape)).sum().backward()
    return layer


RUNS = [
    lambda t: t.ones(3, 4) @ t.ones(4, 5),
    lambda t: t.bmm(t.ones(2, 3, 4), t.ones(2, 4, 5)),
    lambda t: t.einsum("bij,bjk->bik", t.ones(2, 3, 4), t.ones(2, 4, 5)),
    lambda t: t.nn.Linear(4, 5)(t.ones(2, 3, 4)).relu(),
    lambda t: train(t, t.nn.Linear(4, 5), 3, 4),
    lambda t: train(
        t, t.nn.Sequential(t.nn.Linear(4, 5), t.nn.ReLU(), t.nn.Linear(5, 2)), 3, 4
    ),
    lambda t: t.nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2)(t.ones(2, 4, 9, 8)),
    lambda t: t.nn.ConvTranspose2d(3, 4, 3, stride=2)(t.ones(2, 3, 5, 5)),
    lambda t: train(t, t.nn.Sequential(t.nn.Conv2d(3, 4, 3), t.nn.Conv2d(4, 2, 3)), 2, 3, 8, 8),
    lambda t: t.nn.MultiheadAttention(8, 2)(*[t.ones(5, 2, 8)] * 3),
    lambda t: t.ones(3, 3) + t.ones(3, 3),
]


@pytest.mark.parametrize("run", RUNS)
def test_totals_are_those_of_pytorch(run):
    torch = pytest.importorskip("torch")
    wanted = total(torch, run)
    assert [total(rushlight, run) for _ in range(3)] == [wanted] * 3  # also when remembered


def test_attention_is_counted():
    def run(t):
        q = t.ones(2, 4, 6, 8, requires_grad=True)
        t.nn.functional.scaled_dot_product_attention(q, q, q).sum().backward()
        return q

    forward = 2 * (2 * 2 * 4 * 6 * 6 * 8)  # two products
    assert total(rushlight, run) == forward + forward * 5 // 2  # and five


def test_counts_go_on_after_elements_were_read():
    with FlopCounterMode(display=False) as counter:
        x = rushlight.ones(3, 3) @ rushlight.ones(3, 3)
        x.sum().item()
        x @ x
    assert counter.get_total_flops() == 2 * 54
    rushlight.ones(3, 3) @ rushlight.ones(3, 3)
    assert counter.get_total_flops() == 2 * 54


def test_modules_have_their_part(capsys):
    nn = rushlight.nn
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    with FlopCounterMode(display=True) as counter:
        model(rushlight.ones(3, 4))
    counts = counter.get_flop_counts()
    assert counts["Sequential.0"] == {"linear": 120}
    assert counts["Sequential.2"] == {"linear": 60}
    assert counts["Global"] == counts["Sequential"] == {"linear": 180}
    printed = capsys.readouterr().out.splitlines()
    assert printed[2].split() == ["Sequential", "180", "100.00%"]
    assert "Sequential.2" in printed[4]
