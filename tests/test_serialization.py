"""Files of tensors: what is kept, what is refused, and that a bad save harms nothing."""

import collections
import copy
import io
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pytest

import rushlight as torch
from rushlight.serialization import (
    add_safe_globals,
    archive,
    clear_safe_globals,
    get_safe_globals,
    load,
    safe_globals,
    save,
)
from rushlight.serialization.tensors import deepcopy_tensor, reduce_tensor

DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8"]
DTYPES += ["uint8", "bool", "complex64", "complex128"]


def through_bytes(obj, saver=save, loader=load, **options):
    buffer = io.BytesIO()
    saver(obj, buffer)
    buffer.seek(0)
    return loader(buffer, **options)


def values(tensor):
    tensor = tensor.detach()
    return (tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy()


def assert_same(got, expected):
    assert str(got.dtype) == str(expected.dtype)
    assert tuple(got.shape) == tuple(expected.shape)
    assert tuple(got.stride()) == tuple(expected.stride())
    assert got.storage_offset() == expected.storage_offset()
    assert got.requires_grad == expected.requires_grad
    np.testing.assert_array_equal(values(got), values(expected))


class Plain:
    def __init__(self):
        self.x = 1


class Touch:
    """Makes a file when it is unpickled: the attack that weights_only is against."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.fixture(autouse=True)
def _no_added_globals():
    yield
    clear_safe_globals()


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_comes_back(name):
    tensor = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(torch, name))
    assert_same(through_bytes(tensor), tensor)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 0), (1,), (2, 3, 4)])
def test_every_shape_comes_back(shape):
    assert_same(through_bytes(torch.ones(shape)), torch.ones(shape))


def test_views_keep_their_strides_and_share_one_storage():
    base = torch.arange(24.0)
    views = [base, base[3:9], base.view(4, 6).t(), base[::2], base[5:6].expand(2, 3)]
    loaded = through_bytes(views)
    for got, expected in zip(loaded, views, strict=True):
        assert_same(got, expected)
    loaded[0].zero_()
    assert float(loaded[2].abs().sum()) == 0


def test_parameters_and_gradient_flags():
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    loaded = through_bytes([parameter, parameter, torch.ones(2, requires_grad=True)])
    assert type(loaded[0]) is torch.nn.Parameter
    assert loaded[0] is loaded[1]
    assert not loaded[0].requires_grad
    assert loaded[2].requires_grad


PLAIN = [
    1,
    -1,
    2**40,
    -(10**30),
    1.5,
    float("inf"),
    None,
    True,
    "é\n",
    b"a\x00",
    bytearray(b"q"),
]
PLAIN += [(), (1,), (1, 2, 3, 4), {1, 2}, {}, {"k": [1, {"z": ()}]}, 1 + 2j, [300, 70000]]
PLAIN += [collections.OrderedDict(a=1), collections.Counter("aab")]


@pytest.mark.parametrize("obj", PLAIN, ids=repr)
def test_plain_objects_come_back(obj):
    loaded = through_bytes(obj)
    assert loaded == obj
    assert type(loaded) is type(obj)


def test_dtype_device_and_size_come_back():
    for obj in (torch.float32, torch.device("cpu"), torch.Size([2, 3])):
        assert through_bytes([obj, obj]) == [obj, obj]


def test_state_dict_keeps_order_and_metadata():
    state = collections.OrderedDict(b=torch.ones(1), a=torch.zeros(2))
    state._metadata = collections.OrderedDict({"": {"version": 1}})
    loaded = through_bytes(state)
    assert list(loaded) == ["b", "a"]
    assert loaded._metadata == state._metadata


def test_a_cycle_comes_back():
    ring = []
    ring.append(ring)
    loaded = through_bytes(ring)
    assert loaded[0] is loaded


# Refusals


def test_a_file_runs_no_code_by_default(tmp_path):
    target = tmp_path / "made"
    with pytest.raises(pickle.UnpicklingError, match=r"_io\.open|io\.open|builtins\.open"):
        through_bytes({"w": torch.ones(1), "x": Touch(str(target))})
    assert not target.exists()


def test_an_unknown_class_is_named_with_the_way_out():
    with pytest.raises(pickle.UnpicklingError, match=r"add_safe_globals\(\[.*Plain\]\)"):
        through_bytes(Plain())


def test_a_class_may_be_allowed():
    with safe_globals([Plain]):
        assert through_bytes(Plain()).x == 1
    assert get_safe_globals() == []
    add_safe_globals([(Plain, f"{Plain.__module__}.Plain")])
    assert through_bytes(Plain()).x == 1


def test_trust_builds_everything():
    assert through_bytes(Plain(), weights_only=False).x == 1


def _file_with(pickled):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a/data.pkl", pickled)
        file.writestr("a/data/0", bytes(16))
        file.writestr("a/version", "3\n")
    buffer.seek(0)
    return buffer


def _tensor_pickle(offset, size, stride, dtype=b"ctorch\nFloatStorage\n"):
    storage = (
        b"(X\x07\x00\x00\x00storage" + dtype + b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ"
    )
    numbers = pickle.dumps((offset, size, stride), protocol=2)[2:-1]
    unpacked = b"".join(pickle.dumps(part, protocol=2)[2:-1] for part in (offset, size, stride))
    assert numbers
    hooks = b"ccollections\nOrderedDict\n)R"
    head = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
    return head + storage + unpacked + b"\x89" + hooks + b"tR."


def test_a_well_formed_tensor_pickle_loads():
    assert tuple(load(_file_with(_tensor_pickle(0, (2, 2), (2, 1)))).shape) == (2, 2)


@pytest.mark.parametrize(
    ("offset", "size", "stride"),
    [
        (1, (2, 2), (2, 1)),
        (0, (5,), (1,)),
        (0, (2,), (10**15,)),
        (-1, (1,), (1,)),
        (0, (2,), (-1,)),
        (0, (-1,), (1,)),
        (0, (2,), (1, 1)),
        (0, ("a",), (1,)),
    ],
)
def test_a_view_outside_its_storage_is_refused(offset, size, stride):
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        load(_file_with(_tensor_pickle(offset, size, stride)))


@pytest.mark.parametrize(
    "program",
    [
        b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.",
        b"\x80\x02cbuiltins\ngetattr\n.",
        b"\x80\x02c__builtin__\neval\n.",
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}X\x01\x00\x00\x00aK\x01sb.",  # state
        b"\x80\x02ccollections\nOrderedDict\n}X\x01\x00\x00\x00aK\x01sb.",
        b"\x80\x02K\x01K\x02\x85R.",  # a call of a number
        b"\x80\x02\x82\x01.",  # the extension registry
        b"\x80\x02X\xff\xff\xff\x7fabc.",
        b"\x80\x02cbuiltins\nset\n",
        b"\x80\x02ctorch._dynamo\nrun\n.",
        b"\x80\x02ctorch.serialization\nload\n.",
    ],
)
def test_crafted_programs_are_refused(program):
    with pytest.raises(pickle.UnpicklingError):
        load(_file_with(program))


def test_the_file_is_named_that_cannot_be_read(tmp_path):
    path = tmp_path / "junk.pt"
    for content, kind in (
        (b"junkjunk", pickle.UnpicklingError), (b"", EOFError), (b"\x80\x02j", Exception),
        (pickle.dumps(1), RuntimeError), (b"PK\x03\x04junk", RuntimeError),
    ):  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(kind, match=re.escape(repr(str(path)))) as found:
            torch.load(path)
        assert str(found.value).count("junk.pt") == 1


@pytest.mark.parametrize("seed", range(4))
def test_damaged_pickles_raise_and_nothing_worse(seed):
    rng = random.Random(seed)
    buffer = io.BytesIO()
    save({"w": torch.ones(2, 2), "n": [1, (2, 3)], "s": {1, 2}}, buffer)
    with zipfile.ZipFile(buffer) as file:
        good = file.read("archive/data.pkl")
    for _ in range(200):
        bad = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        try:
            load(_file_with(bytes(bad)))
        except (pickle.UnpicklingError, RuntimeError, OverflowError, MemoryError):
            pass


def test_a_flipped_bit_in_a_storage_is_noticed():
    buffer = io.BytesIO()
    save(torch.ones(4), buffer)
    data = bytearray(buffer.getvalue())
    data[data.find(np.ones(4, np.float32).tobytes())] ^= 1
    with pytest.raises(RuntimeError, match="checksum"):
        load(io.BytesIO(bytes(data)))


@pytest.mark.parametrize("kept", [3, 300, -20])
def test_a_file_cut_short_is_noticed(kept):
    buffer = io.BytesIO()
    save(torch.ones(100), buffer)
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        load(io.BytesIO(buffer.getvalue()[:kept]))


def test_an_empty_file_and_a_wrong_type():
    with pytest.raises(EOFError):
        load(io.BytesIO(b""))
    with pytest.raises(AttributeError, match="seek"):
        load(5)
    with pytest.raises(AttributeError, match="write"):
        save(1, 5)


# Paths


def test_paths_mapping_and_private_writes(tmp_path):
    path = tmp_path / "weights.pt"
    save({"w": torch.ones(3, 4)}, path)
    mapped = load(str(path), mmap=True)
    mapped["w"].zero_()
    assert_same(load(path)["w"], torch.ones(3, 4))
    assert os.listdir(tmp_path) == ["weights.pt"]


def test_records_begin_at_aligned_offsets(tmp_path):
    path = tmp_path / "weights.pt"
    save([torch.ones(3), torch.ones(5)], path)
    reader = archive.ArchiveReader(path)
    with zipfile.ZipFile(path) as file, open(path, "rb") as stream:
        offsets = [reader._data_offset(stream, info) for info in file.infolist()]
    assert all(offset % 64 == 0 for offset in offsets)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "weights.pt"
    save(torch.ones(2), path)
    original = archive.ArchiveWriter.write

    def full_disk(self, record, data):
        if record.startswith("data/"):
            raise OSError(28, "No space left on device")
        original(self, record, data)

    monkeypatch.setattr(archive.ArchiveWriter, "write", full_disk)
    with pytest.raises(OSError, match="No space"):
        save(torch.zeros(2), path)
    monkeypatch.undo()
    assert_same(load(path), torch.ones(2))
    assert os.listdir(tmp_path) == ["weights.pt"]


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is of POSIX")
def test_a_killed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "weights.pt"
    save(torch.ones(2), path)
    script = """
        import os, signal, sys
        from rushlight.serialization.archive import replacing
        with replacing(sys.argv[1]) as stream:
            stream.write(b"half")
            stream.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    """
    code = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(code, env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert_same(load(path), torch.ones(2))


def test_a_link_stays_a_link_and_the_mode_is_kept(tmp_path):
    real, link = tmp_path / "real.pt", tmp_path / "last.pt"
    save(torch.ones(1), real)
    real.chmod(0o640)
    link.symlink_to(real)
    save(torch.zeros(1), link)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert_same(load(real), torch.zeros(1))


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(RuntimeError, match="missing does not exist"):
        save(1, tmp_path / "missing" / "x.pt")


# Devices


def test_map_location():
    seen = []

    def stay(storage, location):
        seen.append(location)
        return storage

    for where in ("cpu", torch.device("cpu"), stay, {"cuda:0": "cpu"}, lambda *_: None):
        assert_same(through_bytes(torch.ones(2), map_location=where), torch.ones(2))
    assert seen == ["cpu"]
    with pytest.raises(RuntimeError, match=r"torch\.cuda\.is_available\(\) is False"):
        through_bytes(torch.ones(2), map_location="cuda:0")


# PyTorch


def _objects(torch):
    base = torch.arange(12.0)
    return {
        "views": [base, base[2:8], base.view(3, 4).t()],
        "dtypes": [torch.tensor([0, 1, 2]).to(getattr(torch, name)) for name in DTYPES],
        "empty": [torch.empty(0), torch.empty(0, 3), torch.tensor(3.5)],
        "parameter": [torch.nn.Parameter(torch.ones(2))],
        "flag": [torch.ones(2, requires_grad=True)],
        "state": collections.OrderedDict(w=torch.ones(2)),
        "lr": 0.1,
        "facts": (torch.float32, torch.device("cpu"), torch.Size([1])),
    }


def _compare(got, expected):
    for key in ("views", "dtypes", "empty", "parameter", "flag"):
        for one, other in zip(got[key], expected[key], strict=True):
            assert_same(one, other)
    views = got["views"]
    assert len({view.untyped_storage().data_ptr() for view in views}) == 1
    assert type(got["parameter"][0]).__name__ == "Parameter"
    assert (got["lr"], list(got["state"])) == (0.1, ["w"])
    assert tuple(map(str, got["facts"])) == tuple(map(str, expected["facts"]))


@pytest.mark.parametrize("weights_only", [True, False])
def test_pytorch_reads_our_files(weights_only):
    oracle = pytest.importorskip("torch")
    got = through_bytes(_objects(torch), save, oracle.load, weights_only=weights_only)
    _compare(got, _objects(oracle))
    assert type(got["views"][0]) is oracle.Tensor


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("archive_format", [True, False])
def test_we_read_pytorch_files(weights_only, archive_format):
    oracle = pytest.importorskip("torch")

    def saver(obj, stream):
        oracle.save(obj, stream, _use_new_zipfile_serialization=archive_format)

    got = through_bytes(_objects(oracle), saver, load, weights_only=weights_only)
    _compare(got, _objects(torch))
    assert type(got["views"][0]) is torch.Tensor


def test_pytorch_reads_our_old_format():
    oracle = pytest.importorskip("torch")

    def saver(obj, stream):
        save(obj, stream, _use_new_zipfile_serialization=False)

    _compare(through_bytes(_objects(torch), saver, oracle.load), _objects(oracle))


def test_optimizer_state_of_pytorch_loads():
    oracle = pytest.importorskip("torch")
    model = oracle.nn.Linear(3, 2)
    adam = oracle.optim.Adam(model.parameters())
    model(oracle.ones(1, 3)).sum().backward()
    adam.step()
    got = through_bytes(adam.state_dict(), oracle.save, load)
    assert got["param_groups"] == adam.state_dict()["param_groups"]
    for key, state in adam.state_dict()["state"].items():
        for name, tensor in state.items():
            np.testing.assert_array_equal(values(got["state"][key][name]), values(tensor))


# Plain pickles and deep copies


class Wrapped:
    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce__(self):
        return reduce_tensor(self.tensor)

    def __deepcopy__(self, memo):
        return Wrapped(deepcopy_tensor(self.tensor, memo))


def test_plain_pickles_keep_sharing():
    base = torch.arange(6.0).view(2, 3)
    first, second = pickle.loads(pickle.dumps([Wrapped(base), Wrapped(base.t())]))
    assert_same(first, base)
    assert_same(second, base.t())
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", DTYPES)
def test_plain_pickles_of_every_dtype(name):
    tensor = torch.tensor([0, 1, 2]).to(getattr(torch, name))
    assert_same(pickle.loads(pickle.dumps(Wrapped(tensor))), tensor)


def test_deep_copies_share_with_each_other_only():
    base = torch.arange(6.0).view(2, 3)
    pair = copy.deepcopy([Wrapped(base), Wrapped(base.t())])
    assert_same(pair[1].tensor, base.t())
    pair[0].tensor.zero_()
    assert float(pair[1].tensor.sum()) == 0
    assert float(base.sum()) == 15


def test_deep_copy_of_a_parameter_takes_its_gradient_along():
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2) * 3
    copied = deepcopy_tensor(parameter, {})
    assert type(copied) is torch.nn.Parameter
    copied.grad.zero_()
    assert float(parameter.grad.sum()) == 6


def test_deep_copy_of_a_module_that_remembers_an_activation():
    class Remembers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(2, 2)

        def forward(self, x):
            self.last = self.inner(x)
            self.parts = [self.last[0], self.last]
            return self.last

    model = Remembers()
    model(torch.ones(1, 2)).sum().backward()
    copied = copy.deepcopy(model)
    assert copied.inner.weight is not model.inner.weight
    assert torch.equal(copied.last, model.last)
    assert copied.last.grad_fn is None and not copied.last.requires_grad
    copied.last.zero_()
    assert copied.parts[0].tolist() == [0.0, 0.0]  # what shared memory still does
    assert model.last.grad_fn is not None and float(model.last.abs().sum()) > 0
