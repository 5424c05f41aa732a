"""Complex tensors: arithmetic, functions, parts as views, and derivatives, against PyTorch.

Gradients follow PyTorch's convention: for a real function L of z = x + iy they are
dL/dx + i dL/dy, so factors of derivatives are conjugated.
"""

from __future__ import annotations

import cmath
import copy
import io
import math
from collections.abc import Callable
from typing import Any  # tensors of two libraries

import numpy as np
import pytest
from complex_parity import Function, array, check, drawn, real

import rushlight as torch

oracle = pytest.importorskip("torch")

A, B, C, X = drawn(3, 4), drawn(3, 4, seed=1), drawn(3, 4, seed=2), real(3, 4)


# -- arithmetic and functions

BINARY = ("add", "sub", "mul", "div", "pow")
UNARY = (
    "abs", "acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "conj", "cos", "cosh",
    "exp", "exp2", "expm1", "imag", "log", "log10", "log1p", "log2", "mean", "neg", "positive",
    "real", "reciprocal", "rsqrt", "sgn", "sigmoid", "sin", "sinh", "sqrt", "square", "sum",
    "tan", "tanh", "view_as_real",
)  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    check(lambda m, a, b: getattr(m, name)(a, b), A, B)


@pytest.mark.parametrize("name", BINARY)
def test_the_gradient_of_a_real_operand_is_real(name: str) -> None:
    check(lambda m, a, b: getattr(m, name)(a, b), A, X)
    check(lambda m, a, b: getattr(m, name)(a, b), abs(X), A)


@pytest.mark.parametrize("name", BINARY)
def test_complex_numbers_as_operands(name: str) -> None:
    check(lambda m, a: getattr(m, name)(a, 2.5 - 1j), A)
    check(lambda m, a: getattr(m, name)(a, 2.5 - 1j), abs(X))


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    check(lambda m, a: getattr(m, name)(a), A)


@pytest.mark.parametrize("name", UNARY)
def test_unary_of_complex64(name: str) -> None:
    x = A.astype(np.complex64)
    ours = getattr(torch, name)(torch.from_numpy(x))
    theirs = getattr(oracle, name)(oracle.from_numpy(x))
    assert str(ours.dtype) == str(theirs.dtype)
    np.testing.assert_allclose(array(ours), array(theirs), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.5, 1.5 - 2j])
def test_power_of_a_number(exponent: complex) -> None:
    check(lambda m, a: a**exponent, A)


EXTREMES = [
    complex(x, y)
    for x in (1e200, -1e200, 3e-200, 0.0, -0.0)
    for y in (1e200, -2e-200, 0.0, -0.0)
]


@pytest.mark.parametrize(("name", "function"), [("sqrt", cmath.sqrt), ("abs", abs)])
def test_extreme_parts(name: str, function: Callable[[complex], complex]) -> None:
    got = getattr(torch, name)(torch.tensor(EXTREMES, dtype=torch.complex128)).tolist()
    for mine, z in zip(got, EXTREMES, strict=True):
        assert mine == pytest.approx(function(z), rel=1e-14, abs=0.0), z


def test_division_of_huge_and_tiny_numbers() -> None:
    huge = torch.tensor([1e200 + 1e200j, 1e-200 - 1e-200j], dtype=torch.complex128)
    np.testing.assert_allclose((huge / huge).numpy(), [1, 1], rtol=1e-15)


@pytest.mark.parametrize(
    "name", ["acos", "acosh", "asin", "asinh", "atan", "atanh", "log", "sqrt"]
)
@pytest.mark.parametrize("z", [2 + 0.0j, 2 - 0.0j, -2 + 0.0j, complex(-2, -0.0), 2j, -2j])
def test_sides_of_branch_cuts(name: str, z: complex) -> None:
    got = getattr(torch, name)(torch.tensor(z, dtype=torch.complex128)).item()
    assert got == pytest.approx(getattr(cmath, name)(z), rel=1e-14, abs=1e-14)


