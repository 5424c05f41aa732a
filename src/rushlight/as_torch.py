"""`import torch` gives Rushlight: for libraries that import PyTorch themselves.

In comes a call, before anything has imported torch; afterwards `import torch`, `import
torch.nn.functional` and `from torch.optim import AdamW` find the modules of this package, the
very same objects.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Iterable
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import rushlight

_NAME = "torch"
_MARKS = ("__spec__", "__loader__", "__package__", "__path__", "__name__", "__file__")


class _Distribution(metadata.Distribution):
    """Metadata of torch: its name, and the version whose API this package has."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        version = str(rushlight.__version__).partition("+")[0]
        return f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {version}\n"

    def locate_file(self, path: Any) -> Path:
        return Path(rushlight.__path__[0]).parent / path


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `torch.x.y` as the module `rushlight.x.y`, or as the attribute."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != _NAME and not name.startswith(f"{_NAME}."):
            return None
        is_file = _is_file(name)
        if is_file or isinstance(_attribute(name), ModuleType):
            return ModuleSpec(name, self, loader_state=is_file, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        is_file = spec.loader_state
        module = importlib.import_module(_ours(spec.name)) if is_file else _attribute(spec.name)
        # Python is about to write the marks of this import over the module's own.
        spec.loader_state = {m: vars(module)[m] for m in _MARKS if m in vars(module)}
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        own = spec.loader_state
        for mark in _MARKS:
            if mark in own:
                setattr(module, mark, own[mark])
            else:
                vars(module).pop(mark, None)

    def find_distributions(self, context: Any = None) -> Iterable[metadata.Distribution]:
        """What `importlib.metadata` says of torch: libraries ask for its version before they
        import it.
        """
        if context is not None and context.name == _NAME:
            yield _Distribution()


def _ours(name: str) -> str:
    return rushlight.__name__ + name[len(_NAME) :]


def _is_file(name: str) -> bool:
    """Whether there is a module of its own: to find out imports those around it."""
    try:
        return importlib.util.find_spec(_ours(name)) is not None
    except (ModuleNotFoundError, ValueError):  # there is none, or one that was made in memory
        return _ours(name) in sys.modules


def _attribute(name: str) -> Any:
    """What the name leads to from attribute to attribute."""
    found: Any = rushlight
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
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
