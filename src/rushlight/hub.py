"""`torch.hub`: files fetched once and kept, and models from a repository's `hubconf.py`.

Files lie where PyTorch keeps them (`$TORCH_HOME`, else `~/.cache/torch`), so that neither
fetches what the other has.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import urllib.error
import urllib.request
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO  # Any: a model, or what a file holds
from urllib.parse import urlparse

from rushlight import serialization

__all__ = [
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url",
    "set_dir",
]  # fmt: skip

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # weights-<start of sha256>.pth
READ_DATA_CHUNK = 128 * 1024
MODULE_HUBCONF = "hubconf.py"
GITHUB = "https://github.com"
_chosen: dict[str, str] = {}


# -- where files lie


def _get_torch_home() -> str:
    """The folder of all caches of PyTorch's."""
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder of models and weights: `set_dir`'s, else `$TORCH_HOME/hub`."""
    return _chosen.get("dir") or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Choose the folder of models and weights."""
    _chosen["dir"] = os.path.expanduser(os.fspath(d))


# -- files


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Fetch a file to a path, whole or not at all.

    hash_prefix: the start that its SHA-256 must have; RuntimeError otherwise. progress: write
    how much is there to the standard error stream.
    """
    place = os.path.expanduser(dst)
    request = urllib.request.Request(url, headers={"User-Agent": "rushlight.hub"})
    digest = hashlib.sha256()
    with urllib.request.urlopen(request) as answer, _temporary(place) as file:
        size = int(answer.headers.get("Content-Length") or 0)
        for done, chunk in _chunks(answer):
            file.write(chunk)
            digest.update(chunk)
            if progress:
                _show(done, size)
        if progress:
            sys.stderr.write("\n")
        found = digest.hexdigest()
        if hash_prefix is not None and not found.startswith(hash_prefix):
            raise RuntimeError(
                f'invalid hash value (expected "{hash_prefix}", got "{found}") of {url}'
            )


@contextlib.contextmanager
def _temporary(place: str) -> Iterator[BinaryIO]:
    """A file beside a place, moved there when all went well."""
    folder = os.path.dirname(place) or "."
    file = tempfile.NamedTemporaryFile(dir=folder, suffix=".partial", delete=False)  # noqa: SIM115
    try:
        with file:
            yield file.file  # type: ignore[misc]
        os.replace(file.name, place)
    except BaseException:
        os.unlink(file.name)
        raise


def _chunks(answer: Any) -> Iterator[tuple[int, bytes]]:
    done = 0
    while chunk := answer.read(READ_DATA_CHUNK):
        done += len(chunk)
        yield done, chunk


def _show(done: int, size: int) -> None:
    """Write the progress over the last one: a bar where the size is known."""
    text = f"{done / 2**20:.1f} MiB"
    if size:
        bar = "#" * (20 * done // size)
        text = f"{100 * done // size:3d}% |{bar:<20}| {text} of {size / 2**20:.1f} MiB"
    sys.stderr.write(f"\r{text}")
    sys.stderr.flush()


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """What a file holds (`torch.load`), fetched to `model_dir` unless it is there.

    check_hash: the file's name says how its SHA-256 starts (`weights-5c106cde.pth`).
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    place = os.path.join(folder, name)
    if not os.path.exists(place):
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, place, found.group(1) if found else None, progress)
    return serialization.load(place, map_location=map_location, weights_only=weights_only)


# -- models


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: bool | str | None = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What the function `model` of a repository's `hubconf.py` makes of the arguments.

    repo_or_dir: "owner/name[:ref]" on GitHub, or with source="local" a folder. The file is
    run: it must be trusted, see `trust_repo`. force_reload: fetch it although it is there.

    trust_repo: True for a repository that is to be run; "check" or False ask on the terminal
    if it is not known yet; None warns.
    """
    folder = _folder_of(repo_or_dir, source, trust_repo, force_reload)
    with _importable(folder):
        return _entry(_hubconf(folder), model)(*args, **kwargs)


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str | None = None,
    verbose: bool = True,
    source: str = "github",
) -> Any:
    """The names of the functions that a repository's `hubconf.py` offers."""
    folder = _folder_of(github, source, trust_repo, force_reload)
    with _importable(folder):
        offered = vars(_hubconf(folder))
    return [name for name, f in offered.items() if callable(f) and not name.startswith("_")]


