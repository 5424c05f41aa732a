"""A trace: one thread's recording since its last flush, and what joins it."""

from __future__ import annotations

import contextlib
import copy
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any  # the Tensor class comes later

import numpy as np

from rushlight import config, errors, forks
from rushlight.dtypes import Category, of_number, uint64
from rushlight.ops.registry import NUMBER_TYPES, TensorType
from rushlight.trace import interrupts, misses, varying
from rushlight.trace.tape import AccumulateGrad, Input, Node, impure_epochs
from rushlight.trace.trie import Edge
from rushlight.trace.value import Storage, Value
from rushlight.views import AnyView, numel

_epochs = itertools.count(1)
SMALL_SHARED = 16 << 20  # bytes of shared memory that are copied rather than read at once
# Note: threads. A trace is a thread's own, but a value pending in it may be wanted by another,
# which then flushes it. So whoever records or flushes holds this lock: recording takes a
# microsecond, and a program uses all threads anyway. No code of the user's runs under it.
recording = threading.RLock()
forks.hold("recording", recording)
MAX_PENDING = 50_000  # positions: a longer trace is flushed by itself
PROBES = 3  # positions that anomaly detection adds for each at most, and the one itself
ROOM = 2000  # frames more where the user's code has left too few: planning takes some 50
MAX_EDGES = 400_000  # edges kept in a thread's trie before it starts afresh


class Hooks:
    """What later rooms install: the handle class, and the executor of a flush."""

    tensor_class: type[Any]
    execute: Callable[[Trace, Edge, list[Any]], None]
    current_node: Callable[[Any], Node | None]
    copy_value: Callable[[Value], Value]
    copy_buffer: Callable[[Any], Any]
    reading: Callable[[], None] | None = None  # told when somebody looks at a tensor's memory
    number_in_memory: Callable[[Any, TensorType], Value]
    inspect: Callable[[Trace], Callable[[], None]]
    make_window: Callable[[Value, AnyView], tuple[Value, AnyView | None]]
    pack_node: Callable[[Trace, Node], None]
    beside: Callable[[Any, Any], Any]
    with_elements: Callable[[list[Value]], list[Value]]
    types_of_mixed: Callable[..., tuple[TensorType, ...]]
    with_tangents: Callable[[Any, Any], Any]
    alias: Callable[[Any], Any]  # a handle on the same elements, without derivatives
    spread: Callable[[Value, TensorType], Value]
    mark_made: Callable[[Trace], None]
    note_contents: Callable[[Value, Value], None]
    check_saved: Callable[[Any, Sequence[Any]], None]

    @staticmethod
    def source_of_tangents(x: Any) -> Any:
        """What to keep of a packed tensor because of its tangents, which no hook sees: x itself
        while there is forward mode, and nothing otherwise.
        """
        return None


hooks = Hooks()


