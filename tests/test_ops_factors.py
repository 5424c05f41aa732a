"""LU, least squares, exponentials and reflections against PyTorch, with their gradients."""

import math

import numpy as np
import pytest

import rushlight
from rushlight import linalg

torch = pytest.importorskip("torch")
SHAPES = [(3, 3), (5, 3), (3, 5), (2, 4, 4), (2, 3, 4, 2), (0, 3, 3), (3, 0)]


def pair(shape, seed=0, dtype="float64"):
    """The same numbers for both libraries."""
    generator = torch.Generator().manual_seed(seed)
    theirs = torch.randn(shape, generator=generator, dtype=getattr(torch, dtype))
    ours = rushlight.tensor(theirs.numpy()).requires_grad_()
    return ours, theirs.requires_grad_()


def same(ours, theirs, **kwargs):
    torch.testing.assert_close(torch.from_numpy(ours.detach().numpy()), theirs, **kwargs)


def check(call, *shapes, dtype="float64"):
    """Results and gradients of `call(library, *tensors)`, a tuple of tensors."""
    pairs = [pair(s, i, dtype) for i, s in enumerate(shapes)]
    ours = call(rushlight, *(p[0] for p in pairs))
    theirs = call(torch, *(p[1] for p in pairs))
    losses = [0.0, 0.0]
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        same(a, b.detach())
        weights = pair(b.shape, 10 + i, dtype)
        if b.requires_grad:
            losses[0] = losses[0] + (a * weights[0].detach()).sum()
            losses[1] = losses[1] + (b * weights[1].detach()).sum()
    if isinstance(losses[1], torch.Tensor):
        for loss in losses:
            loss.backward()
        for a, b in pairs:
            same(a.grad, b.grad)


@pytest.mark.parametrize("shape", SHAPES)
def test_lu(shape):
    check(lambda t, a: t.linalg.lu(a), shape)
    check(lambda t, a: t.linalg.lu_factor_ex(a)[:1], shape)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_solve(left, adjoint):
    def call(t, a, b):
        b = b if left else b.mT
        return (t.linalg.lu_solve(*t.linalg.lu_factor(a), b, left=left, adjoint=adjoint),)

    check(call, (3, 3), (3, 2))
    check(call, (2, 3, 3), (2, 3, 4))


def test_older_names_of_lu():
    a, b = pair((3, 3))[0].detach(), pair((3, 2), 1)[0].detach()
    rushlight.testing.assert_close(a @ rushlight.lu_solve(b, *a.lu()), b)


def test_singular_matrices_are_named():
    a = rushlight.tensor([[1.0, 2.0], [2.0, 4.0]])
    with pytest.raises(linalg.LinAlgError, match=r"lu_factor: U\[2,2\] is zero"):
        linalg.lu_factor(a)
    assert linalg.lu_factor_ex(a).info.item() == 2
    with pytest.raises(RuntimeError, match="without pivoting"):
        linalg.lu(a, pivot=False)
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        linalg.lu_factor(rushlight.ones(3))


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (2, 4, 3), (3, 5)])
def test_least_squares(shape, driver):
    def call(t, a, b):
        found = t.linalg.lstsq(a, b, driver=driver)
        return (found.solution,)

    check(call, shape, (*shape[:-1], 2))
    ours, theirs = pair(shape)
    other, its = pair((*shape[:-1], 2), 1)
    got = linalg.lstsq(ours.detach(), other.detach(), driver=driver)
    expected = torch.linalg.lstsq(theirs.detach(), its.detach(), driver=driver)
    for a, b in zip(got, expected, strict=True):
        same(a, b)


