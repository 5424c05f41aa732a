"""Processes of one program: started together, joined together, failing together."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any  # arguments of any kind


class ProcessException(Exception):
    """Some process did not end well: `error_index` says which."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function raised; the message is its traceback."""


class ProcessExitedException(ProcessException):
    """The process was ended by a signal or by an exit code."""

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (
            self.msg,
            self.error_index,
            self.pid,
            self.exit_code,
            self.signal_name,
        )


def _run(function: Callable[..., Any], rank: int, args: Sequence[Any], errors: Any) -> None:
    try:
        function(rank, *args)
    except KeyboardInterrupt:
        pass  # the parent is interrupted too
    except Exception:
        errors.put(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """Processes that were started: `join` waits for them."""

    def __init__(self, processes: Sequence[Any], error_queues: Sequence[Any]) -> None:
        self.processes, self.error_queues = list(processes), list(error_queues)
        self.sentinels = {p.sentinel: i for i, p in enumerate(self.processes)}

    def pids(self) -> list[int]:
        """The processes' ids."""
        return [p.pid for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until some process ends; True when all have ended well.

        When one fails, the others are ended (after `grace_period` seconds in which they may
        end by themselves), and its exception is raised here.
        """
        if not self.sentinels:
            return True
        ready = multiprocessing.connection.wait(list(self.sentinels), timeout)
        for sentinel in ready:
            rank = self.sentinels.pop(sentinel)
            process = self.processes[rank]
            process.join()
            if process.exitcode != 0:
                self._end_others(grace_period or 0.0)
                raise self._failure(rank)
        return not self.sentinels

    def _end_others(self, grace_period: float) -> None:
        deadline = time.monotonic() + grace_period
        for process in self.processes:
            process.join(max(deadline - time.monotonic(), 0))
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join()

    def _failure(self, rank: int) -> ProcessException:
        process, errors = self.processes[rank], self.error_queues[rank]
        if not errors.empty():
            text = f"\n\n-- Process {rank} terminated with the following error:\n{errors.get()}"
            return ProcessRaisedException(text, rank, process.pid)
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            text = f"process {rank} terminated with signal {name}"
            return ProcessExitedException(text, rank, process.pid, code, name)
        text = f"process {rank} terminated with exit code {code}"
        return ProcessExitedException(text, rank, process.pid, code)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call `fn(rank, *args)` in `nprocs` processes; `spawn` with another way of starting."""
    context = multiprocessing.get_context(start_method)
    processes, queues = [], []
    for rank in range(nprocs):
        errors = context.SimpleQueue()
        process = context.Process(  # type: ignore[attr-defined]
            target=_run, args=(fn, rank, tuple(args), errors), daemon=daemon
        )
        process.start()
        processes.append(process)
        queues.append(errors)
    started = ProcessContext(processes, queues)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call `fn(rank, *args)` in `nprocs` new processes, and wait for them if `join`.

    fn must be a function of a module. An exception in one process ends the others and is raised
    here, as ProcessRaisedException with its traceback.
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)
