"""Which saved state belongs to which parameter, when an optimizer takes over a state_dict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # groups hold settings of any kind

Group = dict[str, Any]


def matched(own: Sequence[Group], saved: Sequence[Group]) -> dict[Any, Any]:
    """Own parameters by the numbers of the saved ones.

    By name where both sides know names: the order of a model's parameters may have changed. All
    names different is taken for another prefix (a wrapped model), and matched by position.
    """
    _check_same_groups(own, saved)
    found: dict[Any, Any] = {}
    for mine, theirs in zip(own, saved, strict=True):
        places = _places(mine.get("param_names"), theirs.get("param_names"))
        for number, at in zip(
            theirs["params"], places or range(len(mine["params"])), strict=True
        ):
            found[number] = mine["params"][at]
    return found


def _places(own: list[str] | None, saved: list[str] | None) -> list[int] | None:
    """Where each saved name stands among one's own; nothing to go by position."""
    if own is None or saved is None or own == saved or set(own).isdisjoint(saved):
        return None
    missing, unexpected = sorted(set(own) - set(saved)), sorted(set(saved) - set(own))
    if missing or unexpected:
        raise ValueError(
            f"loaded state dict contains a parameter group that doesn't match the names of "
            f"optimizer's group: missing {missing}, unexpected {unexpected}"
        )
    return [own.index(name) for name in saved]


def merged(own: Group, saved: Group) -> Group:
    """A group with the saved settings and one's own parameters."""
    kept = {key: own[key] for key in ("params", "param_names") if key in own}
    return {**saved, **kept}


def _check_same_groups(own: Sequence[Group], saved: Sequence[Group]) -> None:
    if len(own) != len(saved):
        raise ValueError("loaded state dict has a different number of parameter groups")
    for mine, theirs in zip(own, saved, strict=True):
        if len(mine["params"]) != len(theirs["params"]):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
