"""The six training workloads: model code with the module `torch` as an argument, and its data.

A step is zero_grad(set_to_none=True), forward, loss, backward, AdamW; the batch is in memory.
Weights and data come from NumPy, so that every library starts from the same numbers. `flops`
counts the multiplications and additions of matrix products and convolutions of one step
(forward, and backward to weights and to inputs that need it): divided by a machine's peak it is
the least a step can take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

# Any: the library under test, a model, a tensor of that library.
Torch = Any
Model = Any
Tensor = Any


@dataclass(frozen=True)
class Workload:
    """How to build a model, the arrays of its batch, and the work that one step must do."""

    about: str
    model: Callable[[Torch], Model]
    batch: Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]
    flops: int


def classes(rng: np.random.Generator, count: int, *shape: int) -> np.ndarray:
    return rng.integers(0, count, shape)


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


# ------------------------------------------------------------------------ perceptrons


def mlp(torch: Torch, widths: tuple[int, ...], activation: str) -> Model:
    nn = torch.nn
    layers = [nn.Linear(widths[0], widths[1])]
    for before, after in zip(widths[1:], widths[2:]):
        layers += [getattr(nn, activation)(), nn.Linear(before, after)]
    return nn.Sequential(*layers)


def mlp_flops(rows: int, widths: tuple[int, ...]) -> int:
    products = [2 * rows * before * after for before, after in zip(widths, widths[1:])]
    return 2 * products[0] + 3 * sum(products[1:])  # the data needs no gradient


# ------------------------------------------------------------------------ convolutions


def cnn_small(torch: Torch) -> Model:
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 12 * 12, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def conv_flops(batch: int, size: int, before: int, after: int, kernel: int = 3) -> int:
    """Of one pass (forward, or one of the two gradients), by the size of the output."""
    return 2 * batch * size * size * before * after * kernel * kernel


def cnn_small_flops() -> int:
    convolutions = 2 * conv_flops(64, 26, 1, 32) + 3 * conv_flops(64, 24, 32, 64)
    return convolutions + 3 * 2 * 64 * (64 * 12 * 12 * 128 + 128 * 10)


# (channels in, channels out, stride, output size) of ResNet-18's eight blocks on 32 x 32 images
RESNET_BLOCKS = [
    (64, 64, 1, 32),
    (64, 64, 1, 32),
    (64, 128, 2, 16),
    (128, 128, 1, 16),
    (128, 256, 2, 8),
    (256, 256, 1, 8),
    (256, 512, 2, 4),
    (512, 512, 1, 4),
]


def resnet18(torch: Torch) -> Model:
    nn, relu = torch.nn, torch.nn.functional.relu

    def convolution(before: int, after: int, kernel: int, stride: int) -> Model:
        padding = kernel // 2
        return nn.Conv2d(before, after, kernel, stride, padding, bias=False)

    class Residual(nn.Module):
        def __init__(self, before: int, after: int, stride: int) -> None:
            super().__init__()
            self.conv1 = convolution(before, after, 3, stride)
            self.norm1 = nn.BatchNorm2d(after)
            self.conv2 = convolution(after, after, 3, 1)
            self.norm2 = nn.BatchNorm2d(after)
            self.shortcut = nn.Identity()
            if stride != 1 or before != after:
                projection = convolution(before, after, 1, stride)
                self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(after))

        def forward(self, x: Tensor) -> Tensor:
            h = relu(self.norm1(self.conv1(x)))
            return relu(self.norm2(self.conv2(h)) + self.shortcut(x))

    return nn.Sequential(
        convolution(3, 64, 3, 1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        *[Residual(before, after, stride) for before, after, stride, _ in RESNET_BLOCKS],
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def resnet18_flops(batch: int = 16) -> int:
    total = 2 * conv_flops(batch, 32, 3, 64)
    for before, after, stride, size in RESNET_BLOCKS:
        total += 3 * conv_flops(batch, size, before, after)
        total += 3 * conv_flops(batch, size, after, after)
        total += 3 * conv_flops(batch, size, before, after, kernel=1) * (stride != 1)
    return total + 3 * 2 * batch * 512 * 10


# ------------------------------------------------------------------------ sequences


def gpt(torch: Torch, width: int = 256, heads: int = 8, layers: int = 6) -> Model:
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Tensor) -> Tensor:  # (B, T, C)
            B, T, C = x.shape
            parts = self.qkv(self.norm1(x)).split(C, dim=2)
            q, k, v = (t.view(B, T, heads, C // heads).transpose(1, 2) for t in parts)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, C/H)
            x = x + self.out(mixed.transpose(1, 2).reshape(B, T, C))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self, symbols: int = 256, context: int = 256) -> None:
            super().__init__()
            self.token, self.place = nn.Embedding(symbols, width), nn.Embedding(context, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, symbols, bias=False)

        def forward(self, tokens: Tensor) -> Tensor:  # (B, T) -> (B, T, symbols)
            x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return GPT()


def gpt_flops(rows: int = 1024, context: int = 256, width: int = 256, layers: int = 6) -> int:
    weights = layers * 12 * width * width + width * 256
    # Scores and mixing, causal: half of the square; backward recomputes nothing here.
    attention = layers * 2 * (2 * rows * context * width) // 2
    return 3 * (2 * rows * weights + attention)


def lstm(torch: Torch) -> Model:
    nn = torch.nn

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(64, 128, num_layers=2, batch_first=True)
            self.head = nn.Linear(128, 10)

        def forward(self, x: Tensor) -> Tensor:  # (B, T, 64) -> (B, 10)
            return self.head(self.lstm(x)[0][:, -1])

    return Last()


def lstm_flops(batch: int = 32, steps: int = 64, hidden: int = 128) -> int:
    first, others = 64, hidden + hidden + hidden  # input; recurrent, input and recurrent
    return 2 * batch * steps * 4 * hidden * (2 * first + 3 * others)


TINY, MNIST = (8, 32, 32, 2), (784, 512, 512, 10)

WORKLOADS = {
    "mlp_tiny": Workload(
        "8-32-32-2 tanh, batch 32",
        lambda torch: mlp(torch, TINY, "Tanh"),
        lambda rng: (normal(rng, 32, 8), classes(rng, 2, 32)),
        mlp_flops(32, TINY),
    ),
    "mlp_mnist": Workload(
        "784-512-512-10 ReLU, batch 128",
        lambda torch: mlp(torch, MNIST, "ReLU"),
        lambda rng: (normal(rng, 128, 784), classes(rng, 10, 128)),
        mlp_flops(128, MNIST),
    ),
    "cnn_small": Workload(
        "two convolutions, two linear layers, batch 64 of 28 x 28",
        cnn_small,
        lambda rng: (normal(rng, 64, 1, 28, 28), classes(rng, 10, 64)),
        cnn_small_flops(),
    ),
    "resnet18_cifar": Workload(
        "ResNet-18 for 32 x 32 images, batch 16",
        resnet18,
        lambda rng: (normal(rng, 16, 3, 32, 32), classes(rng, 10, 16)),
        resnet18_flops(),
    ),
    "gpt_6x256": Workload(
        "6 layers, width 256, 8 heads, 4 x 256 tokens",
        gpt,
        lambda rng: (classes(rng, 256, 4, 256), classes(rng, 256, 4, 256)),
        gpt_flops(),
    ),
    "lstm": Workload(
        "2 layers of 128, batch 32, 64 steps of 64",
        lstm,
        lambda rng: (normal(rng, 32, 64, 64), classes(rng, 10, 32)),
        lstm_flops(),
    ),
}


# ------------------------------------------------------------------------ a training step


def initial(shape: tuple[int, ...], name: str, rng: np.random.Generator) -> np.ndarray:
    """Uniform by fan-in for matrices and filters; ones for scales, zeros for biases."""
    if len(shape) < 2:
        return np.full(shape, 0.0 if "bias" in name else 1.0, np.float32)
    bound = 1 / math.sqrt(math.prod(shape[1:]))
    return rng.uniform(-bound, bound, shape).astype(np.float32)


def set_weights(torch: Torch, model: Model, rng: np.random.Generator) -> None:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(initial(tuple(parameter.shape), name, rng)))


Step = Callable[[], Tensor]


def training_step(torch: Torch, name: str, *, compiled: bool, autocast: bool) -> Step:
    """A function that does one step of a workload and returns its loss, not yet read.

    `compiled` compiles the model in PyTorch (its step cannot be compiled whole), and the whole
    step in Rushlight.
    """
    workload, rng = WORKLOADS[name], np.random.default_rng(0)
    model = workload.model(torch)
    set_weights(torch, model, rng)
    x, y = (torch.from_numpy(array) for array in workload.batch(rng))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    forward = torch.compile(model) if compiled and torch.__name__ == "torch" else model

    def loss_of() -> Tensor:
        logits = forward(x)  # (B, classes) or (B, T, symbols)
        return torch.nn.functional.cross_entropy(logits.flatten(0, -2), y.flatten())

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        if autocast:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = loss_of()
        else:
            loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss

    if compiled and torch.__name__ != "torch":
        return torch.compile(step, mode="reduce-overhead")
    return step


def losses(step: Step, count: int) -> Iterator[float]:
    for _ in range(count):
        yield step().item()