class Trace:
    """One thread's recording: the current edge, and what joined or was made since the flush."""

    def __init__(self) -> None:
        self.root = Edge(None, "root", 0)
        self.roots = {config.default_dtype(): self.root}
        self.edges = 0
        self.packing: tuple[Any, ...] = ()  # hooks for saved tensors, the innermost last
        self.may_window = True  # off while an in-place form reads what it is about to write
        self.watchers: list[Callable[[list[Value]], None]] = []  # told what a flush will make
        self.inference_since = (-1, 0, 0)  # epoch, values and position when its mode changed
        self.is_given = False  # to the executor, which says so, by a flush
        self.is_parked = False
        self.has_room = False  # the stack was made deeper for this flush
        self.no_windows: list[Value] = []  # views of these are read as views
        self.ranges: list[str] = []  # open ranges of a profile, the innermost last
        self.restart()

    def restart(self) -> None:
        self.is_given = False
        if self.edges > MAX_EDGES:
            self.root, self.edges = Edge(None, "root", 0), 0
            self.roots = {config.default_dtype(): self.root}
        self.epoch = next(_epochs)
        self.edge = self.root
        self.leaves: list[Any] = []  # buffers, in order of joining
        self.numbers: list[Any] = []  # Python numbers, in order of joining
        self.live: list[weakref.ref[Value]] = []
        self.nodes: list[Node | None] = []  # None once freed
        self.accumulators: list[AccumulateGrad] = []
        self.mutated: list[tuple[weakref.ref[Storage], weakref.ref[Value], int]] = []
        self.replaced: list[tuple[weakref.ref[Storage], TensorType, int]] = []  # pending values
        self.is_pure = True
        self.windows: dict[Any, tuple[Value, AnyView | None]] = {}
        self.must_flush = False  # the step being recorded reads memory that may change
        self.window_bases: list[Any] = []  # buffers that windows of this trace read
        for name in self.ranges:
            self._mark("range opens", name)

    # -- joining

    def step(self, key: Any, *, attrs: tuple[Any, ...] = ()) -> None:
        """Follow or make the edge of a mark."""
        self.edge = self.edge.children.get(key) or self._new_step(key, "mark", (), attrs)

    def _new_step(
        self, key: Any, kind: str, outs: tuple[TensorType, ...], attrs: tuple[Any, ...] = ()
    ) -> Edge:
        """The edge of a step that is not an op. It is whole when it is put on the path, so
        that an exception in what follows (an interrupt, a stack that overflows) leaves no part
        of one.
        """
        parent = self.edge
        edge = Edge(parent, kind, parent.next + len(outs))
        edge.first, edge.outs, edge.attrs = parent.next, outs, attrs
        edge.sizes = parent.sizes
        parent.children[key] = edge
        self.edges += 1
        if len(parent.children) > 1:
            misses.note_step(parent, edge, key)
        if kind == "leaf" and len(parent.children) >= varying.OFTEN:
            varying.note(outs, [e.outs for e in misses.siblings(parent, edge)])
        return edge

    def open_range(self, name: str) -> None:
        """What is recorded from here on belongs to a range: edges of its path say so."""
        self.ranges.append(name)
        self._mark("range opens", name)

    def close_range(self, name: str) -> None:
        """The end of the innermost range of that name."""
        self.ranges.reverse()
        self.ranges.remove(name)
        self.ranges.reverse()
        self._mark("range closes", name)

    def _mark(self, what: str, name: str) -> None:
        self.step((what, name), attrs=(what, name))

    def join(self, value: Value, kind: str = "") -> None:  # hot
        """A realised value met for the first time takes the next position."""
        if value.buffer is None:
            settle(value)
        key: Any = value.type
        # a realised Python number (saved for backward, say) is a leaf too: not the step of a
        # number
        if kind or key.weak or value.inference:
            key = (key, "inference" if value.inference else "leaf" if key.weak else kind)
        edge = self.edge.children.get(key)
        if edge is None:
            edge = self._new_step(key, "leaf", (value.type,))
        self.edge = edge  # from here on nothing calls into Python
        value.epoch = self.epoch
        value.position = edge.first
        value.trace = self
        self.leaves.append(value.buffer)

    def meet(self, value: Value) -> Value:
        """The value to record for an operand of another epoch.

        Note: shared memory. What NumPy also holds may change at any time, so an op reads it as
        it is when the op is recorded: a copy of it if it is small, and otherwise the memory
        itself, with a flush right after the op.
        """
        buffer = value.buffer
        if buffer is None or not buffer.is_shared or value.type.is_meta:
            if varying.is_known() and self.ends_before_leaf(value.type):
                return value
            self.join(value)
            return value
        if buffer.nbytes <= SMALL_SHARED:
            value = hooks.copy_value(value)
            self.join(value)
            return value
        self.join(value, "shared")
        value.epoch = -1  # the next op reads it anew
        self.must_flush = True
        return value

    def ends_before(self, types: Iterable[TensorType], key: Any = None) -> bool:
        """End the program here if sizes that vary touch a step of these types and not what was
        recorded before it, or the reverse. True if that was done: positions are to be looked up
        anew.
        """
        if not self.live or not self.records_values_only:
            return False
        edge = self.edge
        if bool(varying.touching(types, edge.sizes)) is bool(edge.sizes):
            return False
        if key is not None:
            edge.ends = (edge.ends or set()) | {key}
        self.flush()
        return True

    def ends_before_leaf(self, type: TensorType) -> bool:
        """The same for what a value of this type would begin; a steady one ends nothing."""
        is_new = not self.edge.sizes and bool(varying.sizes_of(type))
        return is_new and self.ends_before((type,))

    def ends_again(self, key: Any) -> bool:
        """The same for a step before which a program has ended here."""
        ends = self.edge.ends
        if ends is None or key not in ends or not self.live or not self.records_values_only:
            return False
        self.flush()
        return True

    def end_if_varying(self) -> None:
        """End the program here if this is a new path, on which sizes vary."""
        edge = self.edge
        if not self.live:
            return
        if edge.ends is None or _STEADY not in edge.ends:
            if not varying.is_known() or edge.children or not _varies(edge):
                return
            edge.ends = (edge.ends or set()) | {_STEADY}
        self.flush()

    @property
    def records_values_only(self) -> bool:
        """Whether nothing here has to do with derivatives."""
        scopes = config.scopes
        is_plain = not scopes.levels and not scopes.anomaly
        return not scopes.grad_enabled and not self.nodes and is_plain

    def window(self, value: Value, view: AnyView) -> tuple[Value, AnyView | None]:
        """What a view reads of a realised value, as a value of its own that starts there.

        Note: windows. The offset of a slice of data (a batch of a data set) must not be part of
        a step's key, or every batch would be a new program. A window shares memory with its
        base: a program that writes the base does so after everything has been read, and windows
        that outlive it are copied first. A view of everything (a reshape, or everything
        repeated) always starts at the same place, so it needs no window.
        """
        if self.no_windows and any(value is v for v in self.no_windows):
            return value, view
        if is_everything(view, value.type):
            return value, view
        # by its buffer, which window_bases keeps alive: the id of a value could come again
        key = (id(value.buffer), value.type.dtype, view)
        known = self.windows.get(key)
        if known is not None:
            return known
        if value.type.is_meta or value.type.levels:
            return value, view
        found = self.windows[key] = hooks.make_window(value, view)
        self.window_bases.append(value.buffer)
        return found

    def join_number(self, number: Any) -> Value:
        """A Python number as a pending weak 0-d value."""
        position = self.number_position(number)
        return self.new_value(self.edge.outs[0], position)

    def number_position(self, number: Any) -> int:  # hot
        """A Python number takes the next position."""
        kind = _NUMBER_TYPE_OF.get(number.__class__) or number_type(number)
        if kind is _INTEGER and not -(1 << 63) <= number < 1 << 63:
            kind, number = _UNSIGNED, _wrapped(number)
        elif kind is _COMPLEX:
            value = hooks.number_in_memory(number, kind)
            self.join(value)
            return value.position
        edge = self.edge.children.get(kind)
        if edge is None:
            edge = self._new_step(kind, "number", (kind,))
        self.edge = edge
        self.numbers.append(number)
        return edge.first

    def free_node(self, node: Node) -> bool:
        """Free a node, and let it go if nobody else has it. Whether it is of this trace."""
        is_own = node.epoch == self.epoch
        node.free()
        if is_own:
            self.nodes[node.index] = None
        return is_own

    def join_node(self, node: Node) -> None:
        """A gradient node from before this epoch (or a leaf's) gets an index in this trace."""
        if node.freed and node.is_dead_end:
            node.cut()
            self.step(("node", "cut"))
            return self.add_node(node)
        is_leaf = isinstance(node, AccumulateGrad) and not isinstance(node, Input)
        self.step(("node", is_leaf))
        self.add_node(node)
        if is_leaf:
            self.accumulators.append(node)  # type: ignore[arg-type]
            if node.has_hooks:
                self.is_pure = False
        else:
            self.is_pure = False

    def bears(self, node: Node, value: Value) -> bool:
        """Compute a leaf (a parameter) that was made in this very trace before its first use.

        Otherwise the first step would hold the making of all parameters, and be a program that
        no later step needs. True if that was done: positions are to be looked up anew.
        """
        if value.buffer is not None or self.nodes or not isinstance(node, AccumulateGrad):
            return False
        if value.type.levels:  # not a parameter, but a sample of `vmap`
            return False
        self.flush()
        return True

    def add_node(self, node: Node) -> None:
        node.epoch = self.epoch
        node.index = len(self.nodes)
        self.nodes.append(node)

    def new_value(self, type: TensorType, position: int) -> Value:
        value = Value(type)
        value.epoch = self.epoch
        value.position = position
        value.trace = self
        self.live.append(weakref.ref(value))
        return value

    @property
    def is_memoisable(self) -> bool:
        scopes = config.scopes
        is_plain = not scopes.anomaly and not scopes.levels
        return self.is_pure and self.epoch not in impure_epochs and is_plain

    # -- flush

    def begin_again(self) -> None:
        """Record from the root for the default dtype that is in force now."""
        self.root = self.roots.setdefault(config.default_dtype(), Edge(None, "root", 0))
        self.restart()

    def flush(self) -> None:
        """Compute every pending value that is still alive; start a new epoch."""
        with recording:
            if self.edge is self.root:
                return
            handler = interrupts.hold()
            try:
                self._flush()
            except interrupts.Stopped:
                pass  # now the interrupt is raised
            finally:
                if self.has_room:
                    self._return_room()
                interrupts.release(handler)

    def _flush(self) -> None:  # hot
        _reach()  # nothing is given up on a stack that ends before the executor's first steps
        scopes = config.scopes
        finish = self._inspected() if scopes.anomaly else None
        edge = self.edge
        alive: list[Value] = []
        try:
            self.nodes = []
            self.accumulators = []
            self.windows = {}
            impure_epochs.discard(self.epoch)
            if scopes.inference:
                hooks.mark_made(self)
            alive = [v for r in self.live if (v := r()) is not None]
            self.live = []  # dropped while in the cache: the program will displace them
            if config.process.has_places:
                alive = hooks.with_elements(alive)
            for watch in self.watchers:
                watch(alive)
            if not self.is_repeatable or finish is not None:
                interrupts.finish()
            if alive or self.mutated:
                hooks.execute(self, edge, alive)
        except interrupts.Stopped:
            try:
                self.park(alive)
            except MemoryError:  # so it has to be computed now, from the beginning
                interrupts.finish()
                hooks.execute(self, edge, alive)
            raise
        except BaseException:
            if not self.is_given:  # the handler of a signal raised it
                self.park(alive or [v for r in self.live if (v := r()) is not None])
            raise
        finally:
            self.restart()
        if finish is not None:
            finish()

    def _return_room(self) -> None:
        self.has_room = False
        sys.setrecursionlimit(sys.getrecursionlimit() - ROOM)

    @property
    def is_repeatable(self) -> bool:
        """Whether a program that was left half-way may be run again from its beginning."""
        return not (self.mutated or self.watchers or self.must_flush)

    @property
    def may_park(self) -> bool:
        """Whether what is pending may wait once a flush failed before it wrote anything: once
        only, where storages that were written to wait.
        """
        return not (self.watchers or (self.mutated and self.is_parked))

    def park(self, values: list[Value]) -> None:
        """Leave what is pending to a trace that nobody records in: it is flushed when one of
        its values is wanted, like the trace of another thread. It keeps copies of its leaves,
        which may be written to before that, but for those that it is to write itself.
        """
        parked = copy.copy(self)
        parked.is_parked, parked.has_room = True, False
        parked.ranges = []
        own = {id(s.buffer) for r, *_ in self.mutated if (s := r()) is not None}
        parked.leaves = [
            leaf if id(leaf) in own else hooks.copy_buffer(leaf) for leaf in self.leaves
        ]
        parked.window_bases = []
        parked.live = [weakref.ref(value) for value in values]
        for value in values:
            value.trace = parked

    def _inspected(self) -> Callable[[], None] | None:
        """Under anomaly detection, what looks for NaNs once everything is computed."""
        if self.edge.next * PROBES > MAX_PENDING:
            return None
        self.must_flush = False  # this is the flush
        return hooks.inspect(self)


