"""Divergences between all kinds of distributions, against PyTorch and against samples."""

import itertools
import math

import pytest

import rushlight

torch = pytest.importorskip("torch")
LIBRARIES = (rushlight, torch)
FACTOR = [[1.0, 0.0], [0.5, 2.0]]

KINDS = {  # two batches of parameters, of which some make a divergence infinite
    "Bernoulli": {"probs": [0.2, 0.9]},
    "Beta": {"concentration1": [0.5, 3.0], "concentration0": [1.5, 2.0]},
    "Binomial": {"total_count": [3.0, 3.0], "probs": [0.2, 0.9]},
    "Cauchy": {"loc": [0.5, -1.0], "scale": [1.0, 2.0]},
    "ContinuousBernoulli": {"probs": [0.2, 0.5]},
    "Exponential": {"rate": [0.5, 2.0]},
    "Gamma": {"concentration": [0.5, 3.0], "rate": [1.5, 2.0]},
    "Gumbel": {"loc": [0.5, -1.0], "scale": [1.0, 2.0]},
    "Laplace": {"loc": [0.5, -1.0], "scale": [1.0, 2.0]},
    "Normal": {"loc": [0.5, -1.0], "scale": [1.0, 2.0]},
    "Pareto": {"scale": [0.5, 1.0], "alpha": [3.5, 1.5]},
    "Poisson": {"rate": [0.5, 2.0]},
    "Uniform": {"low": [0.6, -1.0], "high": [0.9, 0.7]},
}
TOUCHING = {("Uniform", "ContinuousBernoulli"), ("ContinuousBernoulli", "Uniform")}
PAIRS = [
    (p, q)
    for p, q in itertools.product(KINDS, KINDS)
    if (getattr(torch.distributions, p), getattr(torch.distributions, q))
    in torch.distributions.kl._KL_REGISTRY
]


def made(lib, name, times=1.0, plus=0.0):
    given = KINDS[name].items()
    tensors = {k: (lib.tensor(v).double() * times + plus).requires_grad_() for k, v in given}
    return getattr(lib.distributions, name)(**tensors), list(tensors.values())


def same(ours, theirs, allowed=1e-6):
    held = torch.tensor(ours.detach().numpy().copy())
    torch.testing.assert_close(held, theirs.detach(), rtol=allowed, atol=1e-9)