def test_least_squares_of_a_vector_and_of_few_ranks():
    check(lambda t, a, b: (t.linalg.lstsq(a, b).solution,), (2, 5, 3), (2, 5))
    a = rushlight.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    found = linalg.lstsq(a, rushlight.ones(3, 1), driver="gelsd")
    assert found.rank.item() == 1
    rushlight.testing.assert_close(found.solution, rushlight.full((2, 1), 0.5))
    with pytest.raises(RuntimeError, match="input.size"):
        linalg.lstsq(a, rushlight.ones(2, 1))
    with pytest.raises(RuntimeError, match="`driver` should be one of"):
        linalg.lstsq(a, rushlight.ones(3, 1), driver="fast")


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (1, 1), (0, 0), (2, 0, 0)])
def test_matrix_exponentials(shape):
    check(lambda t, a: (t.linalg.matrix_exp(a),), shape)
    check(lambda t, a: (t.matrix_exp(a * 5),), shape)
    large = pair(shape, dtype="float32")
    same(rushlight.matrix_exp(large[0] * 5), torch.matrix_exp(large[1] * 5).detach())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_exponentials_of_half_precision_are_rounded_once(dtype):
    a = rushlight.tensor([[0.5, 1.25], [-0.75, 0.25]], dtype=getattr(rushlight, dtype))
    exact = rushlight.matrix_exp(a.double())
    assert rushlight.matrix_exp(a).equal(exact.to(a.dtype))


def test_second_derivatives_of_exponentials():
    a = pair((3, 3))[0]
    assert rushlight.autograd.gradgradcheck(linalg.matrix_exp, (a,))


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 4, 2)])
def test_products_of_reflections(shape):
    batch, (m, n) = shape[:-2], shape[-2:]
    check(lambda t, a, tau: (t.linalg.householder_product(a, tau),), shape, (*batch, n))
    for left in (True, False):
        for transpose in (True, False):
            size = (*batch, m, 3) if left else (*batch, 3, m)
            check(
                lambda t, a, tau, c, left=left, transpose=transpose: (
                    t.ormqr(a, tau, c, left, transpose),
                ),
                shape,
                (*batch, n),
                size,
            )
    a = pair(shape)[0].detach()
    packed, tau = rushlight.geqrf(a)
    q = rushlight.orgqr(packed, tau)
    rushlight.testing.assert_close(q @ packed[..., :n, :].triu(), a)


def test_no_reflections_at_all_give_a_tensor_of_its_own():
    a = rushlight.ones(2, 3, 1, requires_grad=True)
    tau, other = rushlight.ones(2, 0), rushlight.ones(2, 3, 4)
    q = linalg.householder_product(a, tau)
    assert q.tolist() == [[[1.0], [0.0], [0.0]]] * 2
    (grad,) = rushlight.autograd.grad(q.sum(), a)
    assert grad.equal(rushlight.zeros(2, 3, 1))
    with rushlight.no_grad():
        q[0, 0, 0] = 5
        rushlight.ormqr(a.detach()[..., :0], tau, other).zero_()
    assert q.flatten().tolist() == [5.0, 0, 0, 1, 0, 0]
    assert other.equal(rushlight.ones(2, 3, 4))


@pytest.mark.parametrize(
    ("shapes", "kinds"),
    [
        (((3, 3), (4,), (3, 3)), "fff"), (((3, 3), (2,), (3, 3)), "fff"),
        (((3, 3), (2, 3), (3, 3)), "fff"), (((3, 3), (3,), (4, 4)), "fff"),
        (((3, 3), (3,), (3, 3)), "fdf"), (((3, 3), (3,), (3, 3)), "ffd"),
        (((3, 3), (3,), (2, 3, 3)), "fff"), (((2, 3, 3), (2, 3), (3, 3)), "fff"),
        (((3, 3), (), (3, 3)), "fff"), (((3, 3), (3,), (3,)), "fff"),
    ],
)  # fmt: skip
def test_reflections_that_do_not_fit_are_refused_by_the_name_of_the_function(shapes, kinds):
    torch = pytest.importorskip("torch")

    def call(lib):
        dtypes = {"f": lib.float32, "d": lib.float64}
        given = [lib.ones(s, dtype=dtypes[k]) for s, k in zip(shapes, kinds, strict=True)]
        return lib.ormqr(*given)

    with pytest.raises((RuntimeError, IndexError)) as expected:
        call(torch)
    with pytest.raises(expected.type, match="^ormqr: "):
        call(rushlight)


