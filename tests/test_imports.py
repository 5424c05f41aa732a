"""The order of the house: a room imports only rooms above it, and nothing imports in a circle.

A room is a package or a single module directly under `rushlight`. `ROOMS` is the order of
docs/architecture.md; moving a room is a decision about the architecture, so it is made here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "rushlight"

# Top to bottom; a room may import the rooms before it (and itself).
ROOMS = [
    "errors",
    "advice",
    "forks",
    "float8",
    "dtypes",
    "devices",
    "config",
    "views",
    "layout",
    "random",
    "tree",
    "parameter_names",
    "argument_kinds",
    "refusals",
    "ir",
    "ops",
    "trace",
    "autograd",
    "schedule",
    "loops",
    "codegen",
    "runtime",
    "compiled",
    "failures",
    "repeats",
    "pipeline",
    "native",
    "parts",
    "large_joins",
    "arrays",
    "tensor_operators",
    "tensor",
    "gradients",
    "storage",
    "surface",
    "symbolic",
    "functional",
    "types",
    "facts",
    "control_flow",
    "__future__",
    "overrides",
    "typed",
    "determinism",
    "places",
    "return_types",
    "linalg",
    "special",
    "fft",
    "summaries",
    "explain",
    "checks",
    "streams",
    "futures",
    "quasirandom",
    "__init__",
    "printing",
    "serialization",
    "distributed",
    "backends",
    "nn",
    "func",
    "masked",
    "foreach",
    "signal",
    "optim",
    "distributions",
    "jit",
    "hub",
    "operators",
    "schemas",
    "custom_operator",
    "library",
    "replay",
    "compiler",
    "_utils",
    "_C",
    "settings",
    "_dynamo",
    "_inductor",
    "_functorch",
    "_higher_order_ops",
    "amp",
    "cuda",
    "cpu",
    "multiprocessing",
    "data",
    "utils",
    "testing",
    "version",
    "profiler",
    "as_torch",
    "torch_version",
    "mps",
    "xpu",
    "accelerator",
    "_logging",
    "onnx",
    "__config__",
]

# The user's side of autograd: named for users under `autograd`, written on top of tensors.
API = {
    "autograd.forward_ad", "autograd.function", "autograd.function_batch",
    "autograd.functional", "autograd.grad_api", "autograd.gradcheck", "autograd.graph",
    "autograd.variable",
}  # fmt: skip

# The public namespace: `import rushlight as torch`. The rooms after it are written as a user
# writes, against that namespace; it names them for users, so what it imports itself has no
# order.
NAMESPACE = "__init__"

# Imports inside functions that go against the order: (importing room, imported room) -> why.
# Each also carries its reason in a comment beside the import.
LATE_IMPORTS = {
    ("dtypes", "config"): "the default dtype is read when a name is not given, at call time",
    ("devices", "config"): "the default device is read when none is given, at call time",
    ("ops", "arrays"): "functions that make tensors from data",
    ("ops", "tensor"): "functions that take anything for a tensor",
    ("ops", "trace"): "storage surgery (set_, resize_), and draws that must be checked at once",
    ("ops", "storage"): "only untyped_storage() and storage() need it",
    ("ops", "surface"): "copies of views deliver into `out`",
    ("ops", "__init__"): "composites of a few public functions",
    ("random", "arrays"): "the state of a generator is given out as a tensor",
    ("gradients", "func"): "Jacobians by forward mode are those of a transform",
    ("trace", "autograd"): "what nodes saved is shown, and a node called, by few programs",
    ("tensor", "gradients"): "only `backward(inputs=...)` needs what takes edges and lists",
    ("ops", "runtime"): "sorts run native loops, in programs that are there by then",
    ("pipeline", "native"): "LLVM is loaded by the first flush, not by the import",
    ("pipeline", "parts"): "as are the programs of parts",
    ("tensor", "__init__"): "a few methods are the namespace's functions by another name",
    ("surface", "overrides"): "only programs with classes that override need it",
    ("tensor", "overrides"): "only programs with classes that override need it",
    ("tensor", "printing"): "only repr needs it",
    ("tensor_operators", "surface"): "only operators called by name with `out` need it",
    ("tensor", "utils"): "only DLPack's capsules need it",
    ("tensor", "serialization"): "only pickling needs it",
}

# Who may import what from outside the standard library.
OUTSIDE = {  # None: everybody
    "numpy": None,
    "llvmlite": {"codegen/llvm.py"},
    "scipy": {"ops/bessel.py", "quasirandom.py"},  # optional: what nothing else needs
    "tensorboardX": {"utils/tensorboard.py"},  # optional
}


@dataclass(frozen=True)
class Import:
    """One imported name: the file and line it stands in, and the dotted target it asks for."""

    file: str
    line: int
    target: str
    late: bool
    typing_only: bool
    reason: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.target}"


def sources() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def module_of(path: Path) -> str:
    """The dotted name under `rushlight`: '' for the package itself."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path) for path in sources()}


