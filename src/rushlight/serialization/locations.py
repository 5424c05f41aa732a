"""Where storages of a file go: the CPU, `meta`, and what `register_package` adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn  # storages

Tagger = Callable[[Any], "str | None"]
Deserializer = Callable[[Any, str], Any]
_packages: list[tuple[int, Tagger, Deserializer]] = []


def register_package(priority: int, tagger: Tagger, deserializer: Deserializer) -> None:
    """Ask two more functions about storages, those of lower priority first.

    tagger: the location of a storage, or None. deserializer: of (storage, location) the
    storage there, or None. `load` asks them about locations that are neither the CPU nor
    `meta`.
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda entry: entry[0])


def location_tag(storage: Any) -> str:
    """The name of a storage's place: 'cpu', 'meta', or what a registered tagger says."""
    for _, tagger, _ in _packages:
        found = tagger(storage)
        if found:
            return found
    return str(storage.device)


def registered(storage: Any, location: str) -> Any:
    """The storage where a registered deserializer puts it; None where none does."""
    for _, _, deserializer in _packages:
        found = deserializer(storage, location)
        if found is not None:
            return found
    return None


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage at a location; RuntimeError where that is no place here."""
    found = registered(storage, location)
    if found is not None:
        return found
    if location == "cpu":
        return storage
    refuse_location(location)


def refuse_location(location: str) -> NoReturn:
    """Raise for a device of another machine."""
    kind = location.partition(":")[0]
    raise RuntimeError(
        f"Attempting to deserialize object on a {kind.upper()} device but "
        f"torch.{kind}.is_available() is False. If you are running on a CPU-only machine, "
        "please use torch.load with map_location=torch.device('cpu') to map your storages to "
        "the CPU."
    )


def validate_cuda_device(location: str) -> NoReturn:
    """The index of a GPU: raises, for there is none."""
    refuse_location(location)


def validate_hpu_device(location: str) -> NoReturn:
    """The index of an accelerator: raises, for there is none."""
    refuse_location(location)