AXES = [800 + 0.0j, complex(-800, -0.0), 800j, complex(-0.0, -800), 30 + 800j]


@pytest.mark.parametrize("name", ["sinh", "cosh", "sin", "cos", "tan", "tanh"])
@pytest.mark.parametrize("z", AXES)
def test_a_part_that_is_zero_stays_so_where_the_other_overflows(name: str, z: complex) -> None:
    ours = getattr(torch, name)(torch.tensor(z, dtype=torch.complex128)).item()
    theirs = getattr(oracle, name)(oracle.tensor(z, dtype=oracle.complex128)).item()
    assert repr(ours) == repr(theirs)


def test_what_is_divided_by_infinity_is_zero() -> None:
    parts = [math.inf, -math.inf, 1.5, -1.5, 0.0]
    divisors = [complex(x, y) for x in parts for y in parts if math.inf in (abs(x), abs(y))]
    for kind in (torch.complex64, torch.complex128):
        made = (3 - 2j) / torch.tensor(divisors, dtype=kind)
        assert made.tolist() == [0j] * len(divisors)
        assert torch.tensor(divisors, dtype=kind).reciprocal().eq(0).all()


@pytest.mark.parametrize("name", ["asin", "acos", "atan", "asinh", "acosh", "atanh"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_inverse_functions_at_infinity(name: str, dtype: str) -> None:
    parts = [math.inf, -math.inf, 1.5, -1.5, 0.0, -0.0]
    found = [complex(x, y) for x in parts for y in parts if math.inf in (abs(x), abs(y))]
    ours = getattr(torch, name)(torch.tensor(found, dtype=getattr(torch, dtype))).numpy()
    expected = np.array([getattr(cmath, name)(z) for z in found])
    for part in ("real", "imag"):
        np.testing.assert_allclose(getattr(ours, part), getattr(expected, part), rtol=1e-6)


@pytest.mark.parametrize("name", ["exp", "sinh", "cosh", "sin", "cos", "tan", "tanh"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_at_infinity_what_has_a_value_in_c_has_it(name: str, dtype: str) -> None:
    """Also where the other part is infinite or NaN; signs that C leaves open are free."""
    parts = [math.inf, -math.inf, math.nan, 1.5, -1.5, 0.0, 500.0, -500.0]
    found = [complex(x, y) for x in parts for y in parts]
    ours = getattr(torch, name)(torch.tensor(found, dtype=getattr(torch, dtype))).numpy()
    theirs = getattr(oracle, name)(oracle.tensor(found, dtype=getattr(oracle, dtype))).numpy()
    for part in ("real", "imag"):
        np.testing.assert_allclose(
            abs(getattr(ours, part)), abs(getattr(theirs, part)), rtol=1e-5, err_msg=part
        )


@pytest.mark.parametrize(("name", "z"), [("atanh", 1 + 1e-300j), ("atan", 1e-300 + 1j)])
def test_next_to_a_pole(name: str, z: complex) -> None:
    got = getattr(torch, name)(torch.tensor(z, dtype=torch.complex128)).item()
    assert got == pytest.approx(getattr(cmath, name)(z), rel=1e-14)


def test_zero_to_powers() -> None:
    powers = torch.tensor([0j, 2 + 0j, 1 + 1j])
    assert torch.pow(torch.zeros(3, dtype=torch.complex64), powers).tolist() == [1, 0, 0]


def test_comparisons() -> None:
    a = torch.tensor([1 + 1j, 1 + 1j, 1 + 1j])
    b = torch.tensor([1 + 1j, 1 + 2j, 2 + 1j])
    assert (a == b).tolist() == [True, False, False]
    assert (a != b).tolist() == [False, True, True]
    for name in ("lt", "le", "gt", "ge", "maximum", "minimum", "atan2", "fmod"):
        with pytest.raises(RuntimeError, match=name):
            getattr(torch, name)(a, b)


@pytest.mark.parametrize(
    "name", ["floor", "ceil", "sign", "erf", "relu", "sort", "argmax", "max"]
)
def test_what_has_no_meaning_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError):
        getattr(torch, name)(torch.tensor([1 + 1j]))


def test_tests_of_kinds() -> None:
    inf, nan = math.inf, math.nan
    x = torch.tensor([1 + 1j, complex(inf, 0), complex(0, nan), complex(inf, nan)])
    assert torch.isfinite(x).tolist() == [True, False, False, False]
    assert torch.isinf(x).tolist() == [False, True, False, True]
    assert torch.isnan(x).tolist() == [False, False, True, True]
    assert torch.tensor([1 + 0j, 1j]).isreal().tolist() == [True, False]


# -- parts


def test_views_of_parts_share_memory() -> None:
    z = torch.tensor([1 + 2j, 3 + 4j])
    parts = torch.view_as_real(z)
    z.real[0] = 10
    z.imag.mul_(2)
    parts[1, 0] = -3
    assert z.tolist() == [10 + 4j, -3 + 8j]
    assert parts.tolist() == [[10, 4], [-3, 8]]
    whole = torch.view_as_complex(parts)
    whole[0] = 0
    assert z.tolist() == [0, -3 + 8j] and whole.data_ptr() == z.data_ptr()
    assert z.imag.stride() == (2,) and z.imag.storage_offset() == 1


def test_parts_are_assigned() -> None:
    z = torch.zeros(2, dtype=torch.complex64)
    z.real, z.imag = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert z.tolist() == [1 + 3j, 2 + 4j]


def test_numpy_sees_views_of_parts() -> None:
    z = torch.zeros(3, dtype=torch.complex128)
    z.imag.numpy()[:] = [1, 2, 3]
    assert z.tolist() == [1j, 2j, 3j]


def test_slices_of_parts() -> None:
    z = torch.from_numpy(drawn(4, 6))
    np.testing.assert_array_equal(z[1:, ::2].imag.t().numpy(), drawn(4, 6)[1:, ::2].imag.T)
    np.testing.assert_array_equal((z.real[2] + 1).numpy(), drawn(4, 6).real[2] + 1)


def test_derivatives_through_writes_to_parts() -> None:
    def to_parts(m: Any, a: Any, x: Any) -> Any:
        y = a * 1
        y.real.mul_(3)
        y.imag[0] = 7
        y.imag[1] = x[1]
        y[2] *= 1j
        return y * a

    def to_pairs(m: Any, x: Any, a: Any) -> Any:
        y = x * 1
        z = m.view_as_complex(y)
        z.mul_(a)
        z.imag.add_(1)
        return y * y

    check(to_parts, A, X)
    check(to_pairs, real(3, 2), drawn(3))


def test_view_as_complex_needs_pairs() -> None:
    flat = torch.arange(12.0)
    assert torch.view_as_complex(flat.reshape(2, 3, 2)).shape == (2, 3)
    for bad in (flat.reshape(4, 3), flat[1:11].reshape(5, 2), flat.reshape(2, 6).t()):
        with pytest.raises(RuntimeError, match="view_as_complex"):
            torch.view_as_complex(bad)


def test_parts_put_together() -> None:
    check(lambda m, a, b: m.complex(a, b), X, X + 1)
    check(lambda m, a, b: m.polar(a, b), abs(X), X + 1)
    check(lambda m, x: m.view_as_complex(x) * 2j, real(3, 2))


def test_modulus_and_direction_of_zero_have_no_slope() -> None:
    z = torch.zeros(2, dtype=torch.complex128, requires_grad=True)
    (z.abs().sum() + z.sgn().real.sum() + z.angle().sum()).backward()
    assert z.grad.tolist() == [0, 0]


# -- casts, creation, printing


def test_casts() -> None:
    z = torch.tensor([1.5 - 2j, 0j, 1j])
    assert z.bool().tolist() == [True, False, True]
    assert z.to(torch.complex128).dtype is torch.complex128
    assert torch.tensor([2, 3]).to(torch.complex64).tolist() == [2, 3]
    assert torch.promote_types(torch.complex64, torch.float64) is torch.complex128
    check(lambda m, x: x.to(m.complex128) * (1 + 2j), X)


def test_creation() -> None:
    assert torch.ones(2, dtype=torch.complex64).tolist() == [1, 1]
    assert torch.full((2,), 1 - 1j).dtype is torch.complex64
    assert torch.eye(2, dtype=torch.complex128).tolist() == [[1, 0], [0, 1]]
    draw = torch.randn(100_000, dtype=torch.complex64)
    assert draw.dtype is torch.complex64
    assert draw.real.var().item() == pytest.approx(0.5, rel=0.03)
    assert draw.imag.var().item() == pytest.approx(0.5, rel=0.03)
    assert torch.rand(10, dtype=torch.complex64).imag.min().item() >= 0


def test_printing() -> None:
    assert repr(torch.tensor([1 + 2j, -0.5j])) == "tensor([1.+2.0000j, -0.-0.5000j])"
    assert repr(torch.view_as_real(torch.tensor([1 + 2j]))) == "tensor([[1., 2.]])"


# -- reductions, products, movement


def test_reductions() -> None:
    for name in ("sum", "mean", "prod", "cumsum", "cumprod"):
        check(lambda m, a, name=name: getattr(m, name)(a, 1), A)
    for name in ("std", "var"):
        check(lambda m, a, name=name: getattr(m, name)(a, 1), A)


def test_products_with_zeros() -> None:
    holes = A * (abs(A) > 0.8)
    check(lambda m, a: a.prod(1), holes)
    check(lambda m, a: a.cumprod(1), holes)


def test_matrix_products() -> None:
    check(lambda m, a, b: a @ b.mT, A, B)
    check(lambda m, a, b: a @ b, A, drawn(4))
    check(lambda m, a, b: m.bmm(a, b), drawn(2, 3, 4), drawn(2, 4, 5))
    check(lambda m, a, b: m.einsum("ij,kj->ik", a, b), A, B)
    check(lambda m, a, b, c: m.nn.functional.linear(a, b, c), A, B, drawn(3))
    check(lambda m, a, b, c: m.addmm(c, a, b.mT, beta=2j, alpha=1 + 1j), A, B, drawn(3, 3))
    for name in ("dot", "vdot", "outer"):
        check(lambda m, a, b, name=name: getattr(m, name)(a, b), drawn(4), drawn(4, seed=1))


def test_movement_and_indices() -> None:
    index, places = [0, 2, 0], [[0, 3, 1, 2]] * 3
    check(lambda m, a: a[m.tensor(index)], A)
    check(lambda m, a: a[:, 1:][m.tensor(index)], A)
    check(lambda m, a: a[1:, ::2], A)
    check(lambda m, a: m.gather(a, 1, m.tensor(places)), A)
    check(lambda m, a, b: a.scatter(1, m.tensor(places), b), A, B)
    check(lambda m, a, b: a.scatter_add(1, m.tensor(places), b), A, B)
    check(lambda m, a, b: m.cat([a, b], 1), A, B)
    check(lambda m, a, b: m.where(a.real > 0, a, b), A, B)
    check(lambda m, a: a.masked_fill(m.tensor([True, False, True, False]), 1j), A)
    check(lambda m, a: m.nn.functional.pad(a, (1, 2)), A)


def test_mixtures() -> None:
    check(lambda m, a, b: m.lerp(a, b, 0.3), A, B)
    check(lambda m, a, b, c: m.lerp(a, b, c), A, B, C)
    check(lambda m, a, b, c: m.addcmul(a, b, c, value=2 - 1j), A, B, C)
    check(lambda m, a, b, c: m.addcdiv(a, b, c, value=2 - 1j), A, B, C)


def test_samples_of_a_batch() -> None:
    """`vmap` gives a lowering the planes of one sample."""

    def sample(m: Any, x: Any) -> Any:
        y = m.cat([(x.exp() * 2j + x.abs()).sum(0) * x, (x @ x.mT) @ x.conj()], 0)
        return y[m.tensor([0, 4, 2])] + x.real.cumsum(0) + m.view_as_real(x)[..., 1]

    z = drawn(5, 3, 4)
    ours = torch.vmap(lambda x: sample(torch, x))(torch.from_numpy(z))
    theirs = oracle.vmap(lambda x: sample(oracle, x))(oracle.from_numpy(z))
    np.testing.assert_allclose(array(ours), array(theirs), rtol=1e-10)


# -- linear algebra


def hermitian(x: Any) -> Any:
    return (x + x.mH) / 2


def squared(x: Any) -> Any:
    return x.abs() ** 2


SQUARE = drawn(2, 3, 3) + 2 * np.eye(3)
DEFINITE = drawn(2, 3, 3) @ drawn(2, 3, 3).conj().swapaxes(1, 2) + 3 * np.eye(3)


@pytest.mark.parametrize("name", ["det", "eigvals", "inv", "matrix_exp", "pinv", "svdvals"])
def test_functions_of_matrices(name: str) -> None:
    def function(m: Any, a: Any) -> Any:
        made = getattr(m.linalg, name)(a)
        return (made**2).sum(-1) if name == "eigvals" else made  # their order is free

    check(function, SQUARE)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3)])
