"""A residual network learns to read handwritten digits.

    python -m examples.digits_resnet [--quick]

The data comes with scikit-learn: 1,797 images of 8 x 8 pixels, from 43 writers. A fifth of them
is held out. The network sees each training image moved by up to a pixel in any direction, a
little different in every epoch, which is all the augmentation that images this small bear.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field

import numpy as np
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F
from rushlight.utils.data import DataLoader, TensorDataset


# -------------------------------------------------------------------------------- the model
class Residual(nn.Module):
    """Two convolutions whose result is added to what came in."""

    def __init__(self, before: int, after: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        # What came in has to have the size of what is added to it.
        same = stride == 1 and before == after
        self.shortcut = nn.Identity() if same else nn.Conv2d(before, after, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, before, H, W)
        h = F.relu(self.norm1(self.conv1(x)))  # (B, after, H / stride, W / stride)
        return F.relu(self.norm2(self.conv2(h)) + self.shortcut(x))


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),  # (B, 32, 8, 8)
        Residual(32, 32),
        Residual(32, 64, stride=2),  # (B, 64, 4, 4)
        Residual(64, 64),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),  # (B, 64)
        nn.Linear(64, 10),
    )


# --------------------------------------------------------------------------------- the data
def digits() -> tuple[TensorDataset, TensorDataset]:
    """The training images and the held-out ones, as (image, label) pairs."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype(np.float32).reshape(-1, 1, 8, 8)
    parts = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    x, x_test, y, y_test = (torch.from_numpy(part) for part in parts)
    return TensorDataset(x, y), TensorDataset(x_test, y_test)


def moved(x: torch.Tensor) -> torch.Tensor:
    """Each image of a batch moved by -1, 0 or 1 pixel both ways; what comes in is black."""
    B = x.shape[0]
    padded = F.pad(x, (1, 1, 1, 1))  # (B, 1, 10, 10)
    rows = torch.arange(8).view(1, 8, 1) + torch.randint(0, 3, (B, 1, 1))  # (B, 8, 1)
    columns = torch.arange(8).view(1, 1, 8) + torch.randint(0, 3, (B, 1, 1))  # (B, 1, 8)
    image = torch.arange(B).view(B, 1, 1)
    return padded[image, 0, rows, columns].unsqueeze(1)  # (B, 1, 8, 8)


def accuracy(model: nn.Module, data: TensorDataset) -> float:
    model.eval()
    images, labels = data.tensors
    with torch.no_grad():
        right = (model(images).argmax(dim=1) == labels).float().mean()
    model.train()
    return right.item()


# ---------------------------------------------------------------------------- the training
@dataclass
class Result:
    """What came out, for whoever called."""

    accuracy: float = 0.0
    epoch_losses: list[float] = field(default_factory=list)
    epoch_accuracies: list[float] = field(default_factory=list)
    images_per_second: float = 0.0
    seconds: float = 0.0


def train(*, quick: bool = False, seed: int = 0) -> Result:
    torch.manual_seed(seed)
    epochs = 2 if quick else 20
    training, held_out = digits()
    loader = DataLoader(training, batch_size=64, shuffle=True, drop_last=True)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=4e-3, total_steps=epochs * len(loader)
    )
    result, start, seen = Result(), time.perf_counter(), 0
    for epoch in track(range(epochs), description="digits"):
        losses = []
        for x, y in loader:
            loss = F.cross_entropy(model(moved(x)), y, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.detach())  # reading it here would make every step wait
            seen += len(x)
        result.epoch_losses.append(torch.stack(losses).mean().item())
        result.epoch_accuracies.append(accuracy(model, held_out))
        if epoch % 4 == 3 or epoch == epochs - 1:
            print(
                f"epoch {epoch + 1:2d}: loss {result.epoch_losses[-1]:.3f}, "
                f"held-out accuracy {result.epoch_accuracies[-1]:.2%}"
            )
    result.seconds = time.perf_counter() - start
    result.images_per_second = seen / result.seconds
    result.accuracy = result.epoch_accuracies[-1]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two epochs, to see that it runs")
    result = train(quick=parser.parse_args().quick)
    print(f"{result.accuracy:.2%} of the held-out digits are read right")
    print(f"{result.images_per_second:.0f} images a second, {result.seconds:.1f} s in all")


if __name__ == "__main__":
    main()
