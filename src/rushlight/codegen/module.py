"""Kernels: from text to addresses, compiling only what no process has compiled before."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rushlight.codegen import llvm, workers
from rushlight.codegen.cache import Bundle, ObjectCache
from rushlight.codegen.target import Target, current_target
from rushlight.loops.kernel import KernelSource

if TYPE_CHECKING:
    from hashlib import _Hash as Digest

Resolve = Callable[[str], tuple[str, Iterable[str]]]
"""From the name of a function that kernels may call to its text and the names it needs in turn.
"""

# Kernels compiled between two chances to interrupt. Modules of many compile a third faster than
# modules of one.
BURST_KERNELS = 128
_PATIENCE_SECONDS = 1.0
_DECLARATION = re.compile(r"^declare\b.*\n?", re.MULTILINE)
_DEFINITION = re.compile(r"^define (?!internal |private )", re.MULTILINE)


@dataclass(slots=True)
class Counters:
    """What compiling has cost this process so far."""

    modules: int = 0
    kernels: int = 0
    disk_hits: int = 0
    seconds: float = 0.0


class Kernels:
    """The kernels of this process for one target, by name.

    Functions that kernels need stay calls, unless their text says `alwaysinline`: inlining the
    vector mathematics gains 5 to 15 % on kernels that do nothing else, and quadruples the time
    to compile forty kernels.
    """

    def __init__(
        self, resolve: Resolve, target: Target | None = None, cache: ObjectCache | None = None
    ) -> None:
        self.target = target or current_target()
        self.counters = Counters()
        self._library = _Library(resolve)
        self._cache = cache or ObjectCache()
        self._addresses: dict[str, int] = {}
        self._sources: dict[str, KernelSource] = {}
        self._herald = _Herald()
        self._salt = _salted(self.target)

    def addresses(self, sources: Sequence[KernelSource]) -> list[int]:
        """Each kernel's entry address, compiling what is neither in memory nor on disk."""
        known = self._addresses
        self._check_names(sources)
        if any(source.name not in known for source in sources):
            with llvm.lock:  # two threads wanting the same kernel compile it once
                missing = {
                    source.name: source for source in sources if source.name not in known
                }
                self._fetch(list(missing.values()))
        return [known[source.name] for source in sources]

    def address(self, source: KernelSource) -> int:
        """The entry address of one kernel."""
        return self.addresses((source,))[0]

    def module_text(self, sources: Sequence[KernelSource]) -> str:
        """The LLVM text of one module holding these kernels and everything that they need."""
        declarations: dict[str, None] = {}
        texts = []
        for source in sources:
            text = source.text
            if "declare" in text:
                declarations.update(
                    dict.fromkeys(found.strip() for found in _DECLARATION.findall(text))
                )
                text = _DECLARATION.sub("", text)
            texts.append(text)
        needs = frozenset().union(*(source.needs for source in sources))
        for text in self._library.texts(needs):
            if text.startswith("declare"):
                declarations.update(dict.fromkeys(text.strip().splitlines()))
            else:
                texts.append(text)
        return "\n".join([*declarations, *texts])

    def _check_names(self, sources: Sequence[KernelSource]) -> None:
        """Two kernels of one name would silently become one."""
        for source in sources:
            first = self._sources.setdefault(source.name, source)
            if first is not source and first != source:
                raise llvm.CompileError(f"two different kernels are called {source.name}")

    def _fetch(self, sources: list[KernelSource]) -> None:
        started = time.perf_counter()
        keys = {self._key(source): source for source in sources}
        for bundle in self._cache.find(list(keys)):
            self._take(bundle, keys)
        missing = [source for source in sources if source.name not in self._addresses]
        self.counters.disk_hits += len(sources) - len(missing)
        if missing:
            with self._herald.watch(len(missing)):
                for start in range(0, len(missing), BURST_KERNELS):
                    self._compile(missing[start : start + BURST_KERNELS])
        self.counters.seconds += time.perf_counter() - started

    def _take(self, bundle: Bundle, wanted: dict[str, KernelSource]) -> None:
        """Load a bundle from disk, for its kernels that are wanted now."""
        names = {key: symbol for key, symbol in bundle.symbols.items() if key in wanted}
        names = {key: symbol for key, symbol in names.items() if wanted[key].name == symbol}
        if names:
            try:
                self._addresses.update(
                    llvm.load_object(bundle.image, list(names.values()), self.target)
                )
            except llvm.CompileError:
                return  # made by another build of the same version: compile instead

    def _compile(self, sources: list[KernelSource]) -> None:
        groups = _deal(sources)
        texts = [self.module_text(group) for group in groups]
        for text, group in zip(texts, groups, strict=True):
            _dump(text, group)
        images = workers.compile_objects(texts, self.target)
        for image, group in zip(images, groups, strict=True):
            self._enter(group, image)

    def _enter(self, sources: list[KernelSource], image: bytes) -> None:
        """Load a compiled module and keep it on disk."""
        names = [source.name for source in sources]
        self._addresses.update(llvm.load_object(image, names, self.target))
        self.counters.modules += 1
        self.counters.kernels += len(sources)
        self._cache.keep(Bundle({self._key(source): source.name for source in sources}, image))

    def _key(self, source: KernelSource) -> str:
        """Names the machine code: everything that it depends on."""
        digest = self._salt.copy()
        for text in (source.name, source.text, *self._library.texts(source.needs)):
            digest.update(b"%d:" % len(text))
            digest.update(text.encode())
        return digest.hexdigest()[:32]


