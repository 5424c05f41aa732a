"""Fourier transforms against PyTorch: values, derivatives of any order, what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")

FAMILIES = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
rng = np.random.default_rng(0)
REAL = rng.standard_normal((3, 4, 5))
COMPLEX = REAL + 1j * rng.standard_normal((3, 4, 5))


def made(library, values, kind=None):
    values = np.asarray(values)
    out = library.tensor(values.tolist(), dtype=getattr(library, kind or values.dtype.name))
    return out.reshape(values.shape)


def array(tensor):
    return np.array(tensor.detach().tolist()).reshape(tuple(tensor.shape))


def weights(library, like):
    """Fixed random numbers of the shape and dtype of a tensor."""
    source = np.random.default_rng(7)
    parts = source.standard_normal((2, *like.shape))
    chosen = parts[0] + 1j * parts[1] if like.dtype.is_complex else parts[0]
    return made(library, chosen, str(like.dtype).removeprefix("torch."))


def outcome(library, name, values, kind, named):
    """Result, gradient and gradient of the gradient, or the class of what is raised."""
    x = made(library, values, kind)
    if x.dtype.is_complex or x.dtype.is_floating_point:
        x.requires_grad_()
    try:
        out = getattr(library.fft, name)(x, **named)
    except Exception as error:
        return type(error)
    found = [str(out.dtype), array(out)]
    if not x.requires_grad:
        return found
    w = weights(library, out).requires_grad_()
    (g,) = library.autograd.grad(out, x, w, create_graph=True)
    (back,) = library.autograd.grad(g, w, weights(library, g))
    return [*found, str(g.dtype), array(g), array(back)]


def compare(name, values, kind=None, **named):
    ours, theirs = (outcome(lib, name, values, kind, named) for lib in (rushlight, torch))
    if isinstance(theirs, type) or isinstance(ours, type):
        assert ours == theirs, (name, named, ours, theirs)
        return
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(b, str):
            assert a == b
        else:
            is_double = (
                kind is None and values.dtype.itemsize >= 8 and values.dtype.kind in "fc"
            )
            tolerance = 1e-10 if is_double else 1e-4
            np.testing.assert_allclose(a, b, tolerance, tolerance, err_msg=f"{name} {named}")


ONE = [
    {}, {"norm": "ortho"}, {"norm": "forward"}, {"norm": "backward"}, {"dim": 0}, {"n": 3},
    {"n": 8}, {"n": 1}, {"n": 6, "dim": -2, "norm": "ortho"},
]  # fmt: skip
MANY = [
    {}, {"norm": "ortho"}, {"norm": "forward"}, {"s": (3, 4)}, {"s": (-1, 6)}, {"s": (6, -1)},
    {"dim": (0,)}, {"dim": (2, 0)}, {"s": (7, 3), "dim": (1, 0), "norm": "ortho"},
]  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("named", ONE, ids=str)
def test_along_one_dimension(name, named):
    compare(name, REAL, **named)
    if name not in ("rfft", "ihfft"):
        compare(name, COMPLEX, **named)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("named", MANY, ids=str)
def test_over_several_dimensions(name, named):
    for form, values in itertools.product(("2", "n"), (REAL, COMPLEX)):
        if name not in ("rfft", "ihfft") or values is REAL:
            compare(name + form, values, **named)


@pytest.mark.parametrize("name", FAMILIES)
def test_other_dtypes(name):
    whole = np.array([[1, 2, 3, 4], [0, -1, 5, 2]])
    compare(name, whole)
    compare(name, whole > 1)
    compare(name, whole, "float32")
    compare(name + "n", whole, "float32")
    compare(name, whole, "complex64")
    compare(name, whole, "float16")


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    "named", [{"n": 0}, {"n": -1}, {"dim": 5}, {"norm": "other"}, {"n": 4, "dim": -4}], ids=str
)
def test_wrong_arguments_raise_what_pytorch_raises(name, named):
    compare(name, REAL, **named)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    "named",
    [
        {"dim": (0, 0)}, {"s": (3,), "dim": (0, 1)}, {"s": (2, 3, 4, 5)}, {"s": (0, 2)},
        {"norm": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_shapes_raise_what_pytorch_raises(name, named):
    compare(name + "2", REAL, **named)
    compare(name + "n", REAL, **named)


def test_nothing_and_numbers():
    for name in FAMILIES:
        compare(name, np.zeros((4, 0)))
        compare(name, np.array(2.0))
        nothing = getattr(rushlight.fft, name)(rushlight.zeros(0, 4, requires_grad=True))
        assert nothing.shape[0] == 0
        nothing.backward(rushlight.zeros_like(nothing))
    compare("rfft", COMPLEX)
    compare("ihfftn", COMPLEX)


def test_numerical_derivatives():
    x = made(rushlight, REAL[0]).requires_grad_()

    def powers(x):
        half = rushlight.fft.rfft2(x, norm="ortho")
        return rushlight.real(half) ** 2 + rushlight.imag(half) ** 3

    assert rushlight.autograd.gradcheck(powers, (x,))
    assert rushlight.autograd.gradgradcheck(powers, (x,))


def test_inverses_give_back_what_was_transformed():
    x, z = made(rushlight, REAL), made(rushlight, COMPLEX)
    same = {"rtol": 1e-12, "atol": 1e-12}
    for norm in ("forward", "backward", "ortho"):
        back = rushlight.fft.ifftn(rushlight.fft.fftn(z, norm=norm), norm=norm)
        rushlight.testing.assert_close(back, z, **same)
        half = rushlight.fft.rfftn(x, norm=norm)
        rushlight.testing.assert_close(
            rushlight.fft.irfftn(half, x.shape, norm=norm), x, **same
        )


def test_a_row_has_the_same_bits_in_any_batch():
    x = rushlight.randn(7, 12)
    whole = rushlight.fft.rfft(x)
    for i in range(7):
        assert rushlight.equal(rushlight.fft.rfft(x[i]), whole[i])
    assert rushlight.equal(rushlight.fft.fft(x.T, dim=0).T, rushlight.fft.fft(x))


def test_samples_of_a_batch_and_tangents():
    x, t = made(rushlight, REAL[0]), made(rushlight, REAL[1])
    for transform in (rushlight.fft.rfft, rushlight.fft.fft):
        assert rushlight.equal(rushlight.func.vmap(transform)(x), transform(x))
        _, tangent = rushlight.func.jvp(transform, (x,), (t,))
        assert rushlight.equal(tangent, transform(t))

    def there_and_back(x):
        return rushlight.fft.irfft(rushlight.fft.rfft(x) * 2, 5)

    _, tangent = rushlight.func.jvp(there_and_back, (x,), (t,))
    rushlight.testing.assert_close(tangent, t * 2)


def test_results_go_into_out():
    x = rushlight.tensor([1.0, 2.0, 3.0])
    out = rushlight.empty(0, dtype=rushlight.complex64)
    assert rushlight.fft.fft(x, out=out) is out
    assert rushlight.equal(out, rushlight.fft.fft(x))


# -- frequencies


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies(name):
    for n, d in ((1, 1.0), (4, 1.0), (5, 0.5), (9, 3.0)):
        ours = getattr(rushlight.fft, name)(n, d)
        np.testing.assert_allclose(ours.numpy(), getattr(torch.fft, name)(n, d).numpy(), 1e-6)
    with pytest.raises(RuntimeError, match="floating"):
        getattr(rushlight.fft, name)(4, dtype=rushlight.int64)


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
@pytest.mark.parametrize("dim", [None, 0, (1,), (0, 2), (-1, -2)])
def test_orders_of_frequencies(name, dim):
    compare(name, REAL, dim=dim)
    compare(name, COMPLEX, dim=dim)


# -- frames of a signal

SIGNAL = rng.standard_normal((2, 20))
WINDOW = rng.uniform(0.5, 1, 8)


def transformed(library, name, values, window, named):
    x = made(library, values).requires_grad_()
    w = None if window is None else made(library, window).requires_grad_()
    try:
        out = getattr(library, name)(x, window=w, **named)
    except Exception as error:
        return type(error)
    leaves = [x] if w is None else [x, w]
    grads = library.autograd.grad(out, leaves, weights(library, out))
    return [array(t) for t in (out, *grads)]


def same_frames(name, values, window=None, **named):
    ours, theirs = (transformed(lib, name, values, window, named) for lib in (rushlight, torch))
    if isinstance(ours, type) or isinstance(theirs, type):
        assert ours == theirs, (named, ours, theirs)
        return
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-9, err_msg=str(named))


@pytest.mark.parametrize(
    "named",
    [
        {}, {"hop_length": 3}, {"normalized": True}, {"center": False},
        {"pad_mode": "constant"}, {"pad_mode": "replicate"}, {"onesided": False},
        {"return_complex": False},
        {"hop_length": 0}, {"win_length": 9}, {"win_length": 0}, {"align_to_window": True},
        {"n_fft": 0}, {"n_fft": 50}, {"n_fft": 30, "center": False},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_spectra_of_frames(named):
    named = {"n_fft": 8, "return_complex": True, **named}
    for window in (WINDOW, None):
        for values in (SIGNAL, SIGNAL[0]):
            same_frames("stft", values, window, **named)
    same_frames("stft", SIGNAL + 1j * SIGNAL[::-1], WINDOW, **named)


@pytest.mark.filterwarnings("ignore:.*without a window", "ignore:A window was not provided")
@pytest.mark.parametrize(
    "named",
    [
        {}, {"center": False}, {"center": False, "align_to_window": True},
        {"center": False, "align_to_window": False},
    ],
    ids=str,
)  # fmt: skip
def test_windows_that_are_shorter_than_frames(named):
    for size in (4, 5):
        common = {"n_fft": 8, "return_complex": True, "win_length": size}
        same_frames("stft", SIGNAL, WINDOW[:size], **common, **named)
        same_frames("stft", SIGNAL, None, **common, **named)


SPECTRA = {
    half: torch.stft(
        torch.tensor(SIGNAL), 8, 2, window=torch.tensor(WINDOW), onesided=half,
        return_complex=True,
    ).numpy()
    for half in (True, False)
}  # fmt: skip


@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize(
    "named",
    [
        {}, {"length": 19}, {"length": 25}, {"length": 5}, {"onesided": True},
        {"onesided": False}, {"normalized": True}, {"center": False}, {"return_complex": True},
        {"hop_length": 0}, {"hop_length": 9}, {"hop_length": 3}, {"n_fft": 10},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_signals_of_spectra(half, named):
    named = {"n_fft": 8, "hop_length": 2, **named}
    for window in (WINDOW, None):
        same_frames("istft", SPECTRA[half], window, **named)
    same_frames("istft", SPECTRA[half][0], WINDOW, **named)


def test_frames_that_there_are_not():
    same_frames("stft", SIGNAL, None, n_fft=8)
    same_frames("stft", SIGNAL.reshape(2, 2, 10), None, n_fft=8, return_complex=True)
    same_frames("stft", SIGNAL, WINDOW[:7], n_fft=8, return_complex=True)
    same_frames("istft", SPECTRA[True], WINDOW * 0, n_fft=8)
    same_frames("istft", SPECTRA[True], WINDOW[:7], n_fft=8)
    same_frames("istft", SPECTRA[True][0, 0], WINDOW, n_fft=8)
    same_frames("istft", SPECTRA[True][:, :, :0], WINDOW, n_fft=8)
    same_frames("istft", SIGNAL, WINDOW, n_fft=8)


def test_a_signal_comes_back():
    x = rushlight.sin(rushlight.arange(40.0) * 0.3)
    window = rushlight.hann_window(16)
    spectra = rushlight.stft(x, 16, window=window, return_complex=True)
    back = rushlight.istft(spectra, 16, window=window, length=40)
    rushlight.testing.assert_close(back, x, rtol=1e-5, atol=1e-5)
