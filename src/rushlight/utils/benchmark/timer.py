"""Running a statement often enough to say how long it takes."""

from __future__ import annotations

import ast
import enum
import textwrap
import time
from collections.abc import Callable
from typing import Any, NoReturn

from rushlight import errors
from rushlight.runtime.pool import get_num_threads, set_num_threads
from rushlight.trace import flush
from rushlight.utils.benchmark.measurement import Measurement, TaskSpec

timer = time.perf_counter
_SHARE_OF_OVERHEAD = 1e-4  # of a block's time that reading the clock may take


class Language(enum.Enum):
    """In which language a statement is."""

    PYTHON = 0
    CPP = 1


class Timer:
    """Measures a statement, given as text, after `setup` and with the names in `globals`.

    Each execution ends when what it recorded is computed: its last expression and the
    variables it sets. So an expression whose value is not used is measured as well.
    num_threads: of the pool while it runs, one by default, as in PyTorch.

    >>> from rushlight.utils.benchmark import Timer
    >>> found = Timer("x @ x", "x = torch.ones(8, 8)").timeit(10)
    >>> found.number_per_run, found.median > 0
    (10, True)
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if language not in (Language.PYTHON, "py", "python"):
            raise errors.not_there(f"benchmark.Timer(language={language!r})", "C++ interface")
        if global_setup:
            raise ValueError("Timer: global_setup is for C++ statements")
        texts = [textwrap.dedent(text).strip() for text in (stmt, setup)]
        words = (label, sub_label, description, env, num_threads)
        self._task_spec = TaskSpec(texts[0], texts[1], "", *words)
        self._timer = timer
        self._run = _compiled(*texts, {} if globals is None else globals)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One run of `number` executions, after a short one that is not counted."""
        with _Threads(self._task_spec.num_threads):
            self._time(max(number // 100, 2))
            return self._measurement(number, [self._time(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        """Refuse, as PyTorch does: `blocked_autorange` repeats."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Any = None) -> NoReturn:
        """Refuse, as PyTorch does: `blocked_autorange` finds the number of executions."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def blocked_autorange(
        self,
        callback: Callable[[int, float], Any] | None = None,
        min_run_time: float = 0.2,
    ) -> Measurement:
        """Runs for at least this many seconds in all, each so long that reading the clock
        does not matter. `callback(number, seconds)` is told of each.
        """
        with _Threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            times: list[float] = []
            while sum(times) < min_run_time:
                times.append(self._time(number))
                if callback is not None:
                    callback(number, times[-1])
            return self._measurement(number, times)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Runs until the middle half of them is within `threshold` of their median, or
        `max_run_time` seconds are over.
        """
        with _Threads(self._task_spec.num_threads):
            number = self._block_size(0.05)
            times: list[float] = []
            while sum(times) < max_run_time:
                times.append(self._time(number))
                if callback is not None:
                    callback(number, times[-1])
                found = self._measurement(number, times)
                is_enough = len(times) > 3 and sum(times) > min_run_time
                if is_enough and found.meets_confidence(threshold):
                    break
            return found

    def collect_callgrind(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: nothing here counts instructions."""
        raise errors.not_there("Timer.collect_callgrind", "counts of instructions")

    def _time(self, number: int) -> float:
        flush()
        return self._run(number, flush, self._timer)

    def _block_size(self, min_run_time: float) -> int:
        overhead = min(self._run(0, flush, self._timer) for _ in range(5))
        number = 1
        self._time(number)  # compiles
        while True:
            taken = self._time(number)
            relative = overhead / taken if taken > 0 else 1.0
            is_long_enough = relative <= _SHARE_OF_OVERHEAD and taken >= min_run_time / 1000
            if is_long_enough or taken > min_run_time:
                return number
            number *= 10

    def _measurement(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, list(times), self._task_spec)


class _Threads:
    """A number of threads inside a `with` block."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted

    def __enter__(self) -> None:
        self.before = get_num_threads()
        set_num_threads(self.wanted)

    def __exit__(self, *_: object) -> None:
        set_num_threads(self.before)


def _compiled(stmt: str, setup: str, names: dict[str, Any]) -> Any:
    """A function of (number, settle, timer) that gives the seconds of so many executions."""
    frame = ast.parse(
        "def run(_number, _settle, _timer):\n"
        "    pass\n"
        "    _start = _timer()\n"
        "    for _ in range(_number):\n"
        "        _settle()\n"
        "    return _timer() - _start\n"
    )
    function = frame.body[0]
    assert isinstance(function, ast.FunctionDef) and isinstance(function.body[2], ast.For)
    loop = function.body[2]
    loop.body[:0] = _with_result(ast.parse(stmt).body)
    function.body[:1] = ast.parse(setup or "pass").body
    found = _default_names() | names
    exec(compile(ast.fix_missing_locations(frame), "<timed statement>", "exec"), found)
    return found["run"]


def _with_result(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements, with the value of a last expression kept until it is computed."""
    if not body or not isinstance(body[-1], ast.Expr):
        return body
    kept = ast.Assign([ast.Name("_result", ast.Store())], body[-1].value)
    return [*body[:-1], kept]


def _default_names() -> dict[str, Any]:
    import rushlight  # statements name it as programs do

    return {"torch": rushlight, "rushlight": rushlight}
