"""A step that fails in a flush: what is raised, and that nothing else is lost."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.nn import functional as F


def _bad(at: int = 9):
    """A pending 0-d tensor that cannot be computed."""
    return F.embedding(torch.tensor([0, at]) * 1, torch.ones(3, 2)).sum()


def _fail(tensor) -> None:
    with pytest.raises(IndexError, match="embedding"):
        tensor.tolist()


# -- the message


def test_the_value_the_size_and_the_place_are_named():
    rows = torch.arange(4).reshape(2, 2) + torch.tensor([[0, 0], [74, 0]])
    found = F.embedding(rows, torch.ones(5, 2))
    with pytest.raises(
        IndexError, match=r"embedding.*index 76 at \[1, 0\] is not within the size 5"
    ):
        found.sum().item()


def test_an_index_from_the_end_is_named_as_it_was_given():
    x = torch.arange(3)
    with pytest.raises(IndexError, match=r"index -5 at \[1\] is not within the size 3"):
        x[torch.tensor([-3, -5]) * 1].tolist()


def test_a_computed_index_is_named():
    x = torch.arange(229)  # a size that no other test records this with
    with pytest.raises(IndexError, match=r"index 229 at \[1\].*test_failures"):
        x[torch.arange(229) * 229].tolist()


def test_what_is_in_memory_is_looked_at_when_the_op_is_called():
    with pytest.raises(IndexError, match=r"embedding.*index 77 at \[1\].*size 5"):
        F.embedding(torch.tensor([0, 77]), torch.ones(5, 2))
    with pytest.raises(RuntimeError, match=r"embedding_bag.*index -1 at \[0, 1\]"):
        F.embedding_bag(torch.tensor([[0, -1]]), torch.ones(5, 2))


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("bad", [-4, -1, 3, 255])
def test_a_target_that_is_no_class_raises(bad, wait):
    logits = torch.zeros(2, 3, requires_grad=True)
    target = torch.tensor([1, bad])
    kept = torch.arange(2) + 1
    with pytest.raises(
        IndexError, match=rf"Target {bad} at \[1\] is out of bounds: there are 3 classes"
    ):
        loss = F.cross_entropy(logits, target * 1 if wait else target, ignore_index=-100)
        loss.backward()
        logits.grad.tolist()
    assert kept.tolist() == [1, 2]
    ignored = F.cross_entropy(logits, target, ignore_index=bad, reduction="none")
    assert ignored.tolist() == [pytest.approx(1.0986123), 0.0]


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize(
    ("name", "target"),
    [("multi_margin_loss", [0, 3]), ("multilabel_margin_loss", [[0, 1, -1], [3, -1, 0]])],
)
def test_margins_name_the_class_that_there_is_not(name, target, wait):
    target = torch.tensor(target)
    with pytest.raises(RuntimeError, match=rf"^{name}: Target 3 at \[1(, 0)?\] is out"):
        getattr(F, name)(torch.zeros(2, 3), target * 1 if wait else target).item()


# -- memory


def test_memory_that_no_machine_has_is_refused_at_the_call():
    for call in (
        lambda: torch.zeros(1 << 60), lambda: torch.empty(1 << 60),
        lambda: torch.arange(1 << 60),
        lambda: torch.rand(1 << 31, 1 << 31), lambda: torch.eye(1 << 31),
        lambda: torch.Tensor(1 << 60), lambda: torch.zeros(2).new_full((1 << 60,), 1.5),
        lambda: torch.zeros_like(torch.zeros(1).expand(1 << 60)),
        lambda: torch.zeros(2).resize_(1 << 60),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="cannot allocate .* less memory") as found:
            call()
        assert isinstance(found.value, torch.OutOfMemoryError)
    assert torch.zeros(1 << 60, device="meta").shape == (1 << 60,)
    assert torch.zeros(1).expand(1 << 60).shape == (1 << 60,)


def test_memory_that_a_result_cannot_have_is_refused_when_it_is_computed():
    x = torch.zeros(1).expand(1 << 60) + 1
    with pytest.raises(RuntimeError, match="cannot allocate"):
        x.numpy()


# -- integer division


DIVISIONS = {
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "fmod": torch.fmod,
    "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "div floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "in place": lambda a, b: a.clone().floor_divide_(b),
    "reflected": lambda a, b: 7 // b,
}


@pytest.mark.parametrize("name", DIVISIONS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_a_zero_among_integer_divisors_raises(name, dtype):
    a = torch.arange(40, dtype=dtype).reshape(2, 20)
    b = torch.arange(1, 21, dtype=dtype)
    expected = DIVISIONS[name](a, b).tolist()
    kept = a + 1
    bad = DIVISIONS[name](a, torch.where(b == 7, 0, b))
    with pytest.raises(RuntimeError, match=r"ZeroDivisionError.*test_failures"):
        bad.sum().item()
    assert kept.tolist()[0][:3] == [1, 2, 3]
    assert DIVISIONS[name](a, b).tolist() == expected


def test_floats_and_empty_tensors_divide_by_zero():
    assert (torch.tensor([1.0]) // torch.tensor([0.0])).tolist() == [float("inf")]
    assert (torch.zeros(0, dtype=torch.int64) // torch.tensor(0)).tolist() == []


# -- what is left


def test_a_tensor_that_was_never_computed_keeps_its_value():
    x = torch.arange(3) * 2
    x.add_(1)
    x.add_(_bad().long())
    x.mul_(5)
    _fail(x + 0)
    assert x.tolist() == [1, 3, 5]
    assert (x * 2).tolist() == [2, 6, 10]


def test_a_tensor_in_memory_keeps_the_writes_before_the_failure():
    x, y = torch.zeros(3), torch.zeros(3)
    assert x.sum().item() == y.sum().item() == 0.0  # both are in memory
    x.add_(1)
    y.add_(1)
    x.mul_(_bad())
    y.mul_(3)  # never reached by a program that stops at its first error
    _fail(x * 2)
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert y.tolist() == [1.0, 1.0, 1.0]


def test_a_view_written_before_the_failure_is_kept():
    x = torch.zeros(2, 2)
    x[0] = 4.0
    x[1] = _bad()
    _fail(x.sum())
    assert x.tolist() == [[4.0, 4.0], [0.0, 0.0]]


def test_results_that_do_not_depend_on_the_failure_are_computed():
    before = torch.arange(3) * 2
    bad = _bad()
    after = torch.arange(3) * 3
    depending = after + bad
    _fail(bad)
    assert before.tolist() == [0, 2, 4]
    assert after.tolist() == [0, 3, 6]
    for _ in range(2):
        _fail(depending)


def test_several_failures_leave_what_came_before_the_first():
    x = torch.zeros(3)
    x.add_(1)
    first = _bad(5)
    x.add_(1)
    second = torch.ones(3, dtype=torch.int64) // (torch.arange(3) * 0)
    x.add_(1)
    with pytest.raises((IndexError, RuntimeError)):
        x.sum().item()
    assert x.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises((IndexError, RuntimeError)):
        first.item()
    with pytest.raises((IndexError, RuntimeError)):
        second.tolist()


def test_a_tensor_saved_for_backward_and_then_written_is_kept():
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    y = x * 1
    z = y * y
    y.add_(1)
    y.mul_(_bad())
    with pytest.raises(IndexError):
        y.tolist()
    assert y.tolist() == [3.0, 4.0]
    z.sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]


def test_running_statistics_seen_before_the_failure_are_kept():
    norm = torch.nn.BatchNorm1d(2, momentum=1.0)
    norm(torch.tensor([[1.0, 2.0], [3.0, 6.0]])).mul_(_bad())
    with pytest.raises(IndexError):
        torch.ones(1).mul(_bad()).item()
    assert norm.running_mean.tolist() == [2.0, 4.0]
    assert norm.num_batches_tracked.item() == 1


def test_a_step_on_a_bad_batch_changes_no_parameter():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(target) -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(torch.ones(2, 4)), target).backward()
        optimizer.step()

    step(torch.tensor([0, 1]))
    before = [p.tolist() for p in model.parameters()]
    with pytest.raises(IndexError, match="Target 3 at"):
        step(torch.tensor([0, 3]) * 1)
        model.weight.sum().item()
    assert [p.tolist() for p in model.parameters()] == before
    step(torch.tensor([0, 1]))
    assert [p.tolist() for p in model.parameters()] != before


# -- no memory


def _too_large():
    """A pending tensor that there is no memory for."""
    return torch.zeros(1 << 22, 1) + torch.zeros(1 << 23)


def test_writes_before_what_there_is_no_memory_for_are_kept():
    known, new = torch.ones(3), torch.zeros(2)
    assert known.tolist() == [1.0] * 3
    known.add_(1)
    new.add_(3)
    beside, large = known * 5, _too_large()
    with pytest.raises(MemoryError, match="cannot allocate 128 TiB") as raised:
        large.sum().item()
    assert "is made by add at" in raised.value.__notes__[0]
    assert "test_failures.py" in raised.value.__notes__[0]
    assert known.tolist() == [2.0] * 3 and new.tolist() == [3.0] * 2
    assert beside.tolist() == [10.0] * 3
    with pytest.raises(MemoryError):
        large.tolist()
    assert known.add_(1).tolist() == [3.0] * 3


def test_running_statistics_before_what_there_is_no_memory_for_are_kept():
    norm = torch.nn.BatchNorm1d(2, momentum=1.0)
    assert norm.running_mean.tolist() == [0.0, 0.0]
    made = norm(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
    large = made.sum() + _too_large()
    with pytest.raises(MemoryError):
        large[0, 0].item()
    assert norm.running_mean.tolist() == [2.0, 4.0]
    assert made.sum().item() == 0.0


def test_a_tensor_keeps_the_writes_that_need_nothing_too_large():
    x = torch.ones(2)
    assert x.tolist() == [1.0, 1.0]
    x.add_(1)
    large = _too_large()
    x.mul_(large[0, :2])
    with pytest.raises(MemoryError):
        (x + 1).tolist()
    assert x.tolist() == [2.0, 2.0]


def test_many_tensors_that_are_too_large_are_soon_given_up():
    x = torch.ones(2)
    assert x.tolist() == [1.0, 1.0]
    x.add_(1)
    large = [_too_large() for _ in range(20)]
    with pytest.raises(MemoryError):
        (x + 1).tolist()
    for t in large:
        with pytest.raises(MemoryError):
            t.tolist()
    assert x.add_(1).tolist() in ([3.0, 3.0], [2.0, 2.0])
