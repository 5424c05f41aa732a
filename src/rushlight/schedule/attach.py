"""Giving groups of plain stores to the contraction whose result they read: its epilogue."""

from __future__ import annotations

from rushlight import views
from rushlight.ir.node import Node
from rushlight.schedule.fuse import Unit
from rushlight.schedule.reading import Reader, refine

_PLAIN = frozenset(("load", "number", "const", "map", "cast"))
_ACCUMULATED = frozenset(("float32", "float64", "float16", "bfloat16"))


def attach_epilogues(units: list[Unit], outputs: set[Node]) -> list[Unit]:
    """Units with each contraction that one group alone reads merged into that group."""
    readers: dict[Node, list[Unit]] = {}
    for unit in units:
        for node in unit.reads:
            readers.setdefault(node, []).append(unit)
    gone: set[Unit] = set()
    for unit in units:
        source = unit.single
        if source is None or source.op != "contract" or source in outputs:
            continue
        if source.dtype.name not in _ACCUMULATED:
            continue
        users = readers.get(source, [])
        if len(users) == 1 and _can_attach(users[0], source):
            group = users[0]
            group.epilogue_of = source
            group.reads = (group.reads - {source}) | unit.reads
            gone.add(unit)
    kept = [u for u in units if u not in gone]
    for number, unit in enumerate(kept):
        unit.number = number
    return kept


def _can_attach(group: Unit, source: Node) -> bool:
    """Whether every root of the group is an elementwise function of the contraction's
    result.
    """
    if group.single is not None or group.inner is not None or group.epilogue_of is not None:
        return False
    if group.numel != source.numel or not source.numel:
        return False
    dims = refine(source.shape, group.dims)
    if dims is None:
        return False
    for root in group.roots:
        assert root.target is not None
        if root.home.op == "update" and root.home.attrs[0]:
            return False
        if (
            views.try_reshape(root.target, dims) is None
            or views.try_reshape(root.view, dims) is None
        ):
            return False
        if not _is_plain(root.reader, source):
            return False
    return True


def _is_plain(reader: Reader, source: Node) -> bool:
    if any(e.kind not in _PLAIN for e in reader.expressions()):
        return False
    return all(
        views.is_whole(view, source.numel) for node, view in reader.loads if node is source
    )
