"""Random programs, compiled, interpreted and on PyTorch: `python tests/fuzz_programs.py FIRST
LAST [--minutes M] [--no-samples]`.

A trial draws a program (`program_draws.py`) and runs it compiled, three times (the second and
third find what the first recorded; the third on another number of threads), with every value
read after every statement, with other sizes, on the reference backend, and on PyTorch. How far
values may be from PyTorch's is found by running it on PyTorch again, with every result moved by
a few units in its last place: what then differs much depends on rounding and is not compared.
Where a value is too far away, more such runs and one in wider numbers say how sure PyTorch's
are. A program that fails is shrunk, and printed as a script.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import os
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import program_differences as differences
import program_tables as tables
import torch
from program_draws import Draw, execute, literal, name_in, names_of, namespace
from program_noise import Noise, NoisyOperators, Settled, all_tensors
from program_samples import database

import rushlight
from rushlight import config
from rushlight.ops.registry import PUBLIC
from rushlight.trace import trace

Lines = list[str]
RELATIVE = {
    "float64": 1e-9, "complex128": 1e-9, "float32": 3e-5, "complex64": 3e-5, "float16": 4e-3,
    "bfloat16": 3e-2,
}  # fmt: skip
_WIDER = {"complex64": "complex128"}
CHUNK = 100  # programs that a process runs
_NOISY = 3  # runs of PyTorch with moved results
_DOUBTED = 12  # such runs where a value is wrong by those
_OPERATORS = 6  # and with moved results of operators
_AMPLIFIED = 64.0  # how much farther than those a right value may be
_MISSED = 4.0  # how much farther than PyTorch's are from those in wider numbers
_SECONDS = 60  # of processors for a trial
_WAIT = 900  # for a trial on a busy machine


@dataclass
class Item:
    """One observed value: a tensor, or anything else that a statement made."""

    label: str
    value: Any
    dtype: str = ""
    requires_grad: bool = False


class Raised(Exception):
    """A statement raised."""

    def __init__(self, line: str, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {error}\n    at: {line}")
        self.line, self.error = line, error


# -- running


def run(library: Any, lines: Lines, after: Any = None) -> list[Item]:
    """Everything that a program makes, when it has ended."""
    library.manual_seed(1)
    names = namespace(library)
    for line in lines:
        try:
            execute(line, names)
        except Exception as error:
            raise Raised(line, error) from error
        if after is not None:
            after(line, names)
    try:
        return list(observed(library, names))
    except Exception as error:
        raise Raised("(reading the results)", error) from error


def observed(library: Any, names: dict[str, Any]) -> Iterator[Item]:
    for name, value in names.items():
        if name[0] == "v" and name[1:].isdigit():
            yield from items(library, name, value)


def items(library: Any, label: str, value: Any) -> Iterator[Item]:
    if isinstance(value, library.Tensor):
        yield tensor_item(library, label, value)
        if value.is_leaf and value.requires_grad and "." not in label:
            yield from items(library, f"{label}.grad", value.grad)
    elif isinstance(value, list | tuple) and not isinstance(value, library.Size):
        for i, part in enumerate(value):
            yield from items(library, f"{label}[{i}]", part)
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from items(library, f"{label}[{key!r}]", value[key])
    elif isinstance(value, library.nn.Module):
        for key, part in (*value.named_parameters(), *value.named_buffers()):
            yield from items(library, f"{label}[{key!r}]", part)
            yield from items(library, f"{label}[{key!r}].grad", part.grad)
    elif isinstance(value, library.optim.Optimizer):
        yield from items(library, label, value.state_dict()["state"])
    elif isinstance(value, bool | int | float | complex):
        yield Item(label, np.array(value), type(value).__name__)
    else:
        plain = value is None or isinstance(value, str)
        yield Item(label, value if plain else repr(value) if isinstance(value, tuple) else "")


def tensor_item(library: Any, label: str, value: Any) -> Item:
    dtype = str(value.dtype).replace("torch.", "").replace("rushlight.", "")
    data = value.detach().resolve_conj().resolve_neg()
    if dtype == "bfloat16":
        data = data.to(library.float32)
    return Item(label, np.array(data.numpy()), dtype, value.requires_grad)


@contextlib.contextmanager
def reference() -> Iterator[None]:
    """The backend that interprets, in a trace that has none of the programs of the other."""
    rushlight.cpu.synchronize()
    before, trace.local.trace = trace.local.trace, trace.Trace()
    trace.every_trace.add(trace.local.trace)
    config.process.backend = "reference"
    try:
        yield
        rushlight.cpu.synchronize()
    finally:
        config.process.backend = "compiled"
        trace.local.trace = before


def read_all(line: str, names: dict[str, Any]) -> None:
    """Make everything pending happen."""
    for name, value in names.items():
        if name[0] == "v":
            for _ in items(rushlight, name, value):
                pass


# -- PyTorch, and how sure its values are


@dataclass
class Expected:
    """PyTorch's values, how far each may be missed, and those that may be anything."""

    lines: Lines
    found: list[Item]
    bounds: list[Any]
    free: set[str]  # names, "grad" for all gradients, "requires_grad" for that flag
    number: float  # the precision of Python's numbers
    is_doubted: bool = False


