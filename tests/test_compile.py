"""`compile`: a skipped call does what a made one does, and is skipped only if it may be."""

from __future__ import annotations

import datetime
import random
import re
import time
from typing import Any

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import config, nn
from rushlight.replay.capture import watching

pytestmark = pytest.mark.skipif(
    config.process.backend == "reference", reason="only native programs are repeated"
)


def compiled(function: Any) -> Any:
    return torch.compile(function, mode="reduce-overhead")


def bits(tensor: Any) -> bytes:
    return tensor.detach().clone().numpy().tobytes()


class Training:
    """A small model in training; two of them go the same way bit for bit."""

    def __init__(self, rule: str = "AdamW", dropout: float = 0.2, **options: Any) -> None:
        torch.manual_seed(3)
        self.model = nn.Sequential(
            nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(16, 4),
        )  # fmt: skip
        self.optimizer = getattr(torch.optim, rule)(
            self.model.parameters(), **{"lr": 0.01, **options}
        )
        self.scale = 1.0

    def step(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y) * self.scale
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> list[bytes]:
        found = [bits(t) for t in self.model.state_dict().values()]
        found += [bits(p.grad) for p in self.model.parameters()]
        for state in self.optimizer.state_dict()["state"].values():
            found += [bits(t) for t in state.values() if t is not None]
        return found


