"""Every example in the documentation runs: Markdown blocks and docstrings.

In Markdown, the comment behind a `print(...)` is what it prints.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from rushlight import config

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXPECTED = re.compile(r"^print\(.*\)  # (.*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def pages_with(pattern: re.Pattern[str]) -> list[str]:
    return [p.relative_to(ROOT).as_posix() for p in PAGES if pattern.search(p.read_text())]


def modules_with_examples() -> list[str]:
    source = ROOT / "src"
    files = [p for p in source.rglob("*.py") if ">>> " in p.read_text()]
    names = [".".join(p.relative_to(source).with_suffix("").parts) for p in sorted(files)]
    return [name.removesuffix(".__init__") for name in names]


def of_kernels(name: str) -> Any:
    """A page or module, marked if it shows kernels: the reference backend has none."""
    if config.process.backend == "reference" and "profiler" in name:
        return pytest.param(
            name, marks=pytest.mark.skip("the reference backend has no kernels")
        )
    return name


@pytest.mark.parametrize("page", [*map(of_kernels, pages_with(BLOCK))])
def test_python_blocks_of_a_page_run_and_print_what_they_say(page):
    namespace: dict[str, object] = {"__name__": "__page__"}
    for block in BLOCK.findall((ROOT / page).read_text()):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, page, "exec"), namespace)
        if expected := EXPECTED.findall(block):
            assert printed.getvalue().splitlines() == expected


@pytest.mark.parametrize("page", pages_with(LINK))
def test_links_between_pages_lead_somewhere(page):
    links = LINK.findall((ROOT / page).read_text())
    assert not [link for link in links if not ((ROOT / page).parent / link).exists()]


@pytest.mark.parametrize("name", [*map(of_kernels, modules_with_examples())])
def test_docstring_examples(name):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    module = importlib.import_module(name)
    names = {"torch": importlib.import_module("rushlight")}
    result = doctest.testmod(module, extraglobs=names, optionflags=flags)
    assert result.attempted > 0, "the module's `>>>` is in no docstring that doctest finds"
    assert result.failed == 0
