"""Memory and objects exchanged with other libraries: DLPack, NumPy, buffers, storages, the
old constructors, and copies.
"""

import array
import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import rushlight as rl
from rushlight.utils import dlpack

DTYPES = [
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
    "bool", "complex64", "complex128",
]  # fmt: skip


# -- DLPack


@pytest.mark.parametrize("name", DTYPES)
def test_dlpack_gives_the_same_memory_and_dtype(name):
    x = rl.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(rl, name))
    y = rl.from_dlpack(x)
    assert y.dtype is x.dtype and y.shape == x.shape and y.data_ptr() == x.data_ptr()
    assert x.tolist() == y.tolist()
    y.zero_()
    assert x.tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("name", DTYPES)
def test_dlpack_with_pytorch_both_ways(name):
    torch = pytest.importorskip("torch")
    x = rl.tensor([[0, 1], [2, 3]]).to(getattr(rl, name))
    there = torch.from_dlpack(x)
    assert there.dtype is getattr(torch, name) and there.data_ptr() == x.data_ptr()
    back = rl.from_dlpack(there.t())
    assert back.dtype is x.dtype and back.tolist() == x.t().tolist()
    there[0, 1] = 0
    assert x[0, 1].item() == 0


def test_dlpack_with_numpy_shares_memory():
    x = rl.arange(4.0)
    seen = np.from_dlpack(x)
    x.add_(1)
    assert seen.tolist() == [1.0, 2.0, 3.0, 4.0]
    source = np.arange(3)
    taken = rl.from_dlpack(source)
    source[0] = 7
    assert taken.tolist() == [7, 1, 2]
    assert rl.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()


def test_dlpack_keeps_memory_alive_for_as_long_as_it_is_used():
    x = rl.full((1000,), 3.0)
    y = rl.from_dlpack(x)
    del x
    gc.collect()
    rl.full((1000,), 4.0).sum().item()
    assert y.sum().item() == 3000.0


def test_dlpack_refuses_what_it_cannot_give():
    with pytest.raises(BufferError, match="require gradient"):
        rl.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(ValueError, match="meta"):
        rl.from_dlpack(rl.empty(2, device="meta"))
    capsule = dlpack.to_dlpack(rl.ones(2))
    assert dlpack.from_dlpack(capsule).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="only once"):
        dlpack.from_dlpack(capsule)
    assert rl.ones(2).__dlpack_device__() == (dlpack.DLDeviceType.kDLCPU, 0)


# -- NumPy


def test_numpy_functions_give_tensors_and_arrays_give_way():
    x = rl.tensor([0.0, 1.0])
    assert type(np.sin(x)) is rl.Tensor
    assert np.add(x, x).tolist() == [0.0, 2.0]
    assert type(np.float32(2) * x) is rl.Tensor
    assert np.asarray(x, dtype="int32").dtype == np.int32
    with pytest.raises(RuntimeError):
        np.asarray(rl.ones(2, requires_grad=True))


# -- buffers


def test_frombuffer_reads_the_memory_of_an_object():
    data = array.array("i", [1, 2, 3])
    x = rl.frombuffer(data, dtype=rl.int32, offset=4)
    data[1] = 9
    assert x.tolist() == [9, 3]
    assert rl.frombuffer(b"\x80\x3f", dtype=rl.bfloat16).tolist() == [1.0]
    assert rl.frombuffer(bytearray(8), dtype=rl.float32, requires_grad=True).requires_grad


@pytest.mark.parametrize(
    ("size", "kwargs", "text"),
    [
        (0, {}, "must not be 0"),
        (8, {"count": 0}, "must not be 0"),
        (7, {}, "multiple of element size"),
        (8, {"offset": 8}, "no greater than buffer length"),
        (8, {"offset": -1}, "must be non-negative"),
        (8, {"count": 9, "offset": 2}, "requested buffer length"),
    ],
)
def test_frombuffer_refuses_what_does_not_fit(size, kwargs, text):
    with pytest.raises(ValueError, match=text):
        rl.frombuffer(bytearray(size), dtype=rl.int16, **kwargs)


def test_frombuffer_refuses_objects_without_buffers():
    with pytest.raises(ValueError, match="buffer protocol"):
        rl.frombuffer([1], dtype=rl.int16)


# -- copies, identity


