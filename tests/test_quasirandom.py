"""Sobol points are PyTorch's."""

import pytest

import rushlight
from rushlight.quasirandom import SobolEngine

pytest.importorskip("scipy")


@pytest.mark.parametrize("dimension", [1, 3, 40])
def test_points_are_those_of_pytorch(dimension):
    torch = pytest.importorskip("torch")
    ours, theirs = SobolEngine(dimension), torch.quasirandom.SobolEngine(dimension)
    assert repr(ours) == repr(theirs)
    for engine_step in (
        lambda e, t: e.draw(5),
        lambda e, t: e.draw(3, dtype=t.float64),
        lambda e, t: e.fast_forward(7).draw(),
        lambda e, t: e.draw(4, out=t.empty(0)),
        lambda e, t: e.reset().draw_base2(3),
        lambda e, t: e.draw(0),
    ):
        a, b = engine_step(ours, rushlight), engine_step(theirs, torch)
        assert a.tolist() == b.tolist()
        assert str(a.dtype) == str(b.dtype)
        assert a.shape == b.shape
        assert ours.num_generated == theirs.num_generated


def test_what_cannot_be_drawn_is_refused():
    engine = SobolEngine(2)
    engine.draw(1)
    with pytest.raises(ValueError, match="no power of 2"):
        engine.draw_base2(1)
    with pytest.raises(ValueError, match="dimensionality"):
        SobolEngine(0)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_scrambled_points_are_as_even(dimension):
    engine = SobolEngine(dimension, scramble=True, seed=3)
    points = engine.draw(64, dtype=rushlight.float64)
    assert (points >= 0).all() and (points < 1).all()
    for column in points.unbind(1):  # each 64th of an axis has its point, as without scrambling
        assert (column * 64).long().sort()[0].tolist() == list(range(64))
    assert points.tolist() != SobolEngine(dimension).draw(64).tolist()
    assert engine.reset().draw(64, dtype=rushlight.float64).tolist() == points.tolist()


def test_scrambling_has_a_seed():
    torch = pytest.importorskip("torch")
    first, again, other = (SobolEngine(3, scramble=True, seed=n).draw(8) for n in (1, 1, -2))
    assert first.tolist() == again.tolist() != other.tolist()
    theirs = torch.quasirandom.SobolEngine
    for options in ({"scramble": True}, {"scramble": True, "seed": 5}, {"seed": 5}):
        assert repr(SobolEngine(3, **options)) == repr(theirs(3, **options))
    rushlight.manual_seed(0)
    drawn = [SobolEngine(2, scramble=True).draw(4).tolist() for _ in range(2)]
    assert drawn[0] != drawn[1]
    rushlight.manual_seed(0)
    assert SobolEngine(2, scramble=True).draw(4).tolist() == drawn[0]
