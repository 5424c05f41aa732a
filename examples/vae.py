"""A variational autoencoder learns to draw digits (Kingma and Welling, 2013).

    python -m examples.vae [--quick]

An encoder turns an image into a small cloud of codes, and a decoder turns a code back into an
image. Two wishes pull against each other: the image should come back, and the clouds of all
images together should look like one plain normal distribution. Once they do, a code drawn from
that distribution decodes to a digit that nobody has written.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.progress import track
from sklearn.datasets import load_digits

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F
from rushlight.utils.data import DataLoader, TensorDataset

PIXELS, HIDDEN, CODE = 64, 256, 8


# -------------------------------------------------------------------------------- the model
class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2 * CODE)
        )
        self.decoder = nn.Sequential(
            nn.Linear(CODE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, PIXELS)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(B, 64) -> pixel logits (B, 64), and the clouds' means and log variances (B, 8)."""
        mean, log_variance = self.encoder(x).chunk(2, dim=-1)
        # A random point of the cloud, written so that the gradient reaches mean and variance.
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(code), mean, log_variance


def loss_of(model: VAE, x: torch.Tensor) -> torch.Tensor:
    """Minus the evidence lower bound, in nats an image."""
    logits, mean, log_variance = model(x)
    differs = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    # Kullback-Leibler divergence of a cloud from the normal distribution, in closed form.
    apart = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum()
    return (differs + apart) / x.shape[0]


def draw(images: np.ndarray) -> str:
    """Images side by side, two characters a pixel."""
    shades = np.array(list(" .:-=+*#%@"))
    pixels = shades[(images.reshape(-1, 8, 8) * 9.99).astype(int)]  # (count, 8, 8)
    rows = np.repeat(pixels, 2, axis=-1).transpose(1, 0, 2)  # (8, count, 16)
    return "\n".join(" ".join("".join(line) for line in row) for row in rows)


# ----------------------------------------------------------------------------- the training
def train(*, quick: bool = False, seed: int = 0) -> tuple[list[float], np.ndarray]:
    """Each epoch's loss, and images decoded from codes drawn at random, (4, 64)."""
    torch.manual_seed(seed)
    images = (load_digits(return_X_y=True)[0] / 16.0).astype(np.float32)  # (1797, 64)
    dataset = TensorDataset(torch.from_numpy(images))
    loader = DataLoader(dataset, batch_size=64, shuffle=True, drop_last=True)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    epoch_losses = []
    for _ in track(range(2 if quick else 60), description="vae"):
        losses = []
        for (x,) in loader:
            loss = loss_of(model, x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        epoch_losses.append(torch.stack(losses).mean().item())
    with torch.no_grad():
        drawn = model.decoder(torch.randn(4, CODE)).sigmoid()
    return epoch_losses, drawn.numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two epochs, to see that it runs")
    losses, drawn = train(quick=parser.parse_args().quick)
    print(f"nats an image: {losses[0]:.2f} after one epoch, {losses[-1]:.2f} at the end\n")
    print(draw(drawn))


if __name__ == "__main__":
    main()
