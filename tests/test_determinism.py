"""The same bits: with one thread or two, a row alone or in a batch, AVX2 or AVX-512, any
process.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import rushlight as torch
from rushlight import compiled
from rushlight.nn import functional as F
from rushlight.trace.trace import local

RNG = np.random.default_rng(7)

# A small network of every kind of kernel, trained for two steps; prints a digest of its bits.
PROGRAM = """
import hashlib
import numpy as np
import rushlight as torch
from rushlight import nn
rng = np.random.default_rng(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.LayerNorm(32)
        self.qkv = nn.Linear(32, 96)
        self.gru = nn.GRU(32, 20, batch_first=True)
        self.lstm = nn.LSTM(20, 16, batch_first=True, bidirectional=True)
        self.out = nn.Linear(32, 5)
    def forward(self, x):
        x = self.conv(x).relu().flatten(2).transpose(1, 2)
        x = self.norm(x.reshape(x.shape[0], -1, 32))
        q, k, v = self.qkv(x).chunk(3, -1)
        x = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = self.lstm(self.gru(x)[0])[0]
        return self.out(torch.nn.functional.gelu(x)).mean(1)
net = Net()
with torch.no_grad():
    for p in net.parameters():
        p.copy_(torch.tensor(rng.standard_normal(tuple(p.shape)).astype("f4") * 0.1))
opt = torch.optim.AdamW(net.parameters(), 1e-2)
x = torch.tensor(rng.standard_normal((6, 3, 8, 8)).astype("f4"))
y = torch.tensor(rng.integers(0, 5, 6))
for _ in range(2):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
digest = hashlib.sha256(loss.detach().numpy().tobytes())
for p in net.parameters():
    digest.update(p.detach().numpy().tobytes())
print(digest.hexdigest())
"""


def _digest(**environment: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return run.stdout.strip()


def test_two_processes_and_any_number_of_threads_give_the_same_bits():
    one = _digest(RUSHLIGHT_NUM_THREADS="1")
    assert one == _digest(RUSHLIGHT_NUM_THREADS="2")
    assert one == _digest(RUSHLIGHT_NUM_THREADS="3")


def test_narrower_vectors_give_the_same_bits():
    assert _digest() == _digest(RUSHLIGHT_CPU="haswell")


W = torch.tensor(RNG.standard_normal((24, 40)).astype("f4"))
KERNEL = torch.tensor(RNG.standard_normal((6, 3, 3, 3)).astype("f4"))
ROWS = {
    "matmul": ((40,), lambda x: x @ W.t()),
    "linear": ((40,), lambda x: F.linear(x, W)),
    "layer_norm": ((40,), lambda x: F.layer_norm(x, (40,))),
    "softmax": ((40,), lambda x: x.softmax(-1)),
    "conv2d": ((3, 9, 9), lambda x: F.conv2d(x, KERNEL, padding=1)),
    "conv2d strided": ((3, 9, 9), lambda x: F.conv2d(x, KERNEL, stride=2)),
    "conv2d depthwise": ((6, 9, 9), lambda x: F.conv2d(x, KERNEL[:, :1], groups=6)),
    "conv2d of whole vectors": ((3, 18, 18), lambda x: F.conv2d(x, KERNEL)),
    "conv_transpose2d": ((6, 9, 9), lambda x: F.conv_transpose2d(x, KERNEL, stride=2)),
    "max_pool2d": ((3, 9, 9), lambda x: F.max_pool2d(x, 3, 2, 1)),
    "attention": ((2, 7, 16), lambda x: F.scaled_dot_product_attention(x, x, x)),
    "gelu": ((40,), F.gelu),
    "sum": ((5, 9), lambda x: x.sum(-1)),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_alone_and_in_a_batch(name):
    shape, function = ROWS[name]
    batch = torch.tensor(RNG.standard_normal((17, *shape)).astype("f4"))
    together = function(batch).numpy()
    for row in (0, 5, 16):
        alone = function(batch[row : row + 1].clone()).numpy()
        assert (alone[0].view("u4") == together[row].view("u4")).all()


def _training(batch: int):
    net = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    opt = torch.optim.AdamW(net.parameters(), 1e-3)

    def step(size: int = batch) -> None:
        x, y = torch.randn(size, 12), torch.randint(0, 3, (size,))
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()

    return step


def test_later_steps_record_and_compile_nothing():
    step = _training(8)
    for _ in range(3):
        step()
    edges, kernels = local.trace.edges, compiled.kernels.counters.kernels
    for _ in range(3):
        step()
    assert (local.trace.edges, compiled.kernels.counters.kernels) == (edges, kernels)


def test_a_new_batch_size_compiles_no_kernel():
    """Once it is known that sizes vary: then steps are cut before the optimizer's."""
    step = _training(32)
    for size in (32, 40, 48, 56, 72):
        step(size)
    counters = compiled.kernels.counters
    before = counters.kernels + counters.disk_hits
    for size in (88, 104, 112, 120):
        step(size)
    assert counters.kernels + counters.disk_hits == before
