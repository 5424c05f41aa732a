"""`torch.utils._pytree`: nested containers under PyTorch's private names, which programs use.

What a container is, is said in `rushlight.tree`: classes registered here are containers for
`vmap`, `grad` and all that takes nested arguments. Here instances of derived classes that are
not registered are leaves, as in PyTorch.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any  # leaves are the caller's business

from rushlight import tree as _tree

PyTree = Any
Context = Any
IsLeaf = Callable[[Any], bool]


# -- structures


class TreeSpec:
    """What a tree is without its leaves: a class, a context and the parts' structures.

    >>> from rushlight.utils import _pytree
    >>> leaves, spec = _pytree.tree_flatten({"a": 1, "b": [2, 3]})
    >>> leaves, spec.num_leaves
    ([1, 2, 3], 3)
    >>> spec.unflatten([4, 5, 6])
    {'a': 4, 'b': [5, 6]}
    """

    __slots__ = ("_structure",)

    def __init__(self, type: Any, context: Context = None, children: Any = ()) -> None:
        own = tuple(context) if type in (dict, OrderedDict) else context
        self._structure = (type, own, [child._structure for child in children])

    @property
    def type(self) -> Any:
        """The container's class; None for a leaf."""
        return None if self._structure is None else self._structure[0]

    @property
    def context(self) -> Context:
        """What rebuilds the container beside its parts; of a dict, its keys."""
        if self._structure is None:
            return None
        kind, context, _ = self._structure
        if kind is defaultdict:
            return [context[0], list(context[1])]
        return list(context) if kind in (dict, OrderedDict) else context

    def children(self) -> list[TreeSpec]:
        """The structures of the parts."""
        return [] if self._structure is None else list(map(_spec, self._structure[2]))

    @property
    def children_specs(self) -> list[TreeSpec]:
        """The structures of the parts."""
        return self.children()

    def child(self, index: int) -> TreeSpec:
        """The structure of one part."""
        return self.children()[index]

    def is_leaf(self) -> bool:
        """Whether this is no container."""
        return self._structure is None

    @property
    def num_children(self) -> int:
        return len(self.children())

    @property
    def num_leaves(self) -> int:
        if self.is_leaf():
            return 1
        return sum(child.num_leaves for child in self.children())

    @property
    def num_nodes(self) -> int:
        return 1 + sum(child.num_nodes for child in self.children())

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """The tree of this structure with these leaves."""
        given = list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(
                f"tree_unflatten: {len(given)} leaves for a structure of {self.num_leaves} "
                f"({self})"
            )
        return _tree.unflatten(given, self._structure)

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """The parts of a tree that are where this structure has its leaves."""
        if self.is_leaf():
            return [tree]
        own, found = self._structure, _taken_apart(tree)
        if found is None or found[0] is not own[0]:
            raise ValueError(
                f"tree: expected a {own[0].__name__}, got {type(tree).__name__}: {tree!r}"
            )
        parts = found[2]
        if len(parts) != len(own[2]):
            raise ValueError(f"tree: expected {len(own[2])} parts, got {len(parts)}: {tree!r}")
        if isinstance(tree, dict):
            keys = list(_tree.put_together(own[0], own[1], own[2]))
            if set(keys) != set(tree):
                raise ValueError(f"tree: expected the keys {keys}, got {list(tree)}")
            parts = [tree[key] for key in keys]
        elif found[1] != own[1]:
            raise ValueError(f"tree: expected the context {own[1]!r}, got {found[1]!r}")
        pairs = zip(self.children(), parts, strict=True)
        return [leaf for child, part in pairs for leaf in child.flatten_up_to(part)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return bool(self._structure == other._structure)

    def __hash__(self) -> int:
        return hash((self.type, self.num_children, self.num_leaves))

    def __repr__(self) -> str:
        if self.is_leaf():
            return "*"
        parts = ", ".join(map(repr, self.children()))
        return f"TreeSpec({self._structure[0].__name__}, {self.context!r}, [{parts}])"


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        self._structure = None


PyTreeSpec = TreeSpec


def _spec(structure: Any) -> TreeSpec:
    made = object.__new__(LeafSpec if structure is None else TreeSpec)
    made._structure = structure
    return made


def treespec_leaf() -> LeafSpec:
    """The structure of a leaf."""
    return LeafSpec()


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The structure of a tuple of parts with these structures."""
    return TreeSpec(tuple, None, iterable)


def treespec_pprint(treespec: TreeSpec) -> str:
    """The structure as a tree of stars."""
    return repr(tree_unflatten([_Star()] * treespec.num_leaves, treespec))


class _Star:
    def __repr__(self) -> str:
        return "*"


# -- taking apart and putting together


def is_namedtuple_class(cls: type) -> bool:
    """Whether a class was made by `namedtuple`."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def is_namedtuple(obj: object) -> bool:
    """Whether an object, or a class, is a named tuple."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_instance(obj: object) -> bool:
    """Whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf | None = None) -> bool:
    """Whether a tree is a leaf: no container, or said to be none by `is_leaf`."""
    return (is_leaf is not None and is_leaf(tree)) or not _tree.is_container(type(tree))


