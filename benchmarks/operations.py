"""A hundred common operations, each on about a million elements and on 64.

They are those that public repositories call most, by family; `run` takes the library and the
tensors that `inputs` make. What an operation has to move is the size of its inputs and results;
a product also has work (`flops`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np

# Any: the library under test, a tensor of that library.
Torch = Any
Tensor = Any
Random = np.random.Generator
Input = Callable[[Torch, Random, int], Tensor]

LARGE, SMALL = 1_000_000, 64


@dataclass(frozen=True)
class Operation:
    """A call as user code writes it, and what it is given."""

    name: str
    run: Callable[..., Any]
    inputs: tuple[Input, ...] = ()
    flops: Callable[..., int] | None = None


# ---------------------------------------------------------------------------- what goes in


def tensor(torch: Torch, array: np.ndarray) -> Tensor:
    """A copy: memory that NumPy also holds would be read with more care by some libraries."""
    return torch.tensor(array)


def normal(torch: Torch, rng: Random, *shape: int) -> Tensor:
    return tensor(torch, rng.standard_normal(shape, dtype=np.float32))


def flat(torch: Torch, rng: Random, n: int) -> Tensor:
    return normal(torch, rng, n)


def positive(torch: Torch, rng: Random, n: int) -> Tensor:
    return tensor(torch, rng.random(n, dtype=np.float32) * 0.98 + 0.01)


def matrix(torch: Torch, rng: Random, n: int) -> Tensor:
    return normal(torch, rng, isqrt(n), isqrt(n))


def row(torch: Torch, rng: Random, n: int) -> Tensor:
    return normal(torch, rng, isqrt(n))


def column(torch: Torch, rng: Random, n: int) -> Tensor:
    return normal(torch, rng, isqrt(n), 1)


def cube_shape(n: int) -> tuple[int, int, int]:
    """Batch, tokens, features; or the batch and sides of matrices."""
    return (4, 4, 4) if n <= SMALL else (n // 16384, 128, 128)


def cube(torch: Torch, rng: Random, n: int) -> Tensor:
    return normal(torch, rng, *cube_shape(n))


def heads(torch: Torch, rng: Random, n: int) -> Tensor:
    """Batch, heads, tokens, features of a head."""
    return normal(torch, rng, *((1, 2, 4, 8) if n <= SMALL else (n // 131072, 8, 256, 64)))


def image_shape(n: int) -> tuple[int, int, int, int]:
    return (1, 4, 4, 4) if n <= SMALL else (n // 65536, 64, 32, 32)


def images(torch: Torch, rng: Random, n: int) -> Tensor:
    return normal(torch, rng, *image_shape(n))


def signals(torch: Torch, rng: Random, n: int) -> Tensor:
    return normal(torch, rng, *((1, 4, 16) if n <= SMALL else (n // 65536, 64, 1024)))


def channel(torch: Torch, rng: Random, n: int) -> Tensor:
    return normal(torch, rng, image_shape(n)[1])


def filters(*kernel: int, depthwise: bool = False) -> Input:
    def make(torch: Torch, rng: Random, n: int) -> Tensor:
        channels = image_shape(n)[1]
        return normal(torch, rng, channels, 1 if depthwise else channels, *kernel)

    return make


def mask(torch: Torch, rng: Random, n: int) -> Tensor:
    return tensor(torch, rng.random(n) < 0.5)


def integers(torch: Torch, rng: Random, n: int) -> Tensor:
    return tensor(torch, rng.integers(0, 1000, n))


def pixels(torch: Torch, rng: Random, n: int) -> Tensor:
    return tensor(torch, rng.integers(0, 256, n, dtype=np.uint8))


def places(torch: Torch, rng: Random, n: int) -> Tensor:
    """An index of a flat tensor for each of its elements."""
    return tensor(torch, rng.integers(0, n, n))


def row_places(torch: Torch, rng: Random, n: int) -> Tensor:
    """An index of a matrix's rows for each of its rows."""
    return tensor(torch, rng.integers(0, isqrt(n), isqrt(n)))