def room_of(module: str) -> str:
    if module in API:
        return "gradients"
    if module == "autograd.profiler":
        return "profiler"
    return module.split(".")[0] or "__init__"


def imports_of(path: Path) -> Iterator[Import]:
    text = path.read_text()
    lines = text.splitlines()
    file = path.relative_to(SOURCE).as_posix()
    for node, late, typing_only in import_nodes(ast.parse(text), late=False, typing_only=False):
        # The reason stands on the import's line, or just above it or its block of imports.
        above = node.lineno - 2
        while above >= 0 and re.match(r"\s*(from|import)\s", lines[above]):
            above -= 1
        reason = "#" in lines[node.lineno - 1] or lines[above].lstrip().startswith("#")
        for target in targets_of(node, path):
            yield Import(file, node.lineno, target, late, typing_only, reason)


def import_nodes(
    tree: ast.AST, *, late: bool, typing_only: bool
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool, bool]]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, late, typing_only
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from import_nodes(child, late=late, typing_only=True)
        else:
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from import_nodes(child, late=late or function, typing_only=typing_only)


def targets_of(node: ast.Import | ast.ImportFrom, path: Path) -> Iterator[str]:
    """Absolute dotted names; `from package import name` is the submodule where there is one."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        package = ["rushlight", *path.relative_to(SOURCE).parts[:-1]]
        package = package[: len(package) - node.level + 1]
        base = ".".join([*package, *filter(None, [node.module])])
    for alias in node.names:
        inner = f"{base}.{alias.name}".removeprefix("rushlight.")
        yield f"rushlight.{inner}" if inner in MODULES and is_inside(base) else base


def is_inside(target: str) -> bool:
    return target == "rushlight" or target.startswith("rushlight.")


def inner_name(target: str) -> str:
    """The module under `rushlight` that holds a target: `dtype` for `rushlight.dtype.int8`."""
    name = target.removeprefix("rushlight").lstrip(".")
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name


ALL = [item for path in sources() for item in imports_of(path)]
INSIDE = [item for item in ALL if is_inside(item.target)]


def goes_down(item: Import) -> bool:
    here = room_of(module_of(SOURCE / item.file))
    there = room_of(inner_name(item.target))
    if here == NAMESPACE or {here, there} - set(ROOMS):  # rooms without a place have their test
        return False
    return ROOMS.index(there) > ROOMS.index(here)


def test_every_room_has_its_place_in_the_order():
    rooms = {room_of(module) for module in MODULES}
    assert not rooms - set(ROOMS), "add the new room to ROOMS, where the architecture puts it"


def test_rooms_import_only_rooms_above_them():
    early = [item for item in INSIDE if not item.late and not item.typing_only]
    assert not [str(item) for item in early if goes_down(item)]


def test_late_imports_against_the_order_are_listed_and_give_their_reason():
    late = [item for item in INSIDE if item.late and not item.typing_only and goes_down(item)]
    pairs = {
        item: (room_of(module_of(SOURCE / item.file)), room_of(inner_name(item.target)))
        for item in late
    }
    assert not [str(item) for item in late if pairs[item] not in LATE_IMPORTS], "not listed"
    assert not [str(item) for item in late if not item.reason], "no comment beside the import"


def test_modules_do_not_import_in_a_circle():
    edges: dict[str, set[str]] = {module: set() for module in MODULES}
    for item in INSIDE:
        here, there = module_of(SOURCE / item.file), inner_name(item.target)
        if not item.late and not item.typing_only and here not in ("", there):
            edges[here].add(there)
    assert not first_cycle(edges)


def first_cycle(edges: dict[str, set[str]]) -> list[str]:
    """The modules of one cycle in order, or nothing."""
    done: set[str] = set()

    def search(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        for there in sorted(edges[module]):
            if cycle := search(there, [*path, module]):
                return cycle
        done.add(module)
        return []

    return next(filter(None, (search(module, []) for module in sorted(edges))), [])


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_nobody_imports_another_library(name):
    assert not [str(item) for item in ALL if item.target.split(".")[0] == name]


@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_dependencies_stay_in_their_files(name):
    allowed = OUTSIDE[name]
    users = [item for item in ALL if item.target.split(".")[0] == name]
    assert allowed is None or not [str(item) for item in users if item.file not in allowed]


def test_a_cycle_is_found_and_shown_in_order():
    assert first_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert first_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
