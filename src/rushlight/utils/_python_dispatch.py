"""`torch.utils._python_dispatch`: a name that programs import; there is no dispatch below the
public functions here, and entering a mode says so.
"""

from __future__ import annotations

from typing import Any, NoReturn  # functions of any signature

from rushlight import errors


class TorchDispatchMode:
    """A mode of PyTorch's that sees the operators which functions are made of. Here functions
    record operations of their own, which are compiled together, so there is nothing to see:
    `with` raises NotImplementedError. `torch.overrides.TorchFunctionMode` sees the calls of
    public functions.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise errors.left_to_subclasses(self, "__torch_dispatch__")

    def __enter__(self) -> NoReturn:
        raise errors.not_there(
            f"{type(self).__name__} (a TorchDispatchMode)",
            "dispatch below its functions: torch.overrides.TorchFunctionMode sees their calls",
        )

    def __exit__(self, *exc: object) -> None: ...
