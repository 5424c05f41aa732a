"""`torch.distributed` in a build that computes in one process.

It says so through `is_available`, as PyTorch does where it was built without this part. Scripts
that import its names for another way of starting them run; starting a group is refused.
"""

from __future__ import annotations

from typing import NoReturn


def is_available() -> bool:
    """Whether several processes can compute together: not in this version."""
    return False


def is_initialized() -> bool:
    """Whether a process group was started: none can be."""
    return False


def init_process_group(backend: str | None = None, **options: object) -> NoReturn:
    """Refuse: processes cannot be joined to a group."""
    raise RuntimeError(
        "init_process_group: this version of rushlight computes in one process only"
    )


def destroy_process_group(group: object = None) -> NoReturn:
    """Refuse: there is no group to leave."""
    no_group()


def get_rank(group: object = None) -> int:
    """This process's number in its group."""
    no_group()


def get_world_size(group: object = None) -> int:
    """The number of processes in the group."""
    no_group()


def barrier(group: object = None) -> NoReturn:
    """Wait for the other processes of the group."""
    no_group()


def no_group() -> NoReturn:
    """Raise what PyTorch raises where a group is needed and none was started."""
    raise ValueError(
        "Default process group has not been initialized, please make sure to call "
        "init_process_group."
    )
