"""Programs around sizes that vary: what is steady is planned once, and values are the same."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.trace import varying
from rushlight.trace.trace import Trace, local

pytestmark = pytest.mark.usefixtures("nothing_recorded")
WIDTH, HEADS = 16, 2


class Decoder(nn.Module):
    """Two layers of attention over what came before."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.ModuleList([nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2)])
        self.out = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(2)])

    def forward(self, x, cache):
        kept = []
        for into, out, before in zip(self.into, self.out, cache, strict=True):
            parts = into(x).view(1, 1, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            q, k, v = parts.unbind(0)
            if before is not None:
                k, v = torch.cat([before[0], k], 2), torch.cat([before[1], v], 2)
            seen = F.scaled_dot_product_attention(q, k, v)
            x = torch.tanh(x + out(seen.transpose(1, 2).reshape(1, 1, WIDTH)))
            kept.append((k, v))
        return x, kept


def decoded(model: Decoder, steps: int) -> list[list[float]]:
    x, cache, found = torch.ones(1, 1, WIDTH), [None, None], []
    with torch.no_grad():
        for _ in range(steps):
            x, cache = model(x, cache)
            found.append(x.flatten().tolist())
    return found


def test_a_growing_cache_plans_only_what_it_touches(planned) -> None:
    torch.manual_seed(0)
    model = Decoder()
    decoded(model, varying.OFTEN + 3)
    planned.clear()
    decoded(model, varying.OFTEN + 9)
    assert len(planned) <= 2 * 6, "more than a program for each new size and its edges"
    assert max(planned) <= 4, "steady steps are planned again"


def test_values_do_not_depend_on_where_programs_end(monkeypatch) -> None:
    torch.manual_seed(0)
    model = Decoder()
    split = decoded(model, 14)
    again = decoded(model, 14)
    monkeypatch.setattr(varying, "_kinds", set())
    monkeypatch.setattr(varying, "_sizes", {})
    monkeypatch.setattr(varying, "OFTEN", 1000)
    monkeypatch.setattr(local, "trace", Trace())
    whole = decoded(model, 14)
    assert split == again == whole


def test_batches_of_many_sizes_stay_in_one_program(planned) -> None:
    """Everything has the size that varies, so nothing is steady."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    with torch.no_grad():
        for size in range(2, 12):
            planned.clear()
            model(torch.ones(size, 4)).tolist()
            assert len(planned) == 1


def test_layers_of_many_widths_are_not_taken_for_sizes_that_vary(planned) -> None:
    layers = [nn.Linear(a, b) for a, b in zip(range(4, 14), range(5, 15), strict=True)]
    model = nn.Sequential(*layers)
    with torch.no_grad():
        for _ in range(3):
            model(torch.ones(2, 4)).tolist()
    assert not varying.is_known()


def test_programs_with_gradients_are_whole(planned) -> None:
    weight = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        for size in range(2, 9):
            ((torch.ones(size, 3) * 2).sum(0) + 1).tolist()
    assert varying.is_known()
    for size in range(9, 12):
        planned.clear()
        (
            (torch.ones(3) * weight).exp() + (torch.ones(size, 3) * weight).sum(0)
        ).sum().backward()
        weight.grad.tolist()
        assert len(planned) == 1
        weight.grad = None


def test_an_optimizers_step_is_not_planned_for_each_new_size(planned) -> None:
    layer = nn.Linear(3, 2)
    step = torch.optim.AdamW(layer.parameters(), lr=0.1)

    def train(size: int) -> None:
        layer(torch.tensor(np.ones((size, 3), np.float32))).square().mean().backward()
        step.step()
        step.zero_grad()

    for size in range(2, 9):
        train(size)
    together = max(planned)
    planned.clear()
    train(9)
    train(10)
    assert len(planned) == 2
    assert max(planned) < together, "the optimizer's step is planned again"
    planned.clear()
    train(9)
    assert not planned


def test_writes_in_place_across_the_ends_of_programs() -> None:
    theirs = pytest.importorskip("torch")

    def run(library, sizes):
        found = []
        with library.no_grad():
            total = library.zeros(3)
            for size in sizes:
                data = library.tensor(np.arange(size * 3.0).reshape(size, 3))
                view = total[1:]
                total.add_(1)
                part = data.float().exp2().sum(0).log()
                view.mul_(part[1:])
                total[0] -= part[2]
                grown = library.cat([data, data[:1] * 2])
                grown[-1].add_(total)
                found += [total.numpy().copy(), grown.numpy().copy()]
        return found

    sizes = [2, 3, 4, 5, 6, 7, 3, 8, 9]
    for ours, expected in zip(run(torch, sizes), run(theirs, sizes), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5)
