"""What a profile looks at, and in which steps of a loop."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NoReturn


class ProfilerActivity(Enum):
    """Kinds of devices. There is work on the CPU alone; the others may be named."""

    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5


DeviceType = Enum(
    "DeviceType",
    "CPU CUDA MKLDNN OPENGL OPENCL IDEEP HIP FPGA MAIA XLA Vulkan Metal XPU MPS Meta HPU VE "
    "Lazy IPU MTIA PrivateUse1",
    start=0,
)
"""Where an event ran: always the CPU."""


class ProfilerAction(Enum):
    """What a profile does with a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def supported_activities() -> set[ProfilerActivity]:
    """The kinds of devices whose work a profile sees.

    >>> import rushlight as torch
    >>> torch.profiler.supported_activities()
    {<ProfilerActivity.CPU: 0>}
    """
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Whether a profile records events: it does."""
    return True


class ExecutionTraceObserver:
    """PyTorch's trace of operators for replaying them: there is none here."""

    def register_callback(self, output_file_path: str) -> NoReturn:
        """Raises NotImplementedError: `export_chrome_trace` writes what ran."""
        raise NotImplementedError(
            "ExecutionTraceObserver: there are no traces for replay; see export_chrome_trace"
        )


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:  # fmt: skip
    """Of each cycle of steps `wait` are left alone, `warmup` run under the profile without
    being kept, and `active` are recorded; `repeat` cycles (0: no end) after `skip_first` steps.

    `skip_first_wait`: the first cycle does not wait.

    >>> import rushlight as torch
    >>> plan = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            "Invalid profiler schedule arguments: wait, warmup, repeat and skip_first are at "
            f"least 0 and active at least 1, got wait={wait}, warmup={warmup}, "
            f"active={active}, repeat={repeat}, skip_first={skip_first}"
        )

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle, place = divmod(step, wait + warmup + active)
        if repeat and cycle >= repeat or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        is_last = place == wait + warmup + active - 1
        return ProfilerAction.RECORD_AND_SAVE if is_last else ProfilerAction.RECORD

    return action
