"""Transforms of random values and the constraints that they lead to, against PyTorch."""

import copy
import importlib

import pytest

import rushlight

torch = pytest.importorskip("torch")
LIBRARIES = (rushlight, torch)


def same(ours, theirs):
    held = torch.tensor(ours.detach().numpy().copy())
    torch.testing.assert_close(held, theirs.detach(), rtol=1e-6, atol=1e-9)


TRANSFORMS = {
    "joined": lambda d: d.CatTransform([d.ExpTransform(), d.TanhTransform()], 0, [1, 2]),
    "joined along the last": lambda d: d.CatTransform(
        [d.ExpTransform(), d.identity_transform], -1, [2, 1]
    ),
    "stacked": lambda d: d.StackTransform([d.ExpTransform()] * 3, 1),
    "stacked vectors": lambda d: d.StackTransform(
        [d.ExpTransform(), d.AffineTransform(1.0, 2.0), d.TanhTransform()]
    ),
    "rows joined": lambda d: d.CatTransform(
        [d.IndependentTransform(t, 1) for t in (d.ExpTransform(), d.TanhTransform())],
        dim=-1,
        lengths=[1, 2],
    ),
    "correlations": lambda d: d.CorrCholeskyTransform(),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_and_how_much_they_stretch(name):
    ours, theirs = (TRANSFORMS[name](lib.distributions) for lib in LIBRARIES)
    numbers = [[0.1, -0.2, 0.3], [0.5, 0.7, -0.1], [1.1, 0.2, 0.4]]
    x, y = (lib.tensor(numbers, dtype=lib.float64) for lib in LIBRARIES)
    same(ours(x), theirs(y))
    same(ours.inv(ours(x)), y)
    same(ours.log_abs_det_jacobian(x, ours(x)), theirs.log_abs_det_jacobian(y, theirs(y)))
    assert ours.domain.event_dim == theirs.domain.event_dim
    assert ours.codomain.event_dim == theirs.codomain.event_dim
    assert ours.forward_shape((3, 3)) == tuple(theirs.forward_shape((3, 3)))
    assert bool(ours.domain.check(x).all())
    assert ours.domain.check(x).shape == tuple(theirs.domain.check(y).shape)
    assert bool(ours.codomain.check(ours(x)).all())


def test_correlations_stretch_by_their_jacobian():
    transform = rushlight.distributions.CorrCholeskyTransform()
    x = rushlight.tensor([0.3, -0.5, 0.8, 0.1, 0.2, -0.7], dtype=rushlight.float64)
    rows, columns = rushlight.tril_indices(4, 4, -1)
    jacobian = rushlight.func.jacrev(lambda v: transform(v)[rows, columns])(x)
    expected = rushlight.linalg.slogdet(jacobian).logabsdet.item()
    found = transform.log_abs_det_jacobian(x, transform(x)).item()
    assert found == pytest.approx(expected)
    assert transform.inverse_shape((2, 4, 4)) == (2, 6)
    with pytest.raises(ValueError, match="flattened lower-diagonal"):
        transform.forward_shape((5,))
    with pytest.raises(ValueError, match="not square"):
        transform.inverse_shape((3, 4))


@pytest.mark.parametrize("diag", [-2, -1, 0, 1, 2])
def test_triangles_as_vectors(diag):
    found = []
    for lib in LIBRARIES:
        square = lib.arange(2 * 16, dtype=lib.float64).reshape(2, 4, 4)
        flat = lib.distributions.utils.tril_matrix_to_vec(square, diag)
        found.append((flat, lib.distributions.utils.vec_to_tril_matrix(flat, diag)))
    for ours, theirs in zip(*found, strict=True):
        same(ours, theirs)


def test_vectors_that_are_no_triangle():
    u = rushlight.distributions.utils
    with pytest.raises(ValueError, match="last dimension is 4 which cannot"):
        u.vec_to_tril_matrix(rushlight.ones(4))
    with pytest.raises(ValueError, match=r"diag \(3\) provided is outside \[-3, 2\]"):
        u.tril_matrix_to_vec(rushlight.ones(3, 3), 3)


def test_equal_transforms():
    d = rushlight.distributions
    one = rushlight.tensor([1.0, 2.0])
    assert d.ExpTransform() == d.ExpTransform()
    assert d.ExpTransform() != d.TanhTransform()
    assert d.AffineTransform(0.0, one) == d.AffineTransform(0, one.clone())
    assert d.AffineTransform(0.0, one) != d.AffineTransform(0.0, 2 * one)
    assert d.PowerTransform(2.0) == d.PowerTransform(rushlight.tensor(2.0))
    assert d.ExpTransform().inv == d.ExpTransform().inv
    assert d.ComposeTransform([d.ExpTransform()]) == d.ComposeTransform([d.ExpTransform()])
    assert d.CatTransform([d.ExpTransform()]) != d.CatTransform([d.ExpTransform()], lengths=[2])
    assert d.ReshapeTransform((2,), (1, 2)) != d.ReshapeTransform((2,), (1, 2))


def test_results_may_be_remembered():
    d = rushlight.distributions
    plain = d.ExpTransform()
    cached = plain.with_cache()
    assert cached is not plain and cached.with_cache(1) is cached
    x = rushlight.tensor(0.3)
    assert cached.inv(cached(x)) is x
    assert plain.inv(plain(x)) is not x
    assert copy.deepcopy(cached)._last == (None, None)
    both = d.ComposeTransform([d.ExpTransform(), d.TanhTransform()], cache_size=1)
    assert both.inv(both(x)) is x
    side = d.CatTransform([d.ExpTransform()], lengths=[2]).with_cache()
    y = rushlight.ones(2)
    assert side.inv(side(y)) is y
    with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
        d.ExpTransform(cache_size=2)


def test_dimensions_of_one_value():
    d = rushlight.distributions
    assert d.ExpTransform().event_dim == 0
    assert d.StickBreakingTransform().event_dim == 1
    with pytest.raises(ValueError, match="domain.event_dim or .codomain.event_dim"):
        _ = d.CorrCholeskyTransform().event_dim


def test_each_result_has_a_base_value_of_its_own():
    """Parameters of a transform may have more elements than the base distribution."""
    d = rushlight.distributions
    rushlight.manual_seed(0)
    wide = d.TransformedDistribution(
        d.Normal(0.0, 1.0), d.AffineTransform(rushlight.zeros(3), rushlight.ones(3))
    )
    assert wide.batch_shape == (3,)
    drawn = wide.sample((2000,))
    assert bool((rushlight.corrcoef(drawn.T) - rushlight.eye(3)).abs().max() < 0.1)
    with pytest.raises(ValueError, match="size at least 1, but got"):
        d.TransformedDistribution(d.Normal(0.0, 1.0), d.StickBreakingTransform())


# ---- constraints


CONSTRAINTS = {
    "real": lambda c: c.real,
    "positive": lambda c: c.positive,
    "nonnegative": lambda c: c.nonnegative,
    "greater": lambda c: c.greater_than(-1.5),
    "at least": lambda c: c.greater_than_eq(-1.5),
    "less": lambda c: c.less_than(2.0),
    "unit": lambda c: c.unit_interval,
    "interval": lambda c: c.interval(-2.0, 5.0),
    "half open": lambda c: c.half_open_interval(-2.0, 5.0),
    "simplex": lambda c: c.simplex,
    "vector": lambda c: c.real_vector,
    "positive vector": lambda c: c.independent(c.positive, 1),
    "lower_cholesky": lambda c: c.lower_cholesky,
    "positive_definite": lambda c: c.positive_definite,
    "positive_semidefinite": lambda c: c.positive_semidefinite,
    "corr_cholesky": lambda c: c.corr_cholesky,
    "cat": lambda c: c.cat([c.positive, c.unit_interval], -1, [1, 2]),
    "stack": lambda c: c.stack([c.positive, c.real, c.less_than(0.0)], -1),
}
NOT_BIJECTIVE = ("lower_cholesky", "positive_definite", "positive_semidefinite")


@pytest.mark.parametrize("how", ["transform_to", "biject_to"])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_transforms_to_constraints(name, how):
    constraints = [CONSTRAINTS[name](lib.distributions.constraints) for lib in LIBRARIES]
    assert repr(constraints[0]) == repr(constraints[1])
    assert constraints[0].event_dim == constraints[1].event_dim
    assert constraints[0].is_discrete == constraints[1].is_discrete
    if how == "biject_to" and name in NOT_BIJECTIVE:
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            rushlight.distributions.biject_to(constraints[0])
        return
    numbers = [[0.1, -0.2, 0.3], [0.5, 0.7, -0.1], [1.1, 0.2, 0.4]]
    pairs = zip(LIBRARIES, constraints, strict=True)
    ours, theirs = (getattr(lib.distributions, how)(c) for lib, c in pairs)
    x, y = (lib.tensor(numbers, dtype=lib.float64) for lib in LIBRARIES)
    same(ours(x), theirs(y))
    assert bool(constraints[0].check(ours(x)).all())
    assert ours.bijective == theirs.bijective


def test_constraints_of_parts():
    found = []
    for lib in LIBRARIES:
        c = lib.distributions.constraints
        x = lib.tensor([[1.0, -1.0, 0.5], [1.0, 2.0, 3.0]])
        joined = c.cat([c.positive, c.unit_interval], 1, [2, 1])
        stacked = c.stack([c.positive, c.real, c.less_than(1.0)], 1)
        mixed = c.MixtureSameFamilyConstraint(c.interval(lib.tensor([0.0, -1.0]), 1.0))
        made = (joined, stacked, mixed)
        found.append(([p.check(x).tolist() for p in made], [p.event_dim for p in made]))
    assert found[0] == found[1]


def test_mixtures_check_each_component():
    for lib in LIBRARIES:
        d = lib.distributions
        bounds = lib.tensor([0.0, 1.0]), lib.tensor([2.0, 3.0])
        mixture = d.MixtureSameFamily(
            d.Categorical(lib.ones(2)), d.Uniform(*bounds), validate_args=True
        )
        assert repr(mixture.support).startswith("MixtureSameFamilyConstraint(Interval")
        assert mixture.log_prob(lib.tensor(1.5)).isfinite()
        with pytest.raises(ValueError, match="support"):
            mixture.log_prob(lib.tensor(0.5))
        assert mixture.expand((4,)).sample((3,)).shape == (3, 4)
        texts = repr(mixture).splitlines()
        assert texts[0] == "MixtureSameFamily(" and texts[1].strip().startswith("Categorical")
        with pytest.raises(ValueError, match="not compatible with"):
            d.MixtureSameFamily(d.Categorical(lib.ones(3, 2)), d.Normal(lib.zeros(4, 2), 1.0))
        shared = d.MixtureSameFamily(d.Categorical(lib.ones(2)), d.Normal(lib.zeros(4, 2), 1.0))
        assert shared.mean.shape == (4,)


def test_a_shared_choice_is_made_for_each_of_a_batch():
    """PyTorch's sample of such a mixture raises."""
    d = rushlight.distributions
    rushlight.manual_seed(0)
    normals = d.Normal(rushlight.tensor([[0.0, 100.0]] * 4), 1.0)
    drawn = d.MixtureSameFamily(d.Categorical(rushlight.ones(2)), normals).sample((500,))
    assert drawn.shape == (500, 4)
    assert (drawn > 50).float().mean(0).tolist() == pytest.approx([0.5] * 4, abs=0.1)


def test_own_constraints_can_be_registered():
    d = rushlight.distributions

    class Even(d.constraints.Constraint):
        pass

    registry = d.constraint_registry.ConstraintRegistry()

    @registry.register(Even)
    def double(constraint):
        return d.AffineTransform(0.0, 2.0)

    assert registry(Even())(rushlight.tensor(3.0)).item() == 6.0
    with pytest.raises(NotImplementedError, match="Cannot transform _GreaterThan"):
        registry(d.constraints.positive)
    with pytest.raises(TypeError, match="Constraint subclass or instance"):
        registry.register(3, double)


# ---- addresses and classes of one's own


def test_pytorch_places_of_distributions():
    for name in torch.distributions.__all__:
        kind = getattr(torch.distributions, name)
        ours = getattr(rushlight.distributions, name)
        if isinstance(kind, type):
            place = kind.__module__.replace("torch", "rushlight", 1)
            assert getattr(importlib.import_module(place), name) is ours
            bases = {b.__name__ for b in kind.__mro__} - {"object", "Generic"}
            if name != "Gumbel":  # made of formulas here, of transforms there
                assert bases <= {b.__name__ for b in ours.__mro__}


def test_own_distributions_expand_as_in_pytorch():
    for lib in LIBRARIES:
        base = lib.distributions.Normal

        class Moved(base):
            def __init__(self, loc, shift, validate_args=None, base=base):
                self.shift = shift
                base.__init__(self, loc + shift, 1.0, validate_args)

            def expand(self, batch_shape, _instance=None):
                new = self._get_checked_instance(Moved, _instance)
                new.shift = self.shift
                return super().expand(batch_shape, new)

        made = Moved(lib.tensor(1.0), 2.0).expand((3,))
        assert made.shift == 2.0 and made.sample().shape == (3,)

        class Careless(Moved):
            def __init__(self, loc):
                super().__init__(loc, 0.0)

        with pytest.raises(NotImplementedError, match="must also define a custom .expand"):
            Careless(lib.tensor(0.0)).expand((3,))


def test_binomials_enumerate_and_have_entropy():
    found = []
    for lib in LIBRARIES:
        d = lib.distributions.Binomial(4, lib.tensor([0.3, 0.9], dtype=lib.float64))
        found.append((d.enumerate_support(), d.enumerate_support(False), d.entropy()))
    for ours, theirs in zip(*found, strict=True):
        same(ours, theirs)
    uneven = rushlight.distributions.Binomial(rushlight.tensor([3, 4]), rushlight.tensor(0.5))
    with pytest.raises(NotImplementedError, match="Inhomogeneous total count.*`entropy`"):
        uneven.entropy()


def test_one_event_of_a_batch_cannot_be_enumerated():
    d = rushlight.distributions
    bernoulli = d.Bernoulli(rushlight.tensor([0.3, 0.9]))
    assert d.Independent(bernoulli, 0).has_enumerate_support
    assert d.Independent(bernoulli, 0).enumerate_support().shape == (2, 2)
    with pytest.raises(NotImplementedError, match="cartesian product"):
        d.Independent(bernoulli, 1).enumerate_support()


# -- what they are shown as

SHOWN = {
    "inverse": lambda d, c, t: d.ExpTransform().inv,
    "inverse of one": lambda d, c, t: d.AffineTransform(1.0, t(2.0)).inv.inv,
    "composed": lambda d, c, t: d.ComposeTransform([d.ExpTransform(), d.TanhTransform()]),
    "inverse of two": lambda d, c, t: d.ComposeTransform([d.ExpTransform(), d.TanhTransform()])
    .inv,
    "nothing": lambda d, c, t: d.identity_transform,
    "independent": lambda d, c, t: d.IndependentTransform(d.ExpTransform(), 1).inv,
    "to positive": lambda d, c, t: d.biject_to(c.positive),
    "to an interval": lambda d, c, t: d.transform_to(c.interval(0.0, 2.0)),
    "ends": lambda d, c, t: d.Uniform(t(0.0), t(1.0)).arg_constraints,
    **{
        f"support of {name}": lambda d, c, t, made=made: made(d, t).support
        for name, made in {
            "Multinomial": lambda d, t: d.Multinomial(3, t([0.5, 0.5])),
            "Chi2": lambda d, t: d.Chi2(t(3.0)),
            "Wishart": lambda d, t: d.Wishart(t(3.0), t([[1.0, 0.0], [0.0, 1.0]])),
            "Geometric": lambda d, t: d.Geometric(t(0.5)),
            "Categorical": lambda d, t: d.Categorical(t([0.5, 0.5])),
            "Dirichlet": lambda d, t: d.Dirichlet(t([0.5, 0.5])),
            "Independent": lambda d, t: d.Independent(d.Normal(t([0.5]), t([0.5])), 1),
        }.items()
    },
    **{
        name: lambda d, c, t, made=made: made(c)
        for name, made in {
            "multinomial": lambda c: c.multinomial(3),
            "dependent property": lambda c: c.dependent_property(is_discrete=True, event_dim=0),
            "dependent": lambda c: c.dependent,
            "cat": lambda c: c.cat([c.real, c.positive]),
            "stack": lambda c: c.stack([c.real]),
            "half open": lambda c: c.half_open_interval(0, 1),
            "whole": lambda c: c.integer_interval(0, 3),
            "below": lambda c: c.less_than(1),
            "nonnegative": lambda c: c.nonnegative_integer,
            "vector": lambda c: c.real_vector,
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_constraints_and_transforms_are_shown_as_in_pytorch(name):
    ours, theirs = (
        SHOWN[name](lib.distributions, lib.distributions.constraints, lib.tensor)
        for lib in LIBRARIES
    )
    assert repr(ours) == repr(theirs)
    assert type(ours).__name__ == type(theirs).__name__


def test_the_names_of_constraints_are_pytorchs():
    ours, theirs = (lib.distributions.constraints for lib in LIBRARIES)
    assert set(ours.__all__) == set(theirs.__all__)
    for name in theirs.__all__:
        for made in (getattr(ours, name), getattr(theirs, name)):
            assert made is not None
        if isinstance(getattr(theirs, name), type):
            assert getattr(ours, name).__name__ == getattr(theirs, name).__name__


def test_what_neither_rises_nor_falls_has_no_sign():
    for lib in LIBRARIES:
        d = lib.distributions
        for made in (
            d.AbsTransform(), d.AbsTransform().inv, d.SoftmaxTransform(),
            d.ComposeTransform([d.AbsTransform()]), d.ReshapeTransform((2,), (2, 1)),
        ):  # fmt: skip
            with pytest.raises(NotImplementedError):
                made.sign
        down = d.ComposeTransform([d.ExpTransform(), d.AffineTransform(0.0, -1.0)])
        assert down.sign == down.inv.sign == d.IndependentTransform(down, 1).sign == -1
        with pytest.raises(NotImplementedError, match="cannot be determined statically"):
            d.constraints.dependent.event_dim
        with pytest.raises(ValueError, match="parameter low .* constraint LessThan"):
            d.Uniform(1.0, 0.0, validate_args=True)
