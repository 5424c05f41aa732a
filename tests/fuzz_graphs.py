"""Random graphs of primitives, compiled and interpreted: `python tests/fuzz_graphs.py FIRST
LAST [--minutes M]`.

A trial builds a graph from a seed, asks for some of its values and may have others written over
leaves, and compares everything with `loops/interpret.py`.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import time
import traceback
from typing import Any

import numpy as np

from rushlight import views
from rushlight.compiled import CheckFailed, CompiledGraph
from rushlight.ir.builder import Builder
from rushlight.ir.node import Node
from rushlight.ir.ref import Ref
from rushlight.loops import interpret
from rushlight.runtime import buffers
from rushlight.views import View

dt: Any = importlib.import_module("rushlight.dtypes")  # the name `rushlight.dtype` is a class
SIZES = (1, 2, 3, 5, 8, 16, 17, 33, 70)
MOST_ELEMENTS = 100_000


class Skip(Exception):
    """A step that does not fit the operands it drew."""


class Graph:
    """One random graph: leaves, values, results, and results that overwrite leaves."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.data = np.random.default_rng(seed)
        self.k = Builder()
        self.leaves: list[np.ndarray] = []
        self.values: list[Ref] = []
        self.dims = [self.rng.choice(SIZES) for _ in range(3)]
        a, b, c = self.dims
        for shape in ((a, b, c), (a, b, c), (c,), (a, 1, c)):
            self.leaf(self.data.standard_normal(shape).astype(np.float32))
        self.first = len(self.values)
        for _ in range(self.rng.randint(3, 14)):
            self.grow()

    def leaf(self, array: np.ndarray, kind: Any = None) -> Ref:
        self.leaves.append(array)
        ref = self.k.leaf(len(self.leaves) - 1, array.shape, kind or dt.float32)
        if kind is None:
            self.values.append(ref)
        return ref

    def pick(self) -> Ref:
        return self.rng.choice(self.values)

    def grow(self) -> None:
        name = self.rng.choice(list(STEPS))
        x = self.pick()
        if not x.shape and name not in SCALAR_STEPS:
            return
        try:
            made = STEPS[name](self, x)
        except (Skip, RuntimeError):
            return
        if views.numel(made.shape) <= MOST_ELEMENTS:
            self.values.append(made)

    # -- results

    def results(self) -> tuple[list[Node], dict[int, int]]:
        """Nodes for some values, and which of them are written over a leaf."""
        made = self.values[self.first :] or self.values
        chosen = self.rng.sample(made, min(len(made), self.rng.randint(1, 4)))
        nodes = [self.natural(x) for x in chosen]
        written: dict[int, int] = {}
        free = [p for p in range(4) if self.rng.random() < 0.5]
        for p in free:
            shape = self.leaves[p].shape
            fitting = [x for x in made if x.shape == shape and x.dtype is dt.float32]
            if self.rng.random() < 0.5:
                fitting = [self.rewritten(self.values[p])]
            if fitting:
                written[len(nodes)] = p
                nodes.append(self.natural(self.rng.choice(fitting[-3:])))
        return nodes, written

    def rewritten(self, x: Ref) -> Ref:
        """The leaf x after a few writes to parts of it."""
        for _ in range(self.rng.randint(1, 3)):
            x = scattered(self, x) if self.rng.random() < 0.2 else updated(self, x)
        return x

    def natural(self, x: Ref) -> Node:
        if x.view is None and x.node.op not in ("const", "scalar", "leaf"):
            return x.node
        return self.k.node("cast", [x.arg], (), x.shape, x.dtype)

    def run(self, nodes: list[Node], written: dict[int, int]) -> list[np.ndarray]:
        graph = CompiledGraph(self.k, nodes, written)
        memory = {p: self.leaves[p].copy() for p in graph.leaves}
        own = {
            i: buffers.Buffer(max(nodes[i].numel * nodes[i].dtype.itemsize, 1))
            for i in graph.own
        }
        graph.run(
            [memory[p].ctypes.data for p in graph.leaves],
            [],
            [own[i].address for i in graph.own],
        )
        for p, array in memory.items():
            if p not in written.values():
                assert array.tobytes() == self.leaves[p].tobytes(), f"leaf {p} was overwritten"
        return [
            memory[written[i]] if i in written else own[i].as_numpy(n.dtype.storage, n.shape)
            for i, n in enumerate(nodes)
        ]


