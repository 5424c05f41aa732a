"""Which version this is: of Rushlight, and of the PyTorch API that it offers.

`__version__` begins with the PyTorch release whose API this is, because programs compare it to
decide what they may call; what follows the plus sign is Rushlight's own.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion", "__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

api = "2.13.0"
rushlight = "0.1.0.dev0"

cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
debug = False
git_version = "Unknown"

_PRE_RELEASES = {"dev": 0, "a": 1, "alpha": 1, "b": 2, "beta": 2, "rc": 3, "c": 3}
_FINAL = 4


class TorchVersion(str):
    """A version that is a string and compares as a version, with strings and tuples too.

    >>> TorchVersion("2.13.0+local") >= "2.9", TorchVersion("2.13.0") < (2, 14)
    (True, True)
    """

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:  # Any: a version, a string or a tuple
        mine, theirs = _comparable(self, other)
        return mine < theirs

    def __le__(self, other: Any) -> bool:
        mine, theirs = _comparable(self, other)
        return mine <= theirs

    def __gt__(self, other: Any) -> bool:
        mine, theirs = _comparable(self, other)
        return mine > theirs

    def __ge__(self, other: Any) -> bool:
        mine, theirs = _comparable(self, other)
        return mine >= theirs

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str | tuple):
            mine, theirs = _comparable(self, other)
            return bool(mine == theirs)
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)


def _comparable(version: str, other: Any) -> tuple[Any, Any]:
    """Both as keys of versions; as texts where the other is none ("N/A")."""
    try:
        return _key(version), _key(other)
    except ValueError:
        return str(version), str(other)


def _key(version: Any) -> tuple[Any, ...]:
    """Release numbers, then pre-releases before the release, then local builds after it."""
    text = version if isinstance(version, str) else ".".join(map(str, version))
    public, _, local = text.lower().partition("+")
    release = re.match(r"v?(\d+(?:\.\d+)*)", public)
    if release is None:
        raise ValueError(f"{text!r} is not a version")
    numbers = [int(part) for part in release[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    rest = re.match(r"[._-]?([a-z]+)[._-]?(\d*)", public[release.end() :])
    stage = (_PRE_RELEASES.get(rest[1], _FINAL), int(rest[2] or 0)) if rest else (_FINAL, 0)
    return numbers, stage, local


__version__ = TorchVersion(f"{api}+rushlight.{rushlight}")
