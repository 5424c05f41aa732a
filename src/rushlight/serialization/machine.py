"""The unpickler of `weights_only=True`: a small machine that can build data and nothing else.

A pickle is a program for a stack machine. This one knows the instructions that make containers,
numbers and strings; a global is looked up in the allow list of `names`, and only what came from
there can be called or given a state. Anything else stops with an UnpicklingError.
"""

from __future__ import annotations

import collections
import pickle
import struct
from collections.abc import Callable
from typing import Any

from rushlight.serialization import names

# Any, below: values on the machine's stack are of every type.


class Machine:
    """Runs one pickle. `persistent` turns a persistent id into a storage."""

    def __init__(
        self, program: bytes, persistent: Callable[[Any], Any], start: int = 0
    ) -> None:
        self.program = program
        self.position = start
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.persistent = persistent

    def run(self) -> Any:
        """The object that the pickle builds."""
        try:
            return self._run()
        except (IndexError, KeyError, ValueError, struct.error) as error:
            raise pickle.UnpicklingError(f"the pickle is damaged: {error!r}") from error
        except (TypeError, AttributeError) as error:
            raise pickle.UnpicklingError(
                f"the pickle asks for the impossible: {error}"
            ) from error

    def _run(self) -> Any:
        program = self.program
        while True:
            code = program[self.position]
            self.position += 1
            if code == _STOP:
                return self.stack.pop()
            instruction = INSTRUCTIONS.get(code)
            if instruction is None:
                raise pickle.UnpicklingError(
                    f"the pickle holds instruction {code:#04x}, which is not allowed"
                )
            instruction(self)

    def take(self, count: int) -> bytes:
        """The next bytes of the program."""
        piece = self.program[self.position : self.position + count]
        if count < 0 or len(piece) != count:
            raise pickle.UnpicklingError("the pickle ends too early")
        self.position += count
        return piece

    def number(self, layout: struct.Struct) -> Any:
        return layout.unpack(self.take(layout.size))[0]

    def line(self) -> str:
        end = self.program.index(b"\n", self.position)
        text = self.program[self.position : end].decode()
        self.position = end + 1
        return text

    def pop_mark(self) -> list[Any]:
        """What was pushed since the last mark."""
        items = self.stack
        self.stack = self.marks.pop()
        return items


_STOP = pickle.STOP[0]
_U1, _U2 = struct.Struct("<B"), struct.Struct("<H")
_I4, _U4, _U8 = struct.Struct("<i"), struct.Struct("<I"), struct.Struct("<Q")
_F8 = struct.Struct(">d")

Instruction = Callable[[Machine], None]


def _constant(value: Any) -> Instruction:
    return lambda machine: machine.stack.append(value)


def _fresh(kind: type) -> Instruction:
    return lambda machine: machine.stack.append(kind())


def _number(layout: struct.Struct) -> Instruction:
    return lambda machine: machine.stack.append(machine.number(layout))


