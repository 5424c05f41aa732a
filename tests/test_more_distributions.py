"""Distributions of gamma numbers, of transformed values, of counts and mixtures, by PyTorch."""

import numpy as np
import pytest

import rushlight
from rushlight.ops.gamma_samples import _gamma_slopes

torch = pytest.importorskip("torch")
LIBRARIES = (rushlight, torch)
A, B, C, P = [0.5, 1.5, 3.0], [1.5, 0.3, 0.7], [2.5, 4.5, 6.0], [0.2, 0.5, 0.9]
ROWS = [[0.5, 1.5, 3.0], [2.0, 3.0, 4.0]]

CASES = {  # name -> (parameters, values in the support)
    "Gamma": ((A, B), [0.1, 2.0, 3.0]),
    "Chi2": ((C,), [0.1, 2.0, 3.0]),
    "InverseGamma": ((C, B), [0.1, 2.0, 3.0]),
    "Dirichlet": ((ROWS,), [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]),
    "Beta": ((A, B), [0.1, 0.5, 0.8]),
    "StudentT": ((C, A, B), [0.1, -2.0, 3.0]),
    "FisherSnedecor": ((C, [5.0, 6.0, 7.0]), [0.1, 2.0, 3.0]),
    "Weibull": ((A, C), [0.1, 2.0, 3.0]),
    "Pareto": ((A, [2.5, 3.5, 2.2]), [0.6, 2.0, 4.0]),
    "Kumaraswamy": ((C, [1.5, 2.3, 1.7]), [0.1, 0.5, 0.8]),
    "LogisticNormal": ((A, B), [0.1, 0.2, 0.3, 0.4]),
    "NegativeBinomial": ((C, P), [0.0, 2.0, 3.0]),
}


def made(lib, name):
    given = [lib.tensor(p, dtype=lib.float64).requires_grad_() for p in CASES[name][0]]
    return getattr(lib.distributions, name)(*given), given


def same(ours, theirs):
    held = torch.tensor(ours.detach().numpy().copy())
    torch.testing.assert_close(held, theirs.detach(), equal_nan=True)


@pytest.mark.parametrize("name", CASES)
def test_densities_gradients_and_moments(name):
    (ours, own), (theirs, its) = (made(lib, name) for lib in LIBRARIES)
    x, y = (lib.tensor(CASES[name][1], dtype=lib.float64) for lib in LIBRARIES)
    same(ours.log_prob(x), theirs.log_prob(y))
    ours.log_prob(x).sum().backward()
    theirs.log_prob(y).sum().backward()
    for a, b in zip(own, its, strict=True):
        same(a.grad, b.grad)
    for moment in ("mean", "variance", "mode"):
        if name != "LogisticNormal" and (name, moment) != ("Kumaraswamy", "mode"):
            same(getattr(ours, moment), getattr(theirs, moment))
    if name not in ("LogisticNormal", "FisherSnedecor", "NegativeBinomial"):
        same(ours.entropy(), theirs.entropy())
    assert ours.batch_shape == theirs.batch_shape
    assert ours.event_shape == theirs.event_shape
    assert ours.has_rsample == theirs.has_rsample
    wide = ours.expand((2, *ours.batch_shape))
    assert wide.sample((3,)).shape == (3, 2, *ours.batch_shape, *ours.event_shape)


@pytest.mark.parametrize("name", ["Gamma", "InverseGamma", "Weibull", "Pareto", "Kumaraswamy"])
def test_cumulated_probabilities(name):
    if "amma" in name:
        pytest.importorskip("scipy")
    (ours, _), (theirs, _) = (made(lib, name) for lib in LIBRARIES)
    x, y = (lib.tensor(CASES[name][1], dtype=lib.float64) for lib in LIBRARIES)
    same(ours.cdf(x), theirs.cdf(y))
    if name in ("Weibull", "Pareto"):
        same(ours.icdf(ours.cdf(x)), y)


@pytest.mark.parametrize("name", sorted(set(CASES) - {"LogisticNormal", "FisherSnedecor"}))
def test_samples_have_the_mean(name):
    rushlight.manual_seed(0)
    ours, _ = made(rushlight, name)
    drawn = ours.sample((20_000,))
    error = (drawn.mean(0) - ours.mean).abs()
    assert bool((error <= 5 * ours.stddev / 20_000**0.5).all())


