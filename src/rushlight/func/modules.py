"""Modules as functions of their parameters: `functional_call`, `stack_module_state`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any  # named tensors

from rushlight.nn.batchnorm import _BatchNorm
from rushlight.nn.module import Module
from rushlight.nn.utils import stateless
from rushlight.ops.joining import stack
from rushlight.tensor import Tensor

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """The module's output if its parameters and buffers were the given ones: a dictionary of
    tensors by name, or several that together are one (`nn.utils.stateless.functional_call`).
    """
    return stateless.functional_call(
        module, parameter_and_buffer_dicts, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of modules of one class, each stacked along a new first
    dimension, as new leaves: what `vmap` over `functional_call` takes for an ensemble.

    Raises RuntimeError for no models, or for models of several classes or modes.

    >>> import rushlight as torch
    >>> models = [torch.nn.Linear(3, 2) for _ in range(4)]
    >>> parameters, buffers = torch.func.stack_module_state(models)
    >>> parameters["weight"].shape
    torch.Size([4, 2, 3])
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(m.training != models[0].training for m in models):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return _stacked(parameters), _stacked(buffers)


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let all batch norms in a module use the statistics of the batch alone, in place: running
    ones would have to be written for every sample of `vmap`.

    >>> import rushlight as torch
    >>> model = torch.func.replace_all_batch_norm_modules_(torch.nn.BatchNorm1d(2))
    >>> model.running_mean is None
    True
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return root


def _stacked(named: Sequence[Mapping[str, Tensor]]) -> dict[str, Any]:
    return {name: _leaf(name, [each[name] for each in named]) for name in named[0]}


def _leaf(name: str, tensors: Sequence[Tensor]) -> Any:
    wants = tensors[0].requires_grad
    if any(t.requires_grad != wants for t in tensors):
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    joined = stack([t.detach() for t in tensors])
    return joined.requires_grad_() if wants else joined