def _bytes(length: struct.Struct, convert: Callable[[bytes], Any] = bytes) -> Instruction:
    def push(machine: Machine) -> None:
        machine.stack.append(convert(machine.take(machine.number(length))))

    return push


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _long(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _tuple_of(count: int) -> Instruction:
    def push(machine: Machine) -> None:
        stack = machine.stack
        if len(stack) < count:
            raise IndexError("a tuple of more than there is")
        items = tuple(stack[len(stack) - count :])
        del stack[len(stack) - count :]
        stack.append(items)

    return push


def _marked(kind: Callable[[list[Any]], Any]) -> Instruction:
    def push(machine: Machine) -> None:
        items = machine.pop_mark()
        machine.stack.append(kind(items))

    return push


def _pairs(items: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(items[::2], items[1::2], strict=True))


def _put(length: struct.Struct) -> Instruction:
    def put(machine: Machine) -> None:
        machine.memo[machine.number(length)] = machine.stack[-1]

    return put


def _get(length: struct.Struct) -> Instruction:
    return lambda machine: machine.stack.append(machine.memo[machine.number(length)])


def _mark(machine: Machine) -> None:
    machine.marks.append(machine.stack)
    machine.stack = []


def _pop(machine: Machine) -> None:
    if machine.stack:
        machine.stack.pop()
    else:
        machine.pop_mark()


def _memoize(machine: Machine) -> None:
    machine.memo[len(machine.memo)] = machine.stack[-1]


def _append(machine: Machine) -> None:
    value = machine.stack.pop()
    _list_on_top(machine).append(value)


def _appends(machine: Machine) -> None:
    items = machine.pop_mark()
    _list_on_top(machine).extend(items)


def _list_on_top(machine: Machine) -> Any:
    target = machine.stack[-1]
    if not isinstance(target, list) and not names.is_added(type(target)):
        raise pickle.UnpicklingError(f"cannot append to a {type(target).__name__}")
    return target


def _set_item(machine: Machine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    _fill_dict(machine.stack[-1], [(key, value)])


def _set_items(machine: Machine) -> None:
    items = machine.pop_mark()
    _fill_dict(machine.stack[-1], _pairs(items))


def _fill_dict(target: Any, pairs: list[tuple[Any, Any]]) -> None:
    if not isinstance(target, dict) and not names.is_added(type(target)):
        raise pickle.UnpicklingError(f"cannot set items of a {type(target).__name__}")
    for key, value in pairs:
        target[key] = value


def _add_items(machine: Machine) -> None:
    items = machine.pop_mark()
    if not isinstance(machine.stack[-1], set):
        raise pickle.UnpicklingError("cannot add items to what is no set")
    machine.stack[-1].update(items)


def _global(machine: Machine) -> None:
    module = machine.line()
    machine.stack.append(names.safe_object(module, machine.line()))


def _stack_global(machine: Machine) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise pickle.UnpicklingError("a global must be named by strings")
    machine.stack.append(names.safe_object(module, name))


def _persistent(machine: Machine) -> None:
    machine.stack.append(machine.persistent(machine.stack.pop()))


def _reduce(machine: Machine) -> None:
    arguments, function = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(_checked(function)(*arguments))


def _new_object(machine: Machine) -> None:
    arguments, kind = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(_new(kind, arguments, {}))


def _new_object_keywords(machine: Machine) -> None:
    keywords, arguments = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(_new(machine.stack.pop(), arguments, keywords))


def _new(kind: Any, arguments: Any, keywords: Any) -> Any:
    if not isinstance(_checked(kind), type):
        raise pickle.UnpicklingError(f"{kind} is no class")
    return kind.__new__(kind, *arguments, **keywords)


def _checked(function: Any) -> Any:
    if not names.may_be_called(function):
        raise pickle.UnpicklingError(f"a file may not call {function!r}")
    return function


def _build(machine: Machine) -> None:
    """Give the object on top its state: attributes, or what its `__setstate__` makes of it."""
    state = machine.stack.pop()
    target = machine.stack[-1]
    kind = type(target)
    if kind in (collections.OrderedDict, collections.Counter):
        target.__dict__.update(state)
    elif not names.is_added(kind):
        raise pickle.UnpicklingError(f"a file may not set the state of a {kind.__name__}")
    elif hasattr(target, "__setstate__"):
        target.__setstate__(state)
    else:
        _set_attributes(target, state)


def _set_attributes(target: Any, state: Any) -> None:
    plain, slots = state if isinstance(state, tuple) else (state, None)
    if plain:
        target.__dict__.update(plain)
    for name, value in (slots or {}).items():
        setattr(target, name, value)


def _protocol(machine: Machine) -> None:
    version = machine.number(_U1)
    if version > pickle.HIGHEST_PROTOCOL:
        raise pickle.UnpicklingError(f"pickle protocol {version} is not known")


def _frame(machine: Machine) -> None:
    machine.number(_U8)


INSTRUCTIONS: dict[int, Instruction] = {
    code[0]: instruction
    for code, instruction in {
        pickle.PROTO: _protocol,
        pickle.FRAME: _frame,
        pickle.NONE: _constant(None),
        pickle.NEWTRUE: _constant(True),
        pickle.NEWFALSE: _constant(False),
        pickle.BININT: _number(_I4),
        pickle.BININT1: _number(_U1),
        pickle.BININT2: _number(_U2),
        pickle.BINFLOAT: _number(_F8),
        pickle.LONG1: _bytes(_U1, _long),
        pickle.LONG4: _bytes(_I4, _long),
        pickle.SHORT_BINUNICODE: _bytes(_U1, _text),
        pickle.BINUNICODE: _bytes(_U4, _text),
        pickle.BINUNICODE8: _bytes(_U8, _text),
        pickle.SHORT_BINSTRING: _bytes(_U1, _text),
        pickle.BINSTRING: _bytes(_I4, _text),
        pickle.SHORT_BINBYTES: _bytes(_U1),
        pickle.BINBYTES: _bytes(_U4),
        pickle.BINBYTES8: _bytes(_U8),
        pickle.BYTEARRAY8: _bytes(_U8, bytearray),
        pickle.EMPTY_TUPLE: _constant(()),
        pickle.EMPTY_LIST: _fresh(list),
        pickle.EMPTY_DICT: _fresh(dict),
        pickle.EMPTY_SET: _fresh(set),
        pickle.TUPLE1: _tuple_of(1),
        pickle.TUPLE2: _tuple_of(2),
        pickle.TUPLE3: _tuple_of(3),
        pickle.TUPLE: _marked(tuple),
        pickle.LIST: _marked(list),
        pickle.FROZENSET: _marked(frozenset),
        pickle.DICT: _marked(lambda items: dict(_pairs(items))),
        pickle.MARK: _mark,
        pickle.POP: _pop,
        pickle.POP_MARK: Machine.pop_mark,
        pickle.DUP: lambda machine: machine.stack.append(machine.stack[-1]),
        pickle.BINPUT: _put(_U1),
        pickle.LONG_BINPUT: _put(_U4),
        pickle.BINGET: _get(_U1),
        pickle.LONG_BINGET: _get(_U4),
        pickle.MEMOIZE: _memoize,
        pickle.APPEND: _append,
        pickle.APPENDS: _appends,
        pickle.SETITEM: _set_item,
        pickle.SETITEMS: _set_items,
        pickle.ADDITEMS: _add_items,
        pickle.GLOBAL: _global,
        pickle.STACK_GLOBAL: _stack_global,
        pickle.BINPERSID: _persistent,
        pickle.REDUCE: _reduce,
        pickle.NEWOBJ: _new_object,
        pickle.NEWOBJ_EX: _new_object_keywords,
        pickle.BUILD: _build,
    }.items()
}
