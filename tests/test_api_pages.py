"""docs/api says what is: the pages are what the registries give, and their examples run."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from docs import build, facts, members
from docs.families import Function, families

PAGES = sorted(build.PAGES.glob("*.md"))
BLOCK = re.compile(r"^```pycon\n(.*?)^```", re.MULTILINE | re.DOTALL)
WITHOUT_EXAMPLE = {
    "cuda", "pin_memory", "record_stream", "share_memory_",  # of devices that are not there
    "chalf", "indices_copy", "is_coalesced", "smm", "values_copy",  # of absent kinds of tensors
    "range", "resize", "resize_as", "storage_type",  # deprecated: they warn
    "reinforce",  # removed by PyTorch
    "const_data_ptr", "module_load",  # machinery, which programs do not call
}  # fmt: skip


def blocks_of(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text())


def failures(example: str, torch: object) -> str:
    """What doctest says of an example where the library is called `torch`."""
    test = doctest.DocTestParser().get_doctest(example, {"torch": torch}, "example", "", 0)
    said: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(verbose=False, optionflags=flags).run(test, out=said.append)
    return "".join(said)


def test_pages_are_what_the_registries_give():
    written = {page.name: page.read_text() for page in PAGES}
    made = build.pages()
    assert sorted(written) == sorted(made)
    stale = [name for name in made if made[name] != written[name]]
    assert not stale, "run `python -m docs.build`"


@pytest.mark.parametrize("page", [p.stem for p in PAGES if blocks_of(p)])
def test_examples_print_what_they_say(page):
    import rushlight

    for example in blocks_of(build.PAGES / f"{page}.md"):
        assert not failures(example, rushlight)


@pytest.mark.filterwarnings("ignore")  # PyTorch's, about what it deprecates
@pytest.mark.parametrize("page", [p.stem for p in PAGES if blocks_of(p)])
def test_examples_print_the_same_in_pytorch(page):
    torch = pytest.importorskip("torch")
    for example in blocks_of(build.PAGES / f"{page}.md"):
        ours = example.replace("import rushlight as torch", "import torch")
        assert not failures(ours, torch)


def test_every_function_has_an_example_or_names_one_that_has():
    kept = build.kept_examples()
    functions = [f for family in families() for f in family.functions]
    names = {f.name for f in functions}
    bare = {f.name for f in functions if not build.example_of(f, kept) and not refers(f, names)}
    assert bare == WITHOUT_EXAMPLE


def test_every_member_of_tensors_has_a_meaning_and_an_example():
    kept = build.kept_examples()
    known = members.members()
    assert {"backward", "item", "tolist", "numpy", "register_hook", "shape"} <= {
        m.name for m in known
    }
    assert [m.name for m in known if not m.meaning or f"Tensor.{m.name}" not in kept] == []


def refers(function: Function, names: set[str]) -> bool:
    """Whether its meaning names another function, maybe by where that is."""
    named = re.findall(r"`([\w.]+)`", function.meaning)
    return any("." in n or n in names - {function.name} for n in named)


def test_facts_are_those_of_the_registry():
    kept = build.kept_examples()
    known = {f.name: f for family in families() for f in family.functions}

    def found(name: str) -> facts.Facts:
        function = known[name]
        return facts.facts_of(function.plain, name, build.example_of(function, kept))

    sine = found("sin")
    assert (sine.first, sine.second, sine.forward, sine.batches) == (True, True, True, True)
    assert sine.kinds == facts.KINDS
    place = found("argmax")
    assert (place.first, place.records) == (False, ("argmax",))
    assert found("gcd").kinds == ("int64",)
    assert found("bincount").batches is False
    assert found("broadcast_shapes").first is None
