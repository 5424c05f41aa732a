"""Writes docs/api: a page for each family of operations, and their index; docs/accuracy.md.

`python -m docs.build` writes the pages; a test asks whether they are what it would write
(tests/test_api_pages.py). What they say is read from the registries and docstrings
(docs/families.py) and found out by recording the examples (docs/facts.py).
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import rushlight
from docs import bounds, members
from docs.facts import KINDS, Facts, facts_of, tensors_in
from docs.families import PREFIXES, Family, Function, families
from rushlight.ops.registry import Linearity, Op

PAGES = Path(__file__).parent / "api"
EXAMPLES = Path(__file__).parent / "examples.txt"
SAMPLES = (  # of elementwise functions: the first in whose domain they lie
    ("[-0.5, 0.0, 2.0]",),
    ("[0.25, 0.5, 0.75]",),
    ("[1.0, 2.0, 3.0]",),
    ("[6, 3, -1]",),
    ("[-1.0, 0.5, 2.0]", "[2.0, 0.5, 1.0]"),
    ("[0.25, 0.5, 0.75]", "[2.0, 0.5, 1.0]"),
    ("[6, 3, -1]", "[2, 3, 1]"),
)
NOTE = "<!-- Written by `python -m docs.build`: change the docstrings instead. -->"


def pages() -> dict[str, str]:
    """The text of every page by its file name."""
    known = families()
    kept = kept_examples()
    found = {f"{family.name}.md": page(family, kept) for family in known}
    found[f"{members.NAME}.md"] = page_of_members(kept)
    return {"README.md": index(known), **found}


# -- one page


def page(family: Family, kept: dict[str, list[str]]) -> str:
    """A family: what it is, a table of its functions, each function, its recorded ops."""
    title, *rest = family.about.split("\n\n")
    parts = [NOTE, f"# {escaped(' '.join(title.split())).rstrip('.')}"]
    parts += [fenced(p) if p.startswith(">>>") else escaped(p) for p in rest]
    known = []
    for function in family.functions:
        example = example_of(function, kept)
        facts = facts_of(function.plain, function.name, example) if example else None
        known.append((function, example, facts))
    parts.append(summary(known))
    parts += [section(f, text, facts) for f, text, facts in known]
    if family.ops:
        parts.append(recorded(family.ops))
    return "\n\n".join(parts) + "\n"


def page_of_members(kept: dict[str, list[str]]) -> str:
    """Every member of Tensor: a table, then how each is written, its meaning, an example."""
    known = members.members()
    rows = [
        (f"[`{m.name}`](#{anchor(m.name)})", escaped(first_sentence(m.meaning), in_table=True))
        for m in known
    ]
    parts = [NOTE, f"# {members.TITLE}", members.ABOUT, table(("member", "meaning"), rows)]
    for m in known:
        parts += [f"## {escaped(m.name)}", f"`{m.form}`", escaped(m.meaning)]
        if lines := kept.get(f"Tensor.{m.name}"):
            parts.append(fenced(transcript(lines)))
    return "\n\n".join(parts) + "\n"


def summary(known: Iterable[tuple[Function, str, Facts | None]]) -> str:
    rows = [
        (
            f"[`{f.name}`](#{anchor(f.name)})",
            escaped(first_sentence(f.meaning), in_table=True),
            *(derivatives(facts), batches(facts), dtypes(facts)),
        )
        for f, _, facts in known
    ]
    return table(("function", "meaning", "derivatives", "`vmap`", "dtypes"), rows)


def section(function: Function, example: str, facts: Facts | None) -> str:
    """Signatures, meaning, the ops behind it, an example."""
    forms = list(dict.fromkeys(function.forms()))
    parts = [f"## {escaped(function.name)}", "  \n".join(f"`{form}`" for form in forms)]
    if others := list(dict.fromkeys(function.others())):
        parts.append("Also " + ", ".join(f"`{other}`" for other in others) + ".")
    parts.append(escaped(function.meaning))
    if facts is not None and (said := records(function, facts)):
        parts.append(said)
    if example:
        parts.append(fenced(example))
    return "\n\n".join(parts)


def records(function: Function, facts: Facts) -> str:
    names = (function.made_of.name,) if function.made_of else facts.records
    if not names:
        return ""
    return "Records " + ", ".join(f"`{name}`" for name in names) + "."


def recorded(ops: Iterable[Op]) -> str:
    """The table of a family's recorded ops: what the engine knows of each."""
    rows = [
        (
            f"`{op.name}`",
            ", ".join(f"`{a}`" for a in op.attrs),
            "yes" if _has_rule(op) else "no",
            tangent_rule(op),
            saved(op),
        )
        for op in ops
    ]
    head = ("op", "attributes", "gradient", "forward mode", "keeps for the gradient")
    about = (
        "What the functions above record. Nothing has a batching rule of its own: under `vmap` "
        "the primitives that an op is lowered to run over all samples."
    )
    return f"## Recorded operations\n\n{about}\n\n{table(head, rows)}"


def _has_rule(op: Op) -> bool:
    return op.is_differentiable and op.vjp.__name__ != "refuse"


def tangent_rule(op: Op) -> str:
    if not _has_rule(op):
        return ""
    if op.jvp is None:
        return "transposed gradient"
    return f"linear {op.jvp.name.lower()}" if isinstance(op.jvp, Linearity) else "own rule"


