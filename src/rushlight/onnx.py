"""`torch.onnx`: importable, as scripts name it for an option; exporting is not possible yet."""

from __future__ import annotations

from typing import NoReturn


def export(model: object, args: object = (), f: object = None, **options: object) -> NoReturn:
    """Refuse: nothing here writes ONNX files."""
    raise NotImplementedError("onnx.export: this version of rushlight cannot write ONNX files")


def is_in_onnx_export() -> bool:
    """Whether an export is under way: never."""
    return False
