"""`torch.__future__`: a switch over how `Module.to` replaces parameters."""

from __future__ import annotations

_switches = {"overwrite": False}


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether conversions of a module put new parameters in place of the old objects."""
    _switches["overwrite"] = bool(value)


def get_overwrite_module_params_on_conversion() -> bool:
    """What `set_overwrite_module_params_on_conversion` was last given."""
    return _switches["overwrite"]
