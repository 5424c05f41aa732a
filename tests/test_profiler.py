"""Profiles: which kernels ran, how long, for which operations, lines and ranges."""

from __future__ import annotations

import gc
import gzip
import json
import re

import pytest

import rushlight as rl
from rushlight import compiled
from rushlight.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)
from rushlight.profiler.recording import Recording
from rushlight.trace.trace import hooks, local


def network():
    rl.manual_seed(0)
    model = rl.nn.Sequential(rl.nn.Linear(16, 32), rl.nn.ReLU(), rl.nn.Linear(32, 4))
    return model, rl.optim.SGD(model.parameters(), lr=0.1)


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    with record_function("forward"):
        loss = rl.nn.functional.cross_entropy(model(x), y)
    with record_function("backward"):
        loss.backward()
    with record_function("optimizer"):
        optimizer.step()
    return loss


def batch():
    rl.manual_seed(1)
    return rl.randn(8, 16), rl.randint(0, 4, (8,))


def averages(prof):
    return {average.key: average for average in prof.key_averages()}


def test_kernels_go_by_their_operations_and_lie_within_flushes():
    x = rl.ones(32, 32)
    with profile(with_flops=True, record_shapes=True) as prof:
        total = (x @ x).relu().sum().item()
    assert total == 32**3
    events = prof.events()
    kernels = [event for event in events if event.is_kernel]
    assert [event.name for event in kernels] == ["contract", "relu + sum"]
    assert kernels[0].flops == 2 * 32**3
    assert [32, 32] in kernels[0].input_shapes
    assert all(event.cpu_parent.name == "flush" for event in kernels)
    flush = kernels[0].cpu_parent
    assert flush.self_cpu_time_total == pytest.approx(
        flush.cpu_time_total - sum(event.cpu_time_total for event in kernels)
    )
    assert all("test_profiler.py" in line for event in kernels for line in event.stack)


def test_a_profile_changes_no_bit():
    def train(profiled):
        model, optimizer = network()
        x, y = batch()
        with profile() if profiled else record_function("nothing"):
            losses = [step(model, optimizer, x, y).item() for _ in range(3)]
        return losses, [p.detach().numpy().tobytes() for p in model.parameters()]

    assert train(True) == train(False)


def test_ranges_know_the_work_that_was_recorded_in_them():
    model, optimizer = network()
    x, y = batch()
    with profile() as prof:
        for _ in range(2):
            step(model, optimizer, x, y)
    found = averages(prof)
    assert {"forward", "backward", "optimizer"} < set(found)
    assert all(found[name].count == 2 for name in ("forward", "backward", "optimizer"))
    kernels = [event for event in prof.events() if event.is_kernel]
    spent = sum(e.cpu_time_total for e in kernels if "forward" in e.ranges)
    assert 0 < found["forward"].work_time_total == pytest.approx(spent)
    assert {name for event in kernels for name in event.ranges} >= {"forward", "backward"}


def test_a_range_within_itself_closes_once():
    x = rl.ones(3)
    with profile() as prof:
        with record_function("outer"):
            with record_function("outer"):
                a = x + 1
            b = x * 3.5
        c = x - 2.5
        rl.cpu.synchronize()
    del a, b, c
    ranges = {name: event.ranges for event in prof.events() for name in event.name.split(" + ")}
    assert ranges["mul"] == ranges["add"] == ranges["sub"] == ("outer",)  # one kernel of three
    with profile() as prof:
        with record_function("outer"):
            with record_function("outer"):
                (x + 1).sum().item()
            (x * 3.5).sum().item()
        (x - 2.5).sum().item()
    kernels = {event.name: event.ranges for event in prof.events() if event.is_kernel}
    assert kernels == {"add + sum": ("outer",), "mul + sum": ("outer",), "sub + sum": ()}


def test_a_second_profile_plans_nothing_new():
    model, optimizer = network()
    x, y = batch()
    for _ in range(3):
        with profile():
            step(model, optimizer, x, y)
    edges = local.trace.edges
    with profile():
        step(model, optimizer, x, y)
    assert local.trace.edges == edges


