"""Creation, views, rearrangement, indexing, sorting and random numbers, against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

BASE = np.random.default_rng(0).standard_normal((4, 5, 6))


def pair(array):
    made = []
    for lib in (torch, rl):
        made.append(lib.from_numpy(np.ascontiguousarray(array).copy()))
    return made


def assert_same(theirs, ours):
    assert tuple(theirs.shape) == tuple(ours.shape)
    assert str(theirs.dtype) == str(ours.dtype)
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), 1e-12, 1e-12)


INDICES = {
    "int": lambda lib: 1,
    "negative": lambda lib: (slice(None), -1),
    "steps": lambda lib: (slice(None), slice(0, 5, 2)),
    "ellipsis": lambda lib: (..., 2),
    "new": lambda lib: (None, slice(None), None, 1),
    "list": lambda lib: [0, 2, 0],
    "array": lambda lib: np.array([1, 3]),
    "tensor": lambda lib: lib.tensor([1, -1, 2]),
    "neighbours": lambda lib: (lib.tensor([0, 1]), lib.tensor([2, 3])),
    "apart": lambda lib: (lib.tensor([0, 1]), slice(None), lib.tensor([2, 3])),
    "grid": lambda lib: (slice(None), lib.tensor([[0], [1]]), lib.tensor([2, 3, 4])),
    "mixed": lambda lib: (slice(1, 3), lib.tensor([[0, 1], [2, 3]]), slice(None, None, 2)),
    "mask": lambda lib: lib.from_numpy(BASE > 0),
    "mask of rows": lambda lib: lib.from_numpy(BASE[..., 0] > 0),
    "mask and int": lambda lib: (lib.from_numpy(BASE[:, 0, 0] > 0), slice(None), 2),
    "true": lambda lib: True,
    "number tensor": lambda lib: (slice(None), lib.tensor(2)),
    "none between": lambda lib: (lib.tensor([0, 1]), None, lib.tensor([1, 2])),
    "nothing": lambda lib: [],
    "empty slice": lambda lib: slice(3, 1),
    "range": lambda lib: range(2),
}


@pytest.mark.parametrize("name", INDICES)
def test_reading_an_index(name):
    a, b = (t.requires_grad_() for t in pair(BASE))
    theirs, ours = a[INDICES[name](torch)], b[INDICES[name](rl)]
    assert_same(theirs, ours)
    c, d = pair(np.random.default_rng(1).standard_normal(tuple(theirs.shape)))
    (theirs * c).sum().backward()
    (ours * d).sum().backward()
    assert_same(a.grad, b.grad)


@pytest.mark.parametrize("name", [n for n in INDICES if n != "list"])
@pytest.mark.parametrize("kind", ["number", "tensor"])
def test_writing_at_an_index(name, kind):
    results = []
    for lib in (torch, rl):
        x = lib.from_numpy(BASE.copy()).requires_grad_()
        y = x * 2
        shape = tuple(y[INDICES[name](lib)].shape)
        value = 3
        if kind == "tensor":
            value = np.random.default_rng(2).standard_normal(shape)
            value = lib.from_numpy(value).requires_grad_()
        y[INDICES[name](lib)] = value
        (y * lib.from_numpy(BASE + 1)).sum().backward()
        results.append([y, x.grad] + ([value.grad] if kind == "tensor" else []))
    for theirs, ours in zip(*results, strict=True):
        assert_same(theirs, ours)


@pytest.mark.parametrize("index", [5, (0, 0, 0, 0), [9], 1.5, "empty"], ids=str)
def test_bad_indices_raise_what_pytorch_raises(index):
    kinds = []
    for x in pair(BASE):
        with pytest.raises(Exception) as found:
            x[index].sum().item()
        kinds.append(found.type)
    assert kinds[0] is kinds[1] or index == "empty"


def test_a_mask_and_a_number_need_no_values():
    x = rl.from_numpy(BASE.copy())
    before = x * 1
    before[before > 0] = 0
    assert before.max().item() == 0


FUNCTIONS = {
    "gather": lambda lib, x: lib.gather(x, 1, lib.tensor([[[0, 1], [4, 2]]])),
    "scatter": lambda lib, x: x.scatter(1, lib.tensor([[[0, 1], [4, 2]]]), x[:1, :2, :2] * 2),
    "scatter_add": lambda lib, x: x.scatter_add(
        0, lib.tensor([[[0, 0], [0, 2]]]), x[:1, :2, :2] * 2
    ),
    "scatter_mean": lambda lib, x: x.scatter_reduce(
        0, lib.tensor([[[0, 0]], [[0, 1]]]), x[:2, :1, :2], "mean"
    ),
    "scatter_prod": lambda lib, x: x.scatter_reduce(
        0, lib.tensor([[[0, 0]], [[0, 1]]]), x[:2, :1, :2], "prod"
    ),
    "scatter_amax": lambda lib, x: x.scatter_reduce(
        0, lib.tensor([[[0, 0]], [[0, 1]]]), x[:2, :1, :2] * 2, "amax", include_self=False
    ),
    "index_select": lambda lib, x: x.index_select(1, lib.tensor([3, 3, 0])),
    "index_add": lambda lib, x: x.index_add(1, lib.tensor([3, 3]), x[:, :2], alpha=2),
    "index_copy": lambda lib, x: x.index_copy(1, lib.tensor([3, 1]), x[:, :2] * 2),
    "index_fill": lambda lib, x: x.index_fill(1, lib.tensor([3, 1]), 2.0),
    "take": lambda lib, x: x.take(lib.tensor([[0, 7], [-1, 3]])),
    "masked_fill": lambda lib, x: x.masked_fill(x > 0, -1),
    "masked_select": lambda lib, x: x.masked_select(x > 0),
    "masked_scatter": lambda lib, x: x.masked_scatter(x > 0, x * 3),
    "sort": lambda lib, x: x.sort(1, descending=True)[0],
    "topk": lambda lib, x: x.topk(2, 1)[0],
    "median": lambda lib, x: x.median(2)[0],
    "cat": lambda lib, x: lib.cat([x, x[:, :1] * 2], 1),
    "stack": lambda lib, x: lib.stack([x, x * 2], -1),
    "repeat": lambda lib, x: x.repeat(2, 1, 2),
    "repeat_interleave": lambda lib, x: x.repeat_interleave(3, 1),
    "roll": lambda lib, x: x.roll((1, -2), (0, 2)),
    "flip": lambda lib, x: x.flip(0, 2),
    "rot90": lambda lib, x: x.rot90(1, (0, 1)),
    "tril": lambda lib, x: x.tril(1),
    "diagonal": lambda lib, x: x.diagonal(1, 0, 2),
    "diag_embed": lambda lib, x: lib.diag_embed(x, 1),
    "unfold": lambda lib, x: x.unfold(1, 3, 1),
    "split": lambda lib, x: x.split([2, 3], 1)[1],
    "movedim": lambda lib, x: x.movedim(0, 2),
    "unflatten": lambda lib, x: x.unflatten(2, (2, 3)),
    "as_strided": lambda lib, x: x.as_strided((2, 3), (1, 2), 1),
    "squeeze": lambda lib, x: x[:, :1].squeeze(),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "bool"])
@pytest.mark.parametrize("shape", [(1,), (15,), (16,), (17,), (5, 33), (33, 5), (4, 3, 50)])
def test_rows_read_backwards(shape, dtype):
    x = np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)
    for dims in [(d,) for d in range(len(shape))] + [tuple(range(len(shape)))]:
        assert np.array_equal(rl.tensor(x).flip(dims).numpy(), np.flip(x, dims))
        twice = rl.tensor(x).flip(dims) == rl.tensor(x)
        assert np.array_equal(twice.numpy(), np.flip(x, dims) == x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name):
    a, b = (t.requires_grad_() for t in pair(BASE))
    theirs, ours = FUNCTIONS[name](torch, a), FUNCTIONS[name](rl, b)
    assert_same(theirs, ours)
    c, d = pair(np.random.default_rng(1).standard_normal(tuple(theirs.shape)))
    (theirs * c).sum().backward()
    (ours * d).sum().backward()
    assert_same(a.grad, b.grad)


FACTORIES = [
    lambda lib: lib.arange(5),
    lambda lib: lib.arange(1, 2, 0.25),
    lambda lib: lib.linspace(0, 1, 7, dtype=lib.float64),
    lambda lib: lib.eye(3, 2),
    lambda lib: lib.full((2,), 2.5),
    lambda lib: lib.tril_indices(3, 4, 1),
    lambda lib: lib.meshgrid(lib.arange(2), lib.arange(3), indexing="xy")[0],
    lambda lib: lib.zeros(2, 0, 3),
    lambda lib: lib.ones(2).new_full((2, 2), 7),
    lambda lib: lib.bincount(lib.tensor([1, 1, 4])),
    lambda lib: lib.unique(lib.tensor([3, 1, 3])),
    lambda lib: lib.searchsorted(lib.tensor([1, 3, 5]), lib.tensor([0, 3, 9])),
    lambda lib: lib.nonzero(lib.tensor([[1, 0], [0, 2]])),
]


@pytest.mark.parametrize("make", FACTORIES)
def test_factories(make):
    theirs, ours = make(torch), make(rl)
    assert str(theirs.dtype) == str(ours.dtype)
    np.testing.assert_array_equal(theirs.numpy(), ours.numpy())


def test_the_same_seed_gives_the_same_numbers():
    draws = []
    for seed in (1, 1, 2):
        rl.manual_seed(seed)
        draws.append(rl.randn(100))
    assert bool((draws[0] == draws[1]).all()) and not bool((draws[0] == draws[2]).any())


def test_a_restored_state_continues_where_it_was():
    state = rl.get_rng_state()
    first = rl.rand(5)
    rl.set_rng_state(state)
    assert bool((rl.rand(5) == first).all())


def test_repeated_indices_of_a_fill_count_once_in_its_gradient():
    for lib in (torch, rl):
        x, value = lib.ones(3, 2, requires_grad=True), lib.tensor(2.0, requires_grad=True)
        x.index_fill(0, lib.tensor([0, 0, 2]), value).sum().backward()
        assert value.grad.item() == 4
        assert x.grad.tolist() == [[0, 0], [1, 1], [0, 0]]


def test_what_is_overwritten_whole_has_zero_gradients():
    for lib in (torch, rl):
        x, y = lib.ones(2, requires_grad=True), lib.ones(2, requires_grad=True)
        (x * 2).copy_(y * 3).sum().backward()
        assert x.grad.tolist() == [0, 0] and y.grad.tolist() == [3, 3]


def test_nothing_put_anywhere_has_a_gradient_of_nothing():
    x, source = rl.ones(2, requires_grad=True), rl.ones(0, requires_grad=True)
    x.put(rl.zeros(0, dtype=rl.int64), source).sum().backward()
    assert x.grad.tolist() == [1, 1] and source.grad.tolist() == []


def test_out_must_not_be_one_element_many_times():
    for lib in (torch, rl):
        with pytest.raises(RuntimeError):
            lib.index_select(
                lib.ones(3, 6), 1, lib.tensor([0, 1]), out=lib.ones(1, 6).expand(2, 6)
            )


def test_points_of_integers_go_between_integers():
    for lib in (torch, rl):
        assert lib.linspace(1.7, 3.9, 5, dtype=lib.int64).tolist() == [1, 1, 2, 2, 3]
        assert lib.logspace(1.7, 3.9, 3, dtype=lib.int64).tolist() == [10, 100, 1000]
        assert lib.logspace(0.5, 9, 1, dtype=lib.int64).tolist() == [3]


def test_new_tensors_of_the_same_dtype():
    x = rl.ones(1, dtype=rl.int64)
    assert x.new(2, 3).shape == (2, 3) and x.new(2, 3).dtype is rl.int64
    assert x.new([1.0, 2.0]).tolist() == [1, 2]


def test_conversion_to_another_memory_format_is_a_copy():
    x = rl.ones(1, 2, 2, 2, dtype=rl.float64)
    assert x.double(memory_format=rl.channels_last) is not x
    assert x.double() is x


def test_distributions():
    rl.manual_seed(0)
    normal, uniform = rl.randn(20000), rl.rand(20000)
    assert abs(normal.mean().item()) < 0.03 and abs(normal.std().item() - 1) < 0.03
    assert uniform.min().item() >= 0 and uniform.max().item() < 1
    assert abs(uniform.mean().item() - 0.5) < 0.01
    counts = rl.bincount(rl.randint(0, 6, (60000,)))
    assert counts.min().item() > 9500 and counts.numel() == 6
    assert sorted(rl.randperm(10).tolist()) == list(range(10))


def test_views_of_another_dtype_share_memory():
    x = rl.zeros(4)
    bits = x.view(rl.int32)
    bits[1] = 0x3F800000
    assert x.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    "place", [((2,), (2,), None), ((2,), (2,), 0), ((2,), (1,), 9)], ids=str
)
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x[1],
        lambda x: x[1][2:],
        lambda x: x.t()[1:],
        lambda x: x[:, 1],
        lambda x: x[:1].expand(3, 4),
    ],
)
def test_as_strided_scatter_counts_in_memory(view, place):
    found = []
    for lib in (rl, torch):
        x, part = lib.arange(12.0).reshape(3, 4), lib.tensor([-1.0, -2.0])
        found.append(lib.as_strided_scatter(view(x), part, *place).tolist())
    assert found[0] == found[1]
    part = rl.tensor(
        [-1.0, -2.0], requires_grad=True
    )  # PyTorch's gradient is another or raises
    out = rl.as_strided_scatter(view(rl.arange(12.0).reshape(3, 4)), part, *place)
    (out * out).sum().backward()
    times = [(out == value).sum().item() for value in (-1, -2)]
    assert part.grad.tolist() == [-2.0 * times[0], -4.0 * times[1]]
