"""`profile`: the context that records, and steps through a schedule."""

from __future__ import annotations

import os
import socket
import time
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.profiler import report
from rushlight.profiler.activity import ProfilerAction, ProfilerActivity, supported_activities
from rushlight.profiler.events import EventList
from rushlight.profiler.recording import Recording

_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile:
    """Record which kernels run while the context is open, and how long each takes.

    A kernel goes by the names of the operations in it ("linear + relu"). Its time is that of
    all threads from start to end; kernels that run side by side without a profile follow each
    other under it, so their sum may be a little more than a step takes. "flush" is everything
    from the moment a value is wanted until it is there: what is not in its kernels is planning,
    compiling and Python. Operations run later than they are called: the column "Work" says how
    long the kernels of what was recorded within a `record_function` took.

    Args:
        activities: kinds of devices; what is not there is ignored with a warning.
        schedule: a function of the number of the step, as `schedule` makes; `step()` ends one.
        on_trace_ready: called with the profile when it stops, or at the end of each cycle.
        record_shapes: keep the shapes of what kernels read.
        profile_memory: show how much memory grew in flushes, in bytes.
        with_stack: show the lines that recorded the operations.
        with_flops: show multiplications and additions of matrix products and convolutions.
        with_modules, experimental_config, execution_trace_observer, acc_events, use_cuda,
            custom_trace_id_callback, post_processing_timeout_s: accepted; they change nothing.

    >>> import rushlight as torch
    >>> x = torch.ones(64, 64)
    >>> with torch.profiler.profile(with_flops=True) as prof:
    ...     total = (x @ x).relu().sum().item()
    >>> [average.key for average in prof.key_averages() if average.flops]
    ['contract']
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = set(activities) if activities is not None else supported_activities()
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        missing = {a for a in self.activities if isinstance(a, ProfilerActivity)}
        missing -= supported_activities() | {ProfilerActivity.CUDA}
        if missing:
            names = sorted(a.name for a in missing)
            warnings.warn(f"profile: there are no such devices: {names}", stacklevel=2)
        self.schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.step_num = 0
        self.current_action = schedule(0) if schedule else ProfilerAction.RECORD
        self._metadata: dict[str, Any] = {}
        self._recording: Recording | None = None
        self._step_began = 0

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin the first step."""
        self._begin(self.current_action)

    def stop(self) -> None:
        """End the last step; what was being recorded is ready."""
        has_results = self.current_action in _RECORDING and self._recording is not None
        self._end_step()
        self._pause()
        if has_results:
            self._say_ready()

    def step(self) -> None:
        """End a step of the loop, and begin the next."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = (
            self.schedule(self.step_num) if self.schedule else ProfilerAction.RECORD
        )
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._pause()
            self._say_ready()
        if before is ProfilerAction.RECORD and self.current_action in _RECORDING:
            self._step_began = time.perf_counter_ns()
        else:
            self._begin(self.current_action)

    def _begin(self, action: ProfilerAction) -> None:
        """Begin a step with a new recording: what only warmed up is dropped."""
        self._pause()
        if action is not ProfilerAction.NONE:
            self._recording = Recording()
            self._end = weakref.finalize(self, _end_dropped, self._recording)
            self._end.atexit = False
            self._recording.start()
        self._step_began = time.perf_counter_ns()

    def _pause(self) -> None:
        if self._recording is not None:
            self._end.detach()
            self._recording.stop()

    def _say_ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _end_step(self) -> None:
        """Note how long a step of a schedule took: no range, whose name would be a new path."""
        is_recorded = self.current_action is not ProfilerAction.NONE
        if self.schedule is not None and is_recorded and self._recording is not None:
            name, now = f"ProfilerStep#{self.step_num}", time.perf_counter_ns()
            self._recording.note(name, self._step_began, now, is_user_annotation=True)

    # -- results

    def events(self) -> EventList:
        """Everything that was recorded, in order of time."""
        if self._recording is None:
            raise AssertionError("Profiler must be initialized before getting events")
        if not self.record_shapes:
            for event in self._recording.events:
                event.input_shapes = []
        return EventList(
            self._recording.events,
            profile_memory=self.profile_memory,
            with_flops=self.with_flops,
            with_stack=self.with_stack,
        )

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:  # fmt: skip
        """The events by name: print its `table(sort_by=..., row_limit=...)`."""
        if self._recording is None:
            raise AssertionError("Profiler must be initialized before getting key averages")
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing or Perfetto; compressed if it ends in .gz."""
        if self._recording is None:
            raise AssertionError("Profiler must be initialized before exporting chrome trace")
        report.write_trace(path, self.events(), self._metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write, for flame graphs, the lines that recorded what ran, with microseconds."""
        self.events().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """A text that the trace file will hold."""
        self._metadata[key] = value

    add_metadata_json = preset_metadata_json = add_metadata

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Stop recording for a while, or go on."""
        if self._recording is None or ProfilerActivity.CPU not in set(activities):
            return
        if enable:
            self._recording.start()
        else:
            self._recording.stop()


def _end_dropped(recording: Recording) -> None:
    """For a profile that is collected while it is open. What is pending stays pending: garbage
    is collected in the middle of anything.
    """
    if recording.end():
        warnings.warn(
            "A profile was dropped while it was open: it has ended without results. Call "
            "stop(), or use `with`.",
            stacklevel=2,
        )


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[profile], None]:
    """For `on_trace_ready`: writes a trace file into a folder, one for each cycle (in Python in
    any case).

    >>> import os, tempfile
    >>> import rushlight as torch
    >>> folder = tempfile.mkdtemp()
    >>> handler = torch.profiler.tensorboard_trace_handler(folder, "me")
    >>> with torch.profiler.profile(on_trace_ready=handler):
    ...     total = torch.ones(3).sum().item()
    >>> [name.split(".")[0] for name in os.listdir(folder)]
    ['me']
    """

    def write(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return write