def test_copies_and_identity():
    x = rl.arange(4.0)
    assert copy.copy(x).data_ptr() == x.data_ptr()
    assert copy.deepcopy(x).data_ptr() != x.data_ptr()
    a, b = copy.deepcopy((x, x[1:]))
    a.zero_()
    assert b.tolist() == [0.0, 0.0, 0.0]
    x.note = "kept"
    assert copy.deepcopy(x).note == pickle.loads(pickle.dumps(x)).note == "kept"
    assert weakref.ref(x)() is x
    assert hash(x) == id(x) and len({x, x, x.clone()}) == 2


# -- the old constructors


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda t: t.Tensor(), (0,)),
        (lambda t: t.Tensor(2, 0), (2, 0)),
        (lambda t: t.Tensor(t.Size([2, 2])), (2, 2)),
        (lambda t: t.Tensor(np.int64(3)), (3,)),
        (lambda t: t.Tensor(size=(2,)), (2,)),
        (lambda t: t.FloatTensor(), (0,)),
        (lambda t: t.LongTensor(3), (3,)),
        (lambda t: t.ones(2).new(), (0,)),
        (lambda t: t.ones(2).new(4, 1), (4, 1)),
    ],
)
def test_old_constructors_take_sizes(call, shape):
    assert tuple(call(rl).shape) == shape
    torch = pytest.importorskip("torch")
    assert tuple(call(torch).shape) == shape


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.Tensor([1, 2]),
        lambda t: t.Tensor((2, 2)),
        lambda t: t.Tensor(range(3)),
        lambda t: t.Tensor(np.ones(2)),
        lambda t: t.Tensor(data=[1, 2]),
        lambda t: t.LongTensor([1.5]),
        lambda t: t.BoolTensor([1, 0]),
        lambda t: t.ones(2).new([3, 4]),
        lambda t: t.arange(2).new([1.5]),
        lambda t: t.FloatTensor(t.FloatStorage([1, 2])),
        lambda t: t.Tensor(t.ones(3).untyped_storage()),
        lambda t: t.ones(2).type("torch.LongTensor"),
        lambda t: t.ones(2).type(t.IntTensor),
    ],
)
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_old_constructors_take_data(call):
    torch = pytest.importorskip("torch")
    ours, theirs = call(rl), call(torch)
    assert ours.tolist() == theirs.tolist() and str(ours.dtype) == str(theirs.dtype)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.Tensor(2.5),
        lambda t: t.Tensor(None),
        lambda t: t.Tensor("a"),
        lambda t: t.Tensor(-1),
        lambda t: t.LongTensor(t.ones(2)),
        lambda t: t.ones(2).type("foo"),
        lambda t: setattr(t.ones(2), "data", 3),
        lambda t: setattr(t.ones(2, requires_grad=True), "data", t.arange(2)),
        lambda t: t.empty(0, dtype=t.int32).set_(t.ones(2)),
        lambda t: t.ones(4).resize_(-1),
        lambda t: t.ones(4, requires_grad=True).resize_(2),
        lambda t: t.FloatStorage(3)[1:],
    ],
)
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_refusals_are_those_of_pytorch(call):
    torch = pytest.importorskip("torch")
    with pytest.raises(Exception) as theirs:
        call(torch)
    with pytest.raises(theirs.type):
        call(rl)


def test_set_refuses_what_is_beyond_the_storage():
    with pytest.raises(RuntimeError, match="beyond a storage of 6 elements"):
        rl.empty(0).set_(rl.ones(6).untyped_storage(), 0, (4, 4))


def test_old_constructors_share_tensors():
    x = rl.ones(2)
    assert rl.Tensor(x).data_ptr() == rl.FloatTensor(x).data_ptr() == x.data_ptr()
    assert x.new(x).data_ptr() == x.data_ptr()


# -- data, set_, resize_


def test_data_is_exchanged_under_a_leaf():
    leaf = rl.ones(2, requires_grad=True)
    leaf.data = rl.zeros(3)
    assert leaf.shape == (3,) and leaf.is_leaf and leaf.requires_grad
    leaf.data.view(-1).fill_(5)
    assert leaf.tolist() == [5.0, 5.0, 5.0]


