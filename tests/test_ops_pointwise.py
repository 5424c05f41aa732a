"""Elementwise operations against PyTorch: values, dtypes, gradients, errors."""

from __future__ import annotations

import operator

import pytest
from pointwise_oracle import KINDS, agree, both, check, check_gradients, ours_of, torch

import rushlight as rl
import rushlight.nn

INF, NAN = float("inf"), float("nan")
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 100.0, -100.0, 1e-5, INF, -INF, NAN]

UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "deg2rad",
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "frac",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_not",
    "logit",
    "nan_to_num",
    "neg",
    "positive",
    "rad2deg",
    "reciprocal",
    "round",
    "rsqrt",
    "sgn",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "bitwise_not",
    "relu",
]
BINARY = [
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "copysign",
    "div",
    "eq",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "ge",
    "gt",
    "heaviside",
    "hypot",
    "le",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_or",
    "logical_xor",
    "lt",
    "maximum",
    "minimum",
    "mul",
    "ne",
    "nextafter",
    "pow",
    "remainder",
    "sub",
    "xlogy",
    "gcd",
    "lcm",
    "ldexp",
    "true_divide",
]
OPERATORS = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.and_, operator.or_, operator.xor, operator.lt, operator.le,
    operator.eq, operator.ne, operator.gt, operator.ge,
)  # fmt: skip
ACTIVATIONS = [
    "celu",
    "elu",
    "gelu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "relu",
    "relu6",
    "selu",
    "silu",
    "softplus",
    "softshrink",
    "softsign",
    "tanhshrink",
    "rrelu",
]
HALF = ("float16", "bfloat16")


def values(kind: str, shape: tuple[int, ...] = (7,), seed: int = 0):
    """Numbers that suit every dtype; small enough for integer powers."""
    generator = torch.Generator().manual_seed(seed + len(kind))
    dtype = getattr(torch, kind)
    if kind == "bool":
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_floating_point:
        return (torch.randn(shape, generator=generator, dtype=torch.float64) * 2).to(dtype)
    return torch.randint(0 if kind == "uint8" else -5, 6, shape, generator=generator).to(dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", UNARY)
def test_unary_matches_pytorch(name: str, kind: str) -> None:
    ulp = 4 if kind in HALF else 2000 if name in ("digamma", "erfinv", "lgamma") else 32
    check(lambda lib, x: getattr(lib, name)(x), values(kind, (3, 5)), ulp=ulp)


@pytest.mark.parametrize("name", UNARY)
def test_unary_at_the_edges(name: str) -> None:
    if name in ("digamma", "bitwise_not"):
        pytest.skip("digamma at -0.0 and poles differs by sign conventions")
    x = torch.tensor(EDGES, dtype=torch.float64)
    check(lambda lib, x: getattr(lib, name)(x), x, ulp=64)


SAFE_DIVISORS = ("floor_divide", "fmod", "remainder", "lcm")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BINARY)
def test_binary_matches_pytorch(name: str, kind: str) -> None:
    a, b = values(kind, (3, 5)), values(kind, (5,), 1)
    if name in SAFE_DIVISORS and not b.dtype.is_floating_point:
        b[b == 0] = 1
    check(lambda lib, a, b: getattr(lib, name)(a, b), a, b, ulp=4 if kind in HALF else 32)


@pytest.mark.parametrize("name", ["add", "mul", "div", "pow", "lt", "remainder", "maximum"])
@pytest.mark.parametrize("first", KINDS)
def test_promotion_of_all_pairs(name: str, first: str) -> None:
    """Dtype pairs of dimensioned and 0-d tensors."""
    function = lambda lib, a, b: getattr(lib, name)(a, b)  # noqa: E731
    for second in KINDS:
        for shapes in (((4,), (4,)), ((4,), ()), ((), (4,)), ((), ())):
            a, b = values(first, shapes[0]), values(second, shapes[1], 1)
            if name == "remainder":
                b = b + 1 if second == "uint8" else torch.where(b == 0, torch.ones_like(b), b)
            ours, theirs = both(function, a, b)
            if theirs is not None:
                agree(ours, theirs, ulp=4)