# -- symmetric matrices that are not definite


def _symmetric(size, kind):
    x = torch.randn((2, size, size), generator=torch.Generator().manual_seed(size)).double()
    x = x + x.mT
    if kind == "empty diagonal":
        x.diagonal(dim1=-2, dim2=-1).zero_()
    return x.round() if kind == "small integers" else x


@pytest.mark.parametrize("kind", ["any", "empty diagonal", "small integers"])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 6, 20])
def test_ldl_factors_and_solutions(size, kind):
    theirs = _symmetric(size, kind)
    ours = rushlight.tensor(theirs.numpy())
    found, expected = linalg.ldl_factor_ex(ours), torch.linalg.ldl_factor_ex(theirs)
    for a, b in zip(found, expected, strict=True):
        same(a, b)
    if (expected.info == 0).all():
        b = torch.ones((2, size, 3), dtype=torch.float64)
        x = linalg.ldl_solve(*linalg.ldl_factor(ours), rushlight.tensor(b.numpy()))
        same(x, torch.linalg.ldl_solve(*expected[:2], b), rtol=1e-8, atol=1e-8)


def test_ldl_of_what_is_not_symmetric_and_regular():
    with pytest.raises(RuntimeError, match="singular"):
        linalg.ldl_factor(rushlight.zeros(2, 2))
    with pytest.raises(RuntimeError, match="square"):
        linalg.ldl_factor(rushlight.zeros(2, 3))
    packed, pivots = linalg.ldl_factor(rushlight.eye(2))
    with pytest.raises(RuntimeError, match="Incompatible"):
        linalg.ldl_solve(packed, pivots, rushlight.ones(3, 1))
    with pytest.raises(RuntimeError, match="dtype"):
        linalg.ldl_solve(packed, pivots, rushlight.ones(2, 1, dtype=rushlight.float64))
    with pytest.raises(RuntimeError, match="shape"):
        linalg.ldl_solve(packed, pivots[:1], rushlight.ones(2, 1))
    with pytest.raises(NotImplementedError, match="ldl_factor"):
        linalg.ldl_factor(rushlight.eye(2).requires_grad_())[0].sum().backward()


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (2, 5, 3)])
def test_singular_values_by_random_projections(shape):
    rank = rushlight.randn(*shape[:-1], 2) @ rushlight.randn(*shape[:-2], 2, shape[-1])
    u, s, v = rushlight.svd_lowrank(rank, 3)
    same(
        u @ rushlight.diag_embed(s) @ v.mT, torch.from_numpy(rank.numpy()), rtol=1e-3, atol=1e-4
    )
    offset = rushlight.ones(shape[-1])
    u, s, v = rushlight.svd_lowrank(rank + offset, 3, M=offset)
    same(
        u @ rushlight.diag_embed(s) @ v.mT, torch.from_numpy(rank.numpy()), rtol=1e-3, atol=1e-4
    )


def test_fewer_singular_values_than_asked_for():
    u, s, v = rushlight.svd_lowrank(rushlight.eye(3))
    assert u.shape == v.shape == (3, 3)
    same(s, torch.ones(3))
    assert rushlight.svd_lowrank(rushlight.ones(2, 5), q=4)[1].shape == (2,)


def test_principal_components():
    theirs = torch.randn((7, 4), generator=torch.Generator().manual_seed(0))
    ours = rushlight.tensor(theirs.numpy())
    same(rushlight.pca_lowrank(ours)[1], torch.pca_lowrank(theirs)[1])
    same(rushlight.pca_lowrank(ours, 4, center=False)[1], torch.linalg.svdvals(theirs))
    for arguments in ((ours, 5), (ours, -1), (ours, 2, True, -1)):
        with pytest.raises(ValueError, match="pca_lowrank|svd_lowrank|q\\("):
            rushlight.pca_lowrank(*arguments)


