"""Tensors made from numbers and sizes: the dtypes they take, and `out=`, against PyTorch."""

import threading
import warnings

import numpy as np
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


NUMPY_NUMBERS: tuple[list[object], ...] = (
    [np.float64(1.5)], [np.float64(1.5), 2.0], [2, np.float64(1.5)], [np.float32(1), 2.0],
    [np.float32(1), np.float64(2)], [np.float16(1)], [np.float16(1), 2.0], [np.int8(1)],
    [np.float16(1), np.int64(2)], [np.int8(1), 5], [np.int8(1), np.uint8(2)],
    [True, np.int8(1)], [np.bool_(True)], [np.bool_(True), False],
    [np.complex64(1), np.float64(2)],
    [np.complex128(1), 1j], [[np.float64(1), 1], [2, 3]], [[np.float64(1)], [np.float32(1)]],
    [np.uint16(1)], [np.int16(3), np.int32(4)], [np.array([1, 2], "int8"), [1, 2]],
    [np.array([1.5, 2], "float32"), [1, 2]],
)  # fmt: skip


@pytest.mark.parametrize("data", NUMPY_NUMBERS, ids=str)
def test_numbers_of_numpy_in_lists_keep_their_dtypes(data: list[object]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a list of arrays is slow
        made, expected = rushlight.tensor(data), torch.tensor(data)
    assert repr(made.dtype) == repr(expected.dtype)
    assert made.tolist() == expected.tolist()


def test_tensors_in_lists_and_numbers_beside_them() -> None:
    for module in (torch, rushlight):
        small = module.tensor(2, dtype=module.int8)
        assert module.tensor([small, small]).dtype is module.int8
        assert module.tensor([small, 1]).dtype is module.int64
        half = module.tensor(2.0, dtype=module.float16)
        assert module.tensor([half, np.float64(1.5)]).dtype is module.float64


@pytest.mark.parametrize(
    "data",
    [
        lambda t: [t.ones(1), t.ones(1, dtype=t.float64)],
        lambda t: [t.ones(1, 1), 2],
        lambda t: [[t.ones(1), 1], [2, t.ones(())]],
        lambda t: [[t.ones(1)], [t.ones(1)]],
        lambda t: (t.tensor([True]), t.tensor([2])),
        lambda t: [t.tensor([2.0], dtype=t.bfloat16), 1],
        lambda t: [[1], t.ones(1)],
    ],
)
def test_tensors_of_one_element_in_lists_are_numbers(data) -> None:
    ours, expected = rushlight.tensor(data(rushlight)), torch.tensor(data(torch))
    assert str(ours.dtype) == str(expected.dtype)
    assert ours.tolist() == expected.tolist()


def test_narrow_integers_of_numpy_are_indices() -> None:
    for module in (torch, rushlight):
        x = module.arange(3)
        assert x[[np.int8(1), np.int8(2)]].tolist() == [1, 2]
        assert x[[np.bool_(True), np.bool_(False), np.bool_(True)]].tolist() == [0, 2]


@pytest.mark.parametrize("alpha", (np.uint8(2), np.int8(2), np.float32(2), np.bool_(True)))
def test_multipliers_of_numpy(alpha: object) -> None:
    for op in ("add", "sub", "rsub"):
        made = getattr(rushlight, op)(rushlight.ones(2), rushlight.ones(2), alpha=alpha)
        expected = getattr(torch, op)(torch.ones(2), torch.ones(2), alpha=alpha)
        assert made.tolist() == expected.tolist() and made.dtype is rushlight.float32
    one = np.float64(1)
    assert rushlight.rsub(rushlight.ones(2), one, alpha=0.5).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("kind", ["uint8", "int32", "int64", "float32"])
@pytest.mark.parametrize(
    "bounds", [(3.1,), (0.5, 3.1), (0, 5, 1.5), (5, 0, -1.5), (0.5, 0.2, -0.5)]
)
def test_ranges_of_fractions_in_integers(bounds, kind):
    theirs = pytest.importorskip("torch")
    try:
        expected = theirs.arange(*bounds, dtype=getattr(theirs, kind)).tolist()
    except ValueError:
        with pytest.raises(ValueError, match="nonzero"):
            rushlight.arange(*bounds, dtype=getattr(rushlight, kind))
        return
    made = rushlight.arange(*bounds, dtype=getattr(rushlight, kind)).tolist()
    assert made == pytest.approx(expected)


@pytest.fixture
def default_dtype():
    yield
    for library in (torch, rushlight):
        library.set_default_dtype(library.float32)


def test_a_new_default_dtype_is_that_of_later_steps_alone(default_dtype):
    def program(t):
        whole, found = t.tensor([1, 2]), []
        for name in ("float32", "float64", "float32", "float64"):
            pending = [whole / 2, whole * 1.5, whole.sqrt(), t.ones(2) + whole]
            t.set_default_dtype(getattr(t, name))
            made = [whole / 2, whole * 1.5, whole.sqrt(), t.ones(2) + whole]
            found += [(str(x.dtype), x.tolist()) for x in pending + made]
        return found

    for _ in range(2):
        for (kind, values), (right, expected) in zip(
            program(rushlight), program(torch), strict=True
        ):
            assert kind == right and values == pytest.approx(expected)


def test_another_threads_steps_keep_the_default_dtype_they_were_recorded_with(default_dtype):
    recorded, changed, seen = threading.Event(), threading.Event(), []

    def work():
        whole = rushlight.tensor([1, 2])
        pending = whole / 2
        recorded.set()
        changed.wait(60)
        seen.extend([pending, whole / 2])

    thread = threading.Thread(target=work)
    thread.start()
    recorded.wait(60)
    rushlight.set_default_dtype(rushlight.float64)
    changed.set()
    thread.join()
    assert [x.dtype for x in seen] == [rushlight.float32, rushlight.float64]
    assert [x.tolist() for x in seen] == [[0.5, 1.0]] * 2
