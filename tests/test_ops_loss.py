"""Losses and einsum against PyTorch: values and gradients under every reduction."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import rushlight
from rushlight.nn import functional as ours

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of these tests")
RNG = np.random.default_rng(0)
X, Y, Z = (RNG.standard_normal((4, 5)).astype("f4") for _ in range(3))
P, Q = RNG.random((4, 5)).astype("f4"), RNG.random((4, 5)).astype("f4")
SIGNS, CLASSES = np.sign(Y), RNG.integers(0, 5, (4,))
LISTS = np.array([[1, 0, -1, 2, 3], [0, -1, 1, 1, 1], [4, 3, 2, 1, 0], [-1, 0, 0, 0, 0]])

LOSSES = [
    ("mse_loss", (X, Y), {}),
    ("l1_loss", (X, Y), {}),
    ("smooth_l1_loss", (X, Y), {"beta": 0.7}),
    ("huber_loss", (X, Y), {"delta": 0.5}),
    ("binary_cross_entropy", (P, Q), {}),
    ("binary_cross_entropy_with_logits", (X, Q), {}),
    ("kl_div", (X, P), {}),
    ("kl_div", (X, Y), {"log_target": True}),
    ("hinge_embedding_loss", (X, SIGNS), {}),
    ("margin_ranking_loss", (X, Y, SIGNS), {"margin": 0.3}),
    ("soft_margin_loss", (X, SIGNS), {}),
    ("poisson_nll_loss", (X, P * 4), {"full": True}),
    ("gaussian_nll_loss", (X, Y, P + 0.1), {"full": True}),
    ("cosine_embedding_loss", (X, Y, SIGNS[:, 0].copy()), {}),
    ("triplet_margin_loss", (X, Y, Z), {"swap": True}),
    ("multi_margin_loss", (X, CLASSES), {"p": 2}),
    ("multilabel_margin_loss", (X, LISTS), {}),
    ("multilabel_soft_margin_loss", (X, Q), {}),
]
EQUATIONS = [
    ("ij,jk->ik", [(3, 4), (4, 5)]),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    ("ii->i", [(3, 3)]),
    ("ii", [(3, 3)]),
    ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
    ("i,j->ij", [(3,), (4,)]),
    ("ij->", [(3, 4)]),
    ("bhid,bhjd->bhij", [(2, 2, 3, 4), (2, 2, 5, 4)]),
    ("bn,anm,bm->ba", [(2, 3), (4, 3, 5), (2, 5)]),
    ("ij,ij->i", [(3, 4), (3, 4)]),
    ("ij,kj->ik", [(3, 1), (2, 4)]),
    ("ji", [(3, 4)]),
]


def _leaves(module, arrays):
    """Tensors of a library; floating arrays but for plain signs take gradients."""
    return [
        module.tensor(a, requires_grad=a.dtype.kind == "f" and not (np.abs(a) == 1).all())
        for a in arrays
    ]


def _agree(theirs, mine, function, other):
    expected, got = function(*theirs), other(*mine)
    np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), 1e-5, 1e-5)
    expected.sum().backward()
    got.sum().backward()
    for a, b in zip(theirs, mine):
        if a.grad is not None:
            np.testing.assert_allclose(b.grad.numpy(), a.grad.numpy(), 1e-5, 1e-5)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(("name", "arrays", "options"), LOSSES)
def test_losses(name, arrays, options, reduction):
    options = options | {"reduction": reduction}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kl_div warns of its mean
        _agree(
            _leaves(torch, arrays),
            _leaves(rushlight, arrays),
            lambda *t: getattr(torch.nn.functional, name)(*t, **options),
            lambda *t: getattr(ours, name)(*t, **options),
        )


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_einsum(equation, shapes):
    arrays = [RNG.standard_normal(s).astype("f4") for s in shapes]
    _agree(
        _leaves(torch, arrays),
        _leaves(rushlight, arrays),
        lambda *t: torch.einsum(equation, *t),
        lambda *t: rushlight.einsum(equation, *t),
    )


@pytest.mark.parametrize("name", ["cosine_similarity", "pairwise_distance"])
def test_pairs_of_vectors(name):
    _agree(
        _leaves(torch, (X, Y)),
        _leaves(rushlight, (X, Y)),
        getattr(torch.nn.functional, name),
        getattr(ours, name),
    )


def test_einsum_names_the_subscript_that_does_not_fit():
    with pytest.raises(RuntimeError, match="subscript j has size 3"):
        rushlight.einsum("ij,jk->ik", rushlight.ones(2, 3), rushlight.ones(4, 5))


def test_hinge_embedding_loss_of_other_targets_adds_both_sides():
    for lib, functional in ((torch, torch.nn.functional), (rushlight, ours)):
        found = functional.hinge_embedding_loss(
            lib.tensor([0.25, 0.25, 0.25]), lib.tensor([1.0, -1.0, 0.0]), reduction="none"
        )
        assert found.tolist() == [0.25, 0.75, 1.0]


@pytest.mark.parametrize("classes", [(5,), (5, 2)])
def test_cross_entropy_of_a_linear_map(classes):
    weight = RNG.standard_normal((*classes, 5)).astype("f4")
    target = RNG.integers(0, 5, (4, *classes[1:]))
    found = []
    for lib, functional in ((torch, torch.nn.functional), (rushlight, ours)):
        x, w, bias = (
            lib.tensor(a.tolist(), requires_grad=True) for a in (X, weight, weight[..., 0])
        )
        loss = functional.linear_cross_entropy(
            x, w, lib.tensor(target.tolist()), linear_bias=bias, label_smoothing=0.1
        )
        loss.backward()
        found.append([t.tolist() for t in (loss, x.grad, w.grad, bias.grad)])
    for theirs, mine in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6)
    with pytest.raises(RuntimeError):
        ours.linear_cross_entropy(rushlight.ones(2, 3), rushlight.ones(5, 4), rushlight.ones(2))