def batches(count: int) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(0)
    return [
        (
            torch.tensor(rng.standard_normal((8, 6)).astype(np.float32)),
            torch.tensor(rng.integers(0, 4, 8)),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize(
    ("rule", "options"),
    [("AdamW", {}), ("Adam", {"amsgrad": True}), ("SGD", {"momentum": 0.9}), ("RMSprop", {})],
)
def test_skipped_training_steps_have_the_same_bits(rule, options):
    data = batches(12)
    torch.manual_seed(5)
    plain = Training(rule, **options)
    expected = [bits(plain.step(x, y)) for x, y in data]
    torch.manual_seed(5)
    trained = Training(rule, **options)
    step = compiled(trained.step)
    assert [bits(step(x, y)) for x, y in data] == expected
    assert step.skipped >= 7, step.reason
    assert trained.state() == plain.state()


def test_a_schedule_and_a_new_mode_are_followed():
    data = batches(16)

    def run(wrap):
        t = Training("SGD", momentum=0.9)
        schedule = torch.optim.lr_scheduler.StepLR(t.optimizer, 2, 0.5)
        step = wrap(t.step)
        losses = []
        for i, (x, y) in enumerate(data):
            if i == 8:
                t.model.eval()
            if i == 12:
                t.scale = 3.0
            losses.append(bits(step(x, y)))
            schedule.step()
        return losses, t.state(), step

    expected = run(lambda f: f)
    found = run(compiled)
    assert found[:2] == expected[:2]
    assert found[2].skipped >= 6, found[2].reason


def test_loading_a_state_is_followed():
    data = batches(12)

    def run(wrap):
        t = Training()
        step = wrap(t.step)
        for x, y in data[:6]:
            step(x, y)
        saved = {k: v.clone() for k, v in t.model.state_dict().items()}
        optimizer = t.optimizer.state_dict()
        for x, y in data[6:]:
            step(x, y)
        t.model.load_state_dict(saved)
        t.optimizer.load_state_dict(optimizer)
        return [bits(step(x, y)) for x, y in data], t.state()

    assert run(compiled) == run(lambda f: f)


def test_values_kept_from_before_are_not_overwritten():
    t = Training(dropout=0.0)
    step = compiled(t.step)
    (x, y), *_ = batches(1)
    for _ in range(5):
        step(x, y)
    weight = t.model[0].weight
    kept = weight.detach().clone()
    product = (weight * 2).sum()  # holds the old contents for its gradient
    held = weight.detach() + 0
    step(x, y)
    assert bits(held) == bits(kept)
    assert not torch.equal(weight, kept)
    assert product.item() == pytest.approx((kept * 2).sum().item())


def test_gradients_accumulate_over_skipped_calls():
    weight = torch.ones(3, requires_grad=True)

    def accumulate(x):
        (weight * x).sum().backward()

    call = compiled(accumulate)
    x = torch.tensor([1.0, 2.0, 3.0])
    for n in range(1, 9):
        call(x)
        assert weight.grad.tolist() == [n * 1.0, n * 2.0, n * 3.0]
    assert call.skipped >= 3, call.reason
    weight.grad = None
    call(x)
    assert weight.grad.tolist() == [1.0, 2.0, 3.0]


def test_arguments_of_other_shapes_windows_and_numbers():
    data = torch.arange(40.0).clone()
    call = compiled(lambda x, k: x * k + 1)
    for start in range(8):
        for size, k in ((4, 2), (5, 3)):
            expected = [(start + i) * float(k) + 1 for i in range(size)]
            assert call(data[start : start + size], k).tolist() == expected
    assert call.skipped >= 8, call.reason


def test_memory_shared_with_numpy_is_read_as_it_is_at_the_call():
    array = np.ones(4, np.float32)
    x = torch.from_numpy(array)
    call = compiled(lambda: x * 2)
    for n in range(6):
        array[:] = n
        assert call().tolist() == [2.0 * n] * 4
    assert call.skipped >= 2, call.reason


def test_random_streams_go_on():
    def draw():
        return torch.rand(3) + torch.randn(3)

    torch.manual_seed(1)
    expected = [draw().tolist() for _ in range(8)]
    torch.manual_seed(1)
    call = compiled(draw)
    assert [call().tolist() for _ in range(8)] == expected
    assert call.skipped >= 4, call.reason


def calls_print(x):
    print(end="")
    return x + 1


def reads_a_clock(x):
    return x + (time.time() * 0 + 1)


def reads_a_calendar(x):
    return x + (datetime.datetime.now().year * 0 + 1)


def uses_python_random(x):
    return x + random.choice([1.0])


def looks_at_an_element(x):
    return x + 1 if x[0].item() >= 0 else x


def makes_a_constant(x):
    return x + torch.tensor([1.0])


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (calls_print, "print"),
        (reads_a_clock, "time"),
        (reads_a_calendar, "now"),
        (uses_python_random, "[rR]andom"),
        (looks_at_an_element, "elements"),
        (makes_a_constant, "Python data"),
    ],
)
def test_a_call_that_may_differ_is_always_made(function, why):
    call = compiled(function)
    x = torch.tensor([1.0, 2.0])
    for _ in range(6):
        assert call(x).tolist() == [2.0, 3.0]
    assert call.skipped == 0
    assert re.search(why, call.reason), call.reason


def test_effects_on_python_objects_are_kept():
    seen = []

    def note(x):
        y = x + 1
        seen.append(y)
        return y

    call = compiled(note)
    for n in range(6):
        call(torch.tensor([float(n)]))
    assert [y.item() for y in seen] == [n + 1.0 for n in range(6)]


counter = {"calls": 0}


def counts(x):
    counter["calls"] += 1
    return x * counter["calls"]


def test_a_counter_counts():
    counter["calls"] = 0
    call = compiled(counts)
    assert [call(torch.tensor(1.0)).item() for _ in range(6)] == [1, 2, 3, 4, 5, 6]


flag = True


def reads_a_global(x):
    return x + 1 if flag else x - 1


def test_a_global_is_followed(monkeypatch):
    call = compiled(reads_a_global)
    x = torch.tensor(1.0)
    assert [call(x).item() for _ in range(5)] == [2.0] * 5
    assert call.skipped >= 2, call.reason
    monkeypatch.setitem(globals(), "flag", False)
    assert [call(x).item() for _ in range(5)] == [0.0] * 5