def test_factors(shape: tuple[int, ...]) -> None:
    a = drawn(*shape)
    check(lambda m, a: m.linalg.lu_factor(a)[0], a)
    check(lambda m, a: m.linalg.qr(a)[1], a)
    check(lambda m, a: m.linalg.pinv(a), a)
    check(lambda m, a: m.linalg.matrix_norm(a, "nuc"), a)
    for part in (0, 2):
        check(lambda m, a, p=part: squared(m.linalg.svd(a, full_matrices=False)[p]), a)


def test_eigenvectors() -> None:
    check(lambda m, a: squared(m.linalg.eig(a)[1]).sum(-1), SQUARE)
    check(lambda m, a: squared(m.linalg.eig(a)[1]).sum(-1), real(3, 3))
    check(lambda m, a: squared(m.linalg.eigh(hermitian(a))[1]), DEFINITE)


def test_determinants() -> None:
    check(lambda m, a: m.linalg.slogdet(a)[0], SQUARE)
    check(lambda m, a: m.linalg.slogdet(a)[1], SQUARE)
    check(lambda m, a: m.logdet(a), SQUARE)


@pytest.mark.parametrize("upper", [False, True])
def test_equations(upper: bool) -> None:
    b = drawn(2, 3, 2)
    check(lambda m, a, b: m.linalg.solve(a, b), SQUARE, b)
    check(lambda m, a, b: m.linalg.solve(a, b.mT, left=False), SQUARE, b)
    check(lambda m, a, b: m.linalg.solve_triangular(a, b, upper=upper), SQUARE, b)
    check(
        lambda m, a, b: m.linalg.lu_solve(*m.linalg.lu_factor(a), b, adjoint=upper), SQUARE, b
    )
    check(lambda m, a: m.linalg.cholesky(hermitian(a), upper=upper), DEFINITE)
    check(lambda m, a: m.linalg.eigvalsh(hermitian(a), UPLO="U" if upper else "L"), DEFINITE)

    def from_root(m: Any, a: Any, b: Any) -> Any:
        return m.cholesky_solve(b, m.linalg.cholesky(hermitian(a), upper=upper), upper)

    check(from_root, DEFINITE, b)
    check(lambda m, a, b: m.linalg.lstsq(a, b)[0], drawn(4, 3), drawn(4, 2))


