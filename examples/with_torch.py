"""Run an example with PyTorch in Rushlight's place, to compare the two.

    python -m examples.with_torch NAME [arguments of the example]

The examples use nothing but PyTorch's public API, so all it takes is the name in `sys.modules`.
"""

from __future__ import annotations

import importlib
import runpy
import sys

SUBMODULES = ["nn.functional", "optim.lr_scheduler", "utils.data"]


def put_in_place() -> None:
    """Make `import rushlight` and its submodules mean PyTorch's, in this process."""
    names = ["torch", *(f"torch.{name}" for name in SUBMODULES)]
    for name in names:
        importlib.import_module(name)
    for name, module in list(sys.modules.items()):
        if name == "torch" or name.startswith("torch."):
            sys.modules["rushlight" + name.removeprefix("torch")] = module


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    put_in_place()
    sys.argv = sys.argv[1:]
    runpy.run_module(f"examples.{sys.argv[0]}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
