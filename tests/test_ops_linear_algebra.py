"""Factorisations, equations, determinants and norms of matrices against PyTorch."""

import math
import warnings

import numpy as np
import pytest
from parity import check, check_error, normal, resolve

import rushlight

torch = pytest.importorskip("torch")

A = normal(2, 4, 4)
TALL, WIDE = normal(5, 3), normal(3, 5)
POSITIVE = A @ A.swapaxes(-1, -2) + np.eye(4)
SINGULAR = np.ones((2, 2))


@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "svdvals"])
def test_functions_of_a_matrix(name):
    check(f"linalg.{name}", A)
    check(f"linalg.{name}", np.zeros((2, 0, 0)), second=False)


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_matrix_norms(ord):
    for x in (TALL, WIDE):
        check("linalg.matrix_norm", x, ord, second=False)
        check("linalg.norm", x, ord, second=False)
    check("linalg.matrix_norm", normal(2, 3, 4), ord, (0, 2), True, second=False)
    check("linalg.matrix_norm", normal(2, 3, 4), ord, (2, 1), second=False)
    check("linalg.cond", A, ord, grad=ord in (2, -2), second=False)  # PyTorch has no others


def test_norms_by_what_is_given():
    x = normal(2, 3, 4)
    check("linalg.norm", x)
    check("linalg.norm", x, 3, 1, second=False)
    check("linalg.norm", x, None, (0, 2), True)
    check("linalg.norm", x.astype("float32"), 2, (0, 1), dtype="dtype:float64", second=False)
    check("norm", x, "nuc", (1, 2), second=False)
    check("norm", TALL, "nuc", second=False)


def test_wrong_norms_raise_what_pytorch_raises():
    for ord in (3, "max"):
        check_error(RuntimeError, "linalg.matrix_norm", A, ord)
    check_error(RuntimeError, "linalg.matrix_norm", A[0, 0])
    check_error(RuntimeError, "linalg.matrix_norm", A, 2, (0,))
    check_error(RuntimeError, "linalg.matrix_norm", A, 2, (0, 0))
    check_error(RuntimeError, "linalg.norm", A, 2)
    check_error(RuntimeError, "linalg.norm", A, 2, (0, 1, 2))
    check_error(RuntimeError, "norm", A, "nuc")


@pytest.mark.parametrize("left", [True, False])
def test_equations(left):
    b = normal(2, 4, 3) if left else normal(2, 3, 4)
    check("linalg.solve", A, b, left=left)
    check("linalg.solve", A[0], b, left=left)
    for upper in (True, False):
        for unit in (True, False):
            check(
                "linalg.solve_triangular", A, b, upper=upper, left=left, unitriangular=unit,
                second=False,
            )  # fmt: skip


def test_equations_of_vectors():
    check("linalg.solve", A[0], normal(4))
    check("linalg.solve", A, normal(2, 4))
    check("triangular_solve", normal(4, 2), A[0], True, True, second=False)
    root = np.linalg.cholesky(POSITIVE)
    check("cholesky_solve", normal(2, 4, 3), root, grad=False)
    check("cholesky_inverse", root, grad=False)
    check("cholesky_inverse", root[:, :0, :0], grad=False)
    check_error(RuntimeError, "linalg.lu_solve", A, np.ones((2, 4), np.int32), normal(2, 3, 1))


@pytest.mark.parametrize("adjoint", [True, False])
@pytest.mark.parametrize("zero", [0, 1, 2])
def test_lu_solve_makes_nan_of_what_needs_an_infinite_row(adjoint, zero):
    packed = np.array([[2.0, 1.0, 3.0], [1.0, 1.5, 4.0], [3.0, 4.0, 5.0]])
    packed[zero, zero] = 0
    b, pivots = (
        np.array([[1.0, 0.0], [2.0, math.inf], [3.0, 5.0]]),
        np.array([2, 3, 3], np.int32),
    )
    check("linalg.lu_solve", packed, pivots, b, adjoint=adjoint, grad=False)


def test_large_triangles():
    for size in (32, 33, 100):
        a, b = normal(2, size, size) + 20 * np.eye(size), normal(2, size, 3)
        for upper in (True, False):
            check("linalg.solve_triangular", a, b, upper=upper, grad=False)


