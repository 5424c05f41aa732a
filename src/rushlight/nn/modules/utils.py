"""`torch.nn.modules.utils`: sizes of windows as tuples, under PyTorch's private names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rushlight.nn.sizes import repeated


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that makes one size for each of `n` dimensions."""

    def parse(x: Any) -> tuple[Any, ...]:
        return repeated(x, n)

    parse.__name__ = name
    return parse


_single, _pair = _ntuple(1, "_single"), _ntuple(2, "_pair")
_triple, _quadruple = _ntuple(3, "_triple"), _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Sequence[Any], n: int) -> tuple[Any, ...]:
    """Each size `n` times, the last first: what `pad` takes of a convolution's padding."""
    return tuple(size for size in reversed(t) for _ in range(n))


def _list_with_default(out_size: Any, defaults: Sequence[int]) -> Any:
    """The sizes, those that are None from the last ones of `defaults`."""
    if not isinstance(out_size, Iterable):
        return out_size
    wanted = list(out_size)
    if len(defaults) <= len(wanted):
        raise ValueError(f"Input dimension should be at least {len(wanted) + 1}")
    pairs = zip(wanted, defaults[-len(wanted) :], strict=True)
    return [default if size is None else size for size, default in pairs]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix from the keys of a state dict, in place: `module.` of a wrapper."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    for key in list(metadata or ()):
        if key == prefix.rstrip(".") or key.startswith(prefix):
            metadata[key[len(prefix) :]] = metadata.pop(key)
