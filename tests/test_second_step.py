"""The second step of a training loop is free: no new edge in the trie, no new program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.autograd import engine
from rushlight.trace.trace import local
from rushlight.trace.trie import Edge


def programs_below(edge: Edge) -> int:
    found, waiting = 0, [edge]
    while waiting:
        edge = waiting.pop()
        found += len(edge.programs or ())
        waiting += edge.children.values()
    return found


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.out = nn.Linear(8, 11)

    def forward(self, x):
        return self.out(self.layer(self.embed(x))).flatten(0, 1)


def perceptron():
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Dropout(0.2), nn.Linear(5, 3))
    return model, lambda: (torch.randn(4, 6), torch.randint(3, (4,)))


def convolutions():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(36, 3),
    )  # fmt: skip
    return model, lambda: (torch.randn(4, 1, 8, 8), torch.randint(3, (4,)))


def transformer():
    return Attention(), lambda: (torch.randint(11, (2, 6)), torch.randint(11, (12,)))


@pytest.mark.parametrize("make", [perceptron, convolutions, transformer])
@pytest.mark.parametrize(
    "rule", [optim.AdamW, lambda p: optim.SGD(p, 0.1, momentum=0.9)], ids=["adamw", "sgd"]
)
def test_the_second_step_is_free(
    make: Callable, rule: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = make()
    optimizer = rule(model.parameters())
    data = [tuple(torch.tensor(t.tolist()) for t in batch()) for _ in range(4)]
    counts = []
    walks = []
    run = engine.Walk.run
    monkeypatch.setattr(engine.Walk, "run", lambda self: (walks.append(1), run(self))[1])
    for x, y in data:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        counts.append((local.trace.edges, programs_below(local.trace.root), len(walks)))
    assert len(set(counts)) == 1, counts


def test_parameters_made_by_hand_are_no_part_of_the_first_step() -> None:
    weight = torch.randn(5, 3, requires_grad=True)
    x = torch.ones(2, 5)
    edges = []
    for _ in range(3):
        (x @ weight).sum().backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
            weight.grad = None
        assert weight.isfinite().all()
        edges.append(local.trace.edges)
    assert edges[0] == edges[-1], edges


def asked(library, seed):
    """Gradients asked for in several ways, of one tape and of others."""
    rng = np.random.default_rng(seed)
    x, w, b, given = (
        library.tensor(rng.standard_normal(s)) for s in ((3, 4), (4, 2), 2, (3, 2))
    )
    leaves = [t.requires_grad_() for t in (x, w, b)]
    y = (x @ w + b).tanh()
    found = [*library.autograd.grad(y, leaves, given, retain_graph=True)]
    found += library.autograd.grad(y, [w], given)
    found += library.autograd.grad((x * x).sum(), x)
    through = library.autograd.grad(x + b.sum(), [x, b], library.ones(3, 4).double())
    through[0].mul_(2)
    found += through
    found += library.autograd.grad(((x * b[0]) * 2).sum(), [b, x, b])
    return [g.detach().numpy().copy() for g in found]


def test_gradients_that_are_asked_for_again_need_no_walk(monkeypatch) -> None:
    theirs = pytest.importorskip("torch")
    walks = []
    run = engine.Walk.run
    monkeypatch.setattr(engine.Walk, "run", lambda walk: (walks.append(walk), run(walk)))
    counts = []
    for seed in range(4):
        walks.clear()
        for ours, expected in zip(asked(torch, seed), asked(theirs, seed), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-12)
        counts.append(len(walks))
    assert counts[0] == 5
    assert counts[-1] < 5, "walks that were remembered were made again"


def test_a_walk_that_is_remembered_frees_its_nodes_too() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(3):
        y = (x * x).sum()
        torch.autograd.grad(y, x)
        with pytest.raises(RuntimeError, match="second time"):
            torch.autograd.grad(y, x)


def test_what_is_written_into_one_gradient_is_not_in_another() -> None:
    """The gradients of a sum's two operands may be one tensor, each time in the same way."""
    x, y = (torch.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    seen = []
    for _ in range(3):
        first, second = torch.autograd.grad(((x + y) * 3).sum(), [x, y])
        first.mul_(2)
        seen.append((first.tolist(), second.tolist()))
    assert seen[0] == seen[1] == seen[2]


def test_a_second_walk_of_a_freed_graph_is_no_missing_gradient() -> None:
    leaf = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
    inner = leaf.clone()
    inner.mul_(2)
    outer = inner.tanh()
    torch.autograd.grad(outer, [outer, leaf], torch.ones(3))
    for root in (inner, outer):
        with pytest.raises(RuntimeError, match="second time"):
            torch.autograd.grad(root.sum(), [outer, leaf], allow_unused=True)
