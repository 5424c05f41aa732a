"""A small GPT learns to write Python from the standard library of the Python that runs it.

    python -m examples.stdlib_gpt [--quick]

The text is read byte by byte, so there is no tokenizer. Every tenth file is held out, and what
the model has learned is measured there, in nats a byte, beside two models that only count: a
unigram model, which knows how often each byte occurs, and a trigram model, which knows what
followed every pair of bytes. Then it writes some Python of its own.
"""

from __future__ import annotations

import argparse
import math
import sysconfig
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.progress import track

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F

CONTEXT = 128  # bytes that the model sees
WIDTH = 192
HEADS = 6
LAYERS = 4
BATCH = 12


# --------------------------------------------------------------------------------- the data
def library_files() -> list[Path]:
    """The single-file modules of the standard library on this machine."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    if len(files) < 20:
        raise SystemExit("this Python comes without the source text of its library")
    return files


def read(files: list[Path]) -> np.ndarray:
    return np.frombuffer(b"\n".join(file.read_bytes() for file in files), np.uint8)


def corpus() -> tuple[np.ndarray, np.ndarray]:
    """Bytes to learn from, and bytes of files that are never learned from."""
    files = library_files()
    held_out = files[::10]
    return read([file for file in files if file not in set(held_out)]), read(held_out)


def batch(text: np.ndarray, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Random windows, and the same windows one byte further: what has to be predicted."""
    starts = rng.integers(0, len(text) - CONTEXT - 1, BATCH)
    windows = text[starts[:, None] + np.arange(CONTEXT + 1)].astype(np.int64)
    windows = torch.from_numpy(windows)  # (B, T + 1)
    return windows[:, :-1], windows[:, 1:]  # (B, T), (B, T)


