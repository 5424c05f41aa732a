"""What `save` and `load` do where a call does not say."""

import io
import mmap
import zipfile

import pytest

import rushlight
from rushlight import serialization


def saved(**tensors):
    file = io.BytesIO()
    rushlight.save(tensors, file)
    file.seek(0)
    return file


def test_skipped_data_are_zeros_when_written_and_when_read(tmp_path):
    with serialization.skip_data():
        file = saved(a=rushlight.ones(3))
    assert rushlight.load(file)["a"].tolist() == [0.0] * 3
    file = saved(a=rushlight.ones(3))
    with serialization.skip_data():
        assert rushlight.load(file)["a"].tolist() == [0.0] * 3
    file.seek(0)
    assert rushlight.load(file)["a"].tolist() == [1.0] * 3


def test_a_shared_mapping_writes_to_the_file(tmp_path):
    path = tmp_path / "a.pt"
    rushlight.save({"a": rushlight.ones(3)}, path)
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        rushlight.load(path, mmap=True)["a"].numpy()[...] = 5
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is not None  # the checksum is that of the old data
    with pytest.raises(RuntimeError, match="checksum"):
        rushlight.load(path)
    assert rushlight.load(path, mmap=True)["a"].tolist() == [5.0] * 3


def test_files_without_byte_order_are_read_in_the_default_one():
    source = zipfile.ZipFile(saved(a=rushlight.tensor([1], dtype=rushlight.int32)))
    bare = io.BytesIO()
    with zipfile.ZipFile(bare, "w") as target:
        for name in source.namelist():
            if not name.endswith("byteorder"):
                target.writestr(name, source.read(name))
    bare.seek(0)
    assert rushlight.load(bare)["a"].item() == 1
    serialization.set_default_load_endianness(serialization.LoadEndianness.BIG)
    try:
        bare.seek(0)
        assert rushlight.load(bare)["a"].item() == 1 << 24
    finally:
        serialization.set_default_load_endianness(None)


class Unknown:
    """What no file may build unasked."""


def test_unsafe_globals_are_found_without_running_anything():
    file = io.BytesIO()
    rushlight.save([rushlight.ones(1), Unknown()], file)
    file.seek(0)
    name = f"{Unknown.__module__}.Unknown"
    assert serialization.get_unsafe_globals_in_checkpoint(file) == [name]
    with serialization.safe_globals([Unknown]):
        assert serialization.get_unsafe_globals_in_checkpoint(file) == []
    with pytest.raises(ValueError, match="returned by torch.save"):
        serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(b"none"))


def test_registered_places_are_asked(monkeypatch):
    locations = "rushlight.serialization.locations._packages"
    monkeypatch.setattr(locations, [])
    serialization.register_package(
        5,
        lambda s: "moon" if s.nbytes() == 12 else None,
        lambda s, at: s if at == "moon" else None,
    )
    storage = rushlight.ones(3).untyped_storage()
    assert serialization.location_tag(storage) == "moon"
    assert serialization.location_tag(rushlight.ones(1).untyped_storage()) == "cpu"
    assert serialization.default_restore_location(storage, "moon") is storage
    assert rushlight.load(saved(a=rushlight.ones(2)), map_location="moon")["a"].sum() == 2
    with pytest.raises(RuntimeError, match="deserialize object on a MARS device"):
        serialization.default_restore_location(storage, "mars:0")
    with pytest.raises(RuntimeError, match="CUDA"):
        serialization.validate_cuda_device("cuda:0")


def test_versions_storages_and_folders():
    torch = pytest.importorskip("torch")

    class module:
        __version__ = "2.10.1"

    for t in (torch, rushlight):
        asked = t.serialization.check_module_version_greater_or_equal
        assert asked(module, (2, 9)) and not asked(module, (2, 11))
        with t.serialization.mkdtemp() as folder:
            assert folder
        assert (
            str(t.serialization.StorageType("HalfStorage"))
            == "StorageType(dtype=torch.float16)"
        )
    module.__version__ = "two"
    module.__name__ = "module"
    with pytest.raises(RuntimeError, match="malformed"):
        rushlight.serialization.check_module_version_greater_or_equal(module, (2,))