WRAPPING = (
    operator.floordiv, operator.mod, operator.lt, operator.le, operator.gt, operator.ge,
)  # fmt: skip


@pytest.mark.parametrize("op", OPERATORS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_operators_with_numbers(op, kind: str) -> None:
    """A Python number is weaker than any tensor; dimensioned and 0-d, on either side."""
    for shape in ((4,), ()):
        x = values(kind, shape)
        x = torch.where(x == 0, torch.ones_like(x), x)
        for number in (True, 3, 2.5, -2, 0.1):
            if kind == "uint8" and number == -2 and op in WRAPPING:
                continue  # PyTorch wraps the number around first
            check(lambda _, x: op(x, number), x, ulp=4)
            check(lambda _, x: op(number, x), x, ulp=4)


def test_in_place_operators() -> None:
    for op in (operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow):
        check(lambda _, x: op(x, 2), values("float32"))
    for op in (operator.ifloordiv, operator.imod, operator.iand, operator.ior, operator.ixor,
               operator.ilshift, operator.irshift, operator.itruediv):  # fmt: skip
        check(lambda _, x: op(x, 2), values("int64"))


def test_python_scalars_are_rounded_to_the_tensors_dtype() -> None:
    check(lambda lib, x: x * 0.1 + 1 / 3, values("float32", (50,)), ulp=0.5)
    check(lambda lib, x: x == 0.1, torch.tensor([0.1]))


def test_unknown_operands_are_refused() -> None:
    x = rl.tensor([1.0])
    for other in (None, "a", [1, 2]):
        with pytest.raises(TypeError):
            x + other
    assert (x == None) is False  # noqa: E711
    with pytest.raises(TypeError):
        rl.add(x, "a")
    with pytest.raises(TypeError):
        rl.maximum(x, 2)


def test_alpha_follows_pytorch() -> None:
    for kind in ("float32", "int64", "bool", "bfloat16"):
        for alpha in (1, 2, 2.5, True):
            check(
                lambda lib, a, b: lib.add(a, b, alpha=alpha), values(kind), values(kind, seed=1)
            )
            check(
                lambda lib, a, b: lib.sub(a, b, alpha=alpha), values(kind), values(kind, seed=1)
            )
            check(lambda lib, a: lib.rsub(a, 2, alpha=alpha), values(kind))


def test_division_by_the_integer_zero() -> None:
    for function in (lambda x: x // 0, lambda x: x % 0, lambda x: x.fmod(0)):
        check(lambda lib, x: function(x), values("int64"))
        check(lambda lib, x: function(x), values("float32"))


def test_numbers_that_do_not_fit_are_not_wrapped() -> None:
    x = rl.tensor([1, -1], dtype=rl.int8)
    assert (x < 256).tolist() == [True, True]
    assert (x > 256).tolist() == [False, False]
    assert (rl.tensor(1, dtype=rl.int16) // 32768).item() == 0


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 0.5, -0.5, -1, -2, 1.7, -3])
@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16", "int64", "uint8", "bool"])
def test_constant_powers(exponent: float, kind: str) -> None:
    check(lambda lib, x: x**exponent, values(kind), ulp=4)
    if kind == "float64":
        check_gradients(lambda lib, x: x**exponent, values(kind).abs())


def test_pow_gradients_at_zero() -> None:
    base = torch.tensor([0.0, 0.0, 2.0, 0.0], dtype=torch.float64)
    exponent = torch.tensor([0.0, 1.0, 0.0, 2.0], dtype=torch.float64)
    check_gradients(lambda lib, a, b: a**b, base, exponent, second=False)
    x = rl.tensor([0.0], requires_grad=True)
    (x**0).sum().backward()
    assert x.grad.item() == 0


@pytest.mark.parametrize("mode", [None, "trunc", "floor"])
@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "int8", "uint8", "bfloat16"])
def test_rounding_modes(mode: str | None, kind: str) -> None:
    b = values(kind, seed=3)
    if not b.dtype.is_floating_point:
        b[b == 0] = 2
    check(lambda lib, a, b: lib.div(a, b, rounding_mode=mode), values(kind), b)
    if kind == "float64":
        check_gradients(lambda lib, a, b: lib.div(a, b, rounding_mode=mode), values(kind), b)


