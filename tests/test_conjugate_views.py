"""Conjugates and negatives as views: what they read, what a write through them does to the
memory below, and how they are told apart, in a table of cases that PyTorch is asked too.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any  # tensors of two libraries

import numpy as np
import pytest
from complex_parity import array, check, drawn, real

import rushlight as torch

oracle = pytest.importorskip("torch")

Case = Callable[[Any, Any], Any]  # of a library and a complex matrix


def matrix(library: Any) -> Any:
    return library.tensor([[1 + 2j, 3 - 1j], [2j, -1 + 0.5j]])


def told(x: Any) -> Any:
    """What can be seen of a result in either library."""
    if isinstance(x, tuple | list):
        return [told(part) for part in x]
    if not hasattr(x, "is_conj"):
        return x
    return (x.tolist(), x.is_conj(), x.is_neg(), str(x.dtype).rpartition(".")[2])


def written(write: Callable[[Any, Any], Any]) -> Case:
    """The matrix and a view of it, after a write through the view."""

    def case(m: Any, x: Any) -> Any:
        view = x.conj()
        write(m, view)
        return x, view, view.imag, x.mH

    return case


MARKS: dict[str, Case] = {
    "conj": lambda m, x: (x.conj(), x.conj().conj(), x.conj().conj()._base is x),
    "parts": lambda m, x: (x.conj().real, x.conj().imag, x.imag),
    "neg": lambda m, x: (m._neg_view(x), m._neg_view(x.real), m._neg_view(m._neg_view(x))),
    "parts of neg": lambda m, x: (m._neg_view(x).real, m._neg_view(x).imag),
    "parts of both": lambda m, x: (m._neg_view(x).conj().real, m._neg_view(x).conj().imag),
    "transposes": lambda m, x: (x.H, x.mH, x.adjoint(), x.H.H, x.conj().mT),
    "of real": lambda m, x: [
        y is x.real for x in [x.real] for y in (x.conj(), x.resolve_conj(), x.conj_physical())
    ],
    "real matrix": lambda m, x: (m.ones(2, 3).H, m.ones(2, 3).mH, m.ones(2).is_conj()),
    "integers": lambda m, x: (m._neg_view(m.arange(3)), m._neg_view(m.arange(3)).sum()),
    "resolve": lambda m, x: (
        x.resolve_conj() is x, x.conj().resolve_conj(), x.conj().resolve_neg().is_conj(),
        x.conj().imag.resolve_neg(), x.conj().imag.resolve_conj().is_neg(),
    ),
    "physical": lambda m, x: (x.conj_physical(), x.conj().conj_physical()),
    "clones": lambda m, x: (x.conj().clone(), x.conj().imag.clone(), m.zeros_like(x.conj())),
    "order": lambda m, x: (x.conj().contiguous(), x.H.contiguous(), x.conj().ravel()),
    "casts": lambda m, x: (
        x.conj().to(m.complex64), x.conj().to(m.complex128), x.conj().imag.to(m.float64),
    ),
    "views": lambda m, x: [
        view(x.conj())
        for view in (
            lambda c: c.view(4), lambda c: c.reshape(1, 4), lambda c: c.t(), lambda c: c[0],
            lambda c: c[:, 1:], lambda c: c.expand(2, 2, 2), lambda c: c.diagonal(),
            lambda c: c.as_strided((2,), (1,), 1), lambda c: c.unfold(1, 1, 1),
            lambda c: c.detach(), lambda c: c.data, lambda c: c.unbind(), lambda c: c.split(1),
        )
    ],
    "views of neg": lambda m, x: [
        x.conj().imag.t(), x.conj().imag[1], x.conj().imag.flatten(), x.conj().imag.detach(),
    ],
    "copies": lambda m, x: (x.conj().flip(0), x.conj().repeat(1, 2), x.conj()[[1, 0]]),
    "sums": lambda m, x: (x.conj() + x, -x.conj(), x.conj().imag * 2, x.H @ x, x.conj().sum()),
    "positive": lambda m, x: (x.conj().positive().is_conj(), x.conj().imag.neg()),
    "tensor of": lambda m, x: (m.as_tensor(x.conj()), x.new_tensor([1j])),
    "parameter": lambda m, x: m.nn.Parameter(x.conj()).is_conj(),
    "pairs": lambda m, x: m.view_as_real(m._neg_view(x)),
    "pairs of copy": lambda m, x: m.view_as_real_copy(x.conj()),
    "of pairs": lambda m, x: m.view_as_complex(m._neg_view(m.view_as_real(x))),
    "memory": lambda m, x: (
        x.conj().data_ptr() == x.data_ptr(), x.conj().imag.data_ptr() - x.data_ptr(),
        x.conj().untyped_storage().data_ptr() == x.untyped_storage().data_ptr(),
        x.conj().untyped_storage().tolist(), x.conj()._base is x, x.conj().imag._base is x,
    ),
    "set": lambda m, x: m.empty(0, dtype=m.complex64).set_(x.conj()),
    "same place": lambda m, x: (x.conj().is_set_to(x), m.equal(x.conj(), x.conj_physical())),
    "numbers": lambda m, x: (x.conj()[0, 0].item(), x.conj().imag[0, 0].item()),
    "text": lambda m, x: (repr(x.conj()), repr(x.conj().imag)),
    "forced": lambda m, x: x.conj().numpy(force=True).tolist(),
    "meta": lambda m, x: (x.to("meta").H.is_conj(), x.to("meta").conj().imag.is_neg()),
    "copied": lambda m, x: (copy.copy(x.H), copy.deepcopy(x.H), copy.deepcopy(x.conj().imag)),
    "pickled": lambda m, x: [pickle.loads(pickle.dumps(y)) for y in (x.H, x.conj().imag)],
}  # fmt: skip
WRITES: dict[str, Case] = {
    "mul_": written(lambda m, c: c.mul_(1j)),
    "fill_": written(lambda m, c: c.fill_(1 + 2j)),
    "zero_": written(lambda m, c: c[0].zero_()),
    "an element": written(lambda m, c: c.__setitem__((0, 1), 7j)),
    "a row": written(lambda m, c: c.__setitem__(1, c[0] * 2)),
    "a mask": written(lambda m, c: c.__setitem__(c.real > 0, 3j)),
    "imag": written(lambda m, c: c.imag.fill_(5)),
    "imag set": written(lambda m, c: setattr(c, "imag", m.tensor([[1.0, 2.0], [3.0, 4.0]]))),
    "real": written(lambda m, c: c.real.mul_(3)),
    "neg": written(lambda m, c: m._neg_view(c).add_(1 + 1j)),
    "adjoint": written(lambda m, c: c.mH.copy_(c.clone())),
    "copy": written(lambda m, c: c.copy_(m.tensor([[1j, 2j], [3, 4 + 1j]]))),
    "itself": written(lambda m, c: c.copy_(c.conj())),
    "conj_physical_": written(lambda m, c: c.conj_physical_()),
    "neg_": written(lambda m, c: c.imag.neg_()),
    "out": written(lambda m, c: m.add(c, 1j, out=c)),
    "index_fill_": written(lambda m, c: c.index_fill_(0, m.tensor([1]), 2j)),
    "square_": written(lambda m, c: c[1:].square_()),
    "transpose_": written(lambda m, c: c.transpose_(0, 1).add_(m.tensor([1j, 2j]))),
    "resize_": lambda m, x: [(c.resize_(3), x) for c in [x.conj()]],
    "grown": lambda m, x: [c.resize_(5)[:4] for c in [x.conj()]],
    "reads x": lambda m, x: (x.copy_(x.conj()), x.is_conj()),
    "data": lambda m, x: (setattr(x, "data", x.conj()), x.is_conj(), x),
    "detached": written(lambda m, c: c.detach().mul_(2j)),
}  # fmt: skip


@pytest.mark.parametrize("name", [*MARKS, *WRITES])
def test_cases(name: str) -> None:
    case = {**MARKS, **WRITES}[name]
    assert told(case(torch, matrix(torch))) == told(case(oracle, matrix(oracle)))


def test_a_number_has_a_conjugate_transpose() -> None:
    x = torch.tensor(1 + 2j)
    assert x.H.item() == 1 - 2j and x.H.is_conj()


REFUSED = {
    "numpy": lambda m, x: x.conj().numpy(),
    "numpy of neg": lambda m, x: x.conj().imag.numpy(),
    "asarray": lambda m, x: np.asarray(x.conj()),
    "pairs": lambda m, x: m.view_as_real(x.conj()),
    "bytes": lambda m, x: x.conj().view(m.float32),
    "bytes of neg": lambda m, x: m._neg_view(m.ones(2)).view(m.int32),
    "export": lambda m, x: x.conj().__dlpack__(),
    "leaf": lambda m, x: x.requires_grad_().conj().mul_(2),
    "overlap": lambda m, x: x.conj().expand(3, 2, 2).mul_(2),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    with pytest.raises(Exception) as wanted:  # of whatever type
        REFUSED[name](oracle, matrix(oracle))
    with pytest.raises(wanted.type):
        REFUSED[name](torch, matrix(torch))


def test_memory_is_not_given_away_with_other_values() -> None:
    """PyTorch exports what lies below a negative; a reader would see other numbers."""
    with pytest.raises(BufferError, match="negative"):
        matrix(torch).conj().imag.__dlpack__()
    with pytest.raises(RuntimeError, match="resolve_conj"):
        matrix(torch).conj().numpy()
    with pytest.raises(RuntimeError, match="bool"):
        torch._neg_view(torch.tensor([True]))


# -- derivatives

A, B, X = drawn(3, 4), drawn(3, 4, seed=1), real(3, 4)


def conj_of_result(m: Any, a: Any, b: Any) -> Any:
    y = a * 1
    y.conj().mul_(b)
    return y * a


def imag_of_conj(m: Any, a: Any, b: Any) -> Any:
    y = a * 1
    below_zero = y.conj().imag
    below_zero.mul_(3)
    below_zero[0] = b.real[0]
    return y * b


def part_of_adjoint(m: Any, a: Any, b: Any) -> Any:
    y = a * b
    h = y.mH
    h[1:].copy_(a.mT[1:])
    return y.exp() + h.mT


def view_of_what_is_written(m: Any, a: Any, b: Any) -> Any:
    y = a * 1
    row = y.conj()[1]
    y.add_(b)
    return row * y


def negative_of_real(m: Any, x: Any, b: Any) -> Any:
    y = x * 2
    n = m._neg_view(y)
    n[:, 1:].add_(b.imag[:, 1:])
    return y * n * x


def pairs_below(m: Any, x: Any, b: Any) -> Any:
    y = m.stack([x, x * x], -1) * 1
    c = m.view_as_complex(y).conj()
    c.mul_(b)
    c.imag.add_(1)
    return y * y


def only_read(m: Any, a: Any, b: Any) -> Any:
    n = m._neg_view(a)
    parts = m.view_as_real(n)[..., 0] * n.conj().imag + m._neg_view(n.real)
    return parts * a.conj().imag * b + (a.conj() * b).conj()


DIFFERENTIATED = (
    (conj_of_result, A), (imag_of_conj, A), (part_of_adjoint, A), (view_of_what_is_written, A),
    (negative_of_real, X), (pairs_below, X), (only_read, A),
)  # fmt: skip


@pytest.mark.parametrize(("function", "first"), DIFFERENTIATED)
def test_derivatives(function: Callable[..., Any], first: Any) -> None:
    check(function, first, B)


@pytest.mark.parametrize(("function", "first"), DIFFERENTIATED)
def test_tangents_and_second_derivatives(function: Callable[..., Any], first: Any) -> None:
    inputs = [torch.from_numpy(a[:2, :2].copy()).requires_grad_() for a in (first, B)]

    def call(*given: Any) -> Any:
        return function(torch, *given)

    assert torch.autograd.gradcheck(call, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, inputs)


@pytest.mark.parametrize("function", [conj_of_result, part_of_adjoint, view_of_what_is_written])
def test_samples(function: Callable[..., Any]) -> None:
    made = []
    for m in (torch, oracle):
        given = [m.from_numpy(drawn(3, 2, 4, seed=s)) for s in (1, 2)]
        made.append(array(m.vmap(lambda *x, m=m: function(m, *x), in_dims=1)(*given)))
    np.testing.assert_allclose(*made, rtol=1e-10)


def test_gradients_are_ordinary_tensors() -> None:
    x = matrix(torch).requires_grad_()
    for _ in range(3):  # recorded, remembered, and added in place
        (x.conj() * matrix(torch)).sum().abs().backward()
        assert not x.grad.is_conj()
    y = matrix(oracle).requires_grad_()
    (3 * (y.conj() * matrix(oracle)).sum().abs()).backward()
    np.testing.assert_allclose(array(x.grad), array(y.grad), rtol=1e-5)


def test_saved_tensors_keep_their_marks() -> None:
    class Times(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a.conj(), b.conj().imag)
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            conjugate, negative = ctx.saved_tensors
            return torch.complex(negative, g.real), g * conjugate

    a, b = (torch.from_numpy(z.copy()).requires_grad_() for z in (A, B))
    Times.apply(a, b).abs().sum().backward()
    np.testing.assert_allclose(a.grad.real.numpy(), -B.imag)
    np.testing.assert_allclose(b.grad.numpy(), (A * B) / abs(A * B) * A.conj())


# -- beyond a step


def test_files_hold_the_marks(tmp_path: Any) -> None:
    """A conjugate shares its storage with its base in the file, in both libraries."""
    path = tmp_path / "pair.pt"
    for writer, reader in ((torch, torch), (torch, oracle), (oracle, torch)):
        x = matrix(writer)
        writer.save((x, x.H, writer._neg_view(x)), path)
        base, conjugate, negative = reader.load(path)
        assert conjugate.is_conj() and negative.is_neg()
        conjugate[0, 0] = 5j
        assert told((base, conjugate, negative))[0][0] == [[-5j, 3 - 1j], [2j, -1 + 0.5j]]
        assert negative.tolist() == (-base).tolist()
    file = io.BytesIO()
    torch.save(matrix(torch).conj().imag, file)
    file.seek(0)
    assert torch.load(file).tolist() == [[-2.0, 1.0], [-2.0, -0.5]]


def test_a_compiled_call_tells_conjugates_apart() -> None:
    double = torch.compile(lambda z: z * 2, mode="reduce-overhead")
    x = matrix(torch)
    for _ in range(4):
        for view in (x, x.conj(), x[:], x.conj().conj()):
            assert double(view).tolist() == (view * 2).tolist()
        for view in (x.imag, x.conj().imag):
            assert double(view).tolist() == (view * 2).tolist()


def test_windows_of_a_large_base() -> None:
    """Parts of realised memory join a trace as leaves of their own, marks and all."""
    x = torch.from_numpy(drawn(8, 5))
    for i in range(8):
        np.testing.assert_allclose(array(x.conj()[i] * 2), drawn(8, 5)[i].conj() * 2)
        np.testing.assert_allclose(array(x.conj().imag[:, 2] + i), i - drawn(8, 5)[:, 2].imag)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64", "int32", "uint8"])
def test_negatives_of_every_dtype(kind: str) -> None:
    made = []
    for m in (torch, oracle):
        x = m.tensor([0, 1, 3], dtype=getattr(m, kind))
        n = m._neg_view(x)
        made.append((n.tolist(), (n + n).tolist(), n.add_(1).tolist(), x.tolist(), repr(n)))
    assert made[0] == made[1]


def test_indices_that_are_negatives() -> None:
    rows = torch.tensor([[1.0], [2.0], [3.0]])
    index = torch._neg_view(torch.tensor([0, -2]))
    assert rows[index].tolist() == [[1.0], [3.0]]
    assert torch.index_select(rows, 0, index).tolist() == [[1.0], [3.0]]