def test_equations_without_solution():
    for name, args in (("inv", ()), ("solve", (np.ones((2, 1)),))):
        ours = [rushlight.tensor(x.tolist()) for x in (SINGULAR, *args)]
        with pytest.raises(rushlight.linalg.LinAlgError, match="singular"):
            getattr(rushlight.linalg, name)(*ours)
    both = rushlight.tensor([np.eye(2).tolist(), SINGULAR.tolist()])
    found = rushlight.linalg.inv_ex(both)
    assert found.info.tolist() == [0, 2]
    assert found.inverse[0].tolist() == [[1, 0], [0, 1]]
    with pytest.raises(rushlight.linalg.LinAlgError, match="positive-definite"):
        rushlight.linalg.cholesky(-rushlight.eye(2))


SINGULAR_PIVOTS = [
    np.diag([1.0, 2.0, 0.0, 3.0]), np.zeros((2, 2)), np.ones((3, 3)), np.eye(3),
    np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]]), np.array([[0.0, 1], [0, 2]]),
    np.stack([np.eye(3), np.diag([1.0, 0, 1]), np.ones((3, 3))]),
    np.array([[1.0 + 1j, 2], [2 + 2j, 4]]),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:torch.lu is deprecated")
@pytest.mark.parametrize("matrix", SINGULAR_PIVOTS, ids=str)
def test_info_is_the_first_pivot_of_zero(matrix):

    def outcomes(lib):
        a = lib.from_numpy(matrix.copy())
        b = lib.ones_like(a)
        infos = [
            lib.linalg.inv_ex(a).info, lib.linalg.solve_ex(a, b).info,
            lib.linalg.solve_ex(a, b, left=False).info, lib.linalg.lu_factor_ex(a).info,
            lib.lu(a, get_infos=True)[2],
        ]  # fmt: skip
        told = [str(i.dtype) for i in infos] + [i.tolist() for i in infos]
        calls = (
            lambda: lib.linalg.inv(a), lambda: lib.linalg.inv_ex(a, check_errors=True),
            lambda: lib.linalg.solve(a, b),
            lambda: lib.linalg.solve_ex(a, b, check_errors=True),
        )  # fmt: skip
        for call in calls:
            try:
                call()
                told.append("solved")
            except RuntimeError as error:
                told.append(str(error).removeprefix("torch."))
        return told

    assert outcomes(rushlight) == outcomes(torch)


def test_factors_of_matrices_without_one_say_where():
    batch = np.stack([np.eye(3), np.diag([1.0, 2, -3]), np.diag([-1.0, 2, 3])])
    for name in ("linalg.cholesky", "linalg.cholesky_ex", "cholesky", "cholesky_inverse"):
        messages = []
        for lib in (torch, rushlight):
            named = {"check_errors": True} if name.endswith("_ex") else {}
            matrix = lib.from_numpy(batch if name != "cholesky_inverse" else batch * 0)
            with pytest.raises(RuntimeError) as found, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyTorch's, of a deprecated name
                resolve(lib, name)(matrix, **named)
            messages.append(str(found.value))
        assert messages[0] == messages[1]
    with pytest.raises(rushlight.linalg.LinAlgError, match=r"^linalg.ldl_factor: D\[2,2\]"):
        rushlight.linalg.ldl_factor(rushlight.diag(rushlight.tensor([1.0, 0.0])))


@pytest.mark.parametrize("upper", [False, True])
def test_triangles_with_zeros_on_the_diagonal_are_solved_as_far_as_they_go(upper):
    """And other matrices of the batch have the bits that they have alone."""
    a = normal(3, 4, 4)
    b = normal(3, 4, 2, seed=1)
    alone = rushlight.linalg.solve_triangular(
        rushlight.from_numpy(a[0]), rushlight.from_numpy(b[0]), upper=upper
    )
    a[1, 2, 2] = a[2, 0, 0] = a[2, 3, 3] = 0
    check("linalg.solve_triangular", a, b, upper=upper, grad=False)
    check("triangular_solve", b, a, upper, grad=False)
    found = rushlight.linalg.solve_triangular(
        rushlight.from_numpy(a), rushlight.from_numpy(b), upper=upper
    )
    assert found[0].tolist() == alone.tolist()


