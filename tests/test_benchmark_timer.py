"""How long statements take: what is run, how often, and how it is shown."""

import importlib

import pytest

import rushlight
from rushlight.utils.benchmark import Compare, Measurement, TaskSpec, Timer, select_unit


class Clock:
    """A clock that a statement turns forward."""

    def __init__(self):
        self.now = 0.0
        self.calls = 0

    def work(self, seconds=0.25):
        self.now += seconds
        self.calls += 1

    def __call__(self):
        return self.now


def timer(clock, stmt="clock.work()", **words):
    return Timer(stmt, globals={"clock": clock}, timer=clock, **words)


def test_a_number_of_executions_is_timed():
    clock = Clock()
    found = timer(clock, label="work").timeit(8)
    assert found.raw_times == [2.0]
    assert found.median == found.mean == 0.25
    assert clock.calls == 8 + 2  # a short run is not counted
    assert found.label == "work"


def test_blocks_are_repeated_for_a_time():
    clock = Clock()
    found = timer(clock).blocked_autorange(min_run_time=2.0)
    assert sum(found.raw_times) >= 2.0
    assert set(found.times) == {0.25}
    told = []
    adaptive = timer(Clock()).adaptive_autorange(callback=lambda *of: told.append(of))
    assert len(adaptive.times) == len(told) == 4
    assert adaptive.median == 0.25


def test_what_a_statement_records_is_computed_in_its_time(monkeypatch):
    computed = []
    x = rushlight.ones(4)
    names = {"x": x}
    module = importlib.import_module("rushlight.utils.benchmark.timer")
    monkeypatch.setattr(module, "flush", lambda: computed.append(1))
    Timer("y = x * 3", globals=names).timeit(5)
    assert len(computed) == 2 + 5 + 2  # and once before each of the two runs


def test_an_expression_is_computed_although_nobody_uses_it():
    small, large = (
        Timer("x @ x", f"x = torch.ones({n}, {n})").blocked_autorange(min_run_time=0.02)
        for n in (8, 512)
    )
    assert large.median > 5 * small.median


def test_threads_are_given_back():
    before = rushlight.get_num_threads()
    seen = []
    Timer("seen.append(torch.get_num_threads())", globals={"seen": seen}, num_threads=1).timeit(
        1
    )
    assert set(seen) == {1}
    assert rushlight.get_num_threads() == before


def test_setup_runs_once_and_mistakes_show():
    made = []
    Timer("made[0]", "made.append(1)", globals={"made": made}).timeit(3)
    assert made == [1, 1]  # before the short run and before the one that counts
    with pytest.raises(ZeroDivisionError):
        Timer("1 / 0").timeit(1)
    with pytest.raises(SyntaxError):
        Timer("1 +")
    with pytest.raises(NotImplementedError, match="C"):
        Timer("x", language="c++")


def test_measurements_say_what_they_are():
    torch = pytest.importorskip("torch")
    from torch.utils.benchmark.utils import common

    times = [1e-3, 1.1e-3, 1.2e-3, 5e-3]
    ours = Measurement(2, times, TaskSpec("f(x)", "", label="f", sub_label="g"))
    theirs = common.Measurement(2, times, common.TaskSpec("f(x)", "", label="f", sub_label="g"))
    for name in ("median", "mean", "iqr", "title", "times", "has_warnings", "as_row_name"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name)), name
    for t in (2e-9, 3e-7, 4e-5, 0.2, 30.0):
        assert select_unit(t) == torch.utils.benchmark.select_unit(t)
    assert "Median: 575.00 us" in repr(ours)
    assert "4 measurements, 2 runs per measurement, 1 thread" in repr(ours)
    assert not hasattr(ours, "no_such_field")


def test_measurements_of_one_task_are_merged():
    task, other = TaskSpec("f(x)", ""), TaskSpec("g(x)", "")
    merged = Measurement.merge(
        [Measurement(2, [4.0], task), Measurement(1, [1.0], other), Measurement(1, [3.0], task)]
    )
    assert [(found.stmt, found.times) for found in merged] == [
        ("f(x)", [2.0, 3.0]), ("g(x)", [1.0]),
    ]  # fmt: skip


def test_tables_have_a_row_for_each_size():
    def found(size, name, seconds):
        return Measurement(1, [seconds], TaskSpec("f(x)", "", "", "f", size, name))

    table = Compare(
        [found("8", "old", 2e-3), found("8", "new", 1e-3), found("64", "old", 9e-3)]
    )
    assert str(table).splitlines() == [
        "[f, times in ms]",
        "              |  old  |  new",
        "1 thread: 8   |  2.0  |  1.0",
        "1 thread: 64  |  9.0  |     ",
    ]
    table.trim_significant_figures()
    assert "  2  |    1" in str(table)
    table.colorize()
    assert "\033[92m\033[1m1\033[0m" in str(table)