def test_inference_of_a_module_is_skipped_and_its_training_is_not():
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    assert torch.compile(model) is model
    call = compiled(lambda x: model(x))
    x = torch.ones(2, 3)
    with torch.no_grad():
        first = call(x).tolist()
        for _ in range(5):
            assert call(x).tolist() == first
        assert call.skipped >= 2, call.reason
        model[0].weight.mul_(2)
        assert call(x).tolist() != first
    skipped = call.skipped
    for _ in range(4):
        call(x).sum().backward()
    assert call.skipped == skipped
    assert "differentiated" in call.reason
    assert model[0].weight.grad is not None


def test_watching_ends_where_it_leads_to_nothing(monkeypatch):
    watched = []
    monkeypatch.setattr(
        "rushlight.replay.function.watching",
        lambda capture: (watched.append(1), watching(capture))[1],
    )
    call = compiled(lambda x: float(x.sum()))
    for n in range(1, 40):
        for _ in range(3):
            assert call(torch.ones(n)) == n
    assert call.skipped == 0
    assert len(watched) == 16


def test_a_bad_index_raises_and_nothing_is_lost():
    weight = torch.ones(3, 2)
    call = compiled(lambda i: F.embedding(i, weight) + torch.rand(1))
    for _ in range(5):
        call(torch.tensor([1, 2]))
    assert call.skipped >= 1, call.reason
    state = torch.get_rng_state()
    with pytest.raises(IndexError):
        call(torch.tensor([1, 7])).tolist()
    torch.set_rng_state(state)
    assert call(torch.tensor([1, 2])).shape == (2, 2)
    assert weight.tolist() == [[1.0, 1.0]] * 3


def test_compile_as_a_decorator_of_functions_and_methods():
    class Scaled:
        k = 2.0

        @compiled
        def __call__(self, x):
            return x * self.k

    scaled = Scaled()
    x = torch.tensor(3.0)
    assert [scaled(x).item() for _ in range(5)] == [6.0] * 5
    scaled.k = 5.0
    assert [scaled(x).item() for _ in range(5)] == [15.0] * 5

    @torch.compile(fullgraph=True, mode="reduce-overhead")
    def add(x, y=1):
        return x + y

    assert [add(x).item(), add(x, y=4).item()] == [4.0, 7.0]
    with pytest.raises(RuntimeError, match="compile: expected a function or module"):
        torch.compile(3)


def test_what_was_found_stale_once():
    """Each of these was skipped with an old state before: state that is easy to overlook."""
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.ones(2, 3)

    def step():
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()

    call = compiled(step)
    for _ in range(6):
        call()
    assert call.skipped >= 2, call.reason
    model.weight.requires_grad_(False)
    before = bits(model.weight)
    call()
    assert bits(model.weight) == before
    model.weight.requires_grad_(True)
    handle = model.weight.register_hook(lambda g: g * 0)
    optimizer.param_groups[0]["momentum"] = 0
    before = bits(model.weight)
    call()
    assert bits(model.weight) == before
    handle.remove()
    call()
    assert bits(model.weight) != before
    ran = []
    optimizer.register_step_pre_hook(lambda *_: ran.append(1))
    call()
    assert ran == [1]


def test_a_gradient_that_lies_elsewhere_is_followed():
    weight = nn.Parameter(torch.ones(3))
    x = torch.ones(3)
    call = compiled(lambda x: (weight * x).sum().backward())
    weight.grad = torch.zeros(3)
    for _ in range(5):
        call(x)
    assert call.skipped >= 1, call.reason
    flat = torch.tensor([0.0, 0, 0, 10, 10, 10])
    weight.grad = flat[3:]
    call(x)
    assert weight.grad.tolist() == [11.0] * 3
    assert flat.tolist()[:3] == [0.0] * 3