CLAMPS = ((0, 2), (None, 1), (-1, None), (0.5, 1.5), (2.0, -1.0), (NAN, 1.0), (-INF, INF))


@pytest.mark.parametrize("bounds", CLAMPS)
def test_clamp(bounds) -> None:
    for kind in ("float32", "int64", "bfloat16", "uint8"):
        if kind == "uint8" and any(b is not None and b < 0 for b in bounds):
            continue
        check(lambda lib, x: x.clamp(*bounds), values(kind))
    edges = torch.tensor([0.0, 2.0, 1.0, -3.0, 5.0, 0.5, NAN], dtype=torch.float64)
    check(lambda lib, x: lib.clamp(x, *bounds), edges)
    check_gradients(lambda lib, x: lib.clamp(x, *bounds), edges)


def test_clamp_with_tensors() -> None:
    x, low, high = (values("float64", seed=i) for i in range(3))
    check_gradients(lambda lib, x, low, high: lib.clamp(x, low, high), x, low, high)
    check_gradients(lambda lib, x, low: lib.clamp(x, min=low), x, low)
    check_gradients(lambda lib, x, high: lib.clamp(x, max=high), x, high)
    check(lambda lib, x: lib.clamp(x), x)
    check(lambda lib, x, low: lib.clamp(x, low, 2.0), x, low)


def test_where_takes_scalars_and_broadcasts() -> None:
    condition = values("bool", (3, 1))
    for pair in (
        (1, 2.0),
        (1, 2),
        (True, False),
        (values("float32", (4,)), 2.5),
        (values("int64", (4,)), 2.5),
        (values("float64", ()), values("float32", (4,))),
    ):
        check(lambda lib, c, a, b: lib.where(c, a, b), condition, *pair)
    check(lambda lib, c: lib.where(c, 1, 2), values("float32"))


def test_dead_branches_do_not_poison_gradients() -> None:
    x = rl.tensor([-1.0, 9.0], requires_grad=True)
    rl.where(x > 0, rl.sqrt(x), x).sum().backward()
    assert x.grad.tolist() == pytest.approx([1.0, 1 / 6])
    a = rl.tensor([0.0, 1.0], requires_grad=True)
    d = rl.tensor([0.0, 2.0])
    rl.where(d == 0, rl.tensor([0.0, 0.0]), a / d).sum().backward()
    assert a.grad.tolist() == [0.0, 0.5]


def test_logaddexp_of_two_infinities() -> None:
    a = rl.tensor(-INF, requires_grad=True)
    b = rl.tensor(-INF, requires_grad=True)
    c = rl.tensor(2.0, requires_grad=True)
    y = rl.logaddexp(rl.logaddexp(a, b), c)
    y.backward()
    assert (y.item(), a.grad.item(), b.grad.item(), c.grad.item()) == (2.0, 0.0, 0.0, 1.0)
    a = rl.tensor([INF, -INF], requires_grad=True)
    rl.logaddexp(a, rl.tensor([INF, -INF])).sum().backward()
    assert a.grad.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("name", UNARY)
