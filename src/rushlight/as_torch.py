"""`import torch` gives Rushlight: for libraries that import PyTorch themselves.

In comes a call, before anything has imported torch; afterwards `import torch`, `import
torch.nn.functional` and `from torch.optim import AdamW` find the modules of this package, the
very same objects.
"""

from __future__ import annotations

import importlib
import importlib.abc
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import rushlight

_NAME = "torch"
_MARKS = ("__spec__", "__loader__", "__package__", "__path__", "__name__", "__file__")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `torch.x.y` as `rushlight.x.y`, or as the module that this name leads to."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != _NAME and not name.startswith(f"{_NAME}."):
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        ours = rushlight.__name__ + spec.name[len(_NAME) :]
        try:
            module = importlib.import_module(ours)
        except ModuleNotFoundError as error:
            if error.name != ours and not ours.startswith(f"{error.name}."):
                raise
            module = self._reached(spec.name, ours)
        # Python is about to write the marks of this import over the module's own.
        spec.loader_state = {mark: vars(module).get(mark) for mark in _MARKS}
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        for mark, value in spec.loader_state.items():
            if value is None:
                vars(module).pop(mark, None)
            else:
                setattr(module, mark, value)

    @staticmethod
    def _reached(name: str, ours: str) -> ModuleType:
        """A module that is an attribute and no file: `torch.utils.data.dataset`, say."""
        found: Any = rushlight
        for part in name.split(".")[1:]:
            found = getattr(found, part, None)
        if not isinstance(found, ModuleType):
            raise ModuleNotFoundError(
                f"No module named {name!r}: there is no {ours}", name=name
            )
        return found


def install() -> None:
    """Let `import torch` give this package, in this process and from here on.

    Raises RuntimeError if PyTorch has been imported already. Calling it twice is harmless.

        from rushlight.as_torch import install
        install()
        import torch  # Rushlight, also for every library imported from here on

    `tests/test_as_torch.py` runs it, each time in a process of its own.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if _NAME in sys.modules and sys.modules[_NAME] is not rushlight:
        raise RuntimeError(
            "rushlight.as_torch: PyTorch has been imported already; call install() before the "
            "first import of torch"
        )
    sys.meta_path.insert(0, _Finder())
