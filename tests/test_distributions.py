"""Distributions against PyTorch: densities, moments, divergences, gradients, samples."""

import math

import pytest

import rushlight

torch = pytest.importorskip("torch")
LIBRARIES = (rushlight, torch)


def tensors(lib, *rows):
    return [lib.tensor(r, dtype=lib.float64) for r in rows]


A, B, P = [0.5, -1.0, 2.0], [1.5, 0.3, 0.7], [0.2, 0.5, 0.9]
ROWS = [[0.2, 0.3, 0.5], [0.0, 0.4, 0.6]]
FACTOR = [[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [-0.3, 0.1, 0.5]]

# name -> (parameters, values in the support, whether there is a cdf)
CASES = {
    "Normal": ((A, B), [0.1, -2.0, 3.0], True),
    "LogNormal": ((A, B), [0.1, 2.0, 3.0], True),
    "Laplace": ((A, B), [0.1, -2.0, 3.0], True),
    "Cauchy": ((A, B), [0.1, -2.0, 3.0], True),
    "Gumbel": ((A, B), [0.1, -0.5, 3.0], True),
    "HalfNormal": ((B,), [0.1, 2.0, 3.0], True),
    "HalfCauchy": ((B,), [0.1, 2.0, 3.0], True),
    "Exponential": ((B,), [0.1, 2.0, 3.0], True),
    "Uniform": ((A, [2.5, 1.0, 4.0]), [0.7, 0.0, 3.0], True),
    "Bernoulli": ((P,), [0.0, 1.0, 1.0], False),
    "Geometric": ((P,), [0.0, 1.0, 4.0], False),
    "Poisson": ((B,), [0.0, 1.0, 4.0], False),
    "Categorical": ((ROWS,), [2.0, 1.0], False),
    "OneHotCategorical": ((ROWS,), [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]], False),
    "MultivariateNormal": ((A, None, None, FACTOR), [0.3, 0.2, 1.0], False),
}


def make(lib, name, parameters):
    kind = getattr(lib.distributions, name)
    given = [None if p is None else tensors(lib, p)[0].requires_grad_() for p in parameters]
    return kind(*given), [p for p in given if p is not None]


def same(ours, theirs):
    torch.testing.assert_close(
        torch.from_numpy(ours.detach().numpy()), theirs.detach(), equal_nan=True
    )


@pytest.mark.parametrize("name", CASES)
def test_densities_and_their_gradients(name):
    parameters, values, _ = CASES[name]
    (ours, own), (theirs, its) = (make(lib, name, parameters) for lib in LIBRARIES)
    (x,), (y,) = (tensors(lib, values) for lib in LIBRARIES)
    same(ours.log_prob(x), theirs.log_prob(y))
    ours.log_prob(x).sum().backward()
    theirs.log_prob(y).sum().backward()
    for a, b in zip(own, its, strict=True):
        same(a.grad, b.grad)


@pytest.mark.parametrize("name", CASES)
def test_moments_shapes_and_text(name):
    (ours, _), (theirs, _) = (make(lib, name, CASES[name][0]) for lib in LIBRARIES)
    for moment in ("mean", "variance", "stddev", "mode"):
        same(getattr(ours, moment), getattr(theirs, moment))
    assert ours.batch_shape == theirs.batch_shape
    assert ours.event_shape == theirs.event_shape
    assert ours.has_rsample == theirs.has_rsample
    if name not in ("LogNormal", "HalfNormal", "HalfCauchy"):  # PyTorch shows no parameters
        assert repr(ours) == repr(theirs)
    if name != "Poisson":
        same(ours.entropy(), theirs.entropy())
        same(ours.perplexity(), theirs.perplexity())
    if ours.has_enumerate_support:
        same(ours.enumerate_support(), theirs.enumerate_support())
    batch = (2, *ours.batch_shape)
    wide, other = ours.expand(batch), theirs.expand(batch)
    assert wide.batch_shape == other.batch_shape
    same(wide.mean, other.mean)


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case[2]])
def test_cumulated_probabilities_and_their_inverses(name):
    parameters, values, _ = CASES[name]
    (ours, _), (theirs, _) = (make(lib, name, parameters) for lib in LIBRARIES)
    (x,), (y,) = (tensors(lib, values) for lib in LIBRARIES)
    same(ours.cdf(x), theirs.cdf(y))
    (x,), (y,) = (tensors(lib, P) for lib in LIBRARIES)
    same(ours.icdf(x), theirs.icdf(y))


