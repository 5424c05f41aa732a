"""Every derivative that PyTorch has, and no gradient that is dropped without a word.

The sweep asks PyTorch's own operation database (derivative_oracle.py): first and second
gradients and tangents of every operation. What is not asked of the database stands here.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from test_conformance import PARENTS

import rushlight as torch
import rushlight.autograd.forward_ad as fwAD
from rushlight.nn import functional as F

# PyTorch's answers that are not ours, and why. Values that it has as NaN are not compared.
ELSEWHERE = {
    "as_strided_scatter": "PyTorch gives the base the gradient of what was overwritten",
    "chalf": "no complex numbers of half precision",
    "cholesky_inverse": "PyTorch's tangents differ from finite differences",
    "nn.functional.linear_cross_entropy": "PyTorch's has no tangent and second gradients of 0",
    "nn.functional.max_unpool": "of repeated indices the last wins, and has the gradient",
    "nn.functional.silu.complex": "PyTorch's tangents differ from finite differences",
    "scatter_reduce.prod": "PyTorch's tangents are zero",
    "special.modified_bessel_i": "PyTorch has no derivatives",
}
SAMPLE = (
    "atan2", "cumprod", "histogram", "index_reduce.prod", "linalg.solve", "masked.norm",
    "max.reduction_with_dim", "nn.functional.gaussian_nll_loss", "nn.functional.layer_norm",
    "nn.functional.max_pool2d", "take_along_dim", "unique", "where",
)  # fmt: skip


needs_database = pytest.mark.skipif(
    not PARENTS, reason="no `conformance` folder: see test_conformance.py"
)


@pytest.fixture
def oracle(monkeypatch):
    monkeypatch.syspath_prepend(str(PARENTS[0]))
    import derivative_oracle

    pytorch = derivative_oracle.torch
    threads = pytorch.get_num_threads()
    pytorch.set_num_threads(1)  # on a few elements its threads only wait for one another
    yield derivative_oracle
    pytorch.set_num_threads(threads)
    assert "derivative_oracle" in sys.modules


def wrong(found) -> list[str]:
    return [
        f"{f.op} ({f.dtype}), {f.kind}: {f.verdict} {f.detail}"
        for f in found
        if f.verdict != "agrees" and not f.op.startswith(tuple(ELSEWHERE))
    ]


@needs_database
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SAMPLE)
def test_derivatives_of_a_sample_of_operations_agree_with_pytorch(name, oracle):
    found = list(oracle.findings(name, "float64", limit=1))
    assert found and not wrong(found)


@needs_database
@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("part", range(8))
def test_derivatives_of_every_operation_agree_with_pytorch(part, dtype, oracle):
    names = oracle.names()[part::8]
    found = [f for name in names for f in oracle.findings(name, dtype, limit=4)]
    assert len(found) > len(names) and not wrong(found)


# -- derivatives that do not exist


def numbers(*shape: int) -> torch.Tensor:
    drawn = np.random.default_rng(0).uniform(0.5, 2.0, shape)
    return torch.tensor(drawn, requires_grad=True)


def ctc_twice(x):
    scores = x.reshape(5, 1, 4).log_softmax(-1)
    labels, lengths = torch.tensor([[1, 2]]), (torch.tensor([5]), torch.tensor([2]))
    loss = F.ctc_loss(scores, labels, *lengths)
    return torch.autograd.grad(loss, x, create_graph=True)[0]


REFUSED = {
    "histogram": lambda x: torch.histogram(x, 3).hist,
    "histogram's edges": lambda x: torch.histogram(x.detach(), x.sort().values).bin_edges,
    "histogramdd": lambda x: torch.histogramdd(x.reshape(-1, 2), [2, 2]).hist,
    "heaviside": lambda x: torch.heaviside(x, x),
    "unique": lambda x: x.unique(),
    "unique_consecutive": lambda x: torch.unique_consecutive(x),
    "zeta": lambda x: torch.special.zeta(x + 1, x),
    "ctc_loss, twice": ctc_twice,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_derivative_says_so(name):
    x = numbers(20)
    out = REFUSED[name](x)
    assert out.requires_grad
    with pytest.raises(NotImplementedError, match="derivative for"):
        (out.sum() + x.sum()).backward()


def test_a_missing_derivative_does_not_hinder_the_others():
    s, q = numbers(3), numbers(3)
    out = torch.special.zeta(s + 1, q).sum()
    (slope,) = torch.autograd.grad(out, q)
    torch.testing.assert_close(slope, -(s + 1) * torch.special.zeta(s + 2, q))


def test_class_weights_that_require_gradients_are_refused():
    scores, weight = numbers(2, 3), numbers(3)
    for loss in (F.nll_loss, F.cross_entropy):
        with pytest.raises(RuntimeError, match="'weight', which requires gradients"):
            loss(scores, torch.tensor([0, 2]), weight=weight)
        with torch.no_grad():
            loss(scores, torch.tensor([0, 2]), weight=weight)


def test_class_weights_have_gradients_beside_probabilities():
    scores, weight = numbers(2, 3), numbers(3)
    goal = scores.detach().softmax(1)
    F.cross_entropy(scores, goal, weight=weight, reduction="sum").backward()
    torch.testing.assert_close(weight.grad, -(goal * scores.detach().log_softmax(1)).sum(0))


# -- derivatives that were wrong


def test_numbers_drawn_by_their_distribution_have_gradients_of_zero():
    x = numbers(4)
    out = torch.poisson(x) + torch.binomial(x.round(), x / 4)
    assert torch.autograd.grad(out.sum(), x)[0].tolist() == [0.0] * 4


def test_sums_of_weights_by_number_have_the_gradient_of_a_sum():
    x = numbers(3)
    out = torch.bincount(torch.tensor([0, 2, 2]), x)
    assert torch.autograd.grad(out @ torch.tensor([1.0, 2.0, 3.0]).double(), x)[0].tolist() == [
        1.0, 3.0, 3.0,
    ]  # fmt: skip


@pytest.mark.parametrize("is_complex", [False, True])
def test_products_by_index_have_both_derivatives_beside_zeros(is_complex):
    draws = np.random.default_rng(1)
    index = torch.tensor(draws.integers(0, 4, (6, 2)))

    def factors(rows):
        drawn = draws.standard_normal((rows, 2)) * (draws.random((rows, 2)) > 0.3)
        turned = drawn * np.exp(1j * drawn) if is_complex else drawn
        return torch.tensor(turned, requires_grad=True)

    def product(x, y):
        return torch.scatter_reduce(x, 0, index, y, "prod")

    operands = factors(4), factors(6)
    assert torch.autograd.gradcheck(product, operands)
    assert torch.autograd.gradgradcheck(product, operands)


def test_a_complex_element_that_is_replaced_has_both_derivatives():
    """Both planes are added to one zero, which was overwritten by one and read by the other."""
    index = torch.tensor([0])
    operands = [torch.tensor([z], dtype=torch.complex128) for z in (1 + 2j, 3 + 4j)]
    with fwAD.dual_level():
        base, source = (fwAD.make_dual(z, z * 1j) for z in operands)
        copied = fwAD.unpack_dual(base.index_copy(0, index, source)).tangent
        put = fwAD.unpack_dual(base.put(index, source)).tangent
    assert copied.tolist() == put.tolist() == [-4 + 3j]
    for z in operands:
        z.requires_grad_()
    for replace in (lambda x, y: x.index_copy(0, index, y), lambda x, y: x.put(index, y)):
        assert torch.autograd.gradcheck(replace, operands)
        assert torch.autograd.gradgradcheck(replace, operands)


def test_complex_products_by_index_check_the_index():
    z = torch.ones(3, dtype=torch.complex64)
    assert z.scatter_reduce(0, torch.tensor([2, 2]), 2j * z[:2], "prod").tolist() == [1, 1, -4]
    with pytest.raises(RuntimeError, match="index 3"):
        z.scatter_reduce(0, torch.tensor([3]), z[:1], "prod").tolist()


def test_tangents_of_a_variance_may_be_negative():
    with fwAD.dual_level():
        var = fwAD.make_dual(numbers(3).detach(), -torch.ones(3).double())
        one = torch.ones(3).double()
        loss = F.gaussian_nll_loss(one, 2 * one, var, reduction="sum")
        slope = (1 / var - 1 / var**2).detach() / 2
        torch.testing.assert_close(fwAD.unpack_dual(loss).tangent, -slope.sum())


def test_a_count_of_what_is_not_zero_has_a_tangent():
    with fwAD.dual_level():
        x = fwAD.make_dual(torch.ones(3), torch.ones(3))
        assert fwAD.unpack_dual(torch.linalg.vector_norm(x, 0)).tangent.item() == 0.0


def test_indices_along_a_dimension_count_from_its_end():
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.take_along_dim(x, torch.tensor([[-1], [-3]]), 1).tolist() == [[2.0], [3.0]]


def test_slopes_without_a_spacing_have_one_of_1():
    x = torch.tensor([1.0, 2.0, 4.0])
    assert torch.gradient(x, spacing=None)[0].tolist() == torch.gradient(x)[0].tolist()


PLACES = [0, 0, 0, 1, 1, 1, 0]


def by_place(x, y):
    """What `scatter_reduce` multiplies, one product after the other."""
    rows = list(x.unbind())
    for place, factor in zip(PLACES, y.unbind(), strict=True):
        rows[place] = rows[place] * factor
    return rows


def running(y):
    rows = [y[0]]
    for factor in y[1:].unbind():
        rows.append(rows[-1] * factor)
    return rows


PRODUCTS = {  # as one op, and as the products of numbers that it is made of
    "scatter_reduce": (
        lambda t, x, y: x.scatter_reduce(0, t.tensor(PLACES), y, "prod"),
        lambda x, y: by_place(x, y),
    ),
    "index_reduce": (
        lambda t, x, y: x.index_reduce(0, t.tensor(PLACES), y, "prod"),
        lambda x, y: by_place(x, y),
    ),
    "prod": (
        lambda t, x, y: (x.sum() * y).prod(0, True),
        lambda x, y: running(x.sum() * y)[-1:],
    ),
    "cumprod": (lambda t, x, y: (x.sum() * y).cumprod(0), lambda x, y: running(x.sum() * y)),
}


@pytest.mark.parametrize("zeros", ([], [0], [0, 1], [0, 3], [0, 1, 2], [0, 1, 3, 4], range(7)))
@pytest.mark.parametrize("name", PRODUCTS)
def test_every_derivative_of_a_product_with_zeros(name, zeros):
    theirs = pytest.importorskip("torch")
    product, numbers = PRODUCTS[name]
    for start in ([1.5, -0.75], [0.0, -0.75]):
        factors = np.array([2.0, 3, -1.5, 0.5, 4, -2, 1.25])
        factors[list(zeros)] = 0
        given = np.array(start), factors
        found = derivatives_in_turn(torch, lambda x, y: product(torch, x, y), given)
        wanted = derivatives_in_turn(theirs, lambda x, y: theirs.stack(numbers(x, y)), given)
        for order, (mine, expected) in enumerate(zip(found, wanted, strict=True)):
            np.testing.assert_allclose(mine, expected, atol=1e-9, err_msg=f"order {order}")


def derivatives_in_turn(library, function, given):
    """The values, then the gradients of a weighted sum of what came before, to order 4."""
    operands = [library.tensor(x, requires_grad=True) for x in given]
    stream = np.random.RandomState(0)
    found = [function(*operands)]
    for _ in range(4):
        weights = library.tensor(stream.randn(*found[-1].shape))
        grads = library.autograd.grad(
            (found[-1] * weights).sum(), operands, create_graph=True, allow_unused=True
        )
        filled = [
            library.zeros_like(x) if g is None else g
            for g, x in zip(grads, operands, strict=True)
        ]
        found.append(library.cat(filled))
    return [x.detach().numpy() for x in found]


def test_products_where_the_index_is_narrower_than_the_base():
    x = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    y = torch.zeros(2, 5, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([[0, 2, 0], [0, 1, 2]])

    def product(x, y):
        return x.scatter_reduce(0, index, y, "prod")

    assert torch.autograd.gradcheck(product, (x, y))
    assert torch.autograd.gradgradcheck(product, (x, y))
