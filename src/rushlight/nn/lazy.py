"""Layers that learn the shapes of their parameters from their first input."""

from __future__ import annotations

from typing import Any

from rushlight.nn.parameter import is_lazy


class LazyModule:
    """Mixed into a layer: its first call measures the input, then it becomes the plain layer.

    A subclass says what it becomes (`cls_to_become`) and how it takes its shapes
    (`initialize_parameters(*inputs)`).
    """

    cls_to_become: type | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(_adopt_shapes, True)
        self._initialize_hook = self.register_forward_pre_hook(_measure, with_kwargs=True)

    def has_uninitialized_params(self) -> bool:
        """Is any parameter or buffer still without a shape?"""
        tensors = [*self._parameters.values(), *self._buffers.values()]
        return any(is_lazy(tensor) for tensor in tensors)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give every parameter its shape, from the arguments of the first call."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )


def _measure(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(
            f"module {module._get_name()} has not been fully initialized by its "
            "initialize_parameters"
        )
    module._initialize_hook.remove()
    module._load_hook.remove()
    del module._initialize_hook, module._load_hook
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


def _adopt_shapes(module: Any, state_dict: Any, prefix: str, *rest: Any) -> None:
    """Before a checkpoint is loaded into tensors without shape, give them its shapes."""
    for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
        saved = state_dict.get(prefix + name)
        if is_lazy(tensor) and saved is not None and not is_lazy(saved):
            tensor.materialize(saved.shape)
