"""An optimizer lent other parameters and another state, for the length of a `with` block."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any  # states are plain containers of tensors and numbers

from rushlight.optim.optimizer import Optimizer
from rushlight.tensor import Tensor


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer,
    swapin_parameters: Mapping[str, Tensor],
    swapin_optim_state: Mapping[str, Any],
) -> Iterator[None]:
    """Inside, the optimizer steps on other parameters, with the state of a `state_dict()`.

    The parameters come in the order of the optimizer's own; ValueError where their number, or
    that of the groups, differs. In-place changes of tensors stay in what was given; other
    changes of the state, and of the groups, end with the block.
    """
    groups, saved = optimizer.param_groups, swapin_optim_state["param_groups"]
    _check(groups, swapin_parameters, saved)
    kept = [dict(group) for group in groups]
    state, numbers = optimizer.state, optimizer._numbers
    given = iter(swapin_parameters.values())
    lent: defaultdict[Any, Any] = defaultdict(dict)
    try:
        for group, new in zip(groups, saved, strict=True):
            group.update({k: v for k, v in new.items() if k != "params"})
            group["params"] = [next(given) for _ in group["params"]]
            for param, key in zip(group["params"], new["params"], strict=True):
                lent[param] = dict(swapin_optim_state["state"].get(key, {}))
        optimizer.state, optimizer._numbers = lent, {}
        yield
    finally:
        for group, before in zip(groups, kept, strict=True):
            group.clear()
            group.update(before)
        optimizer.state, optimizer._numbers = state, numbers


def _check(groups: Any, parameters: Mapping[str, Tensor], saved: Any) -> None:
    counts = [len(group["params"]) for group in groups]
    if [len(group["params"]) for group in saved] != counts:
        raise ValueError(
            f"swap_in_optimizer_params_and_state: the state has groups of "
            f"{[len(group['params']) for group in saved]} parameters, the optimizer of {counts}"
        )
    if len(parameters) != sum(counts):
        raise ValueError(
            f"swap_in_optimizer_params_and_state: {len(parameters)} parameters for an "
            f"optimizer of {sum(counts)}"
        )