def load_functions(
    text: str, names: Sequence[str], target: Target, cache: ObjectCache | None = None
) -> dict[str, int]:
    """The addresses of functions in a module that stands alone, compiled at most once."""
    cache = cache or ObjectCache()
    digest = _salted(target)
    digest.update(text.encode())
    key = digest.hexdigest()[:32]
    with llvm.lock:
        for bundle in cache.find([key]):
            try:
                return llvm.load_object(bundle.image, names, target)
            except llvm.CompileError:
                break  # made by another build of the same version: compile instead
        image = llvm.compile_object(text, target)
        cache.keep(Bundle({key: names[0]}, image))
        return llvm.load_object(image, names, target)


def _salted(target: Target) -> Digest:
    """A digest of everything but the text that machine code depends on."""
    facts = (target.triple, target.cpu, target.features, llvm.version(), *llvm.RECIPE)
    return hashlib.sha256("\0".join(facts).encode())


def _deal(sources: list[KernelSource]) -> list[list[KernelSource]]:
    """Split kernels into one module for each process that will compile, of about equal
    length.
    """
    lengths = {source.name: source.text.count("\n") for source in sources}
    groups: list[list[KernelSource]] = [
        [] for _ in range(workers.worker_count(sum(lengths.values())))
    ]
    loads = [0] * len(groups)
    for source in sorted(sources, key=lambda source: -lengths[source.name]):
        lightest = loads.index(min(loads))
        groups[lightest].append(source)
        loads[lightest] += lengths[source.name]
    return [group for group in groups if group]


class _Library:
    """Functions that kernels call, resolved once a process."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._known: dict[str, tuple[str, tuple[str, ...]]] = {}

    def texts(self, needs: Iterable[str]) -> list[str]:
        """The text of each function and of what it needs, in an order set by the names."""
        found: dict[str, str] = {}
        waiting = sorted(needs, reverse=True)
        while waiting:
            name = waiting.pop()
            if name in found or name.startswith("llvm."):  # LLVM declares its intrinsics itself
                continue
            found[name], more = self._definition(name)
            waiting.extend(more)
        return list(found.values())

    def _definition(self, name: str) -> tuple[str, tuple[str, ...]]:
        known = self._known.get(name)
        if known is None:
            text, needs = self._resolve(name)
            text = _DEFINITION.sub("define internal ", text)
            known = self._known[name] = (text, tuple(sorted(needs, reverse=True)))
        return known


class _Herald:
    """Says on stderr, once a burst, that compiling takes longer than people wait."""

    def __init__(self) -> None:
        self._began = self._ended = float("-inf")
        self._said = False

    def watch(self, count: int) -> _Watch:
        now = time.perf_counter()
        if now - self._ended > _PATIENCE_SECONDS:
            self._began, self._said = now, False
        return _Watch(self, count, max(0.0, _PATIENCE_SECONDS - (now - self._began)))

    def say(self, count: int) -> None:
        if self._said:
            return
        self._said = True
        plural = "kernel" if count == 1 else "kernels"
        print(f"rushlight: compiling {count} {plural} ...", file=sys.stderr, flush=True)

    def rest(self) -> None:
        self._ended = time.perf_counter()


class _Watch:
    """One compilation, with a timer beside it where somebody would read what it says."""

    def __init__(self, herald: _Herald, count: int, patience: float) -> None:
        self._herald = herald
        self._timer: threading.Timer | None = None
        if _has_reader():
            self._timer = threading.Timer(patience, herald.say, (count,))
            self._timer.daemon = True

    def __enter__(self) -> None:
        if self._timer is not None:
            self._timer.start()

    def __exit__(self, *failure: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._herald.rest()


def _has_reader() -> bool:
    if os.environ.get("RUSHLIGHT_VERBOSE") == "1":
        return True
    return sys.stderr is not None and sys.stderr.isatty()


def _dump(text: str, sources: list[KernelSource]) -> None:
    """RUSHLIGHT_DUMP=llvm:FOLDER writes every module's text there."""
    for wish in os.environ.get("RUSHLIGHT_DUMP", "").split(","):
        if wish.startswith("llvm:"):
            folder = Path(wish.removeprefix("llvm:"))
            folder.mkdir(parents=True, exist_ok=True)
            name = hashlib.sha256(text.encode()).hexdigest()[:12]
            (folder / f"{sources[0].name[:80]}.{len(sources)}.{name}.ll").write_text(text)
