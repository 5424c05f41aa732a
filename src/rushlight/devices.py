"""Where a tensor lives. Only `cpu` holds data today; `meta` has shapes and no data."""

from __future__ import annotations

_KNOWN = ("cpu", "cuda", "mps", "meta", "xpu", "xla", "hpu", "mtia")


class device:
    """A device by type and optional index: `device("cpu")`, `device("cuda", 0)`.

    Naming a device is harmless; placing data on one that this build lacks raises.
    """

    __slots__ = ("index", "type")

    def __init__(self, type: str | device | int = "cpu", index: int | None = None) -> None:
        if isinstance(type, device):
            self.type, self.index = type.type, type.index if index is None else index  # type: ignore[has-type]
            return
        if isinstance(type, int):
            self.type, self.index = "cuda", type
            return
        if not isinstance(type, str):
            raise TypeError(
                f"device: argument 'type' must be str, not {type.__class__.__name__}"
            )
        name, _, number = type.partition(":")
        if name not in _KNOWN:
            raise RuntimeError(
                f"Expected one of {', '.join(_KNOWN)} device type at start of device string: "
                f"{type}"
            )
        if number and not number.isdigit():
            raise RuntimeError(f"Invalid device string: '{type}'")
        self.type = name
        self.index = int(number) if number else index

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, device):
            return NotImplemented
        return self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[type[device], tuple[str, int | None]]:
        return device, (self.type, self.index)

    def __enter__(self) -> device:
        from rushlight import config  # config imports this module

        config.push_device(self)
        return self

    def __exit__(self, *exc: object) -> None:
        from rushlight import config  # config imports this module

        config.pop_device()


CPU = device("cpu")
META = device("meta")


def check_usable(place: device | str | int | None) -> device:
    """`place` as a device that can hold data here; RuntimeError says which cannot."""
    if place is None:
        return CPU
    found = place if isinstance(place, device) else device(place)
    if found.type == "cpu":
        return CPU
    if found.type == "meta":
        return META
    raise RuntimeError(
        f"device '{found}' is not available: this build of rushlight runs on the CPU only"
    )
