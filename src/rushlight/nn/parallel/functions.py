"""`scatter`, `gather`, `replicate` and `parallel_apply`: data parallelism by hand.

They spread work over GPUs, of which there are none: a device that is named raises what PyTorch
raises for one that is not there. `parallel_apply` without devices calls module after module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # modules take and return anything

import rushlight as rl
from rushlight.devices import check_usable, device
from rushlight.nn.module import Module


def _check_devices(devices: Sequence[Any]) -> None:
    for place in devices:
        if isinstance(place, str | device) and device(place).type == "cpu":
            raise ValueError(f"Expected a non cpu device, but got: {place}")
        check_usable(place)


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Parts of the inputs along `dim`, one on each GPU: raises for want of GPUs."""
    _check_devices(target_gpus)
    return []


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """A copy of a module on each GPU: raises for want of GPUs."""
    _check_devices(devices)
    return []


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Results of several devices joined along `dim` on one; on the CPU, of tensors there."""
    check_usable(target_device)
    first = outputs[0]
    if first is None:
        return None
    if isinstance(first, dict):
        return {k: gather([o[k] for o in outputs], target_device, dim) for k in first}
    if isinstance(first, list | tuple):
        parts = zip(*outputs, strict=True)
        return type(first)(gather(each, target_device, dim) for each in parts)
    return rl.cat([o.reshape(1) if not o.ndim else o for o in outputs], dim)


def parallel_apply(
    modules: Sequence[Module], inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:  # fmt: skip
    """What each module makes of its input: of a tuple, as its arguments.

    Lengths that differ raise AssertionError; devices are GPUs and raise for want of them.
    """
    if len(modules) != len(inputs):
        raise AssertionError(
            f"The number of modules {len(modules)} is not equal to the number of inputs "
            f"{len(inputs)}"
        )
    named = [{} for _ in modules] if kwargs_tup is None else kwargs_tup
    if len(named) != len(modules) or (devices is not None and len(devices) != len(modules)):
        raise AssertionError("parallel_apply: every module needs its keywords and its device")
    _check_devices([d for d in devices or () if d is not None])
    given = [x if isinstance(x, list | tuple) else (x,) for x in inputs]
    return [m(*x, **k) for m, x, k in zip(modules, given, named, strict=True)]


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None,
    dim: int = 0, module_kwargs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """The module's result for the inputs; spread over GPUs where there are any."""
    if device_ids:
        _check_devices(device_ids)
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*given, **(module_kwargs or {}))