@pytest.mark.parametrize("shape", [0.01, 0.5, 3.0, 50.0, 5000.0, 20000.0])
def test_gamma_numbers_move_with_their_shape_parameter(shape):
    special = pytest.importorskip("scipy.special")
    x = special.gammaincinv(shape, np.array([0.05, 0.3, 0.6, 0.95]))
    x, place = x[x > 1e-300], np.array([0.05, 0.3, 0.6, 0.95])[x > 1e-300]
    step = shape * 1e-4
    above, below = (special.gammaincinv(shape + s, place) for s in (step, -step))
    a = np.full(x.shape, shape)
    slopes = _gamma_slopes(a, x, special.digamma(a))
    np.testing.assert_allclose(slopes, (above - below) / (2 * step), rtol=1e-2)


def test_gradients_of_samples_are_those_of_the_mean():
    rushlight.manual_seed(1)
    a = rushlight.tensor(A, dtype=rushlight.float64, requires_grad=True)
    drawn = rushlight.distributions.Gamma(a, 2.0 * rushlight.ones_like(a)).rsample((20_000,))
    drawn.mean(0).sum().backward()
    assert a.grad.tolist() == pytest.approx([0.5] * 3, rel=0.03)


def test_counts_of_outcomes_and_mixtures():
    found = []
    for lib in LIBRARIES:
        d, probs = lib.distributions, lib.tensor([0.2, 0.3, 0.5], dtype=lib.float64)
        counts = d.Multinomial(5, probs)
        value = lib.tensor([1.0, 2.0, 2.0], dtype=lib.float64)
        normals = d.Normal(probs, probs + 1)
        mixture = d.MixtureSameFamily(d.Categorical(probs), normals)
        found.append(
            (
                counts.log_prob(value), counts.mean, counts.variance, counts.entropy(),
                mixture.log_prob(value), mixture.cdf(value), mixture.mean, mixture.variance,
            )
        )  # fmt: skip
        assert counts.sample((4,)).sum(-1).tolist() == [5.0] * 4
        assert mixture.sample((4, 2)).shape == (4, 2)
    for ours, theirs in zip(*found, strict=True):
        same(ours, theirs)


TRANSFORMS = {
    "exp": lambda d, t: d.ExpTransform(),
    "sigmoid": lambda d, t: d.SigmoidTransform(),
    "tanh": lambda d, t: d.TanhTransform(),
    "softplus": lambda d, t: d.SoftplusTransform(),
    "affine": lambda d, t: d.AffineTransform(1.0, -2.0),
    "vector": lambda d, t: d.AffineTransform(t.arange(3.0), t.arange(3.0) + 1, event_dim=1),
    "sticks": lambda d, t: d.StickBreakingTransform(),
    "both": lambda d, t: d.ComposeTransform(
        [d.AffineTransform(1.0, 2.0), d.StickBreakingTransform()]
    ),
    "row": lambda d, t: d.IndependentTransform(d.ExpTransform(), 1),
    "shape": lambda d, t: d.ReshapeTransform((3,), (3, 1)),
    "power": lambda d, t: d.ComposeTransform([d.ExpTransform(), d.PowerTransform(2.0)]),
    "undone": lambda d, t: d.ExpTransform().inv.inv,
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_and_how_much_they_stretch(name):
    ours, theirs = (TRANSFORMS[name](lib.distributions, lib) for lib in LIBRARIES)
    x, y = (lib.tensor([[0.1, -0.2, 0.3], [0.5, 0.7, -0.1]]) for lib in LIBRARIES)
    same(ours(x), theirs(y))
    same(ours.inv(ours(x)), y)
    same(ours.log_abs_det_jacobian(x, ours(x)), theirs.log_abs_det_jacobian(y, theirs(y)))
    assert ours.domain.event_dim == theirs.domain.event_dim
    assert ours.codomain.event_dim == theirs.codomain.event_dim
    assert ours.forward_shape((2, 3)) == tuple(theirs.forward_shape((2, 3)))


@pytest.mark.parametrize(
    ("name", "p", "q"),
    [
        ("Gamma", (A, B), (B, A)),
        ("Beta", (A, B), (B, A)),
        ("Dirichlet", (A,), (C,)),
        ("Pareto", (C, A), (B, C)),
    ],
)
def test_divergences(name, p, q):
    found = []
    for lib in LIBRARIES:
        d = lib.distributions
        pair = [getattr(d, name)(*map(lib.tensor, given)) for given in (p, q)]
        found.append(d.kl_divergence(*pair))
    same(*found)


def test_subclasses_may_pass_by_the_class_that_they_extend():
    """As GPyTorch's lazy multivariate normal does, whose covariance is not a matrix."""
    normal = rushlight.distributions.MultivariateNormal

    class Lazy(normal):
        def __init__(self, loc):
            self.loc = loc
            super(normal, self).__init__(loc.shape[:-1], loc.shape[-1:], validate_args=False)

    made = Lazy(rushlight.zeros(2, 3))
    assert (made.batch_shape, made.event_shape) == ((2,), (3,))
    assert made.mean.shape == (2, 3)