@pytest.mark.parametrize("is_hermitian", [False, True])
def test_ldl_factors(is_hermitian: bool) -> None:
    x = drawn(4, 5, 5)
    a = x + (x.conj() if is_hermitian else x).swapaxes(1, 2)
    a[0] *= 1 - np.eye(5)  # needs blocks of two
    ours = torch.linalg.ldl_factor_ex(torch.from_numpy(a), hermitian=is_hermitian)
    theirs = oracle.linalg.ldl_factor_ex(oracle.from_numpy(a), hermitian=is_hermitian)
    np.testing.assert_allclose(np.tril(array(ours[0])), np.tril(array(theirs[0])), rtol=1e-9)
    assert ours.pivots.tolist() == theirs.pivots.tolist()
    b = torch.from_numpy(drawn(4, 5, 2))
    made = torch.linalg.ldl_solve(ours.LD, ours.pivots, b, hermitian=is_hermitian)
    np.testing.assert_allclose(a @ array(made), array(b), rtol=1e-9)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_products_of_reflections(left: bool, transpose: bool) -> None:
    a, other = drawn(4, 3), drawn(4, 2) if left else drawn(2, 4)
    made = []
    for m in (torch, oracle):
        h, tau = m.geqrf(m.from_numpy(a))
        made += [array(h), array(tau), array(m.linalg.householder_product(h, tau))]
        found = m.ormqr(h, tau, m.from_numpy(other), left=left, transpose=transpose)
        made.append(array(found))
    for ours, theirs in zip(made[:4], made[4:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_convolutions() -> None:
    check(
        lambda m, x, w, b: m.nn.functional.conv2d(x, w, b, stride=2, padding=1),
        drawn(2, 3, 5, 5), drawn(4, 3, 2, 2), drawn(4),
    )  # fmt: skip
    check(
        lambda m, x, w: m.nn.functional.conv_transpose1d(x, w), drawn(2, 3, 4), drawn(3, 2, 2)
    )


def test_logarithms_of_sums() -> None:
    check(lambda m, a, b: m.logaddexp(a, b), A, B)
    check(lambda m, a: m.logcumsumexp(a, 1), A)
    assert torch.sigmoid(torch.tensor([1000 + 1j, -1000 + 1j])).tolist() == [1, 0]


# -- what is refused, and other corners


@pytest.mark.parametrize(
    "name",
    ["amax", "batch_norm", "cummax", "deg2rad", "heaviside", "isposinf", "layer_norm", "max",
     "maximum", "median", "mse_loss", "relu", "softmax", "sort", "floor_divide"],
)  # fmt: skip
def test_refusals_are_those_of_pytorch(name: str) -> None:
    pairs = ("floor_divide", "heaviside", "maximum", "mse_loss")
    more = {"cummax": (0,), "softmax": (0,), "layer_norm": ((2,),), "batch_norm": (None, None)}
    raised = []
    for m in (torch, oracle):
        x = m.tensor([[1 + 2j, 3 - 1j], [1j, 2 + 0j]])
        function = getattr(m, name, None)
        if name in ("batch_norm", "layer_norm", "mse_loss", "softmax"):
            function = getattr(m.nn.functional, name)
        named = {"training": True} if name == "batch_norm" else {}
        with pytest.raises(RuntimeError) as error:
            function(x, *([x] if name in pairs else more.get(name, ())), **named)
        raised.append(error.type)
    assert raised[0] is raised[1]


def test_sizes_do_not_replace_complex_numbers() -> None:
    z = torch.tensor([3 + 4j])
    with pytest.raises(RuntimeError, match="abs_"):
        z.abs_()
    assert z.logical_not_().tolist() == [0]


def test_numbers_in_python() -> None:
    assert int(torch.tensor(3 + 0j)) == 3 and complex(torch.tensor(1 - 2j)) == 1 - 2j
    with pytest.raises(RuntimeError, match="real"):
        float(torch.tensor(1 + 1j))
    assert bool(torch.tensor(1j)) and not torch.tensor(0j)


def test_points_between_complex_ends() -> None:
    for m in (torch, oracle):
        made = m.linspace(1, 2j, 3, dtype=m.complex128)
        np.testing.assert_allclose(made.numpy(), [1, 0.5 + 1j, 2j])
    powers = torch.logspace(0, 2j, 3, base=10, dtype=torch.complex128)
    np.testing.assert_allclose(powers.numpy(), 10 ** np.array([0, 1j, 2j]))


def test_parts_that_are_not_numbers_are_replaced() -> None:
    z = torch.tensor([complex(math.nan, math.inf), 1 - 1j])
    assert torch.nan_to_num(z, posinf=9.0).tolist() == [9j, 1 - 1j]


# -- the rest of the library


@pytest.mark.parametrize(
    "function",
    [torch.exp, torch.abs, torch.sgn, torch.angle, torch.sigmoid, torch.view_as_real],
)
def test_tangents_and_batches_of_gradients(function: Function) -> None:
    z = torch.from_numpy(drawn(3)).requires_grad_()
    assert torch.autograd.gradcheck(
        function, (z,), check_forward_ad=True, check_batched_grad=True
    )


def test_a_missing_conjugate_is_found() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, z: Any) -> Any:
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2 * ctx.saved_tensors[0]

    z = torch.from_numpy(drawn(3)).requires_grad_()
    with pytest.raises(RuntimeError, match="Jacobian"):
        torch.autograd.gradcheck(Square.apply, (z,))


def test_views_of_parts_are_saved_and_copied() -> None:
    z = torch.tensor([[1 + 2j, 3 - 1j], [5j, 2]])
    for view in (z.imag, z.real[1], torch.view_as_real(z)[:, 0]):
        file = io.BytesIO()
        torch.save(view, file)
        file.seek(0)
        assert torch.load(file).tolist() == view.tolist()
        assert view.untyped_storage().nbytes() == 32
    whole, part = copy.deepcopy((z, z.imag))
    part.zero_()
    assert whole.tolist() == [[1, 3], [0, 2]]


@pytest.mark.parametrize("name", ["Adagrad", "Adam", "LBFGS", "RMSprop", "SGD"])
def test_complex_parameters_are_optimised(name: str) -> None:
    made = []
    for m in (torch, oracle):
        p = m.from_numpy(drawn(4)).requires_grad_()
        optimizer = getattr(m.optim, name)([p], lr=0.1)

        def closure(m: Any = m, p: Any = p, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = ((p - (2 - 1j)).abs() ** 2).sum()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        made.append(array(p))
    np.testing.assert_allclose(*made, rtol=1e-8)


# -- half precision


def test_there_are_no_complex_numbers_of_half_precision() -> None:
    """PyTorch's are experimental: nothing quietly takes a wider dtype in their place."""
    half = torch.ones(2, dtype=torch.float16)
    for refused in (
        lambda: half * 1j,
        lambda: torch.complex(half, half),
        lambda: torch.view_as_complex(half),
        lambda: torch.result_type(half, 1j),
        lambda: torch.where(half > 0, half, 1j),
        lambda: half * torch.tensor(1j),
        lambda: torch.tensor([1j]).chalf(),
    ):
        with pytest.raises(NotImplementedError, match="half precision"):
            refused()
    for name in ("complex32", "chalf"):
        assert not hasattr(torch, name)
        with pytest.raises(AttributeError, match="half precision"):
            getattr(torch, name)


def test_brain_floats_become_complex64() -> None:
    for m in (torch, oracle):
        x = m.tensor([1.0, 2.0], dtype=m.bfloat16)
        assert (x * 2j).tolist() == [2j, 4j] and (x * 2j).dtype is m.complex64
        assert m.result_type(x, 1j) is m.complex64
        assert (x + m.tensor(1j)).tolist() == [1 + 1j, 2 + 1j]