class Unstable(Exception):
    """What a program does depends on rounding."""


def expected(lines: Lines) -> Expected:
    free: set[str] = set()
    versions: dict[str, int] = {}

    def spread(line: str, names: dict[str, Any]) -> None:
        now = dict(_versions(names))
        uses, makes = names_of(line)
        changed = {name_in(n) for n, v in now.items() if versions.get(n) != v}
        derives = re.search(tables.DERIVES, line) is not None
        if (
            re.search(differences.FREE, line)
            or free & uses
            or differences.is_misread(line, names)
        ):
            free.update(makes | changed)
            free.update(uses if re.search(differences.UNSEEN, line) else ())
            if derives or ".grad" in line or "_hook" in line:
                free.add("grad")
        for name in (makes | changed) & names.keys():
            if any(
                differences.is_undefined(t, derives) for _, t in all_tensors(names[name], name)
            ):
                free.add(name)
        if differences.requires_late(line, names):
            free.update({"requires_grad", "grad"})
        if differences.has_other_history(line, names):
            free.add("requires_grad")
        if derives and any(differences.is_undefined(t, derives) for t in _gradients(names)):
            free.add("grad")
        versions.clear()
        versions.update(now)

    # views made without gradients say in PyTorch that they have them
    text = "\n".join(lines)
    if re.search(rf"no_grad|{differences.WITHOUT_HISTORY}", text):
        free |= {"requires_grad", "grad"}
    clean = run(torch, lines, spread)
    narrow = [RELATIVE[d] for d in RELATIVE if d in text]
    bounds = moved_by_rounding(lines, clean, range(_NOISY))
    return Expected(lines, clean, bounds, free, max(narrow, default=1e-9))


def moved_by_rounding(lines: Lines, clean: list[Item], seeds: Iterable[int]) -> list[Any]:
    """How far PyTorch's values move where the results of statements move by a few units in the
    last place; infinite where rounding makes something else of them.
    """
    text = "\n".join(lines)
    bounds: list[Any] = [0.0] * len(clean)
    solves = re.search(tables.SOLVING, text) is not None
    for seed in seeds:
        try:
            moved = run(torch, lines, Noise(seed, solves))
        except Raised:
            raise Unstable from None
        bounds = _farther(bounds, clean, moved)
    if solves:
        bounds = [np.inf if _is_other(i, b) else b for i, b in zip(clean, bounds)]
    if re.search("lambda|def |for ", text):  # their steps are not moved one by one
        bounds = [bound + _least(item.dtype) for item, bound in zip(clean, bounds)]
    return bounds