def test_unary_gradients(name: str) -> None:
    x = torch.linspace(0.05, 0.95, 9, dtype=torch.float64)
    if name == "acosh":
        x = x + 1
    if not getattr(torch, name)(x.long() if name == "bitwise_not" else x).is_floating_point():
        return
    ulp = 1e8 if name in ("digamma", "lgamma") else 2000  # PyTorch's trigamma has nine digits
    check_gradients(lambda lib, x: getattr(lib, name)(x), x, ulp=ulp, second=name != "abs")


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "sub",
        "mul",
        "div",
        "atan2",
        "copysign",
        "fmax",
        "fmin",
        "fmod",
        "hypot",
        "logaddexp",
        "logaddexp2",
        "maximum",
        "minimum",
        "pow",
        "remainder",
        "xlogy",
        "ldexp",
    ],
)
def test_binary_gradients(name: str) -> None:
    a = values("float64", (3, 4)).abs() + 0.1
    b = values("float64", (4,), 5).abs() + 0.1
    check_gradients(lambda lib, a, b: getattr(lib, name)(a, b), a, b)


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin", "abs", "relu"])
def test_gradients_at_ties(name: str) -> None:
    a = torch.tensor([1.0, 2.0, 0.0, NAN], dtype=torch.float64)
    b = torch.tensor([1.0, 1.0, 5.0, 1.0], dtype=torch.float64)
    if name in ("abs", "relu"):
        check_gradients(lambda lib, a: getattr(lib, name)(a), a[:3], second=False)
    else:
        check_gradients(lambda lib, a, b: getattr(lib, name)(a, b), a, b, second=False)


def test_updates_match() -> None:
    for kind in ("float32", "float64", "bfloat16", "float16"):
        x, a, b = (values(kind, seed=i) for i in range(3))
        for value in (1, 0.25, -2):
            check(lambda lib, x, a, b: lib.addcmul(x, a, b, value=value), x, a, b)
            check(lambda lib, x, a, b: lib.addcdiv(x, a, b, value=value), x, a, b)
        for weight in (0.0, 0.3, 0.9, 1.0, 2):
            check(lambda lib, x, a: lib.lerp(x, a, weight), x, a)
        check(lambda lib, x, a, b: lib.lerp(x, a, b), x, a, b)
    x, a, b = (values("float64", seed=i).abs() + 0.1 for i in range(3))
    check_gradients(lambda lib, x, a, b: lib.addcmul(x, a, b, value=0.3), x, a, b)
    check_gradients(lambda lib, x, a, b: lib.addcdiv(x, a, b, value=0.3), x, a, b)
    check_gradients(lambda lib, x, a, b: lib.lerp(x, a, b), x, a, b)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16", "int64", "bool"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str, kind: str) -> None:
    x = values(kind, (40,)) * 3
    if name == "gelu":  # PyTorch's cancels in the tail
        x = x.abs()
    check(lambda lib, x: getattr(lib.nn.functional, name)(x), x, ulp=64)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_gradients(name: str) -> None:
    x = torch.linspace(-8, 8, 32, dtype=torch.float64)
    ulp = 1e9 if name == "hardsigmoid" else 64  # PyTorch rounds 1/6 to float32
    second = name != "hardsigmoid"  # PyTorch has none
    check_gradients(
        lambda lib, x: getattr(lib.nn.functional, name)(x), x, ulp=ulp, second=second
    )