def test_all_pairs_of_pytorch_have_a_rule():
    rules = {(p.__name__, q.__name__) for p, q in rushlight.distributions.kl._rules}
    theirs = {(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY}
    assert theirs <= rules


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_divergences_and_their_gradients(p, q):
    found = []
    for lib in LIBRARIES:
        times = 1.0 if q == "Binomial" else 0.9
        (one, own), (other, its) = made(lib, p), made(lib, q, times)
        divergence = lib.distributions.kl_divergence(one, other)
        given = own + its
        finite = divergence[divergence.isfinite()].sum()
        slopes = [None] * len(given)
        if finite.requires_grad:
            slopes = lib.autograd.grad(finite, given, allow_unused=True)
        slopes = [lib.zeros(2).double() if s is None else s for s in slopes]
        found.append((divergence, slopes))
    (ours, own), (theirs, its) = found
    same(ours, theirs)
    for a, b in zip(own, its, strict=True):
        kept = b.isfinite()  # PyTorch's are nan where the divergence is infinite
        same(a[rushlight.from_numpy(kept.numpy())], b[kept])


@pytest.mark.parametrize("pair", sorted(TOUCHING))
def test_supports_may_touch(pair):
    """PyTorch says infinite where one interval ends where the other does."""
    d = rushlight.distributions
    both = {
        "Uniform": d.Uniform(*rushlight.tensor([0.0, 1.0]).double()),
        "ContinuousBernoulli": d.ContinuousBernoulli(rushlight.tensor(0.3).double()),
    }
    p, q = (both[name] for name in pair)
    rushlight.manual_seed(0)
    x = p.sample((100_000,))
    expected = (p.log_prob(x) - q.log_prob(x)).mean().item()
    assert d.kl_divergence(p, q).item() == pytest.approx(expected, rel=0.05)


def vectors(lib, times):
    """The same two normal distributions of vectors, whole and of low rank."""
    d, loc = lib.distributions, lib.tensor([0.5, -1.0]).double() * times
    factor, diagonal = lib.tensor([[1.0], [-2.0]]).double(), lib.tensor([0.7, 1.5]).double()
    whole = factor @ factor.mT * times + diagonal.diag()
    low = d.LowRankMultivariateNormal(loc, factor * math.sqrt(times), diagonal)
    return {"whole": d.MultivariateNormal(loc, whole), "low": low}


@pytest.mark.parametrize("p", ["whole", "low"])
@pytest.mark.parametrize("q", ["whole", "low"])
def test_vectors_whole_and_of_low_rank(p, q):
    found = []
    for lib in LIBRARIES:
        one, other = vectors(lib, 1.0)[p], vectors(lib, 0.5)[q]
        wide = other.expand((3,))
        kl = lib.distributions.kl_divergence
        found.append((kl(one, other), kl(one, wide), kl(vectors(lib, 1.0)["whole"], other)))
    same(found[0][0], found[1][0])
    same(found[0][1], found[1][1].expand(3))
    assert found[0][0].item() == pytest.approx(found[0][2].item())


def test_sizes_of_vectors_must_agree():
    d, one = rushlight.distributions, rushlight.eye
    p = d.MultivariateNormal(rushlight.zeros(2), one(2))
    q = d.LowRankMultivariateNormal(rushlight.zeros(3), rushlight.ones(3, 1), rushlight.ones(3))
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
        d.kl_divergence(p, q)


def test_matrices_of_covariance():
    found = []
    for lib in LIBRARIES:
        d, df = lib.distributions, lib.tensor(4.0).double().requires_grad_()
        p = d.Wishart(df, scale_tril=lib.tensor(FACTOR).double())
        q = d.Wishart(lib.tensor(6.5).double(), lib.eye(2).double())
        found.append(d.kl_divergence(p, q))
    same(*found)
    ours = found[0]
    assert ours.requires_grad  # PyTorch's has no gradient by p
    wide = rushlight.distributions.Wishart(
        rushlight.tensor([4.0, 4.0]).double(), scale_tril=rushlight.tensor(FACTOR).double()
    )
    q = rushlight.distributions.Wishart(6.5, rushlight.eye(2).double())
    both = rushlight.distributions.kl_divergence(wide, q)  # PyTorch sums over the batch
    assert both.tolist() == pytest.approx([ours.item()] * 2)


def test_what_the_same_transforms_made():
    d = rushlight.distributions
    p, q = d.Normal(0.5, 2.0), d.Normal(-1.0, 1.0)
    steps = [d.ExpTransform(), d.AffineTransform(1.0, 2.0)]
    moved = [d.TransformedDistribution(base, steps) for base in (p, q)]
    assert d.kl_divergence(*moved).item() == pytest.approx(d.kl_divergence(p, q).item())
    positive = d.TransformedDistribution(q, d.ExpTransform())
    half = d.kl_divergence(d.LogNormal(0.5, 2.0), positive)
    assert half.item() == pytest.approx(d.kl_divergence(p, q).item())
    other = d.TransformedDistribution(q, [d.ExpTransform(), d.AffineTransform(1.0, 3.0)])
    with pytest.raises(NotImplementedError, match="different transforms"):
        d.kl_divergence(moved[0], other)


def test_kinds_without_a_rule():
    d = rushlight.distributions
    with pytest.raises(NotImplementedError, match="Normal and q type Dirichlet: they are"):
        d.kl_divergence(d.Normal(0.0, 1.0), d.Dirichlet(rushlight.ones(2)))
    with pytest.raises(NotImplementedError, match="p type StudentT and q type Normal"):
        d.kl_divergence(d.StudentT(3.0), d.Normal(0.0, 1.0))
    with pytest.raises(NotImplementedError, match=r"q.total_count > p.total_count"):
        d.kl_divergence(d.Binomial(3, 0.5), d.Binomial(4, 0.5))


def test_rules_that_are_as_close_are_said_to_be():
    d = rushlight.distributions

    class P(d.Normal):
        pass

    class Q(d.Normal):
        pass

    try:
        d.register_kl(P, d.Normal)(lambda p, q: 1)
        d.register_kl(d.Normal, Q)(lambda p, q: 2)
        with pytest.warns(RuntimeWarning, match=r"Please register_kl\(P, Q\)"):
            assert d.kl_divergence(P(0.0, 1.0), Q(0.0, 1.0)) == 1
    finally:
        for pair in ((P, d.Normal), (d.Normal, Q)):
            del d.kl._rules[pair]


def test_certain_events():
    found = []
    for lib in LIBRARIES:
        d = lib.distributions
        p, q = (lib.tensor(v).double() for v in ([0.0, 1.0, 0.5, 0.5], [0.3, 0.3, 0.0, 1.0]))
        found.append(d.kl_divergence(d.Bernoulli(p), d.Bernoulli(q)))
    same(*found)