def test_arguments_that_share_memory():
    call = compiled(lambda a, b: (a.add_(b), a.add_(b))[1] * 1)
    for _ in range(5):
        call(torch.ones(2), torch.ones(2))
    x = torch.ones(2)
    assert call(x, x).tolist() == [4.0, 4.0]


class Options:
    scale = 2.0
    seen = 0


def reads_a_class(x):
    return x * Options.scale


def counts_on_a_class(x):
    Options.seen += 1
    return x * 1


def seeds(x):
    torch.manual_seed(0)
    return x + torch.rand(1)


def uses_numpy(x):
    return x * float(np.random.uniform(1.0, 1.1))


def test_classes_streams_and_numpy(monkeypatch):
    x = torch.ones(1)
    call = compiled(reads_a_class)
    assert [call(x).item() for _ in range(5)] == [2.0] * 5
    monkeypatch.setattr(Options, "scale", 3.0)
    assert call(x).item() == 3.0
    call = compiled(counts_on_a_class)
    for _ in range(6):
        call(x)
    assert Options.seen == 6
    call = compiled(seeds)
    assert len({call(x).item() for _ in range(6)}) == 1
    call = compiled(uses_numpy)
    assert len({call(x).item() for _ in range(6)}) == 6


def test_objects_among_the_arguments_are_never_skipped():
    class Box:
        value = 2.0

    box = Box()
    call = compiled(lambda x, box: x * box.value)
    x = torch.ones(1)
    assert [call(x, box).item() for _ in range(5)] == [2.0] * 5
    box.value = 3.0
    assert call(x, box).item() == 3.0


def _steps(kept: list) -> dict[str, Any]:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    opt = torch.optim.SGD(model.parameters(), 0.1)
    x, y = torch.randn(5, 4), torch.randn(5, 3)

    def with_local_names() -> Any:
        opt.zero_grad()
        out = model(x)
        loss = F.mse_loss(out, y)
        loss.backward()
        opt.step()
        return loss.detach()

    def clears_afterwards() -> Any:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    def keeps_a_result() -> Any:
        kept[:] = [model(x)]
        loss = F.mse_loss(kept[0], y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    made = (with_local_names, clears_afterwards, keeps_a_result)
    return {function.__name__: function for function in made}


@pytest.mark.parametrize("name", ["with_local_names", "clears_afterwards"])
def test_what_only_local_names_held_is_not_missed(name):
    call = compiled(_steps([])[name])
    other = _steps([])[name]
    assert [call().item() for _ in range(8)] == [other().item() for _ in range(8)]
    assert call.skipped >= 4, call.reason


def test_what_somebody_keeps_is_made_in_python():
    kept: list = []
    call = compiled(_steps(kept)["keeps_a_result"])
    seen = [(call(), kept[0].sum().item())[1] for _ in range(6)]
    assert call.skipped == 0
    assert len(set(seen)) == 6


step_weight = torch.ones(4, requires_grad=True)
step_optimizer = torch.optim.SGD([step_weight], 0.1)


@torch.compile(mode="reduce-overhead")
def step(x):
    """A global of the same name as a method that it calls."""
    step_optimizer.zero_grad()
    loss = (x * step_weight).square().mean()
    loss.backward()
    step_optimizer.step()
    return loss.detach()


def test_a_method_named_like_a_global_does_not_read_it():
    for _ in range(6):
        step(torch.ones(4))
    assert step.reason == ""


def test_parts_of_one_tensor_are_told_apart():
    x = torch.arange(12.0).reshape(2, 6)
    low, high = x[:, :3], x[:, 3:]
    f = torch.compile(lambda a, b: torch.where(a > b, a, b * 2), mode="reduce-overhead")
    pairs = [(high, low), (low, high), (high, high), (low, low), (high, low), (low, high)]
    for a, b in pairs * 3:
        numbers = zip(a.flatten().tolist(), b.flatten().tolist(), strict=True)
        want = [p if p > q else q * 2 for p, q in numbers]
        assert f(a, b).flatten().tolist() == want
