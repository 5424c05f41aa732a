"""An LSTM learns what to remember: the adding problem of Hochreiter and Schmidhuber (1997).

    python -m examples.lstm [--quick]

A sequence of random numbers goes by, two of them marked. At the end the network must say the
sum of the two. Always guessing the mean has a squared error of 1/6; to do better, a value has
to be kept through all that comes after it, and everything else has to be let go.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.progress import track

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F

LENGTH = 24
BATCH = 64
GUESSING = 1 / 6  # the variance of a sum of two numbers that are uniform in 0 to 1


# --------------------------------------------------------------------------------- the data
def sequences(rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers beside their marks, (B, T, 2), and the sums of the marked ones, (B,)."""
    numbers = rng.random((BATCH, LENGTH), np.float32)
    marks = np.zeros_like(numbers)
    rows = np.arange(BATCH)
    marks[rows, rng.integers(0, LENGTH // 2, BATCH)] = 1  # one in the first half,
    marks[rows, rng.integers(LENGTH // 2, LENGTH, BATCH)] = 1  # and one in the second
    together = np.stack([numbers, marks], axis=-1)
    return torch.from_numpy(together), torch.from_numpy((numbers * marks).sum(axis=1))


# -------------------------------------------------------------------------------- the model
class Adder(nn.Module):
    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_size=2, hidden_size=hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, 2) -> (B,)
        outputs, (_hidden, _cell) = self.lstm(x)  # (B, T, H): what it knows after each number
        return self.head(outputs[:, -1]).squeeze(-1)


# ----------------------------------------------------------------------------- the training
def train(*, quick: bool = False, seed: int = 0) -> list[float]:
    """The mean squared error of each hundred steps (of each ten, when quick)."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    steps, every = (30, 10) if quick else (800, 100)
    model = Adder()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    errors, recent = [], []
    for step in track(range(1, steps + 1), description="lstm"):
        x, total = sequences(rng)
        loss = F.mse_loss(model(x), total)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        recent.append(loss.detach())
        if step % every == 0:
            errors.append(torch.stack(recent).mean().item())
            recent.clear()
            print(f"step {step}: squared error {errors[-1]:.4f} (guessing: {GUESSING:.4f})")
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="30 steps, to see that it runs")
    errors = train(quick=parser.parse_args().quick)
    print(
        f"squared error {errors[-1]:.4f}: {GUESSING / errors[-1]:.1f} times less than guessing"
    )


if __name__ == "__main__":
    main()
