"""Operators' schemas, `(Tensor x, int k=1) -> Tensor`: from annotations, and to signatures."""

from __future__ import annotations

import ast
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any  # defaults are of any kind

import numpy as np

from rushlight.devices import device
from rushlight.dtypes import dtype
from rushlight.tensor import Tensor

_WORDS = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str",
    complex: "Scalar", dtype: "ScalarType", device: "Device", int | float: "Scalar",
    int | float | bool: "Scalar",
}  # fmt: skip


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Any = (),
) -> str:
    """The schema of a function with annotations; ValueError where one is missing.

    >>> import rushlight as torch
    >>> def f(x: torch.Tensor, k: int = 2) -> torch.Tensor: ...
    >>> torch.library.infer_schema(f, mutates_args=())
    '(Tensor x, SymInt k=2) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    hints = typing.get_type_hints(prototype_function)
    written = None if mutates_args == "unknown" else set(mutates_args)
    texts: list[str] = []
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ValueError(f"infer_schema: {name} stands for any number of arguments")
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in texts:
            texts.append("*")
        if name not in hints:
            raise ValueError(f"infer_schema: Parameter {name} must have a type annotation")
        word = _word(hints[name], name)
        if "Tensor" in word and (written is None or name in written):
            word = word.replace("Tensor", f"Tensor(a{len(texts)}!)", 1)
        default = parameter.default
        given = "" if default is parameter.empty else f"={_literal(default)}"
        texts.append(f"{word} {name}{given}")
    if written is not None and not written <= set(signature.parameters):
        raise ValueError(f"infer_schema: mutates_args {written} names unknown arguments")
    return f"{op_name or ''}({', '.join(texts)}) -> {_results(hints, signature)}"


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _word(hint: Any, name: str) -> str:
    if hint in _WORDS:
        return _WORDS[hint]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType) and type(None) in inner:
        others = [one for one in inner if one is not type(None)]
        return _word(typing.Union[tuple(others)], name) + "?"  # noqa: UP007  # made of a tuple
    if origin in (list, Sequence) and inner:
        return _word(inner[0], name) + "[]"
    raise ValueError(f"infer_schema: Parameter {name} has unsupported type {hint}")


def _results(hints: dict[str, Any], signature: inspect.Signature) -> str:
    if "return" not in hints and signature.return_annotation is not None:
        raise ValueError("infer_schema: the function must have a return type annotation")
    hint = hints.get("return")
    if hint in (None, type(None)):
        return "()"
    if typing.get_origin(hint) is tuple:
        return f"({', '.join(_word(one, 'return') for one in typing.get_args(hint))})"
    return _word(hint, "return")


# -- reading

_ARGUMENT = re.compile(r"(?P<type>[^=]*?)\s*(?P<name>\w+)\s*(=(?P<default>.*))?$", re.S)


def signature_of(schema: str) -> inspect.Signature:
    """The signature that a schema says; a parameter's annotation is its type's text."""
    found = re.match(r"\s*[\w:.]*\((?P<args>.*)\)\s*->", schema, re.S)
    if found is None:
        raise ValueError(f"schema: expected (arguments) -> results, got {schema!r}")
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters: list[inspect.Parameter] = []
    for text in _at_commas(found["args"]):
        if text == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        part = _ARGUMENT.match(text)
        if part is None or not part["type"]:
            raise ValueError(f"schema: expected a type and a name, got {text!r} in {schema!r}")
        default = inspect.Parameter.empty
        if part["default"] is not None:
            default = _value(part["default"].strip())
        parameters.append(
            inspect.Parameter(part["name"], kind, default=default, annotation=part["type"])
        )
    return inspect.Signature(parameters)


def _at_commas(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


# -- values


def is_value(value: Any, type: str) -> bool:
    """Whether an operator takes a value for a schema's type: numbers of a smaller kind too, and
    tensors of one element for numbers.
    """
    plain = re.sub(r"\(.*?\)", "", type)  # what a schema says of memory
    if plain.endswith("?"):
        return value is None or is_value(value, plain[:-1])
    if plain.endswith("]"):
        item = plain.partition("[")[0]
        return isinstance(value, list | tuple) and all(_is_item(one, item) for one in value)
    if plain in _NUMBERS and isinstance(value, Tensor):
        return value.numel() == 1
    return isinstance(value, _TAKEN.get(plain, object))


def _is_item(value: Any, type: str) -> bool:
    if type in ("Tensor", "int", "SymInt"):
        return isinstance(value, Tensor if type == "Tensor" else _INTEGER)
    return is_value(value, type)


_NUMBERS = frozenset(("int", "SymInt", "float", "bool"))
_INTEGER, _ANY_NUMBER = (int, np.integer), (int, float, complex, np.number, np.bool_)
_TAKEN: dict[str, tuple[type, ...]] = {
    "Tensor": (Tensor, types.NoneType),  # None is PyTorch's undefined tensor
    "int": _INTEGER,
    "SymInt": _INTEGER,
    "float": (int, float, np.integer, np.floating),
    "bool": (*_ANY_NUMBER, types.NoneType),
    "Scalar": _ANY_NUMBER,
    "str": (str,),
    "ScalarType": (dtype, int),
    "Device": (device, str),
}