def _farther(bounds: list[Any], clean: list[Item], other: list[Item]) -> list[Any]:
    if len(other) != len(clean):
        raise Unstable
    return [np.maximum(b, _distance(*pair)) for b, *pair in zip(bounds, clean, other)]


def doubted(want: Expected) -> Expected:
    """The same values with bounds from more runs: with other results of statements, with zeros
    for what then is no more than rounding, with results of every operator moved, and with
    narrow floating numbers that are float64. A value as near to those as PyTorch's own is no
    fault.
    """
    moved = moved_by_rounding(want.lines, want.found, range(_NOISY, _DOUBTED))
    bounds = [np.maximum(*pair) for pair in zip(want.bounds, moved)]
    for seed in range(_OPERATORS):
        with contextlib.suppress(Raised), NoisyOperators(seed):
            bounds = _farther(bounds, want.found, run(torch, want.lines))
    rounding = {i.label: _AMPLIFIED * b for i, b in zip(want.found, bounds)}
    for is_negative in (False, True):
        with contextlib.suppress(Raised, Unstable):
            settled = run(torch, want.lines, Settled(rounding, is_negative))
            bounds = _farther(bounds, want.found, settled)
    narrow = r"torch\.(b?float16|float32|complex64)\b"
    wider = [
        re.sub(narrow, lambda m: f"torch.{_WIDER.get(m[1], 'float64')}", line)
        for line in want.lines
    ]
    if wider != want.lines:
        with contextlib.suppress(Raised, Unstable):  # other dtypes may do other things
            missed = _farther([0.0] * len(bounds), want.found, run(torch, wider))
            bounds = [np.maximum(b, _reach(m) / _AMPLIFIED) for b, m in zip(bounds, missed)]
    return replace(want, bounds=bounds, is_doubted=True)


def _reach(missed: Any) -> Any:
    """How far the elements of a result may be from PyTorch's, which miss the right ones."""
    finite = np.where(np.isfinite(missed), missed, 0)
    return np.maximum(missed, _MISSED * np.max(finite, initial=0))


def _is_other(item: Item, bound: Any) -> bool:
    """Whether rounding makes something else of a result: other pivots, a singular matrix."""
    if not isinstance(item.value, np.ndarray) or not item.value.size:
        return False
    return bool(np.max(bound) > 0.1 * np.abs(item.value).max())


def _least(dtype: str) -> float:
    """How far a number of this dtype that cancels to 0 is from it, by `_AMPLIFIED`: 8 units."""
    return torch.finfo(getattr(torch, dtype)).eps / 8 if dtype in RELATIVE else 0.0


