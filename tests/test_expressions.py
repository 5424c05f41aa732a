"""Expressions, a line each in `expressions/`, give what they give in PyTorch: values of the
same dtype and shape, or an exception of the same class. `T` is the library.

A line that starts with `#` is a comment.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")

FILES = sorted((Path(__file__).parent / "expressions").glob("*.txt"))
NAMES = {"np": np, "nan": math.nan, "inf": math.inf, "slice": slice}


def expressions(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def plain(result):
    """A result in a form that both libraries share."""
    if isinstance(result, tuple | list):
        return [plain(r) for r in result]
    if not hasattr(result, "detach"):
        return str(result)
    values = np.array(result.detach().tolist()).reshape(tuple(result.shape))
    return str(result.dtype), values


def outcome(library, expression):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return plain(eval(expression, {"T": library, **NAMES}))
    except Exception as error:
        return error


def same(ours, theirs):
    if isinstance(theirs, list):
        is_as_long = isinstance(ours, list) and len(ours) == len(theirs)
        return is_as_long and all(map(same, ours, theirs))
    if not isinstance(theirs, tuple):
        return ours == theirs
    if not isinstance(ours, tuple) or ours[0] != theirs[0]:
        return False
    a, b = ours[1], theirs[1]
    if a.shape != b.shape:
        return False
    if b.dtype.kind not in "fc":
        return np.array_equal(a, b)
    tolerance = 1e-5 if "64" not in theirs[0] else 1e-9
    return np.allclose(a, b, tolerance, 1e-6, equal_nan=True)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_expressions_give_what_they_give_in_pytorch(path):
    wrong = []
    for expression in expressions(path):
        ours, theirs = (outcome(lib, expression) for lib in (rushlight, torch))
        if isinstance(theirs, Exception):
            kind = next(c for c in type(theirs).__mro__ if c.__module__ == "builtins")
            is_right = isinstance(ours, kind) and type(ours).__module__ != "numpy"
        else:
            is_right = not isinstance(ours, Exception) and same(ours, theirs)
        if not is_right:
            wrong.append(f"{expression}\n    gives {ours!r}\n    where PyTorch has {theirs!r}")
    assert not wrong, "\n".join([f"{len(wrong)} differ:", *wrong])
