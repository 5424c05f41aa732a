"""Files and models fetched once and kept, from addresses on this machine."""

import hashlib
import importlib
import io
import zipfile

import pytest

import rushlight
from rushlight import nn

hub = importlib.import_module("rushlight.hub")

HUBCONF = '''
dependencies = ["json"]
from width import WIDTH

def linear(outputs, bias=True):
    """A layer."""
    from rushlight import nn
    return nn.Linear(WIDTH, outputs, bias=bias)

def _hidden():
    pass
'''


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder of all caches, for one test."""
    monkeypatch.setattr(hub, "_chosen", {})
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def weights(folder):
    """A file of a layer's state, and the layer."""
    layer = nn.Linear(2, 3)
    rushlight.save(layer.state_dict(), folder / "raw.pth")
    content = (folder / "raw.pth").read_bytes()
    place = folder / f"weights-{hashlib.sha256(content).hexdigest()[:8]}.pth"
    place.write_bytes(content)
    return place, layer


def test_the_folder_is_pytorchs(folder, monkeypatch):
    assert hub.get_dir() == str(folder / "home" / "hub")
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert hub.get_dir() == "/caches/torch/hub"
    hub.set_dir(folder)
    assert hub.get_dir() == str(folder)


def test_weights_are_fetched_once(folder, weights, capsys):
    place, layer = weights
    state = hub.load_state_dict_from_url(place.as_uri(), check_hash=True)
    assert state["weight"].equal(layer.weight)
    assert "100%" in capsys.readouterr().err
    kept = folder / "home" / "hub" / "checkpoints" / place.name
    assert kept.read_bytes() == place.read_bytes()
    place.unlink()
    again = rushlight.utils.model_zoo.load_url(place.as_uri(), progress=False)
    assert again["bias"].equal(layer.bias)
    assert capsys.readouterr().err == ""


def test_a_file_of_another_hash_is_not_kept(folder, weights):
    place, _ = weights
    with pytest.raises(RuntimeError, match='invalid hash value .expected "0000"'):
        hub.download_url_to_file(place.as_uri(), str(folder / "copy"), "0000", False)
    assert not (folder / "copy").exists()
    assert not list(folder.glob("*.partial"))


def write_repository(place):
    place.mkdir(parents=True)
    (place / "hubconf.py").write_text(HUBCONF)
    (place / "width.py").write_text("WIDTH = 4\n")


def test_a_model_of_a_folder(folder):
    write_repository(folder / "repository")
    local = {"source": "local"}
    place = str(folder / "repository")
    assert hub.load(place, "linear", 3, bias=False, **local).weight.shape == (3, 4)
    assert hub.list(place, **local) == ["linear"]
    assert hub.help(place, "linear", **local) == "A layer."
    with pytest.raises(RuntimeError, match="Cannot find callable conv"):
        hub.load(place, "conv", **local)
    with pytest.raises(FileNotFoundError, match=r"no hubconf.py"):
        hub.load(str(folder), "linear", **local)
    with pytest.raises(ValueError, match="Unknown source"):
        hub.load(place, "linear", source="gitlab")


@pytest.fixture
def github(folder, monkeypatch):
    """A site with an archive of one repository."""
    write_repository(folder / "content")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("hubconf.py", "width.py"):
            file.write(folder / "content" / name, f"owner-name-1234/{name}")
    place = folder / "site" / "owner" / "name" / "zipball" / "v1"
    place.parent.mkdir(parents=True)
    place.write_bytes(archive.getvalue())
    monkeypatch.setattr(hub, "GITHUB", (folder / "site").as_uri())
    return place


def test_a_model_of_a_repository_is_fetched_once(folder, github):
    made = hub.load("owner/name:v1", "linear", 2, trust_repo=True)
    assert made.weight.shape == (2, 4)
    assert (folder / "home" / "hub" / "owner_name_v1" / "hubconf.py").exists()
    github.unlink()
    assert hub.load("owner/name:v1", "linear", 5, trust_repo="check").weight.shape == (5, 4)
    with pytest.raises(ValueError, match="expected"):
        hub.load("name", "linear")


def test_a_repository_that_is_not_trusted_is_not_run(github, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda _: "n")
    with pytest.raises(RuntimeError, match="owner/name is not trusted"):
        hub.load("owner/name:v1", "linear", 2, trust_repo="check")
    with pytest.warns(UserWarning, match="trust_repo=True says so"):
        hub.load("owner/name:v1", "linear", 2)


def test_extensions_are_refused_when_built():
    extension = rushlight.utils.cpp_extension
    assert extension.BuildExtension.with_options(use_ninja=False) is extension.BuildExtension
    for call in (extension.load, extension.CUDAExtension, extension.BuildExtension):
        with pytest.raises(NotImplementedError, match=r"C\+\+ interface"):
            call(name="x", sources=["x.cpp"])