def _versions(names: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in names.items():
        for label, t in all_tensors(value, name):
            with contextlib.suppress(RuntimeError):  # inference tensors have none
                yield label, t._version


def _gradients(names: dict[str, Any]) -> Iterator[Any]:
    for name, value in names.items():
        for _, t in all_tensors(value, name):
            with contextlib.suppress(RuntimeError):  # a view that a write made unusable
                if t.is_leaf and t.grad is not None:
                    yield t.grad


def _distance(a: Item, b: Item) -> Any:
    """How far the elements are apart; infinite where one is not a number and the other is."""
    if not isinstance(a.value, np.ndarray) or not isinstance(b.value, np.ndarray):
        return 0.0 if a.value == b.value else np.inf
    if a.value.shape != b.value.shape:
        raise Unstable
    with np.errstate(all="ignore"):
        x, y = _wide(a.value), _wide(b.value)
        away = np.abs(x - y)
        away[(x == y) | (np.isnan(x) & np.isnan(y))] = 0
        return np.where(np.isnan(away), np.inf, away)


def _wide(value: np.ndarray) -> np.ndarray:
    """Parts of numbers along a last dimension."""
    if value.dtype.kind == "c":
        return np.stack([value.real, value.imag], -1).astype(np.float64)
    return value.astype(np.float64)[..., None]


# -- comparing


def different(want: Item, got: Item, bound: Any, free: bool, number: float) -> str:
    if free and (want.value is None or got.value is None):
        return ""
    if want.label != got.label or want.dtype != got.dtype:
        return f"{got.label} is {got.dtype}, expected {want.label} {want.dtype}"
    if want.requires_grad != got.requires_grad:
        return f"{want.label}: requires_grad is {got.requires_grad}"
    if not isinstance(want.value, np.ndarray):
        same = want.value == got.value
        return "" if same or free else f"{want.label}: {got.value}, expected {want.value}"
    if free:
        return ""
    if want.value.shape != got.value.shape:
        return f"{want.label}: shape {got.value.shape}, expected {want.value.shape}"
    if not want.value.size:
        return ""
    away = _distance(want, got)
    allowed = np.zeros(away.shape)
    if want.dtype in RELATIVE or want.dtype in ("float", "complex"):
        size = np.abs(_wide(want.value))
        size[~np.isfinite(size)] = 0
        allowed = RELATIVE.get(want.dtype, number) * (size + size.max() + 1e-3)
    with np.errstate(all="ignore"):
        allowed = allowed + _AMPLIFIED * bound
    bad = ~(away <= allowed) & ~(np.isinf(away) & np.isinf(allowed) & (np.asarray(bound) > 0))
    if not bad.any():
        return ""
    at = tuple(np.argwhere(bad)[0])
    return (
        f"{want.label} ({want.dtype} {want.value.shape}) at {at[:-1]}: {got.value[at[:-1]]}, "
        f"expected {want.value[at[:-1]]} within {allowed[at]:.2g}; {bad.sum()} differ"
    )


def against(want: Expected, got: list[Item]) -> str:
    """How results differ from PyTorch's by more than rounding can explain."""
    found = _against(want, got)
    if not found or want.is_doubted:
        return found
    try:
        return _against(doubted(want), got)
    except Unstable:
        return ""


def _against(want: Expected, got: list[Item]) -> str:
    labels = [i.label for i in want.found], [i.label for i in got]
    if labels[0] != labels[1] and not want.free:
        return f"results are {labels[1]}, expected {labels[0]}"
    by_label = {i.label: i for i in got}
    for item, bound in zip(want.found, want.bounds):
        name = item.label.split("[")[0].split(".")[0]
        free = name in want.free or (item.label.endswith(".grad") and "grad" in want.free)
        if item.label not in by_label:
            if free:
                continue
            return f"{item.label} is missing"
        if "requires_grad" in want.free:
            by_label[item.label].requires_grad = item.requires_grad
        if found := different(item, by_label[item.label], bound, free, want.number):
            return found
    return ""


def same_bits(first: list[Item], second: list[Item]) -> str:
    for a, b in itertools.zip_longest(first, second):
        if a is None or b is None or a.label != b.label:
            return f"other results: {a and a.label}, {b and b.label}"
        if isinstance(a.value, np.ndarray) and isinstance(b.value, np.ndarray):
            is_number = a.value.dtype.kind in "fc"
            same = np.array_equal(a.value, b.value, equal_nan=is_number)
            if not same or a.value.dtype != b.value.dtype:
                return f"{a.label}: {b.value.reshape(-1)[:4]}, was {a.value.reshape(-1)[:4]}"
        elif a.value != b.value:
            return f"{a.label}: {b.value}, was {a.value}"
    return ""


def trial(lines: Lines) -> tuple[str, str]:
    """What kind of thing is wrong with a program, and what; or nothing."""
    try:
        want = expected(lines)
    except (Unstable, Raised):
        return "", "unstable"
    way = "compiled"
    try:
        first = run(rushlight, lines)
        if found := against(want, first):
            return "torch", found
        way = "again"
        if found := same_bits(first, run(rushlight, lines)):
            return way, found
        way = "two threads"
        with two_threads():
            if found := same_bits(first, run(rushlight, lines)):
                return way, found
        way = "reference"
        with reference():
            if found := against(want, run(rushlight, lines)):
                return way, found
        way = "read after every statement"
        if found := against(want, run(rushlight, lines, read_all)):
            return way, found
        way = "new sizes"
        if found := with_new_sizes(lines):
            return way, found
    except Raised as raised:
        if differences.is_refused(str(raised), lines):
            return "", "refused"
        needs_history = re.search(
            "does(n't| not) require grad|requires_grad=False", str(raised)
        )
        if needs_history and "requires_grad" in want.free:
            return "", "refused"
        return f"{way} raised {type(raised.error).__name__}", str(raised)
    return "", ""


def with_new_sizes(lines: Lines) -> str:
    """What is wrong with the same program on inputs that have one element more wherever they
    had a certain number, where PyTorch runs that.
    """
    names = namespace(torch)
    inputs = [i for i, line in enumerate(lines) if re.match(r"v\d+ = torch.tensor\(", line)]
    for i in inputs:
        execute(lines[i], names)
    sizes = collections.Counter(
        size for i in inputs for size in names[lines[i].split()[0]].shape if size > 1
    )
    if not sizes or re.search(tables.UNCHECKED, "\n".join(lines)):
        return ""
    size = sizes.most_common(1)[0][0]
    changed = list(lines)
    for i in inputs:
        name = lines[i].split()[0]
        data = names[name].detach()
        for d in range(data.ndim):
            if data.shape[d] == size:
                first = data.narrow(d, 0, 1)
                if data.is_floating_point() or data.is_complex():
                    first = first * 0.7 + 0.1  # equal rows would make singular matrices
                data = torch.cat([data, first], d)
        marked = ".requires_grad_()" * names[name].requires_grad
        changed[i] = f"{name} = {literal(data, 12)}{marked}"
    try:
        want = expected(changed)
    except (Unstable, Raised):
        return ""
    return against(want, run(rushlight, changed))


@contextlib.contextmanager
def two_threads() -> Iterator[None]:
    before = rushlight.get_num_threads()
    rushlight.set_num_threads(1 if before > 1 else 2)
    try:
        yield
    finally:
        rushlight.set_num_threads(before)


# -- shrinking


def without(lines: Lines, gone: int) -> Lines:
    """The program without a statement and those that then lack a value."""
    made: set[str] = set()
    kept = []
    for i, line in enumerate(lines):
        uses, makes = names_of(line)
        if i != gone and uses - makes <= made:
            made |= makes
            kept.append(line)
    return kept


def shrunk(lines: Lines, kind: str) -> Lines:
    """A shorter program that fails in the same way."""
    i = len(lines) - 1
    while i >= 0:
        shorter = without(lines, i)
        if shorter and _attempt(shorter)[0] == kind:
            lines = shorter
            i = min(i, len(lines))
        i -= 1
    for i, line in enumerate(lines):
        plain = line.replace(".requires_grad_()", "")
        changed = [*lines[:i], plain, *lines[i + 1 :]]
        if plain != line and _attempt(changed)[0] == kind:
            lines = changed
    return lines


def _attempt(lines: Lines) -> tuple[str, str]:
    try:
        return trial(lines)
    except Exception:
        return "", ""


def script(lines: Lines) -> str:
    return "\n".join(["import rushlight as torch", "from math import inf, nan", *lines])


# -- the command


def check(seed: int, samples: bool, counts: collections.Counter[str], stream: Any) -> str:
    """A report of what is wrong with the program of a seed, or nothing."""
    try:
        draw = Draw(seed, samples)
    except _Late:  # PyTorch alone draws
        counts["(not drawn)"] += 1
        return ""
    print(f"drawn {seed}", file=stream, flush=True)
    counts.update(draw.drawn)
    kind, found = trial(draw.lines)
    counts["(statements)"] += len(draw.lines)
    counts["(not compared)"] += not kind and bool(found)
    if not kind:
        return ""
    small = shrunk(draw.lines, kind)
    kind, found = trial(small)
    return f"seed {seed}: {kind}: {found}\n{script(small)}\n"


class _Late(BaseException):
    pass


def _late(*_: Any) -> None:
    raise _Late


def chunk(
    first: int, last: int, samples: bool, end: float, stream: Any
) -> collections.Counter[str]:
    """Check seeds, and tell of each before it begins."""
    counts: collections.Counter[str] = collections.Counter()
    signal.signal(signal.SIGALRM, _late)
    signal.signal(signal.SIGPROF, _late)
    for seed in range(first, last):
        if time.monotonic() > end:
            break
        print(f"begins {seed}", file=stream, flush=True)
        try:
            found = in_time(seed, samples, counts, stream)
        except _Late:
            found = f"seed {seed}: takes more than {_SECONDS} s"
        except Exception:
            found = f"seed {seed}: {traceback.format_exc(limit=-6)}"
        counts["(programs)"] += 1
        if found:
            counts["(bad)"] += 1
            print(found, flush=True)
    return counts


def in_time(seed: int, samples: bool, counts: collections.Counter[str], stream: Any) -> str:
    """`check`, or `_Late` where that computes, or waits, for too long."""
    signal.setitimer(signal.ITIMER_PROF, _SECONDS)
    signal.alarm(_WAIT)
    try:
        return check(seed, samples, counts, stream)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--no-samples", action="store_true")
    wish = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    end = time.monotonic() + 60 * wish.minutes
    total: collections.Counter[str] = collections.Counter()
    with own_cache():
        for first in range(wish.first, wish.last, CHUNK):
            if time.monotonic() > end:
                break
            total += apart(first, min(first + CHUNK, wish.last), not wish.no_samples, end)
    bad = total["(bad)"]
    report(total)
    return bad


@contextlib.contextmanager
def own_cache() -> Iterator[None]:
    """Kernels of random programs must not push those of real ones out of the user's cache."""
    with tempfile.TemporaryDirectory(prefix="rushlight-fuzz-") as folder:
        os.environ["RUSHLIGHT_CACHE_DIR"] = folder
        yield


def apart(first: int, last: int, samples: bool, end: float) -> collections.Counter[str]:
    """A chunk in a process of its own, so that a crash ends no more than itself."""
    if samples:
        database()  # imported once
    torch.compile(len)  # as is this
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        with os.fdopen(writer, "w") as stream:
            counts = chunk(first, last, samples, end, stream)
            print(f"ends {dict(counts)!r}", file=stream, flush=True)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        told = stream.read().splitlines()
    os.waitpid(child, 0)
    if told and told[-1].startswith("ends "):
        return collections.Counter(eval(told[-1][5:]))
    came, seed = told[-1].split()[0], int(told[-1].split()[1])
    if came == "drawn":
        print(f"seed {seed}: the process died", flush=True)
    rest = apart(seed + 1, last, samples, end) if seed + 1 < last else collections.Counter()
    kind = "(bad)" if came == "drawn" else "(not drawn)"  # there PyTorch's was the fault
    return rest + collections.Counter({kind: 1, "(programs)": seed + 1 - first})


def report(total: collections.Counter[str]) -> None:
    """How much was run, and which public functions were never called."""
    for name in ("(programs)", "(statements)", "(not drawn)", "(not compared)", "(bad)"):
        print(f"{name[1:-1]}: {total.pop(name, 0)}")
    called = set(re.findall(r"\w+", " ".join(total)))
    called |= {name.rstrip("_") for name in called} | {name + "_" for name in called}
    public = {name for f in PUBLIC for name in (f.name, *f.aliases)}
    missing = sorted(name for name in public if name not in called)
    print(f"public functions called: {len(public) - len(missing)} of {len(public)}")
    print(f"not called: {' '.join(missing)}")


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
