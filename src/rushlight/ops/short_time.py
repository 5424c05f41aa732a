"""Short-time Fourier transforms: the spectra of windowed, overlapping frames of a signal."""

from __future__ import annotations

import math
from typing import Any  # operands are tensors

from rushlight import errors
from rushlight.advice import warn_caller
from rushlight.ops import batching
from rushlight.ops.complex_parts import view_as_real
from rushlight.ops.creation import FULL
from rushlight.ops.elementwise import CAST
from rushlight.ops.fourier import BACKWARD, COMPLEX, FORWARD, FROM_HALF, TO_HALF
from rushlight.ops.interpolate import pad
from rushlight.ops.movement import unfold
from rushlight.ops.rearrange import constant_pad
from rushlight.ops.registry import public
from rushlight.ops.view_ops import SCATTER_VIEW
from rushlight.views import View

_NEARLY_ZERO = 1e-11


def _window(op: str, window: Any, n_fft: int, win_length: int, kind: Any) -> Any:
    """The window with zeros around it up to `n_fft` points; None if there is nothing to do."""
    if window is None:
        warn_caller(f"{op}: without a window there is spectral leakage; pass hann_window(...)")
        if win_length == n_fft:
            return None
        window = FULL(shape=(win_length,), value=1, dtype=kind)
    elif window._shape != (win_length,):
        raise RuntimeError(
            f"{op}: expected a 1D window tensor of size equal to win_length={win_length}, but "
            f"got window with size {errors.shape_text(window._shape)}"
        )
    left = (n_fft - win_length) // 2
    return constant_pad(window, [left], [n_fft - win_length - left])


def _settings(
    op: str, n_fft: int, hop_length: int | None, win_length: int | None
) -> tuple[int, int]:
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    if hop <= 0:
        raise RuntimeError(f"{op}: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(
            f"{op}: expected 0 < win_length <= n_fft, but got win_length={length} and "
            f"n_fft={n_fft}"
        )
    return hop, length


def _is_complex(x: Any) -> bool:
    return x is not None and bool(x.dtype.is_complex)


def _padded(x: Any, amount: int, mode: str) -> Any:
    """A batch of signals with this much before and after each."""
    return pad(x.unsqueeze(1), (amount, amount), mode).squeeze(1)