def test_set_and_resize_change_the_view_of_memory():
    x = rl.arange(6.0)
    y = rl.empty(0).set_(x.untyped_storage(), 1, (2,), (2,))
    assert y.tolist() == [1.0, 3.0]
    y.fill_(0)
    assert x.tolist() == [0.0, 0.0, 2.0, 0.0, 4.0, 5.0]
    assert rl.empty(0).set_(x).is_set_to(x)
    a = rl.arange(4.0)
    b = a.view(2, 2)
    a.resize_(2)[0] = 9
    assert b.tolist() == [[9.0, 1.0], [2.0, 3.0]]
    assert rl.arange(2.0).resize_(3, 3).shape == (3, 3)
    column = rl.arange(6.0).reshape(3, 2)[:, 1:]
    assert column.resize_(3, 1).stride() == (2, 1), "of the same shape: nothing changes"
    assert column.tolist() == [[1.0], [3.0], [5.0]]


@pytest.mark.parametrize(
    "shape, strides",
    [
        ((2, 1, 2), (0, 2, 1)),
        ((2, 3, 2), (1, 0, 2)),
        ((3, 2, 2), (1, 1, 4)),
        ((2, 3, 2), (2, 2, 2)),
        ((1, 1, 1), (1, 2, 3)),
        ((2, 3, 2, 2), (6, 0, 1, 3)),
    ],
)
def test_order_of_dimensions_that_share_steps(shape, strides):
    torch = pytest.importorskip("torch")
    want = torch.zeros(60).as_strided(shape, strides).dim_order()
    assert rl.zeros(60).as_strided(shape, strides).dim_order() == want


# -- storages


def test_untyped_storages_are_bytes():
    x = rl.tensor([1.0, 2.0])
    s = x.untyped_storage()
    assert (len(s), s.nbytes(), s.data_ptr()) == (8, 8, x.data_ptr())
    assert s[3] == 63 and s[2:4].tolist() == [128, 63]
    s[3] = 0
    assert x[0].item() != 1.0
    assert rl.UntypedStorage([1, 2, 3]).tolist() == [1, 2, 3]
    assert rl.UntypedStorage(2).copy_(rl.UntypedStorage([4, 5])).tolist() == [4, 5]
    grown = rl.UntypedStorage(4)
    grown.resize_(16)
    assert grown.nbytes() == 16
    assert repr(rl.UntypedStorage([1])) == (
        " 1\n[torch.storage.UntypedStorage(device=cpu) of size 1]"
    )
    swapped = rl.tensor([1], dtype=rl.int16)
    swapped.untyped_storage().byteswap(rl.int16)
    assert swapped.tolist() == [256]
    assert copy.deepcopy(s).data_ptr() != s.data_ptr()


def test_typed_storages_are_elements():
    x = rl.arange(3.0)
    s = x.storage()
    assert s.type() == "torch.FloatStorage" and s.dtype is rl.float32 and len(s) == 3
    s[0] = 5.0
    assert x.tolist() == [5.0, 1.0, 2.0] and list(s) == s.tolist() == [5.0, 1.0, 2.0]
    assert s.double().dtype is rl.float64 and s.int().tolist() == [5, 1, 2]
    assert rl.TypedStorage([1, 2], dtype=rl.int32).tolist() == [1, 2]
    wrapped = rl.TypedStorage(wrap_storage=x.untyped_storage(), dtype=rl.int32)
    assert wrapped.data_ptr() == x.data_ptr() and wrapped.dtype is rl.int32
    assert isinstance(s, rl.FloatStorage) and not isinstance(s, rl.LongStorage)
    assert rl.FloatStorage.from_buffer(b"\0\0\x80\x3f", byte_order="little").tolist() == [1.0]
    assert rl.ShortStorage.from_buffer(b"\0\1", byte_order="big").tolist() == [1]


def test_an_array_may_be_taken_of_what_needs_gradients_where_none_are_recorded():
    x = rl.ones(2, requires_grad=True)
    with rl.no_grad():
        assert x.numpy().tolist() == [1.0, 1.0]
        assert np.asarray(x * 2).tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="detach"):
        x.numpy()


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "int32", "bool", "bfloat16"])
def test_item_reads_the_element_that_a_view_shows(kind):
    x = rl.tensor([[0, 1], [5, 0]], dtype=getattr(rl, kind))
    value = x.t()[0, 1].item()
    assert value == (True if kind == "bool" else 5)
    assert (
        type(value) is {"b": bool, "f": float, "i": int}[kind[0] if kind != "bfloat16" else "f"]
    )
    assert x[1:, :1].item() == value
