"""Programs that between them record every differentiable op (but those of `vmap`), and the
steps that they recorded.

A step is an op with operands and attributes as a real program gives them; gradients and second
gradients of the programs are recorded too, since ops that only derivatives use have derivatives
of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import rushlight as torch
from rushlight.autograd.engine import restore
from rushlight.nn import functional as F
from rushlight.ops.registry import Op, recorder


class Step(NamedTuple):
    """One recorded step."""

    op: Op
    operands: tuple[Any, ...]
    attrs: tuple[Any, ...]


_leaves: list[Any] = []  # of the program that runs


def x(*shape: int, seed: int = 0) -> Any:
    """Numbers between 0.1 and 0.9, which all functions accept, away from ties and kinks."""
    generator = torch.Generator().manual_seed(seed + 7 * len(shape))
    drawn = torch.rand(*shape, dtype=torch.float64, generator=generator)
    leaf = (0.1 + 0.8 * drawn).requires_grad_()
    _leaves.append(leaf)
    return leaf


def matrix(n: int = 3) -> Any:
    """A symmetric positive definite matrix."""
    a = x(n, n)
    return a @ a.mT + torch.eye(n, dtype=torch.float64)


UNARY = [
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh1",
    "atanh", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt",
    "sinc", "deg2rad", "rad2deg", "erf", "erfc", "erfinv", "sigmoid", "logit", "abs",
    "sign", "floor", "ceil", "trunc", "round", "frac", "neg", "reciprocal", "lgamma",
    "digamma", "nan_to_num", "square", "i0", "relu", "clone",
]  # fmt: skip
SPECIAL = ["i0e", "i1", "i1e", "ndtr", "erfcx", "log_ndtr", "ndtri", "entr"]
ACTIVATIONS = [
    "leaky_relu", "elu", "gelu", "silu", "mish", "softplus", "logsigmoid", "softsign",
    "tanhshrink", "hardtanh", "hardshrink", "softshrink", "hardsigmoid", "hardswish",
    "celu", "selu",
]  # fmt: skip
BINARY = [
    "add", "sub", "mul", "div", "pow", "atan2", "hypot", "logaddexp", "logaddexp2", "xlogy",
    "maximum", "minimum", "fmax", "fmin", "remainder", "fmod", "copysign",
]  # fmt: skip


def _unary(name: str) -> Callable[[], Any]:
    if name == "acosh1":
        return lambda: (1 + x(4)).acosh()
    return lambda: getattr(torch, name)(x(4))


PROGRAMS: list[Callable[[], Any]] = [
    *(_unary(name) for name in UNARY),
    *((lambda name=name: getattr(torch.special, name)(x(4))) for name in SPECIAL),
    *((lambda name=name: getattr(F, name)(x(4) * 8 - 4)) for name in ACTIVATIONS),
    *((lambda name=name: getattr(torch, name)(x(2, 3), x(3, seed=1))) for name in BINARY),
    lambda: F.gelu(x(4), approximate="tanh"),
    lambda: F.threshold(x(4), 0.5, 0.0),
    lambda: F.prelu(x(2, 3) - 0.5, x(3, seed=1)),
    lambda: F.binary_cross_entropy(x(4), x(4, seed=1)),
    lambda: F.binary_cross_entropy_with_logits(x(4), x(4, seed=1)),
    lambda: torch.special.xlog1py(x(4), x(4, seed=1)),
    lambda: torch.special.zeta(2 + x(3), 1 + x(3, seed=1)),
    lambda: torch.special.polygamma(1, x(3)),
    lambda: torch.special.gammainc(x(3).detach(), x(3, seed=1)),
    lambda: torch.special.gammaincc(x(3).detach(), x(3, seed=1)),
    lambda: sum(x(4) ** n for n in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 1.7)),
    lambda: 2.0 ** x(4),
    lambda: torch.lerp(x(4), x(4, seed=1), x(4, seed=2)),
    lambda: torch.addcmul(x(4), x(4, seed=1), x(4, seed=2), value=2),
    lambda: torch.addcdiv(x(4), x(4, seed=1), x(4, seed=2), value=2),
    lambda: torch.add(x(4), x(4, seed=1), alpha=3),
    lambda: torch.div(5 * x(4), x(4, seed=1), rounding_mode="trunc"),
    lambda: torch.div(5 * x(4), x(4, seed=1), rounding_mode="floor"),
    lambda: torch.round(x(4), decimals=1),
    lambda: torch.frexp(x(4)),
    lambda: torch.where(x(4) > 0.5, x(4), x(4, seed=1)),
    lambda: torch.clamp(x(4), x(4, seed=1), 0.7 + 0 * x(4)),
    lambda: torch.clamp(x(4), 0.3, 0.7) + x(4).clamp(min=0.4) + x(4).clamp(max=0.6),
    lambda: x(4).float().double(),
    lambda: torch.complex(x(4), x(4, seed=1)).conj().imag,
    lambda: torch.complex(x(4), x(4, seed=1)).abs() + torch.complex(x(4), x(4)).angle(),
    lambda: torch.complex(x(4), x(4, seed=1)).sgn().real,
    lambda: x(2, 3) @ x(3, 4),
    lambda: x(4) @ x(4, seed=1),
    lambda: torch.einsum("ij,jk,kl->il", x(2, 3), x(3, 2), x(2, 4)),
    lambda: F.linear(x(2, 3), x(4, 3), x(4)),
    lambda: torch.addmm(x(2, 4), x(2, 3), x(3, 4), beta=2, alpha=3),
    # reductions and scans
    lambda: x(2, 3).sum(1) + x(2, 3).mean(1) + x(2, 3).prod(1) + x(2, 3).amax(1),
    lambda: x(2, 3).amin(1) + x(2, 3).max(1).values + x(2, 3).min(1).values,
    lambda: x(2, 3).logsumexp(1) + x(2, 3).var(1) + x(2, 3).std(1),
    lambda: x(2, 3).cumsum(1) + x(2, 3).cumprod(1) + x(2, 3).logcumsumexp(1),
    lambda: x(2, 3).cummax(1).values + x(2, 3).cummin(1).values,
    lambda: x(2, 3).norm(dim=1) + torch.linalg.vector_norm(x(2, 3), 3, 1),
    lambda: x(2, 3).softmax(1) * x(2, 3).log_softmax(1),
    lambda: F.cross_entropy(x(4, 3), torch.tensor([0, 2, 1, 1])),
    lambda: F.cross_entropy(x(4, 3), x(4, 3, seed=1), label_smoothing=0.1),
    lambda: F.nll_loss(x(4, 3), torch.tensor([0, 2, 1, 1]), weight=x(3).detach()),
    lambda: F.gaussian_nll_loss(x(4), x(4, seed=1), x(4, seed=2).abs() + 1),
    lambda: torch._standard_gamma(x(4).abs() + 1),
    lambda: F.layer_norm(x(2, 3), (3,), x(3), x(3, seed=1)),
    lambda: F.rms_norm(x(2, 3), (3,), x(3)),
    lambda: F.batch_norm(x(4, 3), None, None, x(3), x(3, seed=1), training=True),
    lambda: F.group_norm(x(2, 4, 3), 2, x(4), x(4, seed=1)),
    lambda: F.instance_norm(x(2, 3, 5)),
    # movement
    lambda: x(2, 3).reshape(6)[1:].view(5).unsqueeze(0).expand(2, 5).mT,
    lambda: x(2, 3).select(0, 1) + x(2, 3)[0] + x(3, 3).diagonal(),
    lambda: x(6).as_strided((2, 2), (2, 1), 1) + x(6).unfold(0, 3, 1)[:2, :2],
    lambda: torch.stack([*x(2, 3).unbind(0), *x(2, 6).split(3, 1)[0]]),
    lambda: torch.cat([x(2, 3), x(1, 3, seed=1)]).flip(0).roll(1, 1),
    lambda: x(3, 3).tril() + x(3, 3).triu(1),
    lambda: F.pad(x(2, 3), (1, 2)) + F.pad(x(2, 3), (1, 2), value=2.0),
    lambda: F.pad(x(1, 2, 3), (1, 2), mode="reflect"),
    lambda: written(x(2, 3), x(3)),
    lambda: torch.zeros(3, dtype=torch.float64).fill_(x(1)[0]) * x(3),
    lambda: torch.bernoulli(x(4), generator=torch.Generator().manual_seed(0)) * x(4),
    lambda: torch.nextafter(x(4), x(4, seed=1)),
    lambda: x(2, 3).masked_scatter(x(2, 3) > 0.4, x(2, 3, seed=1)),
    lambda: x(2, 3).masked_fill(x(2, 3) > 0.5, 0.0),
    # indexing
    lambda: x(4, 3)[torch.tensor([0, 2, 2])] + x(4, 3).index_select(0, torch.tensor([1, 1, 0])),
    lambda: x(4).index_put((torch.tensor([0, 2]),), x(2), accumulate=True),
    lambda: x(4).index_put((torch.tensor([0, 2]),), x(2)),
    lambda: x(4).index_add(0, torch.tensor([0, 0]), x(2)),
    lambda: x(4).index_copy(0, torch.tensor([2, 0]), x(2)),
    lambda: x(2, 2).take(torch.tensor([3, 0])),
    lambda: x(2, 2).put(torch.tensor([3, 0]), x(2)),
    lambda: x(2, 3).gather(1, torch.tensor([[0, 0], [2, 1]])),
    lambda: x(2, 3).scatter(1, torch.tensor([[0, 1], [2, 1]]), x(2, 2)),
    lambda: x(2, 3).scatter_add(1, torch.tensor([[0, 0], [2, 1]]), x(2, 2)),
    *(
        (lambda how=how: x(3).scatter_reduce(0, torch.tensor([0, 0, 2]), x(3, seed=1), how))
        for how in ("sum", "prod", "mean", "amax", "amin")
    ),
    lambda: x(4).sort().values + x(4).topk(4).values + x(4).median() + x(4).kthvalue(2).values,
    lambda: torch.take_along_dim(x(2, 3), torch.tensor([[0], [1]]), 1),
    lambda: F.embedding(torch.tensor([0, 2, 0]), x(3, 2)),
    lambda: F.embedding(torch.tensor([0, 2, 0]), x(3, 2), padding_idx=2),
    *(
        (lambda how=how: F.embedding_bag(torch.tensor([[0, 2], [1, 0]]), x(3, 2), mode=how))
        for how in ("sum", "mean", "max")
    ),
    # neural networks
    lambda: F.scaled_dot_product_attention(x(1, 2, 3, 4), x(1, 2, 3, 4, seed=1), x(1, 2, 3, 4)),
    lambda: recurrent(torch.nn.RNN),
    lambda: recurrent(torch.nn.GRU),
    lambda: recurrent(torch.nn.LSTM),
    lambda: F.conv1d(x(2, 3, 6), x(4, 3, 3), x(4), stride=2, padding=1),
    lambda: F.conv2d(x(1, 2, 5, 5), x(3, 2, 3, 3), x(3)),
    lambda: F.conv_transpose2d(x(1, 2, 3, 3), x(2, 3, 2, 2), x(3), stride=2),
    lambda: F.unfold(x(1, 2, 4, 4), 2) + F.unfold(x(1, 2, 4, 4), 2),
    lambda: F.fold(x(1, 8, 9), (4, 4), 2),
    lambda: F.avg_pool2d(x(1, 2, 4, 4), 2) + F.max_pool2d(x(1, 2, 4, 4), 2),
    lambda: F.fractional_max_pool2d(x(1, 2, 5, 5), 2, output_size=3),
    lambda: F.adaptive_max_pool2d(x(1, 2, 5, 5), 2) + F.adaptive_avg_pool2d(x(1, 2, 5, 5), 2),
    lambda: F.max_unpool2d(*F.max_pool2d(x(1, 2, 4, 4), 2, return_indices=True), 2),
    lambda: F.interpolate(x(1, 2, 3, 3), scale_factor=2, mode="bilinear"),
    lambda: F.grid_sample(x(1, 2, 3, 3), x(1, 2, 2, 2), align_corners=True),
    lambda: F.ctc_loss(
        x(5, 1, 3).log_softmax(-1), torch.tensor([[1, 2]]), torch.tensor([5]), torch.tensor([2])
    ),
    # Fourier transforms
    lambda: torch.fft.fft(torch.complex(x(4), x(4, seed=1))).abs(),
    lambda: torch.fft.rfft(x(6)).abs(),
    lambda: torch.fft.irfft(torch.complex(x(4), x(4, seed=1))),
    # linear algebra
    lambda: torch.linalg.qr(matrix())[1],
    lambda: torch.linalg.svd(matrix() + x(3, 3))[1],
    lambda: torch.linalg.svdvals(matrix() + x(3, 3)),
    lambda: torch.linalg.eigh(matrix())[0] + torch.linalg.eigvalsh(matrix()),
    lambda: torch.linalg.eig(matrix() + x(3, 3))[0].real,
    lambda: torch.linalg.eigvals(matrix() + x(3, 3)).real,
    lambda: torch.linalg.cholesky(matrix()),
    lambda: torch.linalg.inv(matrix()) + torch.linalg.pinv(matrix()),
    lambda: torch.linalg.solve(matrix(), x(3, 2)),
    lambda: torch.linalg.solve_triangular(matrix().tril(), x(3, 2), upper=False),
    lambda: torch.linalg.det(matrix()) + torch.linalg.slogdet(matrix())[1],
    lambda: torch.linalg.lu_factor(matrix())[0],
    lambda: torch.linalg.lstsq(x(4, 3), x(4, 2))[0],
    lambda: torch.linalg.matrix_exp(x(3, 3)),
]


def written(base: Any, source: Any) -> Any:
    """A result of in-place writes through views."""
    made = base * 1
    made[0] = source
    made[1, 1:].mul_(source[1:])
    return made


def recurrent(kind: Any) -> Any:
    """What a recurrent layer makes of a sequence."""
    torch.manual_seed(0)
    layer = kind(3, 4, dtype=torch.float64)
    return layer(x(5, 2, 3))[0]


def steps() -> dict[str, Step]:
    """A step of each op that the programs, their gradients and second gradients record."""
    found: dict[str, Step] = {}
    plain = recorder.record, recorder.record_one, recorder.record_two
    record, record_one, record_two = plain

    def note(op: Op, operands: tuple[Any, ...], attrs: tuple[Any, ...]) -> None:
        smooth = [o for o in operands if hasattr(o, "_storage") and o.dtype in _WIDE]
        if op.is_differentiable and smooth and op.name not in found:
            kept = tuple(_kept(o) if hasattr(o, "_storage") else o for o in operands)
            found[op.name] = Step(op, kept, attrs)

    def spy(op: Op, operands: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        note(op, operands, attrs)
        return record(op, operands, attrs)

    def spy_one(op: Op, a: Any, attrs: tuple[Any, ...]) -> Any:
        note(op, (a,), attrs)
        return record_one(op, a, attrs)

    def spy_two(op: Op, a: Any, b: Any, attrs: tuple[Any, ...]) -> Any:
        note(op, (a, b), attrs)
        return record_two(op, a, b, attrs)

    recorder.record, recorder.record_one, recorder.record_two = spy, spy_one, spy_two
    try:
        for program in PROGRAMS:
            _run(program)
    finally:
        recorder.record, recorder.record_one, recorder.record_two = plain
    return found


_WIDE = (torch.float64, torch.complex128)


def _kept(t: Any) -> Any:
    """The operand as it is now."""
    return restore((t._storage.value, t._view, t._shape, t.dtype))


def _run(program: Callable[[], Any]) -> None:
    """Record a program, its gradient, and the gradient of that."""
    _leaves.clear()
    made = program()
    outs = [made] if isinstance(made, torch.Tensor) else list(made)
    total: Any = sum(
        (o.abs() if o.is_complex() else o).sum() for o in outs if o.is_floating_point()
    )
    for _ in range(2):
        if not total.requires_grad:
            return
        try:
            gradients = torch.autograd.grad(
                total, _leaves, create_graph=True, allow_unused=True
            )
        except NotImplementedError:  # a gradient without a gradient (ctc_loss), as in PyTorch
            return
        total = sum((g * g).sum() for g in gradients if g is not None)