def _reach() -> None:  # hot
    """Raise RecursionError here if the stack has not four frames left."""
    _reach_further()


def _reach_further() -> None:
    _reach_last()


def _reach_last() -> None:
    len(())  # a call of C counts too


def before_sharing(buffer: Any) -> None:
    """Compute what is pending and reads this memory: somebody else may write there from now
    on.
    """
    with recording:
        windows = [v for r in buffer.windows or () if (v := r()) is not None]
        shared = {id(b) for b in (buffer, *(v.buffer for v in windows))}
        for trace in list(every_trace):
            if any(id(leaf) in shared for leaf in trace.leaves):
                trace.flush()


@contextlib.contextmanager
def _changing_default_dtype() -> Iterator[None]:
    """Every thread ends what it records before the default dtype changes, and begins again."""
    with recording:
        for trace in list(every_trace):
            trace.flush()
        yield
        for trace in list(every_trace):
            trace.begin_again()


config.changing_default_dtype = _changing_default_dtype


def settle(value: Value) -> None:
    """Make real a value that is pending in some trace, or raise what went wrong there."""
    with recording:
        if value.buffer is None and value.error is None and value.trace is not None:
            value.trace.flush()
        if value.error is not None:
            raise value.error
        if value.buffer is None:
            raise RuntimeError("rushlight: a flush did not make a value that is wanted")