@pytest.mark.parametrize("driver", ["gels", "gelsd", "gelss", "gelsy"])
@pytest.mark.parametrize("shape", [(3, 2), (2, 3)])
def test_which_results_of_least_squares_have_gradients(driver, shape):
    found = []
    for library in (rushlight, torch):
        a = library.eye(*shape, requires_grad=True)
        b = library.ones(shape[0], 2)
        found.append([x.requires_grad for x in library.linalg.lstsq(a, b, driver=driver)])
    assert found[0] == found[1]


@pytest.mark.parametrize("pivots", [[1, 3], [0, 1], [1, -2], [-7, -7]])
def test_pivots_of_another_matrix_are_refused(pivots):
    factors = rushlight.linalg.ldl_factor(rushlight.tensor([[2.0, 1.0], [1.0, 2.0]])).LD
    with pytest.raises(RuntimeError, match="none of a matrix of 2 rows"):
        rushlight.linalg.ldl_solve(
            factors, rushlight.tensor(pivots, dtype=rushlight.int32), rushlight.ones(2, 1)
        ).tolist()


DEGENERATE = {
    "eigh": lambda m, a: (lambda w, v: v @ m.diag(w.sqrt()) @ v.mT)(*m.linalg.eigh(a)),
    "svd": lambda m, a: (lambda u, s, vh: (u * s) @ vh)(*m.linalg.svd(a)),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_gradients_by_vectors_of_equal_values_are_not_numbers(name):
    weights = [[1.0, 2.0], [2.0, 5.0]]
    for lib in (torch, rushlight):
        a = (2 * lib.eye(2, dtype=lib.float64)).requires_grad_()
        made = DEGENERATE[name](lib, a)
        (made * lib.tensor(weights, dtype=lib.float64)).sum().backward()
        assert a.grad.isnan().any()


def test_vectors_beside_equal_values_have_gradients():
    a = rushlight.diag(rushlight.tensor([1.0, 1.0, 3.0])).double().requires_grad_()
    vectors = rushlight.linalg.eigh(a).eigenvectors
    vectors[0, 2].backward()  # by the vector of 3 alone
    assert abs(abs(a.grad[0, 2].item()) - 0.25) < 1e-12


def test_gradients_of_hermitian_inverses_are_hermitian():
    for values in ([[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.3], [0.3, 1.0]]):
        gradients = []
        for lib in (torch, rushlight):
            a = lib.tensor(values, dtype=lib.float64, requires_grad=True)
            weights = lib.tensor([[1.0, 2.0], [2.0, 5.0]], dtype=lib.float64)
            (lib.linalg.pinv(a, hermitian=True) * weights).sum().backward()
            gradients.append(a.grad.tolist())
        np.testing.assert_allclose(*gradients, rtol=1e-12)


@pytest.mark.parametrize(
    "matrix",
    [[[1.0, math.nan], [math.nan, 1.0]], [[1.0, 2.0], [2.0, 1.0]], [[-1.0, 0], [0, 1]]],
)
def test_cholesky_says_which_minor_is_not_positive(matrix):
    infos = [
        lib.linalg.cholesky_ex(lib.tensor(matrix)).info.item() for lib in (torch, rushlight)
    ]
    assert infos[0] == infos[1]
    with pytest.raises(rushlight.linalg.LinAlgError, match="positive-definite"):
        rushlight.linalg.cholesky(rushlight.tensor(matrix))


@pytest.mark.parametrize("function", ["svd", "svdvals", "pinv", "cond"])
def test_factors_of_what_is_no_number_raise_pytorch_class(function):
    with pytest.raises(rushlight.linalg.LinAlgError):
        print(getattr(rushlight.linalg, function)(rushlight.full((2, 2), math.nan)))