# -------------------------------------------------------------------------------- the model
class Block(nn.Module):
    """Bytes look at bytes before them; then each is thought about by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, C)
        B, T, C = x.shape
        parts = self.qkv(self.norm1(x)).split(C, dim=2)  # three of (B, T, C)
        q, k, v = (part.view(B, T, HEADS, C // HEADS).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, C / H)
        x = x + self.out(mixed.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # A byte alone says little, so each also brings the two before it. Attention would find
        # them as well, but only after some hundred steps.
        self.byte = nn.Embedding(256, WIDTH)
        self.before = nn.Embedding(256, WIDTH)
        self.before_that = nn.Embedding(256, WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 256, bias=False)
        self.start()

    def start(self) -> None:
        """Small weights, smaller still where blocks add up: the first guesses are near even."""
        for name, parameter in self.named_parameters():
            if name.endswith(("out.weight", "down.weight")):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * LAYERS))
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, text: torch.Tensor) -> torch.Tensor:  # (B, T) -> (B, T, 256)
        T = text.shape[1]
        earlier = F.pad(text, (2, 0))  # (B, T + 2)
        x = self.byte(text) + self.before(earlier[:, 1:-1]) + self.before_that(earlier[:, :-2])
        x = x + self.place(torch.arange(T))  # (B, T, C)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(model: nn.Module, text: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(text).flatten(0, 1), following.flatten())


# ------------------------------------------------------------------- measuring what it knows
def held_out_windows(text: np.ndarray, count: int) -> np.ndarray:
    """`count` windows of CONTEXT + 1 bytes, evenly spread over the held-out text."""
    starts = np.linspace(0, len(text) - CONTEXT - 1, count).astype(np.int64)
    return text[starts[:, None] + np.arange(CONTEXT + 1)].astype(np.int64)  # (count, T + 1)


def held_out_loss(model: nn.Module, windows: np.ndarray) -> float:
    losses = []
    with torch.no_grad():
        for part in np.split(windows, len(windows) // BATCH):
            both = torch.from_numpy(part)
            losses.append(loss_of(model, both[:, :-1], both[:, 1:]))
    return torch.stack(losses).mean().item()


def unigram_loss(text: np.ndarray, windows: np.ndarray) -> float:
    counts = np.bincount(text, minlength=256) + 1.0  # one more, so that nothing is impossible
    return float(-np.log(counts / counts.sum())[windows[:, 1:]].mean())


def grams(text: np.ndarray, size: int) -> np.ndarray:
    """Each run of `size` bytes along the last axis, as one number."""
    count = text.shape[-1] - size + 1
    number = np.zeros((*text.shape[:-1], count), np.int64)
    for i in range(size):
        number = number << 8 | text[..., i : i + count]
    return number


def trigram_loss(text: np.ndarray, windows: np.ndarray) -> float:
    """Counts of what followed every two bytes, smoothed as Witten and Bell did in 1991.

    A context seen n times with t different successors trusts itself by n / (n + t), and for the
    rest asks the context that is one byte shorter.
    """
    p = np.full(windows[:, 1:].shape, 1 / 256)  # (count, T)
    for context in range(3):
        known, times = np.unique(grams(text, context + 1), return_counts=True)
        n = np.bincount(known >> 8, times, minlength=256**context)
        t = np.bincount(known >> 8, minlength=256**context)
        asked = grams(windows[:, context == 0 :], context + 1)
        place = np.searchsorted(known, asked).clip(max=len(known) - 1)
        followed = np.where(known[place] == asked, times[place], 0)
        n, t = n[asked >> 8], np.maximum(t[asked >> 8], 1)
        shorter = p[:, max(context - 1, 0) :]  # a window's first bytes have less before them
        shorter[:] = (followed + t * shorter) / (n + t)
    return float(-np.log(p).mean())


# --------------------------------------------------------------------------------- sampling
def sample(model: nn.Module, prompt: bytes, count: int, temperature: float = 0.7) -> bytes:
    """`count` bytes that follow the prompt.

    The window always has CONTEXT bytes, so every step is the same program.
    """
    text = list(prompt[-CONTEXT:].rjust(CONTEXT, b"\n"))
    with torch.no_grad():
        for _ in range(count):
            logits = model(torch.tensor([text[-CONTEXT:]]))[0, -1]  # (256,)
            chances = F.softmax(logits / temperature, dim=-1)
            text.append(torch.multinomial(chances, 1).item())
    return bytes(text[CONTEXT:])


# ------------------------------------------------------------------------------ the training
@dataclass
class Result:
    """What came out, for whoever called. Losses are in nats a byte."""

    unigram: float
    trigram: float
    gpt: float = math.inf
    losses: list[float] = field(default_factory=list)
    held_out: list[tuple[int, float]] = field(default_factory=list)  # (step, loss)
    bytes_per_second: float = 0.0
    seconds: float = 0.0
    text: str = ""


def train(*, quick: bool = False, seed: int = 0) -> Result:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    steps, every = (20, 10) if quick else (800, 100)
    text, hidden = corpus()
    windows = held_out_windows(hidden, BATCH * (2 if quick else 20))
    result = Result(unigram_loss(text, windows), trigram_loss(text, windows))
    print(
        f"{len(text):,} bytes to learn from, {len(hidden):,} held out; there, unigram "
        f"{result.unigram:.3f} and trigram {result.trigram:.3f} nats a byte"
    )
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=3e-3, total_steps=steps, pct_start=0.1, cycle_momentum=False
    )
    start, waiting = time.perf_counter(), []
    for step in track(range(1, steps + 1), description="gpt"):
        loss = loss_of(model, *batch(text, rng))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        waiting.append(loss.detach())  # reading it here would make every step wait
        if step % every == 0:
            result.losses += torch.stack(waiting).tolist()
            waiting.clear()
            result.held_out.append((step, held_out_loss(model, windows)))
            print(f"step {step}: held-out loss {result.held_out[-1][1]:.3f}")
    result.seconds = time.perf_counter() - start
    result.bytes_per_second = steps * BATCH * CONTEXT / result.seconds
    result.gpt = result.held_out[-1][1]
    prompt = hidden[: CONTEXT * 4].tobytes()
    result.text = sample(model, prompt, 20 if quick else 400).decode("utf-8", "replace")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="20 steps, to see that it runs")
    result = train(quick=parser.parse_args().quick)
    print(f"held-out nats a byte: unigram {result.unigram:.3f}, trigram {result.trigram:.3f}, ")
    print(f"GPT {result.gpt:.3f}, after {result.seconds:.1f} s")
    print(f"({result.bytes_per_second:,.0f} bytes a second). It writes:\n")
    print(result.text)


if __name__ == "__main__":
    main()