_NUMBER_TYPE_OF = {
    bool: NUMBER_TYPES[Category.BOOL],
    int: NUMBER_TYPES[Category.INTEGRAL],
    float: NUMBER_TYPES[Category.FLOATING],
    complex: NUMBER_TYPES[Category.COMPLEX],
}


_INTEGER = NUMBER_TYPES[Category.INTEGRAL]
_UNSIGNED = TensorType((), uint64, True)  # of integers that int64 does not hold
_COMPLEX = NUMBER_TYPES[Category.COMPLEX]


def _wrapped(number: int) -> int:
    """An unsigned 64-bit number as the signed one with its bits; OverflowError beyond."""
    if number >> 64:
        raise OverflowError(f"the Python integer {number} does not fit in 64 bits")
    return number - (1 << 64)


def number_type(number: Any) -> TensorType:
    """The type of a number of another class than Python's own; TypeError for what is none."""
    if not isinstance(number, int | float | complex | np.number | np.bool_):
        raise errors.NotAnOperandError(number)
    return NUMBER_TYPES[of_number(number)]  # type: ignore[arg-type]


def is_everything(view: AnyView, type: TensorType) -> bool:
    """Whether a view reads all elements of a value, each once or each again and again."""
    once = [n for n, stride in zip(view.shape, view.strides, strict=True) if stride]
    return type.numel in (numel(view.shape), numel(once))