def test_record_function_decorates_and_is_nothing_without_a_profile():
    @record_function("cube")
    def cube(x):
        return x * x * x

    assert cube(rl.tensor(2.0)).item() == 8
    with profile() as prof:
        assert cube(rl.tensor(3.0)).item() == 27
    assert averages(prof)["cube"].is_user_annotation


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
@pytest.mark.parametrize(
    "settings",
    [
        {"wait": 1, "warmup": 1, "active": 2},
        {"wait": 0, "warmup": 0, "active": 1, "repeat": 2},
        {"wait": 2, "warmup": 1, "active": 3, "repeat": 1, "skip_first": 2},
        {"wait": 2, "warmup": 1, "active": 2, "skip_first": 1, "skip_first_wait": 1},
    ],
)
def test_schedules_are_pytorchs(settings):
    torch = pytest.importorskip("torch")
    ours, theirs = schedule(**settings), torch.profiler.schedule(**settings)
    assert [ours(n).name for n in range(20)] == [theirs(n).name for n in range(20)]
    assert {a.name: a.value for a in ProfilerAction} == {
        a.name: a.value for a in torch.profiler.ProfilerAction
    }


def test_schedules_refuse_what_pytorch_refuses():
    for bad in ({"wait": -1, "warmup": 0, "active": 1}, {"wait": 0, "warmup": 0, "active": 0}):
        with pytest.raises(AssertionError, match="Invalid profiler schedule arguments"):
            schedule(**bad)
    with pytest.raises(AssertionError, match="Step must be non-negative"):
        schedule(wait=0, warmup=0, active=1)(-1)


def test_a_schedule_records_its_active_steps_and_says_when_they_are_ready():
    ready = []
    x = rl.ones(4)

    def keep(prof):
        names = [e.name for e in prof.events() if e.name.startswith("ProfilerStep")]
        ready.append((prof.step_num, names))

    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(schedule=plan, on_trace_ready=keep) as prof:
        for _ in range(10):
            (x + 1).sum().item()
            prof.step()
    assert ready == [
        (4, ["ProfilerStep#2", "ProfilerStep#3"]),
        (8, ["ProfilerStep#6", "ProfilerStep#7"]),
    ]
    names = [e.name for e in prof.events() if e.name.startswith("ProfilerStep")]
    assert names == ready[-1][1]  # the steps after them are in no cycle


def test_the_table_has_pytorchs_headings():
    x = rl.ones(8, 8)
    with profile(with_flops=True, with_stack=True, profile_memory=True) as prof:
        (x @ x).exp().sum().item()
    text = prof.key_averages(group_by_stack_n=1).table(sort_by="cpu_time_total", row_limit=3)
    headings = re.split(r"\s{2,}", text.splitlines()[1].strip())
    assert headings[:7] == [
        "Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg",
        "# of Calls",
    ]  # fmt: skip
    assert {"CPU Mem", "Self CPU Mem", "Source Location", "Total KFLOPs"} <= set(headings)
    assert "Self CPU time total:" in text
    assert len(text.splitlines()) == 8
    with pytest.raises(AttributeError):
        prof.key_averages().table(sort_by="nonsense")


def test_files_for_viewers(tmp_path):
    x = rl.ones(8)
    handler = tensorboard_trace_handler(str(tmp_path / "runs"), "worker", use_gzip=True)
    with profile(on_trace_ready=handler) as prof, record_function("all"):
        (x + 1).sum().item()
    prof.add_metadata("what", "a test")
    (packed,) = (tmp_path / "runs").iterdir()
    assert packed.name.startswith("worker.") and packed.name.endswith(".pt.trace.json.gz")
    with gzip.open(packed, "rt") as stream:
        rows = json.load(stream)["traceEvents"]
    assert [r["cat"] for r in rows if r["ph"] == "X"] == ["user_annotation", "flush", "kernel"]
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    assert json.loads((tmp_path / "trace.json").read_text())["what"] == "a test"
    prof.export_stacks(str(tmp_path / "stacks.txt"), "self_cpu_time_total")
    assert re.search(r"test_profiler\.py:\d+ \d+", (tmp_path / "stacks.txt").read_text())
    with pytest.raises(ValueError, match="metric should be one of"):
        prof.export_stacks(str(tmp_path / "stacks.txt"), "time")


