"""What recording costs: microseconds an operation on the hit path, nothing computed.

    python -m benchmarks.record_cost [--count 300] [--repeats 30]

Each row records the same steps again and again in fresh traces whose results nobody keeps, so a
flush has nothing to do; the minimum over the repeats is printed. PyTorch's dispatch of such
operations takes 1 to 1.4 us.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import rushlight as rl
from rushlight.trace.trace import flush

Step = Callable[[rl.Tensor, rl.Tensor], rl.Tensor]


def chain(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
    """Three operations of tensors and a number."""
    return (x * 1.5 + y).tanh()


def pairs(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
    """Three operations of two tensors."""
    return (x * y + y) - x


def singles(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
    """Three operations of one tensor."""
    return x.exp().tanh().sigmoid()


ROWS = (
    ("mul number, add, tanh", chain),
    ("mul, add, sub", pairs),
    ("exp, tanh, sigmoid", singles),
)


def cost(step: Step, with_gradients: bool, count: int, repeats: int) -> float:
    """The least microseconds an operation over the repeats."""
    x = rl.tensor([1.0, 2.0, 3.0], requires_grad=with_gradients)
    y = rl.tensor([0.5, 0.25, 0.125])
    best = float("inf")
    for _ in range(repeats):
        z = x
        started = time.perf_counter()
        for _ in range(count):
            z = step(z, y)
        best = min(best, time.perf_counter() - started)
        del z
        flush()
    return best / (3 * count) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=30)
    chosen = parser.parse_args()
    for name, step in ROWS:
        plain, taped = (cost(step, g, chosen.count, chosen.repeats) for g in (False, True))
        print(f"{name:24} {plain:6.2f} us   with gradients {taped:6.2f} us")


if __name__ == "__main__":
    main()
