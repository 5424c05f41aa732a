"""Tensors made from numbers and sizes: the dtypes they take, and `out=`, against PyTorch."""

import warnings

import pytest

import rushlight

torch = pytest.importorskip("torch")

INTO_OUT = {  # made in the dtype of `out`, as if that had been asked for
    "arange": lambda t, out: t.arange(0, 6, 1.5, out=out),
    "range": lambda t, out: t.range(0, 5, out=out),
    "linspace": lambda t, out: t.linspace(0, 5.5, 5, out=out),
    "logspace": lambda t, out: t.logspace(0, 2, 5, out=out),
    "full": lambda t, out: t.full((2,), 2.5, out=out),
    "zeros": lambda t, out: t.zeros(2, out=out),
    "ones": lambda t, out: t.ones(2, dtype=out.dtype, out=out),
    "eye": lambda t, out: t.eye(2, out=out),
}


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("dtype", ["int64", "float64", "bfloat16", "bool"])
@pytest.mark.parametrize("name", INTO_OUT)
def test_factories_calculate_in_the_dtype_of_out(name, dtype):
    def outcome(lib):
        out = lib.empty(0, dtype=getattr(lib, dtype))
        try:
            made = INTO_OUT[name](lib, out)
        except NotImplementedError as error:
            return type(error)
        assert made is out
        return out.tolist()

    assert outcome(rushlight) == outcome(torch)


@pytest.mark.parametrize("lib", [rushlight, torch])
def test_another_dtype_than_that_of_out_is_refused(lib):
    with pytest.raises(RuntimeError, match="does not match dtype of out"):
        lib.zeros(2, dtype=lib.float32, out=lib.empty(2, dtype=lib.float64))
    with pytest.raises(TypeError, match="must be Tensor, not list"):
        lib.zeros(2, out=[1])


@pytest.mark.parametrize("lib", [rushlight, torch])
def test_ranges_that_have_no_meaning_in_their_dtype_are_refused(lib):
    with pytest.raises(ValueError, match="step must be nonzero"):
        lib.arange(0, 5, 0.5, dtype=lib.int64)
    for name in ("arange", "linspace", "logspace"):
        with pytest.raises(NotImplementedError):
            getattr(lib, name)(0, 5, 2, dtype=lib.bool)
    for dtype in (lib.bool, lib.complex64):
        with pytest.raises(NotImplementedError):
            lib.randperm(3, dtype=dtype)
    with pytest.raises(RuntimeError):
        lib.randperm(129, dtype=lib.int8)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("bool", 0, 2), ("int8", -128, 128), ("uint8", 0, 256), ("int16", -(2**15), 2**15),
     ("float16", -65504, 65505), ("bfloat16", -300, 300)],
)  # fmt: skip
def test_random_integers_have_the_bounds_of_their_dtype(dtype, low, high):
    for lib in (rushlight, torch):
        kind = getattr(lib, dtype)
        with warnings.catch_warnings():  # PyTorch's, where not every integer has a number
            warnings.simplefilter("ignore")
            assert lib.randint(low, high, (3,), dtype=kind).dtype is kind
        if dtype != "bfloat16":
            for bounds in ((low - 1, high), (low, high + 1)):
                with pytest.raises(RuntimeError):
                    lib.randint(*bounds, (3,), dtype=kind)
