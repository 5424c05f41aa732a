"""Nested containers under PyTorch's private names, and classes that users register."""

import collections
import dataclasses

import pytest

import rushlight
from rushlight import tree
from rushlight.utils import _pytree as ours

Pair = collections.namedtuple("Pair", ["first", "second"])
TREES = [
    3,
    [1, {"a": 2, "b": (3, 4)}, None],
    Pair(1, [2, Pair(3, 4)]),
    collections.OrderedDict(x=1, y=[2]),
    collections.defaultdict(list, {"x": 1}),
    collections.deque([1, (2, 3)], maxlen=5),
    {},
    [[], (), {"a": {}}],
]


@pytest.fixture
def theirs():
    pytest.importorskip("torch")
    from torch.utils import _pytree

    return _pytree


@pytest.fixture
def point():
    """A class of a program's, registered and forgotten again."""

    class Point:
        def __init__(self, x, y, name="p"):
            self.x, self.y, self.name = x, y, name

    ours.register_pytree_node(
        Point, lambda p: ([p.x, p.y], p.name), lambda parts, name: Point(*parts, name)
    )
    yield Point
    del tree.CONTAINERS[Point]


@pytest.mark.parametrize("given", TREES, ids=repr)
def test_trees_come_apart_and_together_as_in_pytorch(given, theirs):
    leaves, spec = ours.tree_flatten(given)
    other_leaves, other_spec = theirs.tree_flatten(given)
    assert leaves == other_leaves
    assert ours.tree_unflatten(leaves, spec) == given
    assert type(spec.unflatten(leaves)) is type(given)
    for name in ("num_leaves", "num_nodes", "num_children"):
        assert getattr(spec, name) == getattr(other_spec, name), name
    if not isinstance(given, Pair):  # whose class is the context there
        assert (spec.type, spec.context) == (other_spec.type, other_spec.context)
    paths = [ours.keystr(path) for path, _ in ours.tree_leaves_with_path(given)]
    assert paths == [theirs.keystr(path) for path, _ in theirs.tree_leaves_with_path(given)]


def test_functions_of_leaves():
    given = [1, {"a": 2.5, "b": "text"}]
    assert ours.tree_map(lambda a, b: (a, b), [1, 2], [3, [4]]) == [(1, 3), (2, [4])]
    assert ours.tree_map_only(int, lambda n: n + 1, given) == [2, {"a": 2.5, "b": "text"}]
    assert ours.tree_map_only((int, float), lambda n: -n, given) == [
        -1,
        {"a": -2.5, "b": "text"},
    ]
    assert ours.tree_all_only(str, str.islower, given)
    assert ours.tree_any(lambda leaf: leaf == 2.5, given)
    assert ours.tree_leaves(given, is_leaf=lambda part: isinstance(part, dict)) == given
    assert ours.tree_map_with_path(lambda path, leaf: ours.keystr(path), given) == [
        "[0]",
        {"a": "[1]['a']", "b": "[1]['b']"},
    ]
    assert ours.key_get(given, ours.tree_leaves_with_path(given)[1][0]) == 2.5
    assert ours.tree_map(lambda a, b: a + b, {"a": 1, "b": 2}, {"b": 10, "a": 20}) == {
        "a": 21,
        "b": 12,
    }


def test_trees_that_do_not_match_are_refused():
    spec = ours.tree_structure([1, (2, 3)])
    with pytest.raises(ValueError, match="2 leaves for a structure of 3"):
        ours.tree_unflatten([1, 2], spec)
    with pytest.raises(TypeError, match="expected a TreeSpec, got int"):
        ours.tree_unflatten([1], 1)
    with pytest.raises(ValueError, match="expected 2 parts, got 1"):
        ours.tree_map(lambda a, b: a, [1, 2], [1])
    with pytest.raises(ValueError, match="expected a list, got tuple"):
        spec.flatten_up_to((1, 2))
    with pytest.raises(ValueError, match="already registered"):
        ours.register_pytree_node(list, None, None)


def test_a_prefix_stands_for_all_below_it():
    spec = ours.tree_structure([1, {"a": 2, "b": (3, 4)}])
    assert ours._broadcast_to_and_flatten(0, spec) == [0, 0, 0, 0]
    assert ours._broadcast_to_and_flatten([0, {"b": 1, "a": 2}], spec) == [0, 2, 1, 1]
    assert ours._broadcast_to_and_flatten([0, [1]], spec) is None


def test_specs_are_compared_by_their_structure():
    spec = ours.tree_structure({"a": [1, 2]})
    assert spec == ours.tree_structure({"a": [3, 4]})
    assert hash(spec) == hash(ours.tree_structure({"a": [3, 4]}))
    assert spec != ours.tree_structure({"a": [1]})
    pair = ours.TreeSpec(list, None, [ours.LeafSpec(), ours.LeafSpec()])
    assert ours.TreeSpec(dict, ["a"], [pair]) == spec
    assert isinstance(pair.child(0), ours.LeafSpec)


def test_a_registered_class_is_a_container(point):
    leaves, spec = ours.tree_flatten([point(1, 2, "q"), 3])
    assert leaves == [1, 2, 3]
    rebuilt = spec.unflatten([4, 5, 6])[0]
    assert (rebuilt.x, rebuilt.y, rebuilt.name) == (4, 5, "q")


def test_functions_of_functions_take_registered_classes(point):
    x, y = rushlight.arange(3.0), rushlight.ones(3)
    found = rushlight.vmap(lambda p: point(p.x + p.y, p.x * 2))(point(x, y))
    assert found.x.tolist() == [1.0, 2.0, 3.0]
    assert found.y.tolist() == [0.0, 2.0, 4.0]
    slopes = rushlight.func.grad(lambda p: (p.x * p.y).sum())(point(x, y))
    assert slopes.x.tolist() == [1.0, 1.0, 1.0]
    assert slopes.y.tolist() == [0.0, 1.0, 2.0]


def test_dataclasses_and_constants():
    @dataclasses.dataclass
    class Batch:
        inputs: int
        label: int

    class Mode:
        pass

    ours.register_dataclass(Batch)
    ours.register_constant(Mode)
    mode = Mode()
    leaves, spec = ours.tree_flatten([Batch(1, 2), mode])
    assert leaves == [1, 2]
    assert spec.unflatten([3, 4]) == [Batch(3, 4), mode]
    assert ours.keystr(ours.tree_leaves_with_path(Batch(1, 2))[1][0]) == ".label"
    del tree.CONTAINERS[Batch], tree.CONTAINERS[Mode]


def test_subclasses_of_containers_register_with_pytorchs_private_helpers():
    class Fields(dict):
        pass

    def build(values, context):
        return Fields(ours._dict_unflatten(values, context))

    ours.register_pytree_node(
        Fields, ours._dict_flatten, build, flatten_with_keys_fn=ours._dict_flatten_with_keys
    )
    tree = Fields(a=1, b=[2, 3])
    doubled = ours.tree_map(lambda x: 2 * x, tree)
    assert type(doubled) is Fields and doubled == {"a": 2, "b": [4, 6]}
    paths = [ours.keystr(path) for path, _ in ours.tree_leaves_with_path(tree)]
    assert paths == ["['a']", "['b'][0]", "['b'][1]"]
