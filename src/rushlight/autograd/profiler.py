"""`torch.autograd.profiler`: the older face of `torch.profiler`."""

from __future__ import annotations

from typing import Any

from rushlight.profiler import profile as _profile
from rushlight.profiler import record_function
from rushlight.profiler.events import EventList, FunctionEvent, FunctionEventAvg, Interval

__all__ = [
    "EventList", "FunctionEvent", "FunctionEventAvg", "Interval", "emit_itt", "emit_nvtx",
    "profile", "record_function",
]  # fmt: skip


class profile:
    """Record which kernels run while the context is open: see `torch.profiler.profile`.

    >>> import rushlight as torch
    >>> with torch.autograd.profiler.profile() as prof:
    ...     total = torch.ones(3).exp().sum().item()
    >>> [event.name for event in prof.function_events if event.is_kernel]
    ['exp + sum']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        self.enabled = enabled
        self._inner = _profile(
            record_shapes=record_shapes,
            with_flops=with_flops,
            profile_memory=profile_memory,
            with_stack=with_stack,
        )

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        self._inner.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.enabled:
            self._inner.stop()

    @property
    def function_events(self) -> EventList:
        """Everything that was recorded, in order of time."""
        return self._inner.events()

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:  # fmt: skip
        """The events by name."""
        return self._inner.key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """One average of everything."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """All time in events, in microseconds."""
        return self.function_events.self_cpu_time_total

    def table(self, *args: Any, **kwargs: Any) -> str:
        """The events as text: see `EventList.table`."""
        return self.function_events.table(*args, **kwargs)

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing or Perfetto."""
        self._inner.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write, for flame graphs, the lines that recorded what ran."""
        self._inner.export_stacks(path, metric)

    def __repr__(self) -> str:
        return str(self.function_events)

    __str__ = __repr__


class _Marks:
    """Marks for a vendor's profiler, which needs its library: nothing here reads them."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> _Marks:
        return self

    def __exit__(self, *exc: object) -> None:
        return None


class emit_nvtx(_Marks):
    """Marks for NVIDIA's profilers: accepted, without effect."""


class emit_itt(_Marks):
    """Marks for Intel's profilers: accepted, without effect."""