def test_wrong_matrices_raise_what_pytorch_raises():
    for name in ("inv", "det", "cholesky", "eigh", "slogdet"):
        check_error(RuntimeError, f"linalg.{name}", TALL)
        check_error(RuntimeError, f"linalg.{name}", TALL[0])
    check_error(RuntimeError, "linalg.inv", np.ones((2, 2), int))
    check_error(RuntimeError, "linalg.solve", A, normal(3, 1))
    check_error(RuntimeError, "linalg.solve", A, normal(2, 4, 1, dtype="float32"))
    check_error(RuntimeError, "linalg.eigh", A, "X")
    check_error(RuntimeError, "linalg.qr", A, "thin")


def test_pivots_of_other_matrices_are_refused():
    """PyTorch reads and writes memory of others (2.13)."""
    factors, pivots = rushlight.linalg.lu_factor(rushlight.tensor(A))
    for wrong in (pivots[:1], pivots[:, :3], pivots[0], pivots.expand(3, *pivots.shape)):
        with pytest.raises(RuntimeError, match="lu_unpack: pivots"):
            rushlight.lu_unpack(factors, wrong)


def test_the_determinant_of_a_singular_matrix_has_gradients():
    """The cofactors, where PyTorch 2.13 has zeros for the first matrix."""
    for rows, cofactors in (
        ([[1.0, 2.0], [2.0, 4.0]], [[4.0, -2.0], [-2.0, 1.0]]),
        ([[2.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 2.0]]),
    ):
        x = rushlight.tensor(rows, dtype=rushlight.float64, requires_grad=True)
        rushlight.linalg.det(x).backward()
        assert rushlight.allclose(x.grad, rushlight.tensor(cofactors, dtype=x.dtype))


@pytest.mark.parametrize("upper", [True, False])
def test_cholesky(upper):
    leaf = rushlight.tensor(A[0].tolist(), dtype=rushlight.float64, requires_grad=True)

    def root(x):
        return rushlight.linalg.cholesky(x @ x.mT + rushlight.eye(4), upper=upper)

    made = root(leaf)
    whole = made.mT @ made if upper else made @ made.mT
    assert rushlight.allclose(whole, leaf @ leaf.mT + rushlight.eye(4))
    assert rushlight.autograd.gradcheck(root, (leaf,))
    check("linalg.cholesky", POSITIVE, upper=upper, grad=False)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 4)])
def test_products_of_factors(shape):
    """Factors are free up to signs: products that are not are compared with the matrix."""
    x = normal(*shape)
    leaf = rushlight.tensor(x.tolist(), dtype=rushlight.float64, requires_grad=True)

    def by_svd(a):
        u, s, vh = rushlight.linalg.svd(a, full_matrices=False)
        return (u * s.sqrt().unsqueeze(-2)) @ vh, u.square() @ vh.square()

    def by_qr(a):
        q, r = rushlight.linalg.qr(a)
        return q.square(), r.square()

    u, s, vh = rushlight.linalg.svd(leaf, full_matrices=False)
    q, r = rushlight.linalg.qr(leaf)
    assert rushlight.allclose((u * s.unsqueeze(-2)) @ vh, leaf)
    assert rushlight.allclose(q @ r, leaf)
    assert rushlight.autograd.gradcheck(by_svd, (leaf,))
    assert rushlight.autograd.gradcheck(by_qr, (leaf,))


def test_full_factors():
    u, s, vh = rushlight.linalg.svd(rushlight.tensor(TALL.tolist()))
    assert u.shape == (5, 5) and s.shape == (3,) and vh.shape == (3, 3)
    assert rushlight.allclose(u.mT @ u, rushlight.eye(5), atol=1e-5)
    q, r = rushlight.linalg.qr(rushlight.tensor(TALL.tolist()), "complete")
    assert q.shape == (5, 5) and r.shape == (5, 3)
    assert rushlight.linalg.qr(rushlight.ones(2, 3), "r").Q.numel() == 0
    u, s, v = rushlight.svd(rushlight.tensor(WIDE.tolist()))
    assert rushlight.allclose(u * s @ v.mT, rushlight.tensor(WIDE.tolist()), atol=1e-5)