@pytest.mark.parametrize("name", sorted(set(CASES) - {"Cauchy", "HalfCauchy", "LogNormal"}))
def test_samples_have_the_moments(name):
    rushlight.manual_seed(0)
    ours, _ = make(rushlight, name, CASES[name][0])
    drawn = ours.sample((20_000,))
    assert drawn.shape == (20_000, *ours.batch_shape, *ours.event_shape)
    assert not drawn.requires_grad
    if name == "Categorical":
        one_hot = rushlight.nn.functional.one_hot(drawn, 3).double()
        assert bool(((one_hot.mean(0) - ours.probs).abs() < 0.02).all())
        return
    error = (drawn.mean(0) - ours.mean).abs()
    assert bool((error <= 5 * ours.stddev / math.sqrt(20_000)).all())
    spread = drawn.var(0) / ours.variance.clamp(min=1e-9)
    constant = ours.variance < 1e-9
    assert bool((constant | ((spread - 1).abs() < 0.1)).all())


@pytest.mark.parametrize("name", ["Normal", "Laplace", "Exponential", "MultivariateNormal"])
def test_samples_have_gradients(name):
    rushlight.manual_seed(0)
    ours, own = make(rushlight, name, CASES[name][0])
    ours.rsample((4000,)).mean(0).sum().backward()
    if name == "Exponential":
        expected = [-1 / b**2 for b in B]
        assert own[0].grad.tolist() == pytest.approx(expected, rel=0.1)
    else:
        assert own[0].grad.tolist() == pytest.approx([1.0] * 3)


KL = ["Normal", "LogNormal", "Laplace", "Gumbel", "HalfNormal", "Exponential", "Uniform",
      "Bernoulli", "Geometric", "Poisson", "Categorical", "OneHotCategorical",
      "MultivariateNormal"]  # fmt: skip


@pytest.mark.parametrize("name", KL)
def test_divergences(name):
    parameters = CASES[name][0]
    if name == "Uniform":
        moved = ([0.0, -1.0, 1.0], [3.0, 0.5, 5.0])
    else:
        moved = tuple(
            p
            if p is None
            else (torch.tensor(p) * 0.8 + 0.1).tril().tolist()
            if p is FACTOR
            else (torch.tensor(p) * 0.8 + 0.1).tolist()
            for p in parameters
        )
    found = []
    for lib in LIBRARIES:
        (p, own), (q, _) = make(lib, name, parameters), make(lib, name, moved)
        divergence = lib.distributions.kl_divergence(p, q)
        finite = divergence[divergence.isfinite()].sum()
        found.append((divergence, lib.autograd.grad(finite, own[0])[0]))
    same(found[0][0], found[1][0])
    same(found[0][1], found[1][1])


def test_divergences_of_other_kinds_can_be_registered():
    d = rushlight.distributions
    with pytest.raises(NotImplementedError, match="p type Cauchy and q type Normal"):
        d.kl_divergence(d.Cauchy(0.0, 1.0), d.Normal(0.0, 1.0))

    class Own(d.Normal):
        pass

    @d.register_kl(Own, d.Cauchy)
    def _(p, q):
        return p.loc * 7

    assert d.kl_divergence(Own(1.0, 1.0), d.Cauchy(0.0, 1.0)).item() == 7.0


def test_logits_instead_of_probabilities():
    for name in ("Bernoulli", "Geometric", "Categorical"):
        found = []
        for lib in LIBRARIES:
            (x,) = tensors(lib, [[0.3, -1.0, 2.0]])
            made = getattr(lib.distributions, name)(logits=x)
            found.append((made.probs, made.logits, made.entropy()))
        for ours, theirs in zip(*found, strict=True):
            same(ours, theirs)
    with pytest.raises(ValueError, match="not both"):
        rushlight.distributions.Bernoulli()


