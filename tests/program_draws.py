"""Statements of random programs, drawn while PyTorch runs them.

A program is a list of Python statements over `torch` and the names v0, v1, ...: what one reads,
shrinks, and runs on either library. `Draw` keeps PyTorch's values of these names, so that each
next statement fits them; one that PyTorch refuses is dropped. Statements come from the tables,
and from PyTorch's samples where these are asked for (`program_samples.py`).
"""

from __future__ import annotations

import ast
import functools
import math
import random
import re
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import program_modules as modules
import program_tables as tables
import torch

MOST_ELEMENTS = 4000
DTYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex128,
    torch.complex64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip
WEIGHTS = (40, 20, 4, 6, 12, 5, 6, 3, 1, 1, 2, 4)
EVEN = (1,) * 6
PLAIN = (
    bool, int, float, complex, str, torch.dtype, torch.memory_format, torch.layout,
)  # fmt: skip


class Refused(Exception):
    """A statement that cannot be drawn here."""


def namespace(library: Any) -> dict[str, Any]:
    """What a program finds when it starts."""
    names = {"torch": library, "inf": math.inf, "nan": math.nan}
    exec(modules.PRELUDE, names)
    del names["__builtins__"]
    return names


@functools.cache
def names_of(statement: str) -> tuple[frozenset[str], frozenset[str]]:
    """The values that a statement reads, and those it makes."""
    uses, makes = set(), set()
    for node in ast.walk(ast.parse(statement)):
        if isinstance(node, ast.Name) and re.fullmatch(r"v\d+", node.id):
            (makes if isinstance(node.ctx, ast.Store) else uses).add(node.id)
    return frozenset(uses), frozenset(makes)


def name_in(expression: str) -> str:
    """The name that an expression of `Draw.tensors` begins with."""
    return re.split(r"[\[.]", expression)[0]


@functools.cache
def code_of(statement: str) -> types.CodeType:
    return compile(statement, "<program>", "exec")


