"""`import torch` as Rushlight: each program is a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest


def run(program):
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.pathsep.join([os.path.join(here, "src"), os.environ.get("PYTHONPATH", "")])
    text = "from rushlight.as_torch import install\n" + textwrap.dedent(program)
    return subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_modules_are_the_very_same():
    done = run("""
        import rushlight
        install(); install()
        import torch, torch.nn as nn, torch.nn.functional as F
        import torch.utils.data.dataloader, torch.distributions.categorical
        from torch.optim.lr_scheduler import StepLR
        from torch.nn.modules.conv import Conv2d
        assert torch is rushlight and nn is rushlight.nn and F is rushlight.nn.functional
        assert Conv2d is nn.Conv2d and StepLR is rushlight.optim.lr_scheduler.StepLR
        assert rushlight.nn.__name__ == "rushlight.nn"
        assert rushlight.nn.__spec__.name == "rushlight.nn"
        import pickle
        assert pickle.loads(pickle.dumps(nn.Linear(2, 3))).weight.shape == (3, 2)
        import importlib.util, torch.nn.modules.linear
        assert importlib.util.find_spec("torch.nosuch") is None
        assert importlib.util.find_spec("torch.nn.modules.linear") is not None
        assert importlib.util.find_spec("torch.optim") is not None
        try:
            import torch.no_such_thing
        except ModuleNotFoundError as error:
            print(error.name)
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "torch.no_such_thing\n"


def test_a_library_that_imports_torch_gets_it(tmp_path):
    (tmp_path / "library.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Twice(nn.Module):\n"
        "    def forward(self, x):\n        return torch.add(x, x)\n"
    )
    done = run(f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        install()
        import library, rushlight
        print(library.Twice()(rushlight.ones(2)).tolist())
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[2.0, 2.0]\n"


def test_its_version_is_known_and_compares_with_any_text():
    done = run("""
        install()
        from importlib import metadata
        import torch
        assert metadata.version("torch") == str(torch.__version__).partition("+")[0]
        assert torch.__version__ != "N/A" and torch.__version__ < "nightly"
        assert "unknown" != torch.__version__ > "2.0" and torch.__version__ > (2, 0)
    """)
    assert done.returncode == 0, done.stderr


def test_it_has_to_come_before_pytorch():
    pytest.importorskip("torch")
    done = run("""
        import torch
        try:
            install()
        except RuntimeError as error:
            print(error)
    """)
    assert "imported already" in done.stdout, done.stderr


def test_an_error_within_a_module_is_not_hidden(tmp_path):
    (tmp_path / "broken.py").write_text("import rushlight_has_no_such_module\n")
    done = run(f"""
        import sys
        import rushlight
        rushlight.__path__.append({str(tmp_path)!r})
        install()
        try:
            import torch.broken
        except ModuleNotFoundError as error:
            print(error.name)
    """)
    assert done.stdout == "rushlight_has_no_such_module\n", done.stderr
