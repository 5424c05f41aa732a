"""Rounding made larger: how PyTorch's results depend on the last places of what is computed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import program_tables as tables
import torch
from program_draws import names_of, tensors_in
from torch.utils._python_dispatch import TorchDispatchMode


def all_tensors(value: Any, label: str) -> Iterator[tuple[str, Any]]:
    """The tensors of a value, and those of an optimizer's state."""
    if isinstance(value, torch.optim.Optimizer):
        value = value.state_dict()["state"]
    yield from tensors_in(value, label)


class Noise:
    """Moves each result that a statement makes; whole numbers stay, and equal ones stay equal
    unless they are moved freely, which a singular matrix does not survive. Zeros of derivatives
    have any sign (docs/differences.md: what is zero stays zero).
    """

    def __init__(self, seed: int, freely: bool) -> None:
        self.seed, self.freely = seed, freely
        self.known: set[int] = set()
        self.moved = torch.empty(0, dtype=torch.float64)  # numbers that were moved already

    def __call__(self, line: str, names: dict[str, Any]) -> None:
        now, derives = set(), re.search(rf"{tables.DERIVES}|\.grad\b", line) is not None
        for name, value in names.items():
            for _, t in all_tensors(value, name):
                memory = t.untyped_storage().data_ptr()
                if memory not in self.known | now:
                    with contextlib.suppress(RuntimeError):  # an expanded tensor
                        self.move(t, derives)
                now.add(memory)
        self.known = now  # memory that is free again may be used for another result

    def move(self, t: torch.Tensor, signs: bool) -> None:
        data = _numbers(t)
        if data is None:
            return
        if signs:
            data.masked_fill_(data == 0, -0.0 if self.seed % 2 else 0.0)
        stays = torch.isin(data.double(), self.moved)
        data.copy_(torch.where(stays, data, _moved(data, self.seed, self.freely)))
        self.moved = torch.cat([self.moved, data.double().reshape(-1)])


class Settled:
    """Makes zeros of results that are no more than rounding, or negative numbers, which on
    another machine they are: what divides by them is anything, or not a number.
    """

    def __init__(self, rounding: dict[str, Any], is_negative: bool) -> None:
        self.rounding = rounding  # how large that alone may be, by the label of a result
        self.is_negative = is_negative

    def __call__(self, line: str, names: dict[str, Any]) -> None:
        for name in names_of(line)[1] & names.keys():
            for label, t in all_tensors(names[name], name):
                data = _numbers(t)
                if data is None or label not in self.rounding:
                    continue
                most = torch.as_tensor(self.rounding[label])
                if most.numel() != data.numel():
                    continue
                with contextlib.suppress(RuntimeError):  # an expanded tensor
                    most = most.reshape(data.shape)
                    least = torch.where(most.isfinite() & self.is_negative, -most, 0)
                    to = least.to(data.dtype)
                    data.copy_(torch.where(data.abs() <= most, to, data))


class NoisyOperators(TorchDispatchMode):
    """Moves what each operator makes, also in derivatives and inside of functions."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = operator(*args, **kwargs or {})
        schema = operator._schema
        if schema.is_mutable or any(r.alias_info for r in schema.returns):
            return made
        for _, t in tensors_in(made):
            data = _numbers(t)
            if data is not None:
                data.copy_(_moved(data, self.seed, False))
        return made


def _numbers(t: torch.Tensor) -> torch.Tensor | None:
    """The memory of a tensor of floating numbers that has some."""
    if not (t.is_floating_point() or t.is_complex()) or not t.numel():
        return None
    if t._is_zerotensor() or t.device.type != "cpu":
        return None
    return torch.view_as_real(t.data.resolve_conj()) if t.is_complex() else t.data


def _moved(data: torch.Tensor, seed: int, freely: bool) -> torch.Tensor:
    wide, eps = data.double(), torch.finfo(data.dtype).eps
    bits = wide.contiguous().view(torch.int64).bitwise_xor(0x5DEECE66D * (seed + 1))
    if freely:
        bits += torch.arange(bits.numel()).reshape(bits.shape)
    bits = (bits * -7046029254386353131) >> 40
    factor = 1 + 4 * eps * (bits % 1024 - 512).double() / 512
    whole = (wide == wide.round()) & (wide.abs() < min(0.01 / eps, 1e6))
    return torch.where(whole | ~wide.isfinite(), wide, wide * factor).to(data.dtype)