def saved(op: Op) -> str:
    """Operands by number and the result, as far as the gradient reads their elements."""
    if not _has_rule(op):
        return ""
    kept = [] if op.uses is None else [str(i) for i, used in enumerate(op.uses, 1) if used]
    if op.uses is None or len(kept) > 9:  # a rule with `*operands`
        kept = ["all operands"]
    elif kept:
        kept = ["operand " + ", ".join(kept)]
    return "; ".join([*kept, *(["result"] if op.uses_out else [])]) or "nothing"


# -- the index


def index(known: list[Family]) -> str:
    rows = [
        (f"[{f.name}]({f.name}.md)", escaped(f.title, in_table=True), str(len(f.functions)))
        for f in known
    ]
    rows.append(
        (f"[{members.NAME}]({members.NAME}.md)", members.TITLE, str(len(members.members())))
    )
    return "\n\n".join((NOTE, "# Functions by family", INDEX, table(HEAD, rows))) + "\n"


HEAD = ("family", "what it holds", "functions")
INDEX = f"""\
A page for each family of operations, which is a file in `src/rushlight/ops/`. Names, arguments
and meanings are PyTorch's, whose own documentation holds too; what is different is listed in
[differences from PyTorch](../differences.md).

In the examples `torch` is `rushlight`. A page's first table says of each function

* **derivatives**: "every order" of reverse mode, and forward mode; "first" is first order only,
  "backward" reverse mode only; "none" is a function whose results never require gradients, or
  refuse them;
* **`vmap`**: whether it can be used inside of it;
* **dtypes** of the example's input that are accepted, of {", ".join(f"`{k}`" for k in KINDS)}.

All of this was found out by recording the function's example with other inputs: it is what
happens, for those arguments."""


# -- facts in words


def derivatives(facts: Facts | None) -> str:
    if facts is None or facts.first is None:
        return ""
    if not facts.first:
        return "none"
    order = "every order" if facts.second else "first"
    return order if facts.forward else f"{order}, backward"


def batches(facts: Facts | None) -> str:
    return {None: "", True: "yes", False: "no"}[facts.batches if facts else None]


def dtypes(facts: Facts | None) -> str:
    """The accepted ones, by the shorter way to say it."""
    if facts is None or not facts.kinds:
        return ""
    missing = [k for k in KINDS if k not in facts.kinds]
    if not missing:
        return "all"
    if len(missing) <= 2:
        return "not " + ", ".join(missing)
    return ", ".join(facts.kinds)


# -- examples


def example_of(function: Function, kept: dict[str, list[str]]) -> str:
    """The docstring's, one that is kept in examples.txt, or one made for elements."""
    if function.example:
        return function.example
    if function.name in kept:
        return transcript(kept[function.name])
    return elementwise_example(function) if function.made_of else ""


def kept_examples() -> dict[str, list[str]]:
    """Lines of code by function: a name, then its lines, indented."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in EXAMPLES.read_text().splitlines():
        if line.startswith(" "):
            lines.append(line.strip())
        elif not line.startswith("#"):
            found[line] = lines = []
    return found


def transcript(lines: list[str]) -> str:
    """What an interpreter would show of these lines."""
    names: dict[str, Any] = {"torch": rushlight}
    shown: list[str] = []
    for line in lines:
        shown.append(f">>> {line}")
        try:
            code = compile(line, str(EXAMPLES), "eval")
        except SyntaxError:
            exec(line, names)
        else:
            value = eval(code, names)
            shown += [] if value is None else [repr(value)]
    return "\n".join(shown)


def elementwise_example(function: Function) -> str:
    """A call on the first samples that the function takes to finite results."""
    place = next(p for p in function.entries[0].places if p != "Tensor")
    for sample in SAMPLES:
        given = ", ".join(f"torch.tensor({numbers})" for numbers in sample)
        call = f"torch.{PREFIXES[place].removeprefix('torch.')}{function.name}({given})"
        with contextlib.suppress(TypeError, RuntimeError, NotImplementedError):
            if all(map(math.isfinite, numbers_of(eval(call, {"torch": rushlight})))):
                return transcript([call])
    raise ValueError(f"no sample lies in the domain of {function.name}")


def numbers_of(value: Any) -> list[float]:
    return [x for t in tensors_in(value) for x in t.flatten().tolist()]


# -- text


def first_sentence(text: str) -> str:
    """The first paragraph up to the end of its first sentence."""
    line = " ".join(text.split("\n\n")[0].split())
    found = re.match(r"(.*?[.:;])( |$)", line)
    return (found[1] if found and len(found[1]) > 12 else line).rstrip(".:;")


def escaped(text: str, *, in_table: bool = False) -> str:
    """Text in which only backticks mean anything to Markdown."""
    marks = r"([*_|<\[\]\\])" if in_table else r"([*_<\[\]\\])"
    pieces = text.split("`")
    return "`".join(
        re.sub(marks, r"\\\1", p) if i % 2 == 0 else p.replace("|", r"\|") if in_table else p
        for i, p in enumerate(pieces)
    )


def anchor(name: str) -> str:
    return name.lower()


def fenced(example: str) -> str:
    return f"```pycon\n{example}\n```"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Write the pages and delete those of families that are gone."""
    PAGES.mkdir(exist_ok=True)
    written = pages()
    for path in PAGES.glob("*.md"):
        if path.name not in written:
            path.unlink()
    for name, text in written.items():
        (PAGES / name).write_text(text)
    bounds.PAGE.write_text(bounds.page())


if __name__ == "__main__":
    main()