def test_binomials():
    found = []
    for lib in LIBRARIES:
        made = lib.distributions.Binomial(10, *tensors(lib, P))
        (x,) = tensors(lib, [0.0, 4.0, 10.0])
        found.append((made.log_prob(x), made.mean, made.variance, made.mode))
    for ours, theirs in zip(*found, strict=True):
        same(ours, theirs)
    drawn = made.sample((5,))
    assert drawn.shape == (5, 3)


@pytest.mark.parametrize("how", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_vectors_by_covariance_precision_or_factor(how):
    found = []
    for lib in LIBRARIES:
        factor, loc = tensors(lib, FACTOR, A)
        matrix = factor if how == "scale_tril" else factor @ factor.mT
        made = lib.distributions.MultivariateNormal(loc, **{how: matrix})
        found.append(
            (made.scale_tril, made.covariance_matrix, made.precision_matrix, made.entropy())
        )
    for ours, theirs in zip(*found, strict=True):
        same(ours, theirs)


def test_batch_dimensions_become_one_event():
    found = []
    for lib in LIBRARIES:
        d = lib.distributions
        loc, scale, x = tensors(lib, [A, A], [B, B], [B, A])
        made = d.Independent(d.Normal(loc, scale), 1)
        other = d.Independent(d.Normal(loc + 1, scale), 1)
        assert (tuple(made.batch_shape), tuple(made.event_shape)) == ((2,), (3,))
        divergence = d.kl_divergence(made, other)
        found.append((made.log_prob(x), made.entropy(), divergence, made.mean))
    for ours, theirs in zip(*found, strict=True):
        same(ours, theirs)
    with pytest.raises(ValueError, match="reinterpreted_batch_ndims"):
        d.Independent(d.Normal(0.0, 1.0), 1)


def test_what_is_outside_is_named():
    d = rushlight.distributions
    with pytest.raises(ValueError, match="Expected parameter scale .* GreaterThan"):
        d.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="parameter low .* constraint LessThan"):
        d.Uniform(1.0, 0.0)
    with pytest.raises(ValueError, match="to be within the support"):
        d.Exponential(1.0).log_prob(rushlight.tensor(-1.0))
    with pytest.raises(ValueError, match="not broadcastable"):
        d.Normal(rushlight.zeros(3), 1.0).log_prob(rushlight.zeros(2))
    with pytest.raises(ValueError, match="must be a Tensor"):
        d.Normal(0.0, 1.0).log_prob(1.0)
    assert d.Normal(0.0, -1.0, validate_args=False).scale.item() == -1.0
    assert math.isnan(
        d.Normal(0.0, 1.0, validate_args=False).log_prob(rushlight.tensor(math.nan))
    )


CONSTRAINTS = {
    "real": [0.0, math.nan, math.inf],
    "positive": [0.0, 1.0, -1.0],
    "nonnegative": [0.0, 1.0, -1.0],
    "unit_interval": [0.0, 1.0, 1.1],
    "boolean": [0.0, 1.0, 0.5],
    "nonnegative_integer": [0.0, 3.0, -1.0, 0.5],
    "positive_integer": [0.0, 3.0, -1.0, 1.5],
    "simplex": [[0.2, 0.8], [0.3, 0.3], [-0.1, 1.1]],
    "one_hot": [[0.0, 1.0], [1.0, 1.0], [0.5, 0.5]],
    "real_vector": [[0.0, 1.0], [math.nan, 1.0]],
    "lower_cholesky": [[[1.0, 0.0], [2.0, 1.0]], [[1.0, 1.0], [0.0, 1.0]]],
    "lower_triangular": [[[1.0, 0.0], [2.0, -1.0]], [[1.0, 1.0], [0.0, 1.0]]],
    "positive_definite": [[[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]],
    "symmetric": [[[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [0.0, 1.0]]],
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints(name):
    ours, theirs = (getattr(lib.distributions.constraints, name) for lib in LIBRARIES)
    (x,), (y,) = (tensors(lib, CONSTRAINTS[name]) for lib in LIBRARIES)
    assert ours.check(x).tolist() == theirs.check(y).tolist()
    assert ours.event_dim == theirs.event_dim
    assert ours.is_discrete == theirs.is_discrete
