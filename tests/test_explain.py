"""What `explain` says of programs, and of recordings that left the known paths."""

from __future__ import annotations

import warnings

import pytest

import rushlight as torch


def test_a_pending_tensor_is_explained_without_being_computed() -> None:
    x, w = torch.ones((64, 128)), torch.ones((128, 32))
    x.sum().item(), w.sum().item()
    y = (x @ w).relu().softmax(-1)
    found = torch.explain(y)
    assert y._storage.value.buffer is None
    (program,) = found.programs
    ops = [op for k in program.kernels for op in k.ops]
    assert {"relu", "softmax"} <= set(ops)
    assert any("test_explain.py" in w for k in program.kernels for w in k.where)
    assert sum(k.bytes_written for k in program.kernels) >= 64 * 32 * 4
    text = str(found)
    assert "row reduction" in text and "kernels compiled and" in text
    y.sum().item()


def test_reasons_not_to_fuse() -> None:
    x = torch.ones((40, 30))
    x.sum().item()
    y = (x.exp().softmax(-1)).sum(0)
    (program,) = torch.explain(y).programs
    assert any("columns" in reason for k in program.kernels for reason in k.apart)


def test_a_computed_tensor() -> None:
    x = torch.ones((3,)) + 1
    x.sum().item()
    x.numpy()
    assert torch.explain(x).programs == []


def test_a_call_and_its_misses() -> None:
    x = torch.ones((8, 100))
    x.sum().item()

    def step(start: int) -> torch.Tensor:
        return (x * 2).narrow(1, start, 3).exp().cumsum(1)

    first = torch.explain(step, 0)
    assert len(first.programs) == 1
    assert torch.explain(step, 0).misses == []
    other = torch.explain(step, 5)
    assert any("another view" in str(m) and "test_explain.py" in str(m) for m in other.misses)
    assert torch.explain.misses()


def test_in_place_is_said() -> None:
    cache = torch.zeros((4, 50))
    cache.sum().item()

    def write() -> None:
        cache.narrow(1, 7, 2).add_(1.0)

    write()
    torch.explain(write)
    (program,) = torch.explain(write).programs
    assert [k.in_place for k in program.kernels] == [True]
    assert program.arena == 0


def test_an_attribute_that_differs_every_step_warns_once() -> None:
    x = torch.ones((200,))
    x.sum().item()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(1, 100):
            x.exp().sum().item()
            x.cumsum(0).narrow(0, 0, n).exp().sum().item()
    told = [w for w in caught if "different ways" in str(w.message)]
    assert len(told) == 1
    assert told[0].filename.endswith("test_explain.py")
    assert "exp" in str(told[0].message)


def test_what_cannot_be_explained() -> None:
    with pytest.raises(TypeError, match="expected a tensor or a function"):
        torch.explain(3)
