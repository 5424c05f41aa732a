"""Distributions with formulas of their own, against PyTorch and against their definitions."""

import math
import warnings

import pytest

import rushlight

torch = pytest.importorskip("torch")
LIBRARIES = (rushlight, torch)
FACTOR = [[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [-0.3, 0.1, 0.5]]
CORRELATED = [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [-0.48, 0.6, 0.64]]
MATRIX = [[2.0, 0.5, 0.1], [0.5, 1.5, 0.3], [0.1, 0.3, 1.0]]
P = [0.2, 0.5, 0.9]

# name -> (parameters by name, values in the support)
CASES = {
    "ContinuousBernoulli": ({"probs": [0.2, 0.4995, 0.9]}, [0.0, 0.4, 1.0]),
    "GeneralizedPareto": (
        {"loc": [0.5, -1.0, 2.0], "scale": [1.5, 0.3, 0.7], "concentration": [0.3, 0.0, -0.4]},
        [0.9, -0.5, 2.5],
    ),
    "LKJCholesky": ({"concentration": [0.5, 1.0, 3.0]}, CORRELATED),
    "LowRankMultivariateNormal": (
        {
            "loc": [0.5, -1.0, 2.0],
            "cov_factor": [[1.0, 0.2], [0.3, -2.0], [0.5, 0.4]],
            "cov_diag": [1.5, 0.3, 0.7],
        },
        [[0.3, 0.2, 1.0], [0.0, 1.0, 0.0]],
    ),
    "RelaxedBernoulli": ({"temperature": 0.7, "probs": P}, [0.1, 0.4, 0.99]),
    "RelaxedOneHotCategorical": ({"temperature": 0.7, "probs": P}, [[0.2, 0.3, 0.5]]),
    "VonMises": ({"loc": [0.5, -1.0, 9.0], "concentration": [1e-3, 2.0, 50.0]}, P),
    "Wishart": ({"df": [3.5, 6.0], "covariance_matrix": MATRIX}, MATRIX),
}
LAX = {  # PyTorch's Bessel functions are polynomials of seven digits
    "VonMises": 2e-6,
    "GeneralizedPareto": 2e-6,
}
FLOAT32 = "GeneralizedPareto"  # PyTorch compares its concentration with a float32 number
WITHOUT = {  # what PyTorch refuses
    "LKJCholesky": ("mean", "variance", "mode", "entropy"),
    "RelaxedBernoulli": ("mean", "variance", "mode", "entropy"),
    "RelaxedOneHotCategorical": ("mean", "variance", "mode", "entropy"),
    "VonMises": ("entropy",),
    "ContinuousBernoulli": ("mode",),
}


def kind(lib, name):
    return lib.float32 if name == FLOAT32 else lib.float64


def made(lib, name):
    given = {
        key: lib.tensor(value, dtype=kind(lib, name)).requires_grad_()
        for key, value in CASES[name][0].items()
    }
    first = (3,) if name == "LKJCholesky" else ()
    return getattr(lib.distributions, name)(*first, **given), list(given.values())


def same(ours, theirs, allowed=1e-7):
    held = torch.tensor(ours.detach().numpy().copy())
    torch.testing.assert_close(held, theirs.detach(), equal_nan=True, rtol=allowed, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_densities_and_their_gradients(name):
    (ours, own), (theirs, its) = (made(lib, name) for lib in LIBRARIES)
    x, y = (lib.tensor(CASES[name][1], dtype=kind(lib, name)) for lib in LIBRARIES)
    allowed = LAX.get(name, 1e-7)
    same(ours.log_prob(x), theirs.log_prob(y), allowed)
    ours.log_prob(x).sum().backward()
    theirs.log_prob(y).sum().backward()
    for a, b in zip(own, its, strict=True):
        same(a.grad, b.grad, 20 * allowed)


@pytest.mark.parametrize("name", CASES)
def test_moments_shapes_and_expansions(name):
    (ours, _), (theirs, _) = (made(lib, name) for lib in LIBRARIES)
    assert repr(ours) == repr(theirs)
    for found in ("mean", "variance", "mode", "entropy"):
        pair = [getattr(d, found) for d in (ours, theirs) if found not in WITHOUT.get(name, ())]
        if pair:
            same(*(p() if callable(p) else p for p in pair), 50 * LAX.get(name, 1e-7))
        else:
            with pytest.raises(NotImplementedError):
                getattr(ours, found)()
    assert ours.batch_shape == theirs.batch_shape
    assert ours.event_shape == theirs.event_shape
    assert ours.has_rsample == theirs.has_rsample
    assert ours.support.event_dim == theirs.support.event_dim
    wide = ours.expand((2, *ours.batch_shape))
    assert wide.sample((3,)).shape == (3, 2, *ours.batch_shape, *ours.event_shape)
    x = rushlight.tensor(CASES[name][1], dtype=kind(rushlight, name))
    assert (wide.log_prob(x) == ours.log_prob(x)).all()
    assert wide._validate_args == ours._validate_args


@pytest.mark.parametrize("name", ["ContinuousBernoulli", "GeneralizedPareto"])
def test_cumulated_probabilities_and_their_inverses(name):
    (ours, _), (theirs, _) = (made(lib, name) for lib in LIBRARIES)
    x, y = (lib.tensor(CASES[name][1], dtype=kind(lib, name)) for lib in LIBRARIES)
    same(ours.cdf(x), theirs.cdf(y), 2e-6)
    x, y = (lib.tensor(P, dtype=kind(lib, name)) for lib in LIBRARIES)
    same(ours.icdf(x), theirs.icdf(y), 2e-6)
    same(ours.cdf(ours.icdf(x)), y, 2e-6)


def test_angles_by_exact_bessel_functions():
    scipy = pytest.importorskip("scipy.stats")
    ours, _ = made(rushlight, "VonMises")
    loc, kappa = ours.loc.tolist(), ours.concentration.tolist()
    expected = [scipy.vonmises(k, m).logpdf(x) for x, m, k in zip(P, loc, kappa, strict=True)]
    x = rushlight.tensor(P, dtype=rushlight.float64)
    assert ours.log_prob(x).tolist() == pytest.approx(expected, 1e-12)


# ---- samples


def uniform_by(cdf, drawn):
    """Kolmogorov and Smirnov: how likely numbers are as far from uniform as cdf(drawn) is."""
    stats = pytest.importorskip("scipy.stats")
    return stats.kstest(cdf(drawn), "uniform").pvalue


@pytest.mark.parametrize("concentration", [1e-4, 0.5, 4.0, 300.0])
def test_angles_are_distributed_as_they_say(concentration):
    stats = pytest.importorskip("scipy.stats")
    rushlight.manual_seed(0)
    drawn = rushlight.distributions.VonMises(1.0, concentration).sample((20_000,))
    assert drawn.dtype == rushlight.float32
    assert bool(((drawn >= -math.pi) & (drawn <= math.pi)).all())
    around = (drawn.double() - 1.0 + math.pi) % (2 * math.pi) - math.pi
    assert uniform_by(stats.vonmises(concentration).cdf, around.numpy()) > 1e-3


@pytest.mark.parametrize("name", ["ContinuousBernoulli", "GeneralizedPareto"])
def test_numbers_are_distributed_as_they_say(name):
    rushlight.manual_seed(0)
    ours, _ = made(rushlight, name)
    reached = ours.cdf(ours.sample((20_000,))).detach()
    for place in range(3):
        assert uniform_by(lambda x: x, reached[:, place].numpy()) > 1e-3


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_each_correlation_has_the_same_beta_distribution(dim):
    """(r + 1) / 2 ~ Beta(a, a), a = concentration - 1 + dim / 2 (Lewandowski et al., 2009)."""
    stats = pytest.importorskip("scipy.stats")
    rushlight.manual_seed(0)
    factor = rushlight.distributions.LKJCholesky(dim, 1.5).sample((5_000,))
    assert bool(rushlight.distributions.constraints.corr_cholesky.check(factor).all())
    product = (factor @ factor.mT).double().numpy()
    a = 1.5 - 1 + dim / 2
    for row in range(dim):
        for column in range(row):
            reached = (product[:, row, column] + 1) / 2
            assert uniform_by(stats.beta(a, a).cdf, reached) > 1e-3


def test_the_density_of_correlations_is_one():
    """Over factors of pairs, (1, 0), (r, sqrt(1 - r^2)), in terms of r."""
    r = rushlight.linspace(-1, 1, 4003, dtype=rushlight.float64)[1:-1]
    low = (1 - r.square()).sqrt()
    rows = [rushlight.stack([r * 0 + 1, r * 0], -1), rushlight.stack([r, low], -1)]
    factors = rushlight.stack(rows, -2)
    d = rushlight.distributions.LKJCholesky(2, rushlight.tensor(2.5).double())
    # the density is that of r, with which the other element of the row is given
    total = d.log_prob(factors).exp().sum() * (r[1] - r[0])
    assert total.item() == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("df", [2.5, 7.0])
def test_matrices_have_the_moments_of_wishart(df):
    rushlight.manual_seed(0)
    factor = rushlight.tensor(FACTOR, dtype=rushlight.float64)
    if df < 3:
        with pytest.warns(UserWarning, match="Low df"):
            ours = rushlight.distributions.Wishart(df, scale_tril=factor)
    else:
        ours = rushlight.distributions.Wishart(df, scale_tril=factor)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Singular sample")  # a few, where df is below 3
        drawn = ours.sample((20_000,))
    error = (drawn.mean(0) - ours.mean).abs()
    assert bool((error <= 5 * ours.stddev / math.sqrt(20_000)).all())
    spread = drawn.var(0) / ours.variance
    assert bool(((spread - 1).abs() < 0.15).all())


def test_trace_of_wishart_is_chi_squared():
    stats = pytest.importorskip("scipy.stats")
    rushlight.manual_seed(0)
    ours = rushlight.distributions.Wishart(6.5, rushlight.eye(2, dtype=rushlight.float64))
    trace = ours.sample((5_000,)).diagonal(0, -2, -1).sum(-1)
    assert uniform_by(stats.chi2(13.0).cdf, trace.numpy()) > 1e-3


def test_vectors_of_low_rank_have_the_covariance():
    rushlight.manual_seed(0)
    ours, own = made(rushlight, "LowRankMultivariateNormal")
    drawn = ours.rsample((40_000,))
    away = (drawn - ours.mean).detach()
    found, expected = away.T @ away / 40_000, ours.covariance_matrix.detach()
    spread = (ours.variance.outer(ours.variance) * 2).sqrt().detach()
    assert bool(((found - expected).abs() <= 5 * spread / 200).all())
    drawn.square().mean(0).sum().backward()  # E |x|^2 = |loc|^2 + |W|^2 + sum of D
    assert own[0].grad.tolist() == pytest.approx([1.0, -2.0, 4.0], abs=0.1)
    assert own[2].grad.tolist() == pytest.approx([1.0] * 3, abs=0.1)


def test_soft_events_near_zero_temperature_are_events():
    rushlight.manual_seed(0)
    d = rushlight.distributions
    probs = rushlight.tensor(P, requires_grad=True)
    soft = d.RelaxedBernoulli(rushlight.tensor(1e-3), probs=probs)
    drawn = soft.rsample((20_000,))
    assert drawn.round().mean(0).tolist() == pytest.approx(P, abs=0.02)
    shares = d.RelaxedOneHotCategorical(rushlight.tensor(1e-2), probs=probs)
    assert shares.has_rsample
    chosen = shares.rsample((20_000,)).round().mean(0)
    assert chosen.tolist() == pytest.approx([p / sum(P) for p in P], abs=0.02)
    d.RelaxedBernoulli(0.5, probs=probs).rsample((100,)).sum().backward()
    assert bool((probs.grad > 0).all())


@pytest.mark.parametrize("name", ["RelaxedBernoulli", "RelaxedOneHotCategorical"])
def test_logits_instead_of_probabilities(name):
    found = []
    for lib in LIBRARIES:
        x = lib.tensor([0.3, -1.0, 2.0])
        made = getattr(lib.distributions, name)(lib.tensor(0.7), logits=x)
        value = lib.tensor([0.2, 0.3, 0.5])
        found.append((made.probs, made.logits, made.temperature, made.log_prob(value)))
    for ours, theirs in zip(*found, strict=True):
        same(ours, theirs, 1e-5)


def test_densities_far_from_the_middle_stay_finite():
    soft = rushlight.distributions.relaxed_bernoulli.LogitRelaxedBernoulli(
        rushlight.tensor(1.0), logits=rushlight.tensor(200.0)
    )
    assert soft.log_prob(rushlight.tensor(0.0)).item() == pytest.approx(-200.0)


# ---- low rank, and matrices given in three ways


def test_low_rank_matrices():
    found = []
    for lib in LIBRARIES:
        d, _ = made(lib, "LowRankMultivariateNormal")
        found.append((d.covariance_matrix, d.precision_matrix, d.scale_tril))
    for ours, theirs in zip(*found, strict=True):
        same(ours, theirs)


@pytest.mark.parametrize("how", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_wishart_by_covariance_precision_or_factor(how):
    found = []
    for lib in LIBRARIES:
        factor = lib.tensor(FACTOR, dtype=lib.float64)
        matrix = factor if how == "scale_tril" else factor @ factor.mT
        d = lib.distributions.Wishart(lib.tensor(5.0).double(), **{how: matrix})
        value = lib.tensor(MATRIX, dtype=lib.float64)
        found.append((d.scale_tril, d.covariance_matrix, d.precision_matrix, d.log_prob(value)))
    for ours, theirs in zip(*found, strict=True):
        same(ours, theirs)


# ---- what follows from natural parameters


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Normal", (P, P)), ("Exponential", (P,)), ("Gamma", (P, P)), ("Chi2", (P,)),
        ("Beta", (P, P)), ("Dirichlet", ([P, P],)), ("Bernoulli", (P,)),
        ("ContinuousBernoulli", (P,)),
    ],
)  # fmt: skip
def test_divergences_follow_from_normalizers(name, parameters):
    """Bregman divergences of the log-normalizers are those that the rules give."""
    d = rushlight.distributions
    given = [rushlight.tensor(p, dtype=rushlight.float64) for p in parameters]
    moved = [p * 0.5 + 0.1 for p in given]
    p, q = getattr(d, name)(*given), getattr(d, name)(*moved)
    assert isinstance(p, d.ExponentialFamily)
    found, expected = p._divergence_from(q), d.kl_divergence(p, q)
    assert found.flatten().tolist() == pytest.approx(expected.flatten().tolist(), rel=1e-5)


@pytest.mark.parametrize("name", ["Normal", "Exponential", "Gamma", "Bernoulli"])
def test_entropies_follow_from_normalizers(name):
    d = rushlight.distributions
    count = 1 if name in ("Exponential", "Bernoulli") else 2
    given = [rushlight.tensor(P).double().requires_grad_() for _ in range(count)]
    made = getattr(d, name)(*given)
    found, expected = d.ExponentialFamily.entropy(made), made.entropy()
    same(found, torch.tensor(expected.tolist(), dtype=torch.float64))
    (a,) = rushlight.autograd.grad(found.sum(), given[-1], retain_graph=True)
    (b,) = rushlight.autograd.grad(expected.sum(), given[-1])
    same(a, torch.tensor(b.tolist(), dtype=torch.float64))


def test_families_without_a_normalizer_say_so():
    class Empty(rushlight.distributions.ExponentialFamily):
        arg_constraints = {}

    with pytest.raises(NotImplementedError, match="natural parameters"):
        Empty().entropy()
    with pytest.raises(NotImplementedError, match="carrier"):
        rushlight.distributions.Poisson(1.0).entropy()


# ---- what is refused


def test_wrong_parameters_are_named():
    d = rushlight.distributions
    three = rushlight.zeros(3)
    with pytest.raises(ValueError, match="greater than or equal to 2. Found dim=1"):
        d.LKJCholesky(1)
    with pytest.raises(ValueError, match=r"shape 3 x m.*\(2, 1\)"):
        d.LowRankMultivariateNormal(three, rushlight.ones(2, 1), rushlight.ones(3))
    with pytest.raises(ValueError, match=r"shape \(3,\).*\(2,\)"):
        d.LowRankMultivariateNormal(three, rushlight.ones(3, 1), rushlight.ones(2))
    with pytest.raises(ValueError, match="Incompatible batch shapes"):
        d.LowRankMultivariateNormal(
            rushlight.zeros(2, 3), rushlight.ones(4, 3, 1), rushlight.ones(3)
        )
    with pytest.raises(ValueError, match="cov_diag"):
        d.LowRankMultivariateNormal(three, rushlight.ones(3, 1), -rushlight.ones(3))
    with pytest.raises(AssertionError, match="Exactly one of covariance_matrix or"):
        d.Wishart(3.0)
    with pytest.raises(ValueError, match="greater than ndim - 1 = 1"):
        d.Wishart(1.0, rushlight.eye(2))
    with pytest.raises(ValueError, match="Expected parameter concentration"):
        d.VonMises(0.0, -1.0)
    with pytest.raises(ValueError, match="not both"):
        d.RelaxedBernoulli(rushlight.tensor(1.0))
    with pytest.raises(ValueError, match="support"):
        d.LKJCholesky(2).log_prob(rushlight.ones(2, 2))
    with pytest.raises(ValueError, match="Geometric"):
        d.Geometric(0.0)
    with pytest.raises(ValueError, match="support"):
        d.Normal(0.0, 1.0).expand((2,)).log_prob(rushlight.full((2,), math.nan))


@pytest.mark.parametrize("kind", ["MultivariateNormal", "Wishart"])
def test_a_covariance_is_checked_before_it_is_factored(kind):
    for lib in (rushlight, torch):
        wrong = lib.tensor([[1.0, 2.0], [2.0, 1.0]])
        first = lib.zeros(2) if kind == "MultivariateNormal" else lib.tensor(3.0)
        with pytest.raises(ValueError, match="covariance_matrix"):
            getattr(lib.distributions, kind)(first, wrong, validate_args=True)
        assert lib.ones(2).sum().item() == 2