def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str | None = None,
    source: str = "github",
) -> str | None:
    """The docstring of a function of a repository's `hubconf.py`."""
    folder = _folder_of(github, source, trust_repo, force_reload)
    with _importable(folder):
        text: str | None = _entry(_hubconf(folder), model).__doc__
    return text


def _folder_of(repo: str, source: str, trust: bool | str | None, force_reload: bool) -> str:
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "local":
        return os.path.expanduser(repo)
    owner, name, ref = _parts(repo)
    _check_trusted(owner, name, trust)
    return _fetched(owner, name, ref or _default_branch(owner, name), force_reload)


def _parts(repo: str) -> tuple[str, str, str | None]:
    name, _, ref = repo.partition(":")
    owner, _, project = name.partition("/")
    if not owner or not project or "/" in project:
        raise ValueError(f'hub: expected "owner/name[:ref]", got "{repo}"')
    return owner, project, ref or None


def _default_branch(owner: str, name: str) -> str:
    try:
        with urllib.request.urlopen(f"{GITHUB}/{owner}/{name}/tree/main/"):
            return "main"
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return "master"
    except urllib.error.URLError:
        for branch in ("main", "master"):
            if os.path.exists(_place(owner, name, branch)):
                return branch
        raise


def _place(owner: str, name: str, ref: str) -> str:
    return os.path.join(get_dir(), "_".join([owner, name, ref.replace("/", "_")]))


def _fetched(owner: str, name: str, ref: str, force_reload: bool) -> str:
    place = _place(owner, name, ref)
    if os.path.exists(place) and not force_reload:
        return place
    os.makedirs(get_dir(), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=get_dir()) as folder:
        archive = os.path.join(folder, "repository.zip")
        download_url_to_file(f"{GITHUB}/{owner}/{name}/zipball/{ref}", archive, None, False)
        with zipfile.ZipFile(archive) as file:
            root = file.namelist()[0].split("/")[0]
            file.extractall(folder)
        shutil.rmtree(place, ignore_errors=True)
        shutil.move(os.path.join(folder, root), place)
    return place


def _check_trusted(owner: str, name: str, trust: bool | str | None) -> None:
    known = Path(get_dir()) / "trusted_list"
    line = f"{owner}_{name}"
    if known.exists() and line in known.read_text().split():
        return
    if trust is None:
        warnings.warn(
            f"hub: {MODULE_HUBCONF} of {owner}/{name} is run, which nobody said is to be "
            "trusted: trust_repo=True says so, and trust_repo='check' asks",
            stacklevel=4,
        )
        return
    if trust is not True:
        answer = input(f"{owner}/{name} is not known to be trusted: run its code? (y/N) ")
        if answer.strip().lower() not in ("y", "yes"):
            raise RuntimeError(f"hub: {owner}/{name} is not trusted")
    known.parent.mkdir(parents=True, exist_ok=True)
    with known.open("a") as file:
        file.write(line + "\n")


@contextlib.contextmanager
def _importable(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _hubconf(folder: str) -> ModuleType:
    place = os.path.join(folder, MODULE_HUBCONF)
    if not os.path.exists(place):
        raise FileNotFoundError(f"hub: there is no {MODULE_HUBCONF} in {folder}")
    spec = importlib.util.spec_from_file_location("hubconf", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in getattr(module, "dependencies", ()):
        if not _check_module_exists(name):
            raise RuntimeError(f"Missing dependencies: {name}")
    return module


def _check_module_exists(name: str) -> bool:
    """Whether a module could be imported."""
    return name in sys.modules or importlib.util.find_spec(name) is not None


def _entry(module: ModuleType, model: str) -> Any:
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    found = getattr(module, model, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return found