@public("torch", "Tensor")
def stft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Any = None, center: bool = True, pad_mode: str = "reflect",
    normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Any:  # fmt: skip
    """Spectra of frames of n_fft points every hop_length points: (..., frequencies, frames).

    center: frame i is around point i * hop_length, and the signal is padded by half a frame.
    onesided: only the frequencies of a real signal that are not redundant (the default then).
    return_complex: complex numbers, or their parts in a last dimension of size 2.

    >>> x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    >>> torch.stft(x, 4, 4, window=torch.ones(4), center=False, return_complex=True)
    tensor([[10.+0.j],
            [-2.+2.j],
            [-2.+0.j]])
    """
    has_complex = _is_complex(input) or _is_complex(window)
    if return_complex is None:
        if not has_complex:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and "
                "will further require that return_complex=True in a future PyTorch release."
            )
        return_complex = True
    if align_to_window is not None and center:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise RuntimeError(
            f"stft: expected a tensor of floating point or complex values, got {input.dtype!r}"
        )
    if not 1 <= input.ndim <= 2:
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, got {input.ndim}D")
    if onesided and has_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    hop, length = _settings("stft", n_fft, hop_length, win_length)
    signal = input if input.ndim == 2 else input.unsqueeze(0)
    if center:
        signal = _padded(signal, n_fft // 2, pad_mode)
    elif align_to_window:
        signal = _padded(signal, (n_fft - length) // 2, pad_mode)
    if not 0 < n_fft <= signal._shape[1]:
        raise RuntimeError(
            f"stft: expected 0 < n_fft <= {signal._shape[1]}, but got n_fft={n_fft}"
        )
    weights = _window("stft", window, n_fft, length, input.dtype.to_real())
    frames = unfold(signal, 1, n_fft, hop)  # (batch, frames, n_fft)
    frames = frames if weights is None else frames * weights
    half = not has_complex if onesided is None else onesided
    out = _spectra(frames, half, 1 / math.sqrt(n_fft) if normalized else 1.0)
    out = out.transpose(1, 2)
    out = out if input.ndim == 2 else out.squeeze(0)
    return out if return_complex else view_as_real(out)


def _spectra(frames: Any, half: bool, scale: float) -> Any:
    if half:
        return TO_HALF(frames, dim=2, sign=FORWARD, scale=scale, middle=1.0)
    frames = CAST(frames, dtype=frames.dtype.to_complex())
    return COMPLEX(frames, dims=(2,), sign=FORWARD, scale=scale)


def _signals(spectra: Any, n_fft: int, half: bool, is_complex: bool, scale: float) -> Any:
    """Frames (batch, frames, n_fft) of spectra."""
    if is_complex:
        return COMPLEX(spectra, dims=(2,), sign=BACKWARD, scale=scale)
    spectra = spectra if half else spectra.narrow(2, 0, n_fft // 2 + 1)
    return FROM_HALF(spectra, dim=2, size=n_fft, sign=BACKWARD, scale=scale, middle=1.0)


def _overlapped(frames: Any, hop: int) -> Any:
    """The sum of frames (batch, frames, points) that begin every `hop` points."""
    batch, count, points = frames._shape
    total = points + hop * (count - 1)
    view = View(frames._shape, (total, hop, 1), 0)
    return SCATTER_VIEW(frames, shape=(batch, total), view=view)


def _check_inverse(x: Any, n_fft: int, hop: int, length: int, half: bool) -> None:
    if not x.numel():
        raise RuntimeError(f"istft: input tensor {errors.shape_text(x._shape)} cannot be empty")
    if x.ndim != 3:
        raise RuntimeError(f"istft: expected a tensor with 2 or 3 dimensions, got {x.ndim}")
    wanted = n_fft // 2 + 1 if half else n_fft
    if x._shape[1] != wanted:
        raise RuntimeError(
            f"istft: expected the frequency dimension (3rd to the last) of the input tensor to "
            f"match n_fft: {wanted} when onesided={half}, but got {x._shape[1]}"
        )
    if hop > length:
        raise RuntimeError(
            f"istft: expected 0 < hop_length <= win_length, but got hop_length={hop}"
        )


@public("torch", "Tensor")
def istft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Any = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Any:  # fmt: skip
    """The signal whose `stft` with the same settings is nearest to input.

    RuntimeError where the window leaves points of the signal without weight.

    >>> x = torch.arange(8.0)
    >>> z = torch.stft(x, 4, window=torch.ones(4), return_complex=True)
    >>> torch.istft(z, 4, window=torch.ones(4))
    tensor([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    if not input.dtype.is_complex:
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    if input.ndim < 2:
        raise IndexError(f"istft: expected a tensor with 2 or 3 dimensions, got {input.ndim}")
    hop, points = _settings("istft", n_fft, hop_length, win_length)
    x = input.unsqueeze(0) if input.ndim == 2 else input
    half = x._shape[1] != n_fft if onesided is None else onesided
    _check_inverse(x, n_fft, hop, points, half)
    if return_complex and half:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if _is_complex(window) and not return_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    kind = x.dtype if return_complex else x.dtype.to_real()
    weights = _window("istft", window, n_fft, points, kind)
    if weights is None:
        weights = FULL(shape=(n_fft,), value=1, dtype=kind)
    scale = 1 / math.sqrt(n_fft) if normalized else 1 / n_fft
    frames = _signals(x.transpose(1, 2), n_fft, half, return_complex, scale) * weights
    square = (weights * weights).expand((1, frames._shape[1], n_fft))
    out = _between(
        _overlapped(frames, hop), _overlapped(square, hop), n_fft // 2, center, length
    )
    return out.squeeze(0) if input.ndim == 2 else out


def _between(total: Any, weight: Any, margin: int, center: bool, length: int | None) -> Any:
    """The weighted mean from the first point on, as long as wanted."""
    size = total._shape[1]
    start = margin if center else 0
    end = start + length if length is not None else size - margin if center else size
    inside = min(end, size) - start
    total, weight = total.narrow(1, start, inside), weight.narrow(1, start, inside)
    has_weight = batching.whole(weight.detach().abs() > _NEARLY_ZERO)
    if not weight.is_meta and not bool(has_weight.all()):
        raise RuntimeError(
            f"istft: window overlap add min is below {_NEARLY_ZERO}: every point of the signal "
            f"must have weight in some frame"
        )
    out = total / weight
    return constant_pad(out, [0, 0], [0, end - start - inside]) if end > size else out