def test_activation_options() -> None:
    x = torch.linspace(-4, 4, 18, dtype=torch.float64)
    check_gradients(lambda lib, x: lib.nn.functional.gelu(x, approximate="tanh"), x)
    check_gradients(lambda lib, x: lib.nn.functional.elu(x, 0.5), x)
    check_gradients(lambda lib, x: lib.nn.functional.celu(x, 2.0), x)
    check_gradients(lambda lib, x: lib.nn.functional.softplus(x, 2.0, 3.0), x)
    check_gradients(lambda lib, x: lib.nn.functional.threshold(x, 1.0, 20.0), x)
    check_gradients(lambda lib, x: lib.nn.functional.hardtanh(x, -2.0, 1.0), x)
    check(lambda lib, x: lib.nn.functional.hardtanh(x, 2.0, 1.0), x)
    for low in (-1.0, -0.5, 1.5):  # limits of whole numbers lose their fractions
        check(
            lambda lib, x, low=low: lib.nn.functional.hardtanh(x, low, 3.0),
            torch.tensor([0, 1, 5], dtype=torch.uint8),
        )
    check(lambda lib, x: lib.nn.functional.celu(x, 0.0), x)
    check(lambda lib, x: lib.nn.functional.gelu(x, approximate="x"), x)
    check(lambda lib, x: lib.nn.functional.softshrink(x, -1.0), x)
    check(lambda lib, x: lib.nn.functional.relu_(x), x)
    check(lambda lib, x: lib.relu_(x), x)
    check(lambda lib, x: lib.nn.functional.silu(x, inplace=True), x)


def test_prelu_by_channel() -> None:
    x = values("float64", (2, 3, 4))
    check_gradients(lambda lib, x, w: lib.nn.functional.prelu(x, w), x, values("float64", (3,)))
    check_gradients(lambda lib, x, w: lib.nn.functional.prelu(x, w), x, values("float64", (1,)))
    check(lambda lib, x, w: lib.nn.functional.prelu(x, w), x, values("float64", (2,)))


def test_tails_stay_accurate() -> None:
    """Where naive forms cancel or overflow."""
    x = rl.tensor([-200.0, -20.0, 200.0], dtype=rl.float64, requires_grad=True)
    out = rl.nn.functional.logsigmoid(x)
    assert out.tolist() == pytest.approx([-200.0, -20.000000002061153, -1.3838965267367376e-87])
    out.sum().backward()
    assert x.grad.tolist() == pytest.approx([1.0, 0.9999999979388463, 1.3838965267367376e-87])
    big = rl.tensor([1e300, 1e-300], dtype=rl.float64)
    assert rl.hypot(big, big).tolist() == pytest.approx([2**0.5 * 1e300, 2**0.5 * 1e-300])


@pytest.mark.parametrize("decimals", [0, 1, 3, -1])
def test_round_to_decimals(decimals: int) -> None:
    check(lambda lib, x: lib.round(x * 37, decimals=decimals), values("float64", (20,)))


def test_frexp_and_ldexp() -> None:
    x = values("float32", (20,)) * 100
    ours, theirs = both(lambda lib, x: lib.frexp(x), x)
    agree(ours.mantissa, theirs.mantissa, 0)
    agree(ours.exponent, theirs.exponent)
    check(lambda lib, x: lib.frexp(x), values("int64"))


def test_isclose_and_equal() -> None:
    a, b = torch.tensor([1.0, INF, NAN, 1.0]), torch.tensor([1.0 + 1e-9, INF, NAN, 2.0])
    for equal_nan in (False, True):
        check(lambda lib, a, b: lib.isclose(a, b, equal_nan=equal_nan), a, b)
    check(lambda lib, a, b: lib.isclose(a, b), values("int64"), values("int64", seed=2))
    check(lambda lib, a, b: lib.isclose(a, b), values("int64"), values("float32"))
    assert rl.allclose(ours_of(a), ours_of(a), equal_nan=True)
    assert not rl.allclose(ours_of(a), ours_of(a))
    assert rl.equal(rl.tensor([1]), rl.tensor([1.0])) and not rl.equal(
        rl.tensor([1]), rl.tensor([1, 2])
    )


def test_half_precision_rounds_once() -> None:
    """The gradient of an op is calculated in float32 and rounded at the end."""
    for kind in HALF:
        x = values(kind, (200,))
        mine, yours = ours_of(x, True), x.clone().requires_grad_()
        rl.nn.functional.silu(mine).sum().backward()
        torch.nn.functional.silu(yours).sum().backward()
        agree(mine.grad, yours.grad, 1)
