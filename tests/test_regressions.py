"""Faults once found by running public programs and by small cases: each stays mended."""

import numpy as np
import pytest

import rushlight
import rushlight as torch
from rushlight import nn


def test_group_dicts_of_the_caller_stay_as_they_were():
    groups = [{"params": [nn.Parameter(torch.ones(2))]}]
    torch.optim.SGD(groups, lr=0.25)
    assert list(groups[0]) == ["params"]


def test_sequential_schedule_may_begin_with_its_second_part():
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=8.0)
    kinds = torch.optim.lr_scheduler
    parts = [kinds.ConstantLR(optimizer, 0.5), kinds.ExponentialLR(optimizer, 0.25)]
    schedule = kinds.SequentialLR(optimizer, parts, milestones=[0])
    rates = []
    for _ in range(3):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates == [8.0, 2.0, 0.5]


def test_negative_norm_bound_is_refused():
    weight = nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    with pytest.raises(ValueError, match="max_norm"):
        nn.utils.clip_grad_norm_([weight], -2.0)
    assert weight.grad.tolist() == [1.0, 1.0]


def test_wrapping_one_convolution_class_leaves_the_others():
    for kind in (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d):
        assert "__init__" in vars(kind)


def test_places_that_programs_import_from():
    from rushlight.nn.modules.batchnorm import _BatchNorm
    from rushlight.utils.data.dataloader import DataLoader, default_collate

    assert issubclass(nn.BatchNorm2d, _BatchNorm)
    assert nn.modules.sparse.Embedding is nn.Embedding
    assert DataLoader is torch.utils.data.DataLoader and callable(default_collate)
    assert not torch.accelerator.is_available() and not torch.distributed.is_available()


def test_data_parallel_without_devices_calls_its_module():
    model = nn.DataParallel(nn.Linear(3, 2))
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    assert model(torch.ones(4, 3)).shape == (4, 2)
    with pytest.raises(ValueError, match="process group"):
        nn.parallel.DistributedDataParallel(nn.Linear(3, 2))


def test_slices_of_tensors_that_are_gone_keep_their_own_data():
    tables = [[[float(i), 0.0], [float(-i), 0.5]] for i in range(40)]
    rows = [torch.tensor(table)[1] * 1.0 for table in tables]  # each table dies at once
    assert torch.stack(rows).tolist() == [table[1] for table in tables]


def test_copies_broadcast_among_empty_tensors() -> None:
    for own, other in (((0, 3), (0, 1)), ((3, 0), (1, 0)), ((0, 3), (1, 1))):
        assert torch.zeros(*own).copy_(torch.zeros(*other)).shape == own
    with pytest.raises(RuntimeError):
        torch.zeros(3).copy_(torch.zeros(0))
    with pytest.raises(RuntimeError):
        torch.zeros(1).copy_(torch.zeros(0))


def test_numbers_of_samples_are_whole() -> None:
    for call in (
        lambda: torch.randperm(2.0),
        lambda: torch.multinomial(torch.ones(3), 2.5, replacement=True),
        lambda: torch.randint(0, 2.5, (3,)),
        lambda: torch.zeros(3).random_(0, 2.5),
    ):
        with pytest.raises(TypeError, match="must be int, not float"):
            call()
    assert sorted(torch.randperm(np.int64(3)).tolist()) == [0, 1, 2]
    assert torch.rand(2).shape == (2,)  # the generator counts on as before


def test_classes_in_bytes() -> None:
    peer = pytest.importorskip("torch")
    found = []
    for lib in (torch, peer):
        logits = lib.arange(20.0).reshape(4, 5).requires_grad_()
        target = lib.tensor([0, 1, 2, 3], dtype=lib.uint8)
        loss = lib.nn.functional.cross_entropy(logits, target, label_smoothing=0.1)
        loss = loss + lib.nn.functional.cross_entropy(logits, target)
        loss.backward()
        found.append(logits.grad.numpy())
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-7)


def test_one_parameter_under_two_names() -> None:
    with pytest.raises(TypeError, match="axis"):
        torch.ones(2, 3).sum(dim=0, axis=1)


def test_a_tensor_on_memory_that_is_not_writable_warns() -> None:
    with pytest.warns(UserWarning, match="not writable"):
        torch.from_numpy(np.frombuffer(bytes(64), np.float32))