# -- steps


def partner(g: Graph, x: Ref) -> Ref:
    y = g.pick()
    views.broadcast_shapes("fuzz", x.shape, y.shape)
    return y


def softmax(g: Graph, x: Ref) -> Ref:
    d = g.rng.randrange(len(x.shape))
    top = g.k.reduce("max", x, [d], keepdim=True)
    e = g.k.exp(x - top)
    return e / g.k.reduce("sum", e, [d], keepdim=True)


def reduction(g: Graph, x: Ref) -> Ref:
    dims = sorted(g.rng.sample(range(len(x.shape)), g.rng.randint(1, len(x.shape))))
    kind = g.rng.choice(("sum", "max", "min"))
    out = g.k.reduce(kind, x, dims, keepdim=g.rng.random() < 0.5)
    count = max(1, int(np.prod([x.shape[d] for d in dims])))
    return out * (1.0 / count) if kind == "sum" else out


def argmax(g: Graph, x: Ref) -> Ref:
    """Between 0 and 1, so that products do not enlarge errors of rounding."""
    d = g.rng.randrange(len(x.shape))
    found = g.k.reduce("argmax", x, [d])
    return g.k.cast(found, dt.float32) * (1.0 / x.shape[d])


def permuted(g: Graph, x: Ref) -> Ref:
    order = list(range(len(x.shape)))
    g.rng.shuffle(order)
    return g.k.permute(x, order)


