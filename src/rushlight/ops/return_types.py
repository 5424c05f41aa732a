"""Named tuples that public functions of several results return."""

from __future__ import annotations

from typing import Any, NamedTuple  # fields are tensors


class max(NamedTuple):
    values: Any
    indices: Any


class min(NamedTuple):
    values: Any
    indices: Any


class cummax(NamedTuple):
    values: Any
    indices: Any


class cummin(NamedTuple):
    values: Any
    indices: Any


class median(NamedTuple):
    values: Any
    indices: Any


class nanmedian(NamedTuple):
    values: Any
    indices: Any


class mode(NamedTuple):
    values: Any
    indices: Any


class aminmax(NamedTuple):
    min: Any
    max: Any


class frexp(NamedTuple):
    mantissa: Any
    exponent: Any


class sort(NamedTuple):
    values: Any
    indices: Any


class topk(NamedTuple):
    values: Any
    indices: Any


class kthvalue(NamedTuple):
    values: Any
    indices: Any


class histogram(NamedTuple):
    hist: Any
    bin_edges: Any


class histogramdd(NamedTuple):
    hist: Any
    bin_edges: Any


class QR(NamedTuple):
    Q: Any
    R: Any


class SVD(NamedTuple):
    U: Any
    S: Any
    V: Any


class linalg_svd(NamedTuple):
    U: Any
    S: Any
    Vh: Any


class qr_result(NamedTuple):
    Q: Any
    R: Any


class linalg_eig(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


class eigh_result(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


class cholesky_ex_result(NamedTuple):
    L: Any
    info: Any


class inv_ex_result(NamedTuple):
    inverse: Any
    info: Any


class solve_ex_result(NamedTuple):
    result: Any
    info: Any


class slogdet_result(NamedTuple):
    sign: Any
    logabsdet: Any


class triangular_solve_result(NamedTuple):
    solution: Any
    cloned_coefficient: Any


class geqrf(NamedTuple):
    a: Any
    tau: Any


class lu_factor_result(NamedTuple):
    LU: Any
    pivots: Any


class lu_factor_ex_result(NamedTuple):
    LU: Any
    pivots: Any
    info: Any


class lu_result(NamedTuple):
    P: Any
    L: Any
    U: Any


class lu_unpack(NamedTuple):
    P: Any
    L: Any
    U: Any


class lstsq_result(NamedTuple):
    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


class ldl_factor_result(NamedTuple):
    LD: Any
    pivots: Any


class ldl_factor_ex_result(NamedTuple):
    LD: Any
    pivots: Any
    info: Any


_SHOWN = {"QR": "linalg_qr", "qr_result": "qr", "SVD": "svd"}  # where the rule below differs


def _shown_name(name: str) -> str:
    """PyTorch's name of a class here: `lu_result` is its `linalg_lu`."""
    plain = name.removesuffix("_result")
    if name in _SHOWN or plain in (name, "triangular_solve"):
        return _SHOWN.get(name, plain)
    return f"linalg_{plain}"


def _text(self: Any) -> str:
    """One field a line, as PyTorch prints results."""
    fields = [f"{n}={v!r}" for n, v in zip(self._fields, self, strict=True)]
    return f"torch.return_types.{type(self).__name__}(\n" + ",\n".join(fields) + ")"


for _name, _kind in list(globals().items()):
    if isinstance(_kind, type) and issubclass(_kind, tuple):
        _kind.__repr__ = _text  # type: ignore[method-assign]
        _kind.__name__ = _kind.__qualname__ = _shown_name(_name)
        globals()[_kind.__name__] = _kind  # pickles name it so
