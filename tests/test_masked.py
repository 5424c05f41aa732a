"""`torch.masked` and `torch.signal.windows` against PyTorch."""

import numpy as np
import pytest
from parity import check, check_error, normal

import rushlight

torch = pytest.importorskip("torch")

X = normal(2, 3, 4)
MASK = np.random.default_rng(1).random((2, 3, 4)) > 0.4
MASK[0, 1] = False  # a row of nothing
INTEGERS = np.arange(24).reshape(2, 3, 4) - 9


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "amax", "amin", "var", "std", "norm"])
@pytest.mark.parametrize("dim", [None, 1, (0, 2)])
def test_reductions_of_what_is_kept(name, dim):
    order = () if name != "norm" else (2.0,)
    check(f"masked.{name}", X, *order, dim, mask=MASK, second=False)
    check(f"masked.{name}", X, *order, dim, mask=MASK[1], keepdim=True, second=False)
    check(f"masked.{name}", X, *order, dim, second=False)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "var"])
def test_reductions_of_integers(name):
    check(f"masked.{name}", INTEGERS, -1, mask=MASK)
    check(f"masked.{name}", INTEGERS, -1, mask=MASK, dtype="dtype:float64")


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin", "cumsum", "cumprod"])
def test_functions_along_a_dimension(name):
    check(f"masked.{name}", X, 2, mask=MASK[1:], second=False)
    check(f"masked.{name}", X, 0)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions(name):
    check(f"masked.{name}", X, 2, mask=MASK)
    check(f"masked.{name}", INTEGERS, mask=MASK, dtype="dtype:int64")


def test_bools_have_extremes_where_nothing_is_masked():
    for name in ("amax", "amin"):
        check(f"masked.{name}", X > 0, 1)
    check("masked.logsumexp", X > 0, 1)


def test_the_rest():
    check("masked.normalize", X, 2.0, 1, mask=MASK, second=False)
    check("masked.logsumexp", X, 2, mask=MASK[1:], second=False)
    check("masked.logaddexp", X, X[::-1].copy(), input_mask=MASK, second=False)
    check("masked.median", X, 1, mask=MASK, second=False)
    check("masked.median", INTEGERS, 2, mask=MASK[1:])
    check("masked.std", X, 1, False, mask=MASK, second=False)
    check("masked.norm", X, -np.inf, 2, mask=MASK, second=False)


def test_wrong_masks_raise_what_pytorch_raises():
    check_error(IndexError, "masked.sum", X[0], mask=MASK)
    check_error(ValueError, "masked.mean", INTEGERS, mask=MASK)
    check_error(NotImplementedError, "masked.amax", X > 0, mask=MASK)
    check_error(ValueError, "masked.median", INTEGERS, 2, mask=MASK)
    check_error(RuntimeError, "masked.sum", X, (1, 1))
    check_error(IndexError, "masked.sum", X, 3)


WINDOWS = {
    "bartlett": {}, "blackman": {}, "cosine": {}, "exponential": {"tau": 2.0},
    "gaussian": {"std": 1.5}, "general_cosine": {"a": [0.5, 0.3, 0.2]},
    "general_hamming": {"alpha": 0.6}, "hamming": {}, "hann": {}, "kaiser": {"beta": 5.0},
    "nuttall": {},
}  # fmt: skip


@pytest.mark.parametrize("name", list(WINDOWS))
@pytest.mark.parametrize("sym", [True, False])
def test_windows(name, sym):
    for count in (0, 1, 2, 7, 8):
        check(f"signal.windows.{name}", count, sym=sym, dtype="dtype:float64", **WINDOWS[name])
    check_error(ValueError, f"signal.windows.{name}", -1, **WINDOWS[name])
    check_error(ValueError, f"signal.windows.{name}", 3, dtype="dtype:int64", **WINDOWS[name])


def test_windows_that_are_none():
    check_error(ValueError, "signal.windows.exponential", 3, center=1.0)
    check_error(ValueError, "signal.windows.exponential", 3, tau=0.0)
    check_error(ValueError, "signal.windows.gaussian", 3, std=-1.0)
    check_error(ValueError, "signal.windows.kaiser", 3, beta=-1.0)
    check_error(ValueError, "signal.windows.general_cosine", 3, a=[])
    assert rushlight.signal.windows.hann(3, requires_grad=True).requires_grad


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64", "float16"])
@pytest.mark.parametrize("shape", [(3,), (2, 0)])
def test_running_sums_stay_in_the_dtype_of_the_input(name, dtype, shape):
    x = rushlight.ones(shape, dtype=getattr(rushlight, dtype))
    mask = rushlight.ones(shape, dtype=rushlight.bool)
    run = getattr(rushlight.masked, name)
    assert run(x, -1, mask=mask).dtype == x.dtype
    assert run(x, -1, mask=mask, dtype=rushlight.float64).dtype == rushlight.float64