def _taken_apart(tree: PyTree) -> tuple[type, Any, list[Any]] | None:
    return _tree.taken_apart(tree) if _tree.is_container(type(tree)) else None


def tree_flatten(tree: PyTree, is_leaf: IsLeaf | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree in order, and its structure."""
    leaves, structure = _tree.flatten(tree, lambda part: tree_is_leaf(part, is_leaf))
    return leaves, _spec(structure)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of a structure with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten: expected a TreeSpec, got {type(treespec).__name__}")
    return treespec.unflatten(leaves)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves of a tree in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: IsLeaf | None = None) -> Iterable[Any]:
    """The leaves of a tree in order, one after the other."""
    yield from tree_leaves(tree, is_leaf)


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of all arguments."""
    return [leaf for part in (*args, *kwargs.values()) for leaf in tree_leaves(part)]


def tree_structure(tree: PyTree, is_leaf: IsLeaf | None = None) -> TreeSpec:
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


# -- functions of all leaves


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf | None = None
) -> PyTree:
    """A tree of the results of `func` for each leaf, and what is there in the other trees."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(func(*parts) for parts in zip(leaves, *others, strict=True))


def tree_map_(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf | None = None
) -> PyTree:
    """Call `func` for each leaf; the tree itself is returned."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _is_asked(kind: Any) -> IsLeaf:
    if not isinstance(kind, type) and callable(kind):
        return kind
    return lambda leaf: isinstance(leaf, kind)


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Any]:
    """A decorator: the function for leaves of a class (or that a function chooses) only."""
    is_asked = _is_asked(type_or_types_or_pred)

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda leaf: func(leaf) if is_asked(leaf) else leaf

    return decorate


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Any, tree: PyTree, is_leaf: IsLeaf | None = None
) -> PyTree:
    """`tree_map` for leaves of a class (or that a function chooses); the others stay."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Any, tree: PyTree, is_leaf: IsLeaf | None = None
) -> PyTree:
    """`tree_map_` for leaves of a class (or that a function chooses)."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: IsLeaf, tree: PyTree, is_leaf: IsLeaf | None = None) -> bool:
    """Whether something holds of every leaf."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: IsLeaf, tree: PyTree, is_leaf: IsLeaf | None = None) -> bool:
    """Whether something holds of a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, /, pred: IsLeaf, tree: PyTree, is_leaf: IsLeaf | None = None
) -> bool:
    """Whether something holds of every leaf of a class."""
    leaves = tree_leaves(tree, is_leaf)
    return all(pred(leaf) for leaf in leaves if isinstance(leaf, type_or_types))


def tree_any_only(
    type_or_types: Any, /, pred: IsLeaf, tree: PyTree, is_leaf: IsLeaf | None = None
) -> bool:
    """Whether something holds of a leaf of a class."""
    leaves = tree_leaves(tree, is_leaf)
    return any(pred(leaf) for leaf in leaves if isinstance(leaf, type_or_types))


def _broadcast_to_and_flatten(
    tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf | None = None
) -> list[Any] | None:
    """One item for each leaf of a structure of which `tree` is the upper part, or None."""
    return _tree.spread_prefix(tree, treespec._structure)


# -- paths


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """A place in a list or tuple."""

    idx: int

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """A key of a dict."""

    key: Any

    def get(self, mapping: Mapping[Any, Any]) -> Any:
        return mapping[self.key]

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """An attribute."""

    name: str

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)

    def __str__(self) -> str:
        return f".{self.name}"


