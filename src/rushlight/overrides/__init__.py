"""`torch.overrides`: classes and modes that take over functions of the library.

In come calls of public functions; out goes what a class's `__torch_function__` makes of them.
How functions come to ask is told in `dispatch`.
"""

from rushlight.overrides.dispatch import activate as _activate
from rushlight.overrides.modes import (
    BaseTorchFunctionMode,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
)
from rushlight.overrides.protocol import (
    get_default_nowrap_functions,
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    is_tensor_like,
    wrap_torch_function,
)
from rushlight.overrides.tables import (
    get_ignored_functions,
    get_overridable_functions,
    get_testing_overrides,
    is_tensor_method_or_property,
    resolve_name,
)

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

_activate()  # whoever asks for this module has, or is about to have, something that overrides