def matrix_places(torch: Torch, rng: Random, n: int) -> Tensor:
    """An index along a dimension of a matrix for each of its elements."""
    return tensor(torch, rng.integers(0, isqrt(n), (isqrt(n), isqrt(n))))


def bf16(make: Input) -> Input:
    return lambda torch, rng, n: make(torch, rng, n).to(torch.bfloat16)


def taped(make: Input) -> Input:
    """The same, and it wants a gradient."""
    return lambda torch, rng, n: make(torch, rng, n).requires_grad_()


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Forward and backward: the gradients of the tensors that want one. The last tensor is the
    gradient that arrives, unless the function's result is a loss.
    """

    def run(torch: Torch, *tensors: Tensor) -> Any:
        wanting = [t for t in tensors if t.requires_grad]
        result = function(torch, *tensors)
        if result.ndim == 0:
            return torch.autograd.grad(result, wanting)
        return torch.autograd.grad(result, wanting, tensors[-1])

    return run


# ---------------------------------------------------------------------------- the work


def product_flops(a: Tensor, b: Tensor, *_: Tensor) -> int:
    return 2 * a.numel() * b.shape[-1]


def linear_flops(x: Tensor, weight: Tensor, *_: Tensor) -> int:
    return 2 * x.numel() * weight.shape[0]


def conv_flops(x: Tensor, weight: Tensor, *_: Tensor) -> int:
    """Of a stride of one and an output as large as the input."""
    return 2 * x.numel() // x.shape[1] * weight.numel()


def attention_flops(q: Tensor, *_: Tensor) -> int:
    return 4 * q.numel() * q.shape[-2]


# ---------------------------------------------------------------------------- the list

ARITHMETIC = [
    Operation("x + y", lambda t, x, y: x + y, (flat, flat)),
    Operation("x + 1", lambda t, x: x + 1, (flat,)),
    Operation("x - y", lambda t, x, y: x - y, (flat, flat)),
    Operation("x * y", lambda t, x, y: x * y, (flat, flat)),
    Operation("x / y", lambda t, x, y: x / y, (flat, positive)),
    Operation("matrix + row", lambda t, x, y: x + y, (matrix, row)),
    Operation("matrix * column", lambda t, x, y: x * y, (matrix, column)),
    Operation("x.add_(y)", lambda t, x, y: x.add_(y, alpha=0.1), (flat, flat)),
    Operation("x.mul_(0.999)", lambda t, x: x.mul_(0.999), (flat,)),
    Operation("x ** 2", lambda t, x: x**2, (flat,)),
    Operation("x ** y", lambda t, x, y: x**y, (positive, flat)),
    Operation("x % 7, int64", lambda t, x: x % 7, (integers,)),
    Operation("neg", lambda t, x: -x, (flat,)),
    Operation("abs", lambda t, x: x.abs(), (flat,)),
    Operation("sign", lambda t, x: t.sign(x), (flat,)),
    Operation("floor", lambda t, x: t.floor(x), (flat,)),
    Operation("round", lambda t, x: t.round(x), (flat,)),
    Operation("clamp", lambda t, x: x.clamp(-1.0, 1.0), (flat,)),
    Operation("maximum", lambda t, x, y: t.maximum(x, y), (flat, flat)),
    Operation("lerp", lambda t, x, y: t.lerp(x, y, 0.3), (flat, flat)),
    Operation("x + y, bf16", lambda t, x, y: x + y, (bf16(flat), bf16(flat))),
    Operation("x * y, bf16", lambda t, x, y: x * y, (bf16(flat), bf16(flat))),
]

TRANSCENDENTAL = [
    Operation("sqrt", lambda t, x: x.sqrt(), (positive,)),
    Operation("rsqrt", lambda t, x: x.rsqrt(), (positive,)),
    Operation("exp", lambda t, x: x.exp(), (flat,)),
    Operation("log", lambda t, x: x.log(), (positive,)),
    Operation("log1p", lambda t, x: t.log1p(x), (positive,)),
    Operation("sin", lambda t, x: x.sin(), (flat,)),
    Operation("cos", lambda t, x: x.cos(), (flat,)),
    Operation("erf", lambda t, x: t.erf(x), (flat,)),
    Operation("atan2", lambda t, x, y: t.atan2(x, y), (flat, flat)),
]

ACTIVATIONS = [
    Operation("relu", lambda t, x: x.relu(), (flat,)),
    Operation("leaky_relu", lambda t, x: t.nn.functional.leaky_relu(x, 0.1), (flat,)),
    Operation("gelu", lambda t, x: t.nn.functional.gelu(x), (flat,)),
    Operation("gelu, tanh", lambda t, x: t.nn.functional.gelu(x, approximate="tanh"), (flat,)),
    Operation("silu", lambda t, x: t.nn.functional.silu(x), (flat,)),
    Operation("sigmoid", lambda t, x: x.sigmoid(), (flat,)),
    Operation("tanh", lambda t, x: x.tanh(), (flat,)),
    Operation("softplus", lambda t, x: t.nn.functional.softplus(x), (flat,)),
    Operation("dropout", lambda t, x: t.nn.functional.dropout(x, 0.1), (flat,)),
    Operation("gelu, bf16", lambda t, x: t.nn.functional.gelu(x), (bf16(flat),)),
]

COMPARISON = [
    Operation("x == y, int64", lambda t, x, y: x == y, (integers, integers)),
    Operation("x < y", lambda t, x, y: x < y, (flat, flat)),
    Operation("isnan", lambda t, x: x.isnan(), (flat,)),
    Operation("a & b", lambda t, a, b: a & b, (mask, mask)),
    Operation("where", lambda t, m, x, y: t.where(m, x, y), (mask, flat, flat)),
    Operation("masked_fill", lambda t, x, m: x.masked_fill(m, 0.0), (flat, mask)),
    Operation("any", lambda t, a: (~a).all(), (mask,)),
]

REDUCTIONS = [
    Operation("sum", lambda t, x: x.sum(), (flat,)),
    Operation("sum, int64", lambda t, x: x.sum(), (integers,)),
    Operation("sum of bools", lambda t, m: m.sum(), (mask,)),
    Operation("sum, dim 0", lambda t, x: x.sum(0), (matrix,)),
    Operation("sum, dim 1", lambda t, x: x.sum(1), (matrix,)),
    Operation("mean", lambda t, x: x.mean(), (flat,)),
    Operation("mean, last dim, kept", lambda t, x: x.mean(-1, keepdim=True), (cube,)),
    Operation("mean of images", lambda t, x: x.mean((2, 3)), (images,)),
    Operation("var, dim 1", lambda t, x: x.var(1), (matrix,)),
    Operation("std", lambda t, x: x.std(), (flat,)),
    Operation("norm", lambda t, x: x.norm(), (flat,)),
    Operation("norm, dim 1", lambda t, x: t.linalg.norm(x, dim=1), (matrix,)),
    Operation("prod, dim 1", lambda t, x: x.prod(1), (matrix,)),
    Operation("max", lambda t, x: x.max(), (flat,)),
    Operation("max, dim 1", lambda t, x: x.max(1), (matrix,)),
    Operation("amax, dim 0", lambda t, x: x.amax(0), (matrix,)),
    Operation("argmax", lambda t, x: x.argmax(), (flat,)),
    Operation("argmax, dim 1", lambda t, x: x.argmax(1), (matrix,)),
    Operation("logsumexp, dim 1", lambda t, x: x.logsumexp(1), (matrix,)),
    Operation("softmax", lambda t, x: x.softmax(-1), (matrix,)),
    Operation("softmax, dim 0", lambda t, x: x.softmax(0), (matrix,)),
    Operation("softmax, bf16", lambda t, x: x.softmax(-1), (bf16(matrix),)),
    Operation("log_softmax", lambda t, x: x.log_softmax(-1), (matrix,)),
    Operation("normalize", lambda t, x: t.nn.functional.normalize(x, dim=-1), (matrix,)),
    Operation("cumsum", lambda t, x: x.cumsum(0), (flat,)),
    Operation("cumsum, dim 1", lambda t, x: x.cumsum(1), (matrix,)),
]

ORDER = [
    Operation("sort", lambda t, x: x.sort(), (flat,)),
    Operation("sort, dim 1", lambda t, x: x.sort(1), (matrix,)),
    Operation("argsort, int64", lambda t, x: x.argsort(), (integers,)),
    Operation("topk of a flat tensor", lambda t, x: x.topk(10), (flat,)),
    Operation("topk, dim 1", lambda t, x: x.topk(5, dim=1), (matrix,)),
    Operation("median", lambda t, x: x.median(), (flat,)),
    Operation("unique", lambda t, x: x.unique(), (integers,)),
    Operation("nonzero", lambda t, m: m.nonzero(), (mask,)),
]

INDEXING = [
    Operation("x[mask]", lambda t, x, m: x[m], (flat, mask)),
    Operation("x[index]", lambda t, x, i: x[i], (flat, places)),
    Operation("matrix[index]", lambda t, x, i: x[i], (matrix, row_places)),
    Operation("index_select", lambda t, x, i: x.index_select(1, i), (matrix, row_places)),
    Operation("gather", lambda t, x, i: x.gather(1, i), (matrix, matrix_places)),
    Operation(
        "scatter_", lambda t, x, i, y: x.scatter_(1, i, y), (matrix, matrix_places, matrix)
    ),
    Operation(
        "scatter_add_",
        lambda t, x, i, y: x.scatter_add_(1, i, y),
        (matrix, matrix_places, matrix),
    ),
    Operation(
        "index_add", lambda t, x, i, y: x.index_add(0, i, y), (matrix, row_places, matrix)
    ),
    Operation(
        "embedding",
        lambda t, w, i: t.nn.functional.embedding(i, w),
        (matrix, row_places),
    ),
    Operation("one_hot", lambda t, i: t.nn.functional.one_hot(i, len(i)), (row_places,)),
    Operation("tril", lambda t, x: x.tril(), (matrix,)),
]

MOVEMENT = [
    Operation("clone", lambda t, x: x.clone(), (flat,)),
    Operation("copy_", lambda t, x, y: x.copy_(y), (flat, flat)),
    Operation("cat", lambda t, x, y: t.cat([x, y]), (flat, flat)),
    Operation("cat, dim 1", lambda t, x, y: t.cat([x, y], 1), (matrix, matrix)),
    Operation("stack", lambda t, x, y: t.stack([x, y], -1), (flat, flat)),
    Operation("t().contiguous()", lambda t, x: x.t().contiguous(), (matrix,)),
    Operation(
        "permute, contiguous", lambda t, x: x.permute(0, 2, 3, 1).contiguous(), (images,)
    ),
    Operation("pad", lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1)), (images,)),
    Operation("roll", lambda t, x: x.roll(3, 1), (matrix,)),
    Operation("flip", lambda t, x: x.flip(-1), (matrix,)),
    Operation("repeat", lambda t, x: x.repeat(2, 2), (matrix,)),
    Operation("repeat_interleave", lambda t, x: x.repeat_interleave(2, 0), (matrix,)),
    Operation("float to bf16", lambda t, x: x.to(t.bfloat16), (flat,)),
    Operation("bf16 to float", lambda t, x: x.float(), (bf16(flat),)),
    Operation("float to half", lambda t, x: x.half(), (flat,)),
    Operation("float to int64", lambda t, x: x.long(), (flat,)),
    Operation("bytes to float", lambda t, x: x.float() / 255, (pixels,)),
]


def sized(function: Callable[[Torch, int], Tensor]) -> Callable[..., Any]:
    """A call that makes as many elements as its only tensor has."""
    return lambda t, x: function(t, x.numel())


CREATION = [
    Operation("zeros", sized(lambda t, n: t.zeros(n)), (flat,)),
    Operation("full", sized(lambda t, n: t.full((n,), 3.0)), (flat,)),
    Operation("arange", sized(lambda t, n: t.arange(n)), (flat,)),
    Operation("linspace", sized(lambda t, n: t.linspace(0.0, 1.0, n)), (flat,)),
    Operation("rand", sized(lambda t, n: t.rand(n)), (flat,)),
    Operation("randn", sized(lambda t, n: t.randn(n)), (flat,)),
    Operation("randint", sized(lambda t, n: t.randint(0, 1000, (n,))), (flat,)),
    Operation("randperm", sized(lambda t, n: t.randperm(n)), (flat,)),
    Operation("bernoulli", lambda t, x: t.bernoulli(x), (positive,)),
    Operation("zero_", lambda t, x: x.zero_(), (flat,)),
]

PRODUCTS = [
    Operation("matmul", lambda t, x, y: x @ y, (matrix, matrix), product_flops),
    Operation(
        "matmul, bf16", lambda t, x, y: x @ y, (bf16(matrix), bf16(matrix)), product_flops
    ),
    Operation("bmm", lambda t, x, y: t.bmm(x, y), (cube, cube), product_flops),
    Operation("matrix @ vector", lambda t, x, y: x @ y, (matrix, row)),
    Operation("dot", lambda t, x, y: t.dot(x, y), (flat, flat)),
    Operation("outer", lambda t, x, y: t.outer(x, y), (row, row)),
    Operation(
        "linear",
        lambda t, x, w, b: t.nn.functional.linear(x, w, b),
        (matrix, matrix, row),
        linear_flops,
    ),
    Operation(
        "attention",
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v),
        (heads, heads, heads),
        attention_flops,
    ),
]

LAYERS = [
    Operation(
        "conv1d",
        lambda t, x, w, b: t.nn.functional.conv1d(x, w, b, padding=1),
        (signals, filters(3), channel),
        conv_flops,
    ),
    Operation(
        "conv2d 3x3",
        lambda t, x, w, b: t.nn.functional.conv2d(x, w, b, padding=1),
        (images, filters(3, 3), channel),
        conv_flops,
    ),
    Operation(
        "conv2d 1x1",
        lambda t, x, w, b: t.nn.functional.conv2d(x, w, b),
        (images, filters(1, 1), channel),
        conv_flops,
    ),
    Operation(
        "conv2d, depthwise",
        lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1, groups=len(w)),
        (images, filters(3, 3, depthwise=True)),
        conv_flops,
    ),
    Operation("max_pool2d", lambda t, x: t.nn.functional.max_pool2d(x, 2), (images,)),
    Operation("avg_pool2d", lambda t, x: t.nn.functional.avg_pool2d(x, 2), (images,)),
    Operation(
        "interpolate, bilinear",
        lambda t, x: t.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear"),
        (images,),
    ),
    Operation(
        "layer_norm",
        lambda t, x, w, b: t.nn.functional.layer_norm(x, (len(w),), w, b),
        (matrix, row, row),
    ),
    Operation(
        "batch_norm",
        lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, training=True),
        (images, channel, channel),
    ),
    Operation(
        "group_norm",
        lambda t, x, w, b: t.nn.functional.group_norm(x, 4, w, b),
        (images, channel, channel),
    ),
]

LOSSES = [
    Operation("mse_loss", lambda t, x, y: t.nn.functional.mse_loss(x, y), (flat, flat)),
    Operation("l1_loss", lambda t, x, y: t.nn.functional.l1_loss(x, y), (flat, flat)),
    Operation(
        "cross_entropy",
        lambda t, x, y: t.nn.functional.cross_entropy(x, y),
        (matrix, row_places),
    ),
    Operation(
        "bce_with_logits",
        lambda t, x, y: t.nn.functional.binary_cross_entropy_with_logits(x, y),
        (flat, positive),
    ),
    Operation(
        "cosine_similarity",
        lambda t, x, y: t.nn.functional.cosine_similarity(x, y),
        (matrix, matrix),
    ),
]

BACKWARD = [
    Operation(
        "mul, backward",
        gradient(lambda t, x, y, g: x * y),
        (taped(flat), taped(flat), flat),
    ),
    Operation("relu, backward", gradient(lambda t, x, g: x.relu()), (taped(flat), flat)),
    Operation(
        "gelu, backward",
        gradient(lambda t, x, g: t.nn.functional.gelu(x)),
        (taped(flat), flat),
    ),
    Operation(
        "softmax, backward", gradient(lambda t, x, g: x.softmax(-1)), (taped(matrix), matrix)
    ),
    Operation(
        "layer_norm, backward",
        gradient(lambda t, x, w, b, g: t.nn.functional.layer_norm(x, (len(w),), w, b)),
        (taped(matrix), taped(row), taped(row), matrix),
    ),
    Operation(
        "batch_norm, backward",
        gradient(
            lambda t, x, w, b, g: t.nn.functional.batch_norm(x, None, None, w, b, training=True)
        ),
        (taped(images), taped(channel), taped(channel), images),
    ),
    Operation(
        "cross_entropy, backward",
        gradient(lambda t, x, y: t.nn.functional.cross_entropy(x, y)),
        (taped(matrix), row_places),
    ),
    Operation(
        "linear, backward",
        gradient(lambda t, x, w, b, g: t.nn.functional.linear(x, w, b)),
        (taped(matrix), taped(matrix), taped(row), matrix),
        lambda x, w, *_: 3 * linear_flops(x, w),
    ),
    Operation(
        "conv2d 3x3, backward",
        gradient(lambda t, x, w, g: t.nn.functional.conv2d(x, w, padding=1)),
        (taped(images), taped(filters(3, 3)), images),
        lambda x, w, *_: 3 * conv_flops(x, w),
    ),
    Operation(
        "embedding, backward",
        gradient(lambda t, w, i, g: t.nn.functional.embedding(i, w)),
        (taped(matrix), row_places, matrix),
    ),
    Operation(
        "max_pool2d, backward",
        gradient(lambda t, x: t.nn.functional.max_pool2d(x, 2).sum()),
        (taped(images),),
    ),
]

FAMILIES = {
    "arithmetic": ARITHMETIC,
    "transcendental": TRANSCENDENTAL,
    "activations": ACTIVATIONS,
    "comparison": COMPARISON,
    "reductions": REDUCTIONS,
    "order": ORDER,
    "indexing": INDEXING,
    "movement": MOVEMENT,
    "creation": CREATION,
    "products": PRODUCTS,
    "layers": LAYERS,
    "losses": LOSSES,
    "backward": BACKWARD,
}

OPERATIONS = {op.name: op for family in FAMILIES.values() for op in family}

REASONS = {  # of Rushlight, where it is the slower one
    "sums are kept in float64": (
        "sum", "sum, dim 0", "sum, dim 1", "mean", "mean, last dim, kept", "mean of images",
        "norm", "norm, dim 1", "prod, dim 1", "dot", "layer_norm", "layer_norm, backward",
        "group_norm",
    ),
    "the normal distribution with both tails, to 7 ulp": ("gelu", "gelu, bf16"),
    "computed in float64, to 0.51 or 0.55 ulp": ("sin", "cos", "atan2"),
    "the quotient is corrected, to 1 ulp": ("sigmoid", "silu"),
    "a polynomial and a quotient, to 1 ulp": ("tanh",),
    "to 1 or 1.25 ulp, no instructions of one target": (
        "exp", "log", "erf", "rsqrt", "softmax", "softmax, bf16", "softmax, dim 0",
        "log_softmax", "cross_entropy", "cross_entropy, backward",
    ),
    "Python around a kernel: 20 us, or 100 where data swept the cache": (
        "x.add_(y)", "x.mul_(0.999)", "a & b", "lerp", "sqrt", "full", "zero_", "copy_",
        "outer", "embedding", "one_hot", "flip", "repeat", "repeat_interleave", "index_add",
    ),
    "a copy and back, so that a bad index changes nothing": ("scatter_", "scatter_add_"),
    "64 bits of Philox an element, by its counter": ("randn", "rand"),
    "64-bit random numbers are sorted": ("randperm",),
    "a contraction, whose tile has more than one column": ("matrix @ vector",),
    "sorted in NumPy, which has fast sorts for some processors only": ("argsort, int64",),
    "nine tenths of the best library's rate, with one text for all targets": (
        "matmul", "bmm", "linear", "conv1d", "conv2d 3x3",
    ),
}  # fmt: skip


def reason(name: str) -> str:
    """Why an operation is slower here; nothing where nobody has looked."""
    found = (why for why, names in REASONS.items() if name in names)
    return next(found, "")