def sliced(g: Graph, x: Ref) -> Ref:
    d = g.rng.randrange(len(x.shape))
    n = x.shape[d]
    start = g.rng.randrange(n)
    return g.k.slice(x, d, start, max(1, (n - start) // 2), 1 if n - start < 4 else 2)


def padded(g: Graph, x: Ref) -> Ref:
    def sizes() -> list[int]:
        return [g.rng.randint(0, 2) for _ in x.shape]

    return g.k.pad(x, sizes(), sizes(), 1.5)


def contraction(g: Graph, x: Ref) -> Ref:
    if len(x.shape) != 3:
        raise Skip
    others = [v for v in g.values if len(v.shape) == 3 and v.shape[:2] == x.shape[:2]]
    return g.k.contract("abc,abd->acd", x, g.rng.choice(others)) * 0.1


def index(g: Graph, size: int, shape: tuple[int, ...]) -> Ref:
    return g.leaf(g.data.integers(0, size, shape), dt.int64)


def gathered(g: Graph, x: Ref) -> Ref:
    strides = views.contiguous_strides(x.shape)
    count = g.rng.randint(1, 9)
    shape = (count, *x.shape[1:])
    rows = index(g, x.shape[0], (count, *(1,) * (len(x.shape) - 1)))
    return g.k.gather(x, View(shape, (0, *strides[1:]), 0), [(rows, strides[0], x.shape[0])])


def scattered(g: Graph, x: Ref) -> Ref:
    """Rows, or elements along a dimension, combined into x."""
    kind = g.rng.choice(("set", "add", "max", "min"))
    strides = list(views.contiguous_strides(x.shape))
    d = g.rng.randrange(len(x.shape))
    step, strides[d] = strides[d], 0
    shape = list(x.shape)
    shape[d] = g.rng.choice((1, 3, 20))
    if views.numel(shape) > MOST_ELEMENTS:
        raise Skip
    varies = g.rng.random() < 0.4
    own = tuple(shape) if varies else tuple(s if i == d else 1 for i, s in enumerate(shape))
    source = g.k.slice(g.k.expand(g.k.slice(x, d, 0, 1), tuple(shape)), d, 0, shape[d]) * 0.5
    at = [(index(g, x.shape[d], own), step, x.shape[d])]
    return g.k.scatter(kind, x, source, View(tuple(shape), tuple(strides), 0), at)


def scanned(g: Graph, x: Ref) -> Ref:
    d = g.rng.randrange(len(x.shape))
    kind = g.rng.choice(("sum", "max", "min"))
    out = g.k.scan(kind, x, d)
    return out * (1.0 / x.shape[d]) if kind == "sum" else out


def region(g: Graph, shape: tuple[int, ...]) -> View:
    """A random box of a contiguous array."""
    view = views.whole(shape)
    sizes, strides, offset = list(view.shape), list(view.strides), 0
    for d, n in enumerate(shape):
        if g.rng.random() < 0.6:
            start = g.rng.randrange(n)
            step = g.rng.choice((1, 1, 2))
            offset += start * strides[d]
            sizes[d] = max(1, (n - start) // (2 * step))
            strides[d] *= step
    return View(tuple(sizes), tuple(strides), offset)


def updated(g: Graph, x: Ref) -> Ref:
    """Some regions of x written, sometimes from x itself."""
    parts = []
    for _ in range(g.rng.choice((1, 1, 1, 2))):
        view = region(g, x.shape)
        if g.rng.random() < 0.5 and x.view is None:
            part = g.k.as_strided(x, *view) * 0.5 + 1.0
        elif g.rng.random() < 0.5:
            part = g.k.copy(g.k.as_strided(x, *region_like(g, x.shape, view)))
        else:
            part = g.k.full(view.shape, 2.5, x.dtype)
        parts.append((part, view))
    return g.k.update(x, parts, x.shape, x.dtype)


def region_like(g: Graph, shape: tuple[int, ...], view: View) -> View:
    """A box of the same sizes at the start: it may overlap what is written."""
    return View(view.shape, views.contiguous_strides(shape), 0)


def binary(name: str) -> Any:
    return lambda g, x: g.k.map(name, x, partner(g, x)) * 0.5


STEPS: dict[str, Any] = {
    "add": binary("add"),
    "mul": binary("mul"),
    "max": binary("max"),
    "tanh": lambda g, x: g.k.tanh(x),
    "where": lambda g, x: g.k.select(x > 0.0, x, x * 0.25),
    "copy": lambda g, x: g.k.copy(x),
    "reduce": reduction,
    "columns": lambda g, x: g.k.reduce("sum", x, [0], keepdim=True) * (1.0 / x.shape[0]),
    "argmax": argmax,
    "softmax": softmax,
    "permute": permuted,
    "flatten": lambda g, x: g.k.reshape(x, (views.numel(x.shape),)),
    "flip": lambda g, x: g.k.flip(x, [g.rng.randrange(len(x.shape))]),
    "slice": sliced,
    "pad": padded,
    "cat": lambda g, x: g.k.cat([x, x * 2.0], g.rng.randrange(len(x.shape))),
    "iota": lambda g, x: (
        x + g.k.cast(g.k.iota(x.shape, g.rng.randrange(len(x.shape))), dt.float32)
    ),
    "contract": contraction,
    "gather": gathered,
    "scatter": scattered,
    "scatter again": scattered,
    "scan": scanned,
    "update": updated,
    "update again": updated,
    "leaf update": lambda g, x: updated(g, g.values[g.rng.randrange(4)]),
    "chain": lambda g, x: updated(g, g.values[-1]) if g.values[-1].shape else x,
}
SCALAR_STEPS = ("add", "mul", "max", "tanh", "where", "copy", "flatten")


def trial(seed: int) -> str:
    """What is wrong with this seed's graph, or nothing."""
    g = Graph(seed)
    nodes, written = g.results()
    want = interpret.evaluate(nodes, lambda n: g.leaves[n.attrs[0]])
    try:
        got = g.run(nodes, written)
    except CheckFailed as failed:
        return f"{failed.node}: an index inside its range was refused"
    for i, (node, a, b) in enumerate(zip(nodes, got, want, strict=True)):
        if b.dtype.kind == "f":
            same = np.allclose(a, b, rtol=2e-5, atol=2e-5, equal_nan=True)
        else:
            same = np.array_equal(a, b)
        if not same:
            return f"result {i} ({written.get(i, 'fresh')}): {node}"
    return ""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--minutes", type=float, default=1e9)
    wish = parser.parse_args(arguments)
    end = time.monotonic() + 60 * wish.minutes
    bad = done = 0
    for seed in range(wish.first, wish.last):
        if time.monotonic() > end:
            break
        done += 1
        try:
            found = trial(seed)
        except Exception:
            found = traceback.format_exc(limit=-4)
        if found:
            bad += 1
            print(f"seed {seed}: {found}", flush=True)
    print(f"{done} graphs, {bad} bad")
    return bad


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
