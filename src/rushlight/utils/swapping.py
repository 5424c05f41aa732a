"""Exchanging what two tensor objects are, so that every reference to one sees the other."""

from __future__ import annotations

import weakref

from rushlight.tensor import Tensor
from rushlight.trace.tape import AccumulateGrad


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange the classes, memory, history and attributes of two tensors.

    Neither may be referenced weakly: whoever does would see the other from then on.

    >>> import rushlight as torch
    >>> a, b = torch.zeros(1), torch.ones(2)
    >>> torch.utils.swap_tensors(a, b)
    >>> a
    tensor([1., 1.])
    """
    for tensor in (t1, t2):
        own = tensor._node.target if isinstance(tensor._node, AccumulateGrad) else None
        if any(reference is not own for reference in weakref.getweakrefs(tensor)):
            raise RuntimeError("Cannot swap a tensor that is referenced weakly")
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for name in Tensor.__slots__:
        if not name.startswith("__"):
            _swap_slot(t1, t2, name)
    for tensor in (t1, t2):
        if isinstance(tensor._node, AccumulateGrad):
            tensor._node.target = weakref.ref(tensor)


def _swap_slot(t1: Tensor, t2: Tensor, name: str) -> None:
    found = [getattr(t, name) if hasattr(t, name) else _UNSET for t in (t1, t2)]
    for tensor, value in zip((t2, t1), found, strict=True):
        if value is not _UNSET:
            setattr(tensor, name, value)
        elif hasattr(tensor, name):
            delattr(tensor, name)


_UNSET = object()