def test_one_profile_records_at_a_time_and_errors_end_it():
    with profile(), pytest.raises(RuntimeError, match="already enabled"):
        profile().start()
    with pytest.raises(ZeroDivisionError), profile() as prof:
        rl.ones(2).sum().item()
        raise ZeroDivisionError
    assert "sum" in averages(prof)
    with pytest.raises(IndexError), profile() as prof:
        rl.arange(3)[rl.tensor([7]) + rl.tensor(1)].tolist()
    with profile() as prof:
        assert rl.arange(3).sum().item() == 3
    assert len(prof.events()) > 0


def test_results_are_asked_for_after_the_start():
    for ask, what in (("events", "events"), ("key_averages", "key averages")):
        with pytest.raises(AssertionError, match=f"must be initialized before getting {what}"):
            getattr(profile(), ask)()
    with pytest.raises(AssertionError, match="No valid profiler activities"):
        profile(activities=[])
    with pytest.warns(UserWarning, match="no such devices"):
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.XPU])


def test_the_older_face():
    older = rl.autograd.profiler
    with older.profile(record_shapes=True) as prof, older.record_function("work"):
        rl.ones(5).exp().sum().item()
    assert {"work", "flush", "exp + sum"} <= {event.name for event in prof.function_events}
    assert prof.total_average().count == len(prof.function_events)
    assert prof.self_cpu_time_total > 0
    assert "Self CPU" in prof.table(sort_by="self_cpu_time_total")
    with rl.autograd.profiler.profile(enabled=False) as prof:
        assert prof is None
    with rl.autograd.profiler.emit_nvtx(), rl.autograd.profiler.emit_itt():
        assert rl.ones(2).sum().item() == 2


def test_a_compiled_call_is_profiled():
    model, optimizer = network()
    x, y = batch()
    compiled = rl.compile(lambda: step(model, optimizer, x, y).item())
    for _ in range(4):
        compiled()
    with profile() as prof:
        compiled()
    assert any(event.is_kernel for event in prof.events())


def test_names_that_ask_what_there_is():
    torch = pytest.importorskip("torch")
    from rushlight import profiler

    assert set(torch.profiler.__all__) <= set(profiler.__all__)
    assert profiler.kineto_available()
    assert profiler.DeviceType.CPU.value == 0
    with pytest.raises(NotImplementedError, match="no traces for replay"):
        profiler.ExecutionTraceObserver().register_callback("trace.json")


def test_what_fails_at_the_end_of_a_profile_leaves_no_profile_open():
    x = rl.ones(3)
    kept = []
    with pytest.raises(IndexError), profile():
        kept.append(x[rl.tensor([100]) + rl.tensor(0)])
    del kept
    with (
        pytest.raises(RuntimeError, match="expected a name"),
        profile(),
        record_function(["l"]),
    ):
        pass
    with profile() as prof:
        assert (x + 1).sum().item() == 6
    assert "add + sum" in averages(prof)


def test_a_profile_that_is_dropped_ends():
    before = hooks.execute
    for recorded in (1.0, rl.ones(2).exp().sum().item()):  # at once, and after some work
        dropped = profile()
        dropped.start()
        total = rl.ones(3) * recorded
        with pytest.warns(UserWarning, match="dropped while it was open"):
            del dropped
        assert hooks.execute is before and compiled.run_watched is None
        assert total.tolist() == [recorded] * 3
    with profile() as prof:
        assert rl.arange(3).sum().item() == 3
    assert "arange + sum" in averages(prof)


def test_a_profile_that_was_stopped_ends_once():
    stopped = profile()
    stopped.start()
    stopped.stop()
    with profile() as prof:
        del stopped  # this one goes on
        assert rl.ones(2).exp().sum().item() > 5
    assert "exp + sum" in averages(prof)
    with profile():
        refused = profile()
        with pytest.raises(RuntimeError, match="already enabled"):
            refused.start()
        del refused
        gc.collect()
        assert hooks.execute.__func__ is Recording._flush
