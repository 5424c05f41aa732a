"""Long paths made of parts: turns of a loop are planned once, and values are the same."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn, parts, repeats
from rushlight.trace.trace import Trace, local

pytestmark = pytest.mark.usefixtures("nothing_recorded")
WIDTH = 6


@pytest.fixture
def nothing_whole(monkeypatch) -> None:
    """Every path with a few ops is cut every few ops, whether it repeats itself or not."""
    monkeypatch.setattr(repeats, "FEWEST", 1)
    monkeypatch.setattr(repeats, "cuts", lambda steps: list(range(2, len(steps), 2)))


def recurrent(seed: int = 0):
    torch.manual_seed(seed)
    cell, head = nn.LSTMCell(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.1)

    def step(length: int) -> list[float]:
        x = torch.tensor(np.sin(np.arange(length * 12, dtype=np.float32)).reshape(-1, 2, 6))
        h = c = torch.zeros(2, WIDTH)
        loss = 0.0
        for t in range(length):
            h, c = cell(x[t], (h, c))
            loss = loss + head(h).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return [loss.item(), *cell.weight_hh.flatten().tolist()]

    return step


def test_a_new_length_of_a_recurrence_plans_no_turn(planned) -> None:
    step = recurrent()
    for length in (6, 9, 8, 12, 7):
        step(length)
    planned.clear()
    step(15)
    step(10)
    assert not planned


def test_first_lengths_are_planned_whole(planned) -> None:
    step = recurrent()
    for length in (6, 9, 8):
        step(length)
    assert max(planned) > 8 * 16
    assert not any(not p.is_whole for p in _programs())


def test_values_do_not_depend_on_parts(monkeypatch) -> None:
    lengths = (6, 9, 8, 12, 7, 15, 9)
    together = [step(n) for step in [recurrent()] for n in lengths]
    assert any(not p.is_whole for p in _programs())
    monkeypatch.setattr(local, "trace", Trace())
    monkeypatch.setattr(repeats, "cuts", lambda steps: [])
    assert [step(n) for step in [recurrent()] for n in lengths] == together


def _programs():
    edges = [local.trace.root]
    while edges:
        edge = edges.pop()
        edges += edge.children.values()
        yield from (edge.programs or {}).values()


def test_gradients_summed_up_over_batches_of_many_sizes(planned) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, 1))
    sizes = [2, 3, 4, 5] * 50

    def summed() -> list[float]:
        random.shuffle(sizes)
        model.zero_grad()
        for size in sizes:
            model(torch.ones(size, WIDTH)).square().mean().backward()
        return model[0].weight.grad.flatten().tolist()

    first = summed()
    assert max(planned) < 200, "hundreds of turns are planned as one program"
    planned.clear()
    assert summed() == pytest.approx(first, rel=1e-4)
    assert sum(planned) < 300


def test_rows_of_something_with_gradients_are_one_turn(planned) -> None:
    """`z[:, t]` reads another place in each turn, and so does its gradient."""
    torch.manual_seed(0)
    table, cell = nn.Embedding(20, WIDTH), nn.GRUCell(WIDTH, WIDTH)

    def step(length: int) -> list[float]:
        z = table(torch.arange(2 * length).reshape(2, length) % 20)
        h = torch.zeros(2, WIDTH)
        for t in range(length):
            h = cell(z[:, t], h)
        table.zero_grad()
        h.sum().backward()
        return table.weight.grad.flatten().tolist()

    for length in (9, 12, 11, 10):
        step(length)
    planned.clear()
    step(30)
    assert sum(planned) < 300, "every turn is planned by itself"


def test_a_path_that_runs_often_is_planned_whole(planned, monkeypatch) -> None:
    monkeypatch.setattr(parts, "SETTLED", 2)
    step = recurrent()
    for length in (6, 9, 8, 12, 12, 12):
        step(length)
    planned.clear()
    step(12)
    assert len(planned) <= 1
    assert all(p.is_whole or p._runs <= 2 for p in _programs())


def test_an_index_out_of_range_in_a_turn_names_its_line(nothing_whole) -> None:
    table = torch.arange(12.0).reshape(4, 3)
    kept = torch.zeros(3)
    total = torch.zeros(3)
    where = torch.tensor([0, 3, 1, 4, 2])
    for t in range(5):
        total = (total + torch.embedding(table, where[t])).tanh() * 2
        if t == 1:
            kept.add_(total)
    with pytest.raises(IndexError, match=r"index 4 is not within.*test_parts.py"):
        total.tolist()
    assert kept.tolist() != [0.0, 0.0, 0.0], "a write from before the failed step is lost"


def test_writes_reach_their_memory(nothing_whole) -> None:
    x = torch.arange(6.0)
    seen, part = x.numpy(), x[2:4]
    before = x * 1
    for i in range(6):
        x.mul_(1.5).sub_(i)
        part.add_(x[4:])
    expected = before.numpy().copy()
    for i in range(6):
        expected = (expected * np.float32(1.5) - np.float32(i)).astype(np.float32)
        expected[2:4] += expected[4:]
    assert x.tolist() == expected.tolist() == seen.tolist()
    assert before.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_result_may_be_an_input_or_a_number(nothing_whole) -> None:
    n = torch.tensor(3.0)
    y = n
    for _ in range(8):
        y = y * 2 + 1
    assert (y.item(), n.item()) == (1023.0, 3.0)


def test_explain_shows_the_parts(nothing_whole) -> None:
    def chain(x):
        for _ in range(6):
            x = (x * 2).sin()
        return x

    found = torch.explain(chain, torch.ones(3))
    assert len(found.programs) == 6
    assert "test_parts.py" in str(found)


def test_a_compiled_function_is_planned_whole(nothing_whole) -> None:
    @torch.compile(mode="reduce-overhead")
    def chain(x):
        for _ in range(6):
            x = (x * 2).sin()
        return x

    results = [chain(torch.ones(3)).tolist() for _ in range(4)]
    assert results == [results[0]] * 4
    assert chain.reason == ""


def test_gradients_of_samples_are_summed_up_as_in_one_program(
    nothing_whole, monkeypatch
) -> None:
    """`ir/sums.py` makes the sum in the product, which rounds once."""
    monkeypatch.setattr(repeats, "cuts", lambda steps: list(range(1, len(steps))))
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = torch.randn(60, 3)

    def summed() -> list[list[float]]:
        net.zero_grad()
        torch.vmap(net)(x).square().sum().backward()
        return [p.grad.flatten().tolist() for p in net.parameters()]

    found = summed()
    monkeypatch.setattr(repeats, "cuts", lambda steps: [])
    monkeypatch.setattr(local, "trace", Trace())
    assert summed() == found


def test_loops_are_found_by_their_ops() -> None:
    ops = list(itertools.islice(itertools.cycle("abcd"), 40))
    found = list(repeats._repeats(["x", *ops, "y", "z"]))
    assert found == [(1, 4, 10)]
    nested = ["p", *"abcabcabcq" * 5, "r"]
    assert (1, 10, 5) in list(repeats._repeats(nested))
