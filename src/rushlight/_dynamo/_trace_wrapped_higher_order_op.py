"""`TransformGetItemToIndex`: opened by libraries around `vmap` of functions that index."""

from __future__ import annotations


class TransformGetItemToIndex:
    """A context without effect: `vmap` understands an index that is a tensor of its own.

    >>> import rushlight as torch
    >>> from rushlight._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    >>> table = torch.tensor([10, 20, 30])
    >>> with TransformGetItemToIndex():
    ...     torch.vmap(lambda i: table[i])(torch.tensor([2, 0]))
    tensor([30, 10])
    """

    def __enter__(self) -> TransformGetItemToIndex:
        return self

    def __exit__(self, *exc: object) -> None:
        return None
