"""Results that may live where their base lived: updates and scatters without a copy of the
base.

Note: versions of one memory. An update or scatter first stores its base, then its parts. Where
nobody reads the base once the parts begin (but for a part that reads just the element it
writes), both may share memory, and storing the base falls away. The memory of a leaf may be
shared only by a result that ends in that leaf, and only where nothing can fail any more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from rushlight import views
from rushlight.ir.node import Node, view_of
from rushlight.schedule.fuse import Root, Unit


@dataclass(slots=True)
class Sharing:
    """`home_of` maps a node to the earlier version whose memory it overwrites; `in_leaf` are
    the results that are written straight into their leaf's memory.
    """

    home_of: dict[Node, Node] = field(default_factory=dict)
    in_leaf: set[Node] = field(default_factory=set)
    needless: set[Unit] = field(default_factory=set)  # units that would store the base

    def first_version(self, node: Node) -> Node:
        while node in self.home_of:
            node = self.home_of[node]
        return node


@dataclass(slots=True)
class _Version:
    """An update or scatter over `base`: the unit that stores the base, and the parts' units."""

    base: Node
    copy: Unit
    parts: list[Unit]


def share_memory(
    units: Sequence[Unit],
    results: Sequence[Node],
    written: dict[int, int],
    stored: Collection[Node],
) -> Sharing:
    """Decide which updates and scatters overwrite their base."""
    versions = {n: v for n, v in _versions(units, stored).items() if _may_share(units, v)}
    sharing = Sharing()
    counts = Counter(results)
    taken: set[Node] = set()  # bases that have become a version: others over them copy them
    for node, version in versions.items():
        if version.base.op != "leaf" and not counts[version.base] and version.base not in taken:
            sharing.home_of[node] = version.base
            taken.add(version.base)
    last_check = last_checking(units)
    for index, leaf in written.items():
        if counts[results[index]] == 1:
            _share_leaf(sharing, versions, results[index], leaf, last_check)
    sharing.needless = {versions[n].copy for n in sharing.home_of}
    return sharing


def _versions(units: Sequence[Unit], stored: Collection[Node]) -> dict[Node, _Version]:
    makers: dict[Node, list[Unit]] = defaultdict(list)
    for unit in units:
        for node in unit.writes:
            if node.op in ("update", "scatter"):
                makers[node].append(unit)
    found = {}
    for node, (copy, *parts) in makers.items():
        if node.op == "update" and not node.attrs[0] or not parts:
            continue
        base, view = node.args[0]
        is_whole = views.is_whole(view_of((base, view)), base.numel)
        if (
            is_whole
            and base in stored
            and base.numel == node.numel
            and copy.epilogue_of is None
        ):
            found[node] = _Version(base, copy, parts)
    return found


def _may_share(units: Sequence[Unit], version: _Version) -> bool:
    """Whether nobody needs the base any more once the parts are being written."""
    begin = version.parts[0].number
    for unit in units[begin:]:
        if version.base in unit.reads:
            is_only_part = unit is version.parts[0] and len(version.parts) == 1
            if not is_only_part or not _reads_what_it_writes(unit, version.base):
                return False
    return True


def _reads_what_it_writes(unit: Unit, base: Node) -> bool:
    if unit.single is not None or unit.epilogue_of is not None or unit.inner is not None:
        return False
    return all(_is_elementwise(root, base) for root in unit.roots)


def _is_elementwise(root: Root, base: Node) -> bool:
    return all(
        e.kind == "load" and view == root.target
        for (node, view), e in root.reader.loads.items()
        if node is base
    )


def last_checking(units: Sequence[Unit]) -> int:
    """The last unit that may find an index out of range (-1: none)."""
    return max((u.number for u in units if _checks(u)), default=-1)


def _checks(unit: Unit) -> bool:
    if unit.single is not None:
        op = unit.single.op
        return op == "host" or (op == "scatter" and bool(unit.single.attrs[2]))
    return any(e.kind == "gather" for root in unit.roots for e in root.reader.expressions())


def _share_leaf(
    sharing: Sharing, versions: dict[Node, _Version], result: Node, leaf: int, last_check: int
) -> None:
    """Let a result that is made from its leaf by updates alone happen in the leaf's memory."""
    node = result
    while node in sharing.home_of:
        node = sharing.home_of[node]
    version = versions.get(node)
    if version is None or version.base.op != "leaf" or version.base.attrs[0] != leaf:
        return
    if version.parts[0].number > last_check:
        sharing.home_of[node] = version.base
        sharing.in_leaf.add(result)
