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
    with pytest.raises(NotImplementedError, match="scrambled"):
        SobolEngine(2, scramble=True)