def tensors_in(value: Any, expression: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a value, with the expression of each."""
    if isinstance(value, torch.Tensor):
        yield expression, value
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield from tensors_in(part, f"{expression}[{i}]")
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from tensors_in(part, f"{expression}[{key!r}]")
    else:
        yield from modules.tensors_of(value, expression)


def overlaps(t: torch.Tensor) -> bool:
    """Whether elements share memory otherwise than by plain repetition."""
    reach = 0
    for stride, size in sorted(zip(t.stride(), t.shape)):
        if stride and size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


def literal(value: torch.Tensor, digits: int = 4) -> str:
    """A tensor as the text that makes it."""
    data = value.detach().resolve_conj().resolve_neg()
    numbers = data.tolist()
    if data.dtype.is_floating_point:
        numbers = _mapped(lambda x: float(f"{x:.{digits}g}"), numbers)
    elif data.dtype.is_complex:
        part = lambda x: float(f"{x:.{digits}g}")  # noqa: E731
        numbers = _mapped(lambda x: complex(part(x.real), part(x.imag)), numbers)
    text = f"torch.tensor({numbers}, dtype={data.dtype})"
    if data.numel() == 0:
        text = f"torch.empty({tuple(data.shape)}, dtype={data.dtype})"
    return text


def _mapped(change: Callable[[Any], Any], numbers: Any) -> Any:
    if isinstance(numbers, list):
        return [_mapped(change, n) for n in numbers]
    return change(numbers)


class Draw:
    """One program and PyTorch's values of its names."""

    def __init__(self, seed: int, samples: bool = True) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.names = namespace(torch)
        self.drawn: list[str] = []  # which functions the program calls
        self.samples = samples
        self.models: list[modules.Model] = []
        self.optimizers: dict[str, modules.Model] = {}
        weights = self.rng.choice((WEIGHTS[:6], WEIGHTS[:6], EVEN))
        self.dtype = self.rng.choices(DTYPES[:6], weights)[0]
        self.sizes = [self.rng.choice((1, 2, 3, 4, 5, 7, 15)) for _ in range(3)]
        torch.manual_seed(seed)
        torch.compiler.set_stance("force_eager")  # PyTorch's compiler is not what is tested
        for _ in range(self.rng.randint(1, 3)):
            self.input()
        length = self.rng.choice((4, 8, 8, 12, 16))
        for _ in range(10 * length):
            if len(self.lines) >= length:
                break
            self.step()

    # -- running

    def new(self) -> str:
        return f"v{sum(name[0] == 'v' for name in self.names)}"

    def run(self, statement: str) -> None:
        """Run a statement and keep it, or refuse it and leave everything as it was."""
        before = dict(self.names)
        state = self._versions()
        try:
            execute(statement, self.names)
            self._check(statement, before, state)
        except Exception as error:
            self.names = before
            if self._versions() != state:
                self.names = namespace(torch)
                for line in self.lines:
                    execute(line, self.names)
            raise Refused from error
        self.lines.append(statement)

    def _versions(self) -> dict[str, tuple[int, Any]]:
        return {e: (0 if t.is_inference() else t._version, t.shape) for e, t in self.tensors()}

    def _check(self, statement: str, before: dict[str, Any], state: dict[str, Any]) -> None:
        uses, makes = names_of(statement)
        now, kept = self._versions(), self._kept()
        for e, t in self.tensors():
            is_written = state.get(e, now[e]) != now[e] or ".data." in statement
            written = is_written and name_in(e) in uses | makes
            if written and (overlaps(t) or t.untyped_storage().data_ptr() in kept):
                raise Refused  # what a write through it does is not defined
        if re.search(tables.FORWARD, statement):
            self._check_tangents(uses, makes)
        if re.search(tables.BY_LAYOUT, statement):
            self._check_layout(statement, uses)
        for name, value in self.names.items():
            if name[0] != "v" or before.get(name) is value:
                continue
            for _, t in tensors_in(value):
                if t.numel() > MOST_ELEMENTS or t.layout is not torch.strided:
                    raise Refused
                if t.dtype not in DTYPES or t.device.type != "cpu":
                    raise Refused
                t.untyped_storage().data_ptr()  # raises where there is no memory

    def _kept(self) -> set[int]:
        """The memory of what unsafe_chunk and its like were given, who are promised that nobody
        writes to it.
        """
        made = {n for line in self.lines if "unsafe_" in line for n in names_of(line)[1]}
        return {
            t.untyped_storage().data_ptr() for e, t in self.tensors() if name_in(e) in made
        } - {0}

    def _check_layout(self, statement: str, uses: frozenset[str]) -> None:
        """Results that are no views are contiguous here; in PyTorch they may have their
        operands' order, or (of vmap) be views of what nobody has, on which it depends whether
        what is made of them shares their memory.
        """
        tensors = self.tensors()
        known = {id(t) for _, t in tensors}
        for e, t in tensors:
            base = t._base if t._is_view() else t
            if name_in(e) in uses and base is not None and not base.is_contiguous():
                raise Refused
            if name_in(e) in uses and not t.is_contiguous() and id(base) not in known:
                raise Refused
            reaches = re.search("as_strided|nbytes", statement) is not None
            if name_in(e) in uses and reaches and self._is_spacious(t):
                raise Refused

    def _is_spacious(self, t: torch.Tensor) -> bool:
        """Whether PyTorch left more memory than elements: that of what a loss adds up, the last
        point of a periodic window.
        """
        memory = t.untyped_storage()
        return memory.nbytes() > max(
            other.numel() * other.itemsize
            for _, other in self.tensors()
            if other.untyped_storage().data_ptr() == memory.data_ptr()
        )

    def _check_tangents(self, uses: frozenset[str], makes: frozenset[str]) -> None:
        """PyTorch's tangents of numbers that are multiplied are float64, whatever their dtype
        is; and what is derived forwards may be a view of an argument, where it is a copy here.
        """
        memories = [
            {t.untyped_storage().data_ptr() for e, t in self.tensors() if name_in(e) in names}
            for names in (uses - makes, makes)
        ]
        if memories[0] & memories[1] - {0}:
            raise Refused
        wide = (torch.float64, torch.complex128)
        read = {t.dtype for e, t in self.tensors() if name_in(e) in uses}
        made = {t.dtype for e, t in self.tensors() if name_in(e) in makes}
        if made & {*wide} and not read & {*wide}:
            raise Refused

    def tensors(self) -> list[tuple[str, torch.Tensor]]:
        """Every tensor of the program, with its expression."""
        return [
            found
            for name, value in self.names.items()
            if re.fullmatch(r"v\d+", name)
            for found in tensors_in(value, name)
        ]

    # -- drawing

    def pick(self, fits: Callable[[torch.Tensor], bool] = lambda t: True) -> tuple[str, Any]:
        """A tensor of the program that fits, later ones more often."""
        try:
            found = [(e, t) for e, t in self.tensors() if fits(t)]
        except RuntimeError:  # a view that an in-place write made unusable
            raise Refused from None
        if not found:
            raise Refused
        return found[int(len(found) * self.rng.random() ** 0.5)]

    def input(self, dtype: torch.dtype | None = None, shape: Any = None) -> str:
        rng, name = self.rng, self.new()
        if dtype is None:
            dtype = self.dtype if rng.random() < 0.7 else rng.choices(DTYPES, WEIGHTS)[0]
        if shape is None:
            shape = tuple(rng.choice(self.sizes) for _ in range(rng.choice((0, 1, 2, 2, 3, 3))))
        data = torch.tensor(
            [rng.gauss(0, 1) for _ in range(math.prod(shape))], dtype=torch.float64
        ).reshape(shape)
        if dtype is torch.bool:
            data = data > 0
        elif dtype.is_complex:
            data = torch.complex(data, data.flip(list(range(data.ndim))).cos())
        elif not dtype.is_floating_point:
            data = (data * 3).round().abs().clamp(max=9)
        text = f"{name} = {literal(data.to(dtype), 3)}"
        if (dtype.is_floating_point or dtype.is_complex) and rng.random() < 0.6:
            text += ".requires_grad_()"
        self.run(text)
        return name

    def step(self) -> None:
        kinds, weights = zip(*KINDS.items())
        kind = self.rng.choices(kinds, weights)[0]
        try:
            kind(self)
        except Refused:
            pass

    def fitted(self, shape: Any, dtype: torch.dtype, repeats: bool = True) -> str:
        """An expression of this shape made of views of the program's values, which may have
        elements several times.
        """
        count, rng = math.prod(shape), self.rng
        expression, t = self.pick(lambda t: t.dtype is dtype)
        if tuple(t.shape) == tuple(shape):
            return expression
        if not dtype.is_floating_point and not dtype.is_complex and dtype is not torch.bool:
            raise Refused
        stretches = t.ndim == len(shape) and all(n in (1, m) for n, m in zip(t.shape, shape))
        if repeats and stretches:
            return f"{expression}.expand({tuple(shape)})"
        if tuple(t.shape) == tuple(reversed(shape)):
            return f"{expression}.permute({tuple(reversed(range(t.ndim)))})"
        if t.ndim == len(shape) and all(n >= m for n, m in zip(t.shape, shape)):
            index = []
            for n, m in zip(t.shape, shape):
                step = 2 if m and n >= 2 * m and rng.random() < 0.5 else 1
                start = rng.randint(0, n - (m - 1) * step - 1) if m else 0
                index.append(f"{start}:{start + m * step}:{step}")
            return f"{expression}[{', '.join(index)}]" if index else expression
        if t.numel() >= count:
            start = rng.randint(0, t.numel() - count)
            return f"{expression}.reshape(-1)[{start}:{start + count}].reshape({tuple(shape)})"
        if repeats and t.numel() and count <= 64:
            times = -(-count // t.numel())
            repeated = f"{expression}.reshape(-1).repeat({times})"
            return f"{repeated}[:{count}].reshape({tuple(shape)})"
        raise Refused

    def tempered(self, expression: str, dtype: torch.dtype) -> str:
        """Now and then through a function that bounds it."""
        if dtype.is_floating_point and self.rng.random() < 0.4:
            return self.rng.choice(tables.BOUNDED).format(x=expression)
        return expression


def execute(statement: str, names: dict[str, Any]) -> None:
    """Run a statement."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(code_of(statement), names)


# -- kinds of steps


def from_table(draw: Draw, table: list[str]) -> None:
    template = draw.rng.choice(table)
    draw.run(filled(draw, template))
    draw.drawn.append(template)


def filled(draw: Draw, template: str) -> str:
    """A template with operands: {x} any floating tensor, {y} one that broadcasts with it."""
    rng = draw.rng
    wants = re.findall(r"{(\w+)}", template)
    given: dict[str, Any] = {"new": draw.new()}
    least = max([int(w[-1]) for w in wants if re.fullmatch(r"x\d", w)], default=0)
    if any(re.fullmatch(r"x\d?", w) for w in wants):
        given["x"], x = draw.pick(
            lambda t: t.ndim >= least and (t.is_floating_point() or t.is_complex())
        )
        for d in range(1, 4):
            given[f"x{d}"] = given["x"]
    elif "any" in wants:
        given["any"], x = draw.pick()
    elif "real" in wants:
        given["real"], x = draw.pick(lambda t: t.is_floating_point())
    elif "leaf" in wants:
        given["leaf"], x = draw.pick(lambda t: t.is_leaf and t.requires_grad)
    elif "grown" in wants:
        given["grown"], x = draw.pick(lambda t: t.grad_fn is not None)
    else:
        x = torch.zeros(draw.sizes, dtype=draw.dtype)
    if "y" in wants:
        given["y"], _ = draw.pick(
            lambda t: (
                t.ndim <= x.ndim
                and all(n in (1, m) for n, m in zip(reversed(t.shape), reversed(x.shape)))
                and t.dtype.is_complex <= x.dtype.is_complex
            )
        )
    if "same" in wants:
        given["same"] = draw.fitted(x.shape, x.dtype)
    if "leaf2" in wants:
        given["leaf2"], _ = draw.pick(lambda t: t.requires_grad)
    if x.ndim:
        given["d"] = rng.randrange(-x.ndim, x.ndim)
        given["e"] = rng.randrange(x.ndim)
        given["n"] = x.shape[given["d"]]
    given["i"] = rng.randint(0, 3)
    given["c"] = rng.choice((0.5, -1.5, 2, 3.0, 0.1))
    given["index"] = index_of(draw, x)
    given["shape"] = tuple(x.shape)
    given["body"] = body(draw, "a")
    given["order"] = tuple(rng.sample(range(x.ndim), x.ndim))
    try:
        return template.format(**given)
    except KeyError as error:
        raise Refused from error


def index_of(draw: Draw, x: torch.Tensor) -> str:
    """An index into x."""
    rng, parts = draw.rng, []
    for n in x.shape[: rng.randint(0, x.ndim)]:
        kind = rng.random()
        if kind < 0.2 and n:
            parts.append(str(rng.randrange(-n, n)))
        elif kind < 0.65:
            start = rng.choice(("", str(rng.randint(0, n))))
            stop = rng.choice(("", "", str(rng.randint(-n, n))))
            parts.append(f"{start}:{stop}" + rng.choice(("", "", ":2")))
        elif kind < 0.75 and n:
            chosen = [rng.randrange(n) for _ in range(rng.randint(1, 4))]
            parts.append(f"torch.tensor({chosen})")
        elif kind < 0.8:
            parts.append("None")
        else:
            parts.append(":")
    if rng.random() < 0.2:
        parts.insert(rng.randint(0, len(parts)), "...")
    return ", ".join(parts) or "..."


def body(draw: Draw, name: str) -> str:
    """A pure expression of one value, for functions that take functions."""
    expression = name
    for _ in range(draw.rng.randint(1, 4)):
        expression = draw.rng.choice(tables.BODIES).format(x=expression, a=name)
    return expression


def module(draw: Draw) -> None:
    """A module for some input, and its first call."""
    expression, x = draw.pick(
        lambda t: 2 <= t.ndim <= 4 and t.is_floating_point() and 0 < t.numel() <= 300
    )
    made, name = modules.layer(draw.rng, x), draw.new()
    draw.run(f"{name} = {made}")
    text = modules.call(made, name, expression)
    try:
        draw.run(f"{draw.new()} = {text}")
    except Refused:
        draw.lines.pop()
        del draw.names[name]
        raise
    draw.models.append(modules.Model(name, expression, text))
    draw.drawn.append(made)


def use(draw: Draw, table: list[str]) -> None:
    """A statement about a module of the program."""
    if not draw.models:
        raise Refused
    used(draw, draw.rng.choice(draw.models), draw.rng.choice(table))


def used(draw: Draw, model: modules.Model, template: str, optimizer: str = "") -> None:
    draw.run(
        template.format(
            m=model.name, x=model.source, call=model.call, new=draw.new(), o=optimizer,
            i=draw.rng.randint(1, 3),
        )
    )  # fmt: skip
    draw.drawn.append(template)


def optimizer(draw: Draw) -> None:
    if not draw.models:
        raise Refused
    model, name = draw.rng.choice(draw.models), draw.new()
    used(draw, model, "{new} = " + draw.rng.choice(modules.OPTIMIZERS))
    draw.optimizers[name] = model


def training(draw: Draw) -> None:
    """A statement about an optimizer of the program."""
    if not draw.optimizers:
        raise Refused
    name = draw.rng.choice(list(draw.optimizers))
    used(draw, draw.optimizers[name], draw.rng.choice(modules.TRAINING), name)


def transformed(draw: Draw) -> None:
    """A function made from functions, of a tensor or numbers."""
    rng = draw.rng
    expression, x = draw.pick(lambda t: t.is_floating_point() and 0 < t.numel() <= 60)
    text = body(draw, "a")
    if rng.random() < 0.4:
        text += filled(draw, rng.choice(tables.CAPTURED))
    text = f"(lambda a: {text})"
    for _ in range(rng.randint(1, 3)):
        text = rng.choice(tables.COMPOSED).format(f=text)
    draw.run(f"{draw.new()} = {text}({expression})")
    draw.drawn.append(text)


KINDS: dict[Callable[[Draw], None], int] = {
    (lambda draw: from_table(draw, tables.POINTWISE)): 12,
    (lambda draw: from_table(draw, tables.REDUCING)): 8,
    (lambda draw: from_table(draw, tables.VIEWS)): 16,
    (lambda draw: from_table(draw, tables.WRITES)): 16,
    (lambda draw: from_table(draw, tables.LAYERS)): 8,
    (lambda draw: from_table(draw, tables.GRADIENTS)): 14,
    (lambda draw: from_table(draw, tables.CONTROL)): 6,
    (lambda draw: from_table(draw, tables.TRANSFORMS)): 7,
    (lambda draw: from_table(draw, tables.OTHERS)): 5,
    (lambda draw: from_table(draw, tables.COMPILED)): 4,
    (lambda draw: transformed(draw)): 8,
    (lambda draw: module(draw)): 5,
    (lambda draw: use(draw, modules.USES)): 30,
    (lambda draw: optimizer(draw)): 15,
    (lambda draw: training(draw)): 40,
    (lambda draw: draw.input() and None): 3,
}
