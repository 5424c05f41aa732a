"""docs/differences.md lists differences that are: each block does something else in PyTorch."""

from __future__ import annotations

import contextlib
import io

import pytest
from test_docs import BLOCK, EXPECTED, ROOT

HEAD, *BLOCKS = BLOCK.findall((ROOT / "docs/differences.md").read_text())


@pytest.mark.filterwarnings("ignore")  # PyTorch's, about what it deprecates
@pytest.mark.parametrize("block", BLOCKS, ids=[b.splitlines()[0] for b in BLOCKS])
def test_pytorch_does_something_else(block: str) -> None:
    torch = pytest.importorskip("torch")
    seed = torch.get_rng_state()
    try:
        assert said(block)
        assert printed(block) != said(block)
    finally:
        torch.set_rng_state(seed)


def printed(block: str) -> list[str]:
    """What a block prints where `torch` is PyTorch, up to an error that it raises."""
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(HEAD.replace("rushlight as torch", "torch") + block, names)
        except Exception as error:
            return [*out.getvalue().splitlines(), type(error).__name__]
    return out.getvalue().splitlines()


def said(block: str) -> list[str]:
    """What its comments say that it prints."""
    return EXPECTED.findall(block)