KeyEntry = Any
KeyPath = tuple[Any, ...]
_WITH_KEYS: dict[type, Callable[[Any], tuple[list[tuple[Any, Any]], Any]]] = {}


def keystr(kp: KeyPath) -> str:
    """A path as Python would write it."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What is at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def _keys_of(tree: PyTree, count: int) -> list[Any]:
    kind = type(tree)
    if kind in _WITH_KEYS:
        return [key for key, _ in _WITH_KEYS[kind](tree)[0]]
    if isinstance(tree, dict):
        return [MappingKey(key) for key in tree]
    if is_namedtuple_class(kind):
        return [GetAttrKey(name) for name in kind._fields]
    return [SequenceKey(i) for i in range(count)]


def _paths(tree: PyTree, is_leaf: IsLeaf | None, path: KeyPath) -> Iterable[Any]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    parts = _tree.taken_apart(tree)[2]
    for key, part in zip(_keys_of(tree, len(parts)), parts, strict=True):
        yield from _paths(part, is_leaf, (*path, key))


def tree_leaves_with_path(
    tree: PyTree, is_leaf: IsLeaf | None = None
) -> list[tuple[KeyPath, Any]]:
    """Each leaf with the way to it."""
    return list(_paths(tree, is_leaf, ()))


def tree_flatten_with_path(
    tree: PyTree, is_leaf: IsLeaf | None = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Each leaf with the way to it, and the structure."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf | None = None
) -> PyTree:
    """`tree_map` of a function that is given the way to the leaf first."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    rows = zip(found, *others, strict=True)
    return spec.unflatten(func(path, leaf, *rest) for (path, leaf), *rest in rows)


# -- registering


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Context]],
    unflatten_fn: Callable[[Iterable[Any], Context], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Context], Any] | None = None,
    from_dumpable_context: Callable[[Any], Context] | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Make a class a container, here and for all functions that take nested arguments.

    flatten_fn gives the parts and a context; unflatten_fn takes both. What is about writing
    structures to files is accepted: nothing here writes them.
    """
    if cls in _tree.CONTAINERS:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _tree.CONTAINERS[cls] = _tree.Container(flatten_fn, unflatten_fn)
    if flatten_with_keys_fn is not None:
        _WITH_KEYS[cls] = flatten_with_keys_fn


def _register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Context]],
    unflatten_fn: Callable[[Iterable[Any], Context], Any],
    **options: Any,
) -> None:
    """`register_pytree_node` by its older name."""
    register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Make a dataclass a container of its fields (those named, without those dropped)."""
    names = field_names or [f.name for f in dataclasses.fields(cls) if f.init]
    kept = tuple(name for name in names if name not in (drop_field_names or ()))
    register_pytree_node(
        cls,
        lambda obj: ([getattr(obj, name) for name in kept], kept),
        lambda parts, names: cls(**dict(zip(names, parts, strict=True))),
        flatten_with_keys_fn=lambda obj: (
            [(GetAttrKey(name), getattr(obj, name)) for name in kept],
            kept,
        ),
    )


def register_constant(cls: type) -> None:
    """Make instances of a class parts of a tree's structure: they are no leaves."""
    register_pytree_node(cls, lambda obj: ((), obj), lambda parts, obj: obj)


# What libraries register their subclasses of containers with, by PyTorch's private names.


def _dict_flatten(d: Mapping[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: Mapping[Any, Any]) -> tuple[list[tuple[Any, Any]], Context]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _list_flatten(d: Iterable[Any]) -> tuple[list[Any], Context]:
    return list(d), None


def _list_flatten_with_keys(d: Iterable[Any]) -> tuple[list[tuple[Any, Any]], Context]:
    return [(SequenceKey(i), value) for i, value in enumerate(d)], None


def _list_unflatten(values: Iterable[Any], context: Context) -> list[Any]:
    return list(values)


def _tuple_unflatten(values: Iterable[Any], context: Context) -> tuple[Any, ...]:
    return tuple(values)


_tuple_flatten, _tuple_flatten_with_keys = _list_flatten, _list_flatten_with_keys


SUPPORTED_NODES = _tree.CONTAINERS