_STEADY = "what follows is steady"


def _varies(edge: Edge) -> bool:
    """Whether what the path to this edge begins with has a size that varies."""
    sources = [e for e in edge.path() if e.kind in ("leaf", "op") and e.is_source]
    return any(varying.sizes_of(type) for e in sources for type in e.outs)


class _Local(threading.local):
    def __init__(self) -> None:
        self.trace = Trace()
        every_trace.add(self.trace)


every_trace: weakref.WeakSet[Trace] = weakref.WeakSet()
local = _Local()
# To count them through the WeakSet takes ten times as long.
_references = every_trace.data  # type: ignore[attr-defined]


def are_several() -> bool:  # hot
    """Whether another thread may have a trace, too."""
    return len(_references) > 1


def write_storage(trace: Trace, storage: Storage, value: Value) -> None:
    """Give a storage its next Value; memory it already has is written at the flush."""
    old = storage.value
    if config.process.has_inference and config.scopes.inference:
        hooks.note_contents(old, value)
    if value.type is not old.type and value.type.levels != old.type.levels:
        value = _for_samples(value, old.type)
    if old.buffer is not None and storage.buffer is None and not old.claimed:
        storage.buffer = old.buffer
        old.claimed = True
    if storage.buffer is not None and old.buffer is None and old.epoch != trace.epoch:
        settle(old)  # another trace is to write there
    if old.buffer is not None and storage.buffer is old.buffer:
        if old.epoch != trace.epoch:  # overwritten without having been read
            trace.join(old)
        trace.mutated.append((weakref.ref(storage), weakref.ref(old), old.position))
    elif old.epoch == trace.epoch:
        trace.replaced.append((weakref.ref(storage), old.type, old.position))
    storage.value = value
    storage.version += 1


def _for_samples(value: Value, type: TensorType) -> Value:
    """A Value that is written into a storage of `type`, for every sample that this has."""
    more = set(value.type.levels) - set(type.levels)
    if more:
        raise errors.unbatched_write(type.shape, [size for _, size in sorted(more)])
    return hooks.spread(value, type)


def before_steady_steps() -> None:
    """Say that what is recorded next does not have the sizes of what was recorded so far."""
    with recording:
        local.trace.end_if_varying()


def flush() -> None:
    """Compute everything that this thread has recorded and somebody can still see."""
    local.trace.flush()