def test_eigenvalues():
    leaf = rushlight.tensor(A[0].tolist(), dtype=rushlight.float64, requires_grad=True)

    def parts(x):
        values, vectors = rushlight.linalg.eigh(x + x.mT)
        return values, vectors.square(), rushlight.linalg.eigvalsh(x + x.mT, "U")

    assert rushlight.autograd.gradcheck(parts, (leaf,))
    check("linalg.eigvalsh", POSITIVE, second=False)


def test_equal_values_divide_nothing():
    leaf = rushlight.eye(3, dtype=rushlight.float64, requires_grad=True)
    rushlight.linalg.svd(leaf, full_matrices=False).S.sum().backward()
    assert leaf.grad.tolist() == np.eye(3).tolist()


@pytest.mark.parametrize("x", [TALL, WIDE, A, np.outer([1.0, 2.0], [3.0, 4.0, 5.0])])
def test_pseudoinverses(x):
    check("linalg.pinv", x, second=False)
    check("linalg.matrix_rank", x)
    check("linalg.pinv", x, atol=2.0, second=False)
    check("linalg.matrix_rank", x, rtol=0.5)


@pytest.mark.parametrize("cuts", [[0.1, 2.0], [[0.1], [0.3], [2.0]]])
@pytest.mark.parametrize("x", [TALL, WIDE, A])
def test_tolerances_of_pseudoinverses_broadcast(x, cuts):
    cuts = np.array(cuts)
    check("linalg.pinv", x, cuts, second=False, grad=False)
    found = rushlight.linalg.pinv(rushlight.tensor(TALL), atol=rushlight.tensor(cuts))
    assert found.shape == (*cuts.shape, 3, 5)


def test_products_with_names():
    check("linalg.cross", normal(4, 3), normal(1, 3, seed=1))
    check("cross", normal(3, 4), normal(3, 4, seed=1))
    check("linalg.vecdot", normal(4, 3), normal(3, seed=1))
    check_error(RuntimeError, "linalg.vecdot", np.array([1, 2]), np.array([5, 6]))
    check("linalg.vander", normal(2, 3), second=False)
    check("linalg.diagonal", A, offset=1)
    for n in (-2, 0, 1, 5):
        check("linalg.matrix_power", A, n, second=False)
    check("linalg.tensorinv", normal(2, 3, 6), 2, second=False)
    check("linalg.tensorsolve", normal(2, 3, 6), normal(2, 3, seed=1), second=False)
    check_error(RuntimeError, "linalg.cross", normal(4, 2), normal(4, 2))
    check_error(RuntimeError, "linalg.matrix_power", TALL, 2)


@pytest.mark.parametrize("shape", [(0, 3, 1), (2, 0, 3), (2, 3, 0)])
def test_pseudoinverses_of_nothing_look_at_no_tolerance(shape):
    found = rushlight.linalg.pinv(rushlight.empty(shape), rushlight.zeros(0, 50, 1))
    assert found.shape == (shape[0], shape[2], shape[1])


def _curvature(library, matrix, direction):
    """The change of the determinant's gradient in a direction."""
    x = library.tensor(matrix, requires_grad=True)
    (slope,) = library.autograd.grad(library.linalg.det(x).real.sum(), x, create_graph=True)
    (found,) = library.autograd.grad((slope * library.tensor(direction)).real.sum(), x)
    return found.numpy()


@pytest.mark.parametrize(
    "name", ["identity", "rotation", "nearly equal", "singular", "complex"]
)
def test_second_derivatives_of_determinants_beside_equal_singular_values(name: str) -> None:
    rng = np.random.default_rng(3)
    vector = rng.standard_normal(4)
    matrix = {
        "identity": np.eye(4),
        "rotation": np.linalg.qr(rng.standard_normal((4, 4)))[0],
        "nearly equal": np.eye(4) + np.outer(vector, vector) + 1e-13 * np.diag(vector),
        "singular": np.diag([2.0, 2.0, 2.0, 0.0]),
        "complex": np.eye(4) * (1 + 1j),
    }[name]
    direction = rng.standard_normal((4, 4)).astype(matrix.dtype)
    if name != "singular":  # PyTorch's is NaN there
        expected = _curvature(torch, matrix, direction)
        found = _curvature(rushlight, matrix, direction)
        np.testing.assert_allclose(found, expected, atol=1e-12)
    x = rushlight.tensor(matrix, requires_grad=True)
    assert rushlight.autograd.gradgradcheck(rushlight.linalg.det, x)
