"""Another size of the same program needs no other kernel: sizes are not in a kernel's text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.compiled import kernels
from rushlight.tensor import Tensor

FEW = torch.tensor([0, 2, 1])


def _loaded() -> int:
    return kernels.counters.kernels + kernels.counters.disk_hits


def _gradient(function: Callable[[Tensor], Tensor], *sizes: int) -> Tensor:
    x = torch.rand(*sizes).requires_grad_()
    function(x).sum().backward()
    return x.grad


def _written(size: int) -> Tensor:
    x = torch.zeros(size, 4)
    x[FEW] = 1.0
    return x


def _normalised(size: int) -> Tensor:
    layer = torch.nn.BatchNorm1d(4)
    layer(torch.rand(size, 4)).sum().backward()
    return layer.running_var


CALLS: dict[str, Callable[[int], Tensor]] = {
    "index": lambda n: torch.rand(n, 4)[FEW],
    "index gradient": lambda n: _gradient(lambda x: x[FEW], n, 4),
    "index write": _written,
    "index_select": lambda n: torch.index_select(torch.rand(n, 4), 0, FEW),
    "gather": lambda n: torch.gather(torch.rand(n, 4), 0, FEW[:, None]),
    "one_hot": lambda n: F.one_hot(FEW, n),
    "scatter_add": lambda n: torch.zeros(n).scatter_add(0, FEW, torch.ones(3)),
    "flip": lambda n: torch.rand(n).flip(0),
    "roll": lambda n: torch.rand(n).roll(1),
    "tril": lambda n: torch.rand(n, n).tril(),
    "eye": lambda n: torch.eye(n),
    "arange": lambda n: torch.arange(n),
    "linspace": lambda n: torch.linspace(0, 1, n),
    "pad": lambda n: F.pad(torch.rand(n, n), (1, 1)),
    "mean": lambda n: torch.rand(n, n).mean(),
    "mean of rows": lambda n: torch.rand(n, n).mean(1),
    "mean gradient": lambda n: _gradient(torch.mean, n, n),
    "var": lambda n: torch.rand(n, n).var(),
    "std": lambda n: torch.rand(n, n).std(1),
    "norm": lambda n: torch.rand(n, n).norm(dim=1),
    "logsumexp": lambda n: torch.rand(n, n).logsumexp(0),
    "cov": lambda n: torch.cov(torch.rand(3, n)),
    "argmax": lambda n: torch.rand(n, n).argmax(),
    "sort": lambda n: torch.rand(n, n).sort().values,
    "topk": lambda n: torch.rand(n, n).topk(2).values,
    "cumsum": lambda n: torch.rand(n, n).cumsum(0),
    "softmax": lambda n: torch.rand(n, n).softmax(-1),
    "layer_norm": lambda n: F.layer_norm(torch.rand(3, n), (n,)),
    "rms_norm": lambda n: F.rms_norm(torch.rand(3, n), (n,)),
    "group_norm": lambda n: F.group_norm(torch.rand(3, 4, n), 2),
    "batch_norm": _normalised,
    "dropout": lambda n: F.dropout(torch.rand(n, n)),
    "cross_entropy": lambda n: F.cross_entropy(torch.rand(3, n), FEW),
    "cross_entropy, batch": lambda n: F.cross_entropy(
        torch.rand(n, 4), torch.zeros(n, dtype=torch.int64)
    ),
    "mse_loss": lambda n: F.mse_loss(torch.rand(n, n), torch.rand(n, n)),
    "max_pool2d": lambda n: F.max_pool2d(torch.rand(1, 1, 2 * n, 2 * n), 2),
    "max_pool2d gradient": lambda n: _gradient(
        lambda x: F.max_pool2d(x, 2), 1, 1, 2 * n, 2 * n
    ),
    "avg_pool2d": lambda n: F.avg_pool2d(
        torch.rand(1, 1, 2 * n, 2 * n), 3, 2, 1, count_include_pad=False
    ),
    "adaptive_avg_pool2d": lambda n: F.adaptive_avg_pool2d(torch.rand(1, 1, 4 * n, 4 * n), 2),
    "interpolate": lambda n: F.interpolate(
        torch.rand(1, 1, n, n), size=(16, 16), mode="bilinear"
    ),
    "grid_sample": lambda n: F.grid_sample(
        torch.rand(1, 2, n, n), torch.rand(1, 3, 3, 2), "bicubic", "reflection", True
    ),
    "unfold": lambda n: F.unfold(torch.rand(1, 2, n, n), 3),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_kernel_is_made_for_another_size(name: str) -> None:
    call = CALLS[name]
    for size in (13, 15):
        call(size).sum().item()
    before = _loaded()
    for size in (14, 17, 19, 23, 30):
        call(size).sum().item()
    assert _loaded() == before