def test_whole_numbers_may_be_tensors_of_one_element() -> None:
    x, two = torch.arange(6), torch.tensor(2)
    assert torch.nn.functional.one_hot(torch.arange(2), two + 1).tolist() == [
        [1, 0, 0],
        [0, 1, 0],
    ]
    for shifts in (two, (two,), [torch.tensor([2])], torch.tensor([2])):
        assert x.roll(shifts).tolist() == [4, 5, 0, 1, 2, 3]
    assert torch.ones(2, 3).sum((torch.tensor(0),)).tolist() == [2, 2, 2]
    assert torch.ones(2, 3).sum(torch.tensor(1)).tolist() == [3, 3]
    assert torch.ones(2, 3).softmax(torch.tensor(0)).tolist() == [[0.5] * 3] * 2
    assert [len(p) for p in x.split(two)] == [2, 2, 2]
    assert [len(p) for p in x.chunk(two)] == [3, 3]


@pytest.mark.parametrize("dim", [1.0, "0", [0], torch.tensor(0.0)], ids=str)
def test_a_dimension_is_a_whole_number(dim: object) -> None:
    for function in (torch.softmax, torch.cumsum, torch.unsqueeze, torch.flip):
        if function is not torch.flip or not isinstance(dim, list):
            with pytest.raises(TypeError):
                function(torch.ones(2, 3), dim)


def rates_of_nested_schedules(library, first: str) -> list[float]:
    parameter = library.nn.Parameter(library.ones(1))
    optimizer = library.optim.SGD([parameter], lr=1.0)
    schedules = library.optim.lr_scheduler
    parts = [schedules.ConstantLR(optimizer, 0.5, 2), schedules.ExponentialLR(optimizer, 0.9)]
    if first == "chained":
        made = schedules.ChainedScheduler(parts, optimizer=optimizer)
    else:
        made = schedules.SequentialLR(optimizer, parts, [2])
    made = schedules.SequentialLR(optimizer, [made, schedules.StepLR(optimizer, 2)], [5])
    rates = []
    for _ in range(9):
        rates.append(round(optimizer.param_groups[0]["lr"], 6))
        optimizer.step()
        made.step()
    made.recursive_undo()
    return [*rates, *[part.last_epoch for part in parts]]


@pytest.mark.parametrize("first", ("chained", "sequential"))
@pytest.mark.filterwarnings("ignore:Detected call")
def test_schedules_of_schedules_in_schedules(first: str) -> None:
    theirs = pytest.importorskip("torch")
    expected = rates_of_nested_schedules(theirs, first)
    assert rates_of_nested_schedules(rushlight, first) == expected


def test_a_step_of_the_programs_own_may_be_decorated() -> None:
    class Counting(rushlight.optim.Optimizer):
        @rushlight.optim.Optimizer.profile_hook_step
        def step(self, closure=None):
            return "stepped"

    optimizer = Counting([rushlight.nn.Parameter(rushlight.ones(1))], {})
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    assert optimizer.step() == "stepped" and calls == ["before", "after"]


def test_distributions_may_leave_out_their_constraints() -> None:
    class Plain(rushlight.distributions.Distribution):
        def log_prob(self, value):
            self._validate_sample(value)
            return -value

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        made = Plain()
    with pytest.warns(UserWarning, match="does not define `support`"):
        assert made.log_prob(rushlight.tensor(1.0)) == -1
    for name in ("arg_constraints", "support"):
        with pytest.raises(NotImplementedError):
            getattr(made, name)


def test_parameters_of_distributions_have_pytorchs_names() -> None:
    theirs = pytest.importorskip("torch")
    for library in (theirs, rushlight):
        d, half = library.distributions, library.tensor(0.5)
        assert abs(d.HalfNormal(1.0).icdf(prob=half) - 0.6745) < 1e-4
        parts = d.Categorical(library.ones(2)), d.Normal(library.zeros(2), library.ones(2))
        mixture = d.MixtureSameFamily(*parts)
        assert abs(mixture.cdf(x=half) - 0.6915) < 1e-4
        assert abs(mixture.log_prob(x=half) + 1.0439) < 1e-4


def test_packed_sequences_without_a_gpu() -> None:
    packed = rushlight.nn.utils.rnn.pack_sequence([rushlight.ones(2)])
    with pytest.raises(RuntimeError, match="CPU only"):
        packed.cuda()
    assert packed.pin_memory().data.tolist() == [1.0, 1.0]
