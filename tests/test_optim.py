"""Optimizers against PyTorch: values, state, text, groups, hooks, messages."""

import warnings

import numpy as np
import pytest
from nn_parity import array, assert_same, both_raise, torch

import rushlight as rl
from rushlight import nn, optim

CASES = [
    ("SGD", {}), ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "dampening": 0.3, "maximize": True}),
    ("Adam", {}), ("Adam", {"amsgrad": True, "weight_decay": 0.1}), ("AdamW", {}),
    ("AdamW", {"maximize": True, "amsgrad": True}), ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1}), ("RAdam", {}),
    ("ASGD", {"t0": 2, "weight_decay": 0.1}), ("Rprop", {}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.2}), ("Adadelta", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True}), ("Adafactor", {}),
]  # fmt: skip


def start(lib):
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape) for shape in ((3, 2), (4,))]
    return [lib.nn.Parameter(lib.tensor(value)) for value in values]


def groups(params):
    return [{"params": params[:1]}, {"params": params[1:], "lr": 0.02}]


def run(lib, name, options, resume_at=None, steps=8):
    params = start(lib)
    kind = getattr(lib.optim, name)
    opt = kind(groups(params), **options)
    for i in range(steps):
        if i == resume_at:
            state = opt.state_dict()
            opt = kind(groups(params), **options)
            opt.load_state_dict(state)
        for j, p in enumerate(params):
            p.grad = (p.detach() * (j + 1) + i).sin()
        opt.step()
    return params, opt


@pytest.mark.parametrize("name, options", CASES)
def test_steps_are_pytorchs(name, options):
    results = []
    for lib in (rl, torch):
        params, opt = run(lib, name, options)
        state = opt.state_dict()
        results.append([repr(opt), array(params), array(state["state"])])
        assert list(state) == ["state", "param_groups"]
    assert_same(*results, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name, options", CASES)
def test_a_resumed_run_has_the_same_bits(name, options):
    straight, _ = run(rl, name, options)
    resumed, _ = run(rl, name, options, resume_at=4)
    for a, b in zip(straight, resumed, strict=True):
        np.testing.assert_array_equal(array(a), array(b))


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs(search):
    results = []
    for lib in (rl, torch):
        params = start(lib)
        opt = lib.optim.LBFGS(params, max_iter=6, line_search_fn=search)

        def closure(params=params, opt=opt):
            opt.zero_grad()
            loss = sum(((p - 1) ** 4).sum() + (p * p).sum() for p in params)
            loss.backward()
            return loss

        losses = [array(opt.step(closure)) for _ in range(3)]
        results.append([losses, array(params)])
    assert_same(*results, rtol=1e-6, atol=1e-9)


def test_muon_moves_along_orthogonal_directions():
    weight = nn.Parameter(rl.zeros(4, 3))
    opt = optim.Muon([weight], lr=1.0, weight_decay=0.0)
    weight.grad = rl.tensor(np.random.default_rng(0).standard_normal((4, 3)).astype("f4"))
    opt.step()
    step = array(weight) / np.sqrt(4 / 3)
    assert np.linalg.svd(step, compute_uv=False) == pytest.approx([1, 1, 1], abs=0.4)


def test_step_counts_are_tensors_and_need_no_reading():
    params, opt = run(rl, "Adam", {}, steps=3)
    step = opt.state[params[0]]["step"]
    assert isinstance(step, rl.Tensor) and step.dtype == rl.float32 and float(step) == 3
    assert opt._numbers[id(step)] == (step, 3.0)


def test_parameters_without_gradient_keep_value_and_state():
    params = start(rl)
    opt = optim.AdamW(params)
    params[0].grad = rl.ones(3, 2).double()
    before = array(params[1])
    opt.step()
    np.testing.assert_array_equal(array(params[1]), before)
    assert params[1] not in opt.state


def test_a_parameter_that_joins_late_counts_its_own_steps():
    params = start(rl)
    opt = optim.Adam(params)
    for present in (params[:1], params, params):
        for p in params:
            p.grad = rl.ones_like(p) if any(p is q for q in present) else None
        opt.step()
    assert [float(opt.state[p]["step"]) for p in params] == [3, 2]


def test_hooks_and_zero_grad():
    params, log = start(rl), []
    opt = optim.SGD(params, lr=0.1)
    opt.register_step_pre_hook(lambda *a: log.append("pre"))
    handle = opt.register_step_post_hook(lambda *a: log.append("post"))
    opt.step()
    handle.remove()
    opt.step()
    assert log == ["pre", "post", "pre"]
    params[0].grad = rl.ones(3, 2).double()
    opt.zero_grad(set_to_none=False)
    np.testing.assert_array_equal(array(params[0].grad), np.zeros((3, 2)))
    opt.zero_grad()
    assert params[0].grad is None


def test_a_step_of_ones_own_still_has_hooks():
    class Plain(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.5})

        def step(self, closure=None):
            with rl.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p.add_(p.grad, alpha=-group["lr"])

    weight, log = nn.Parameter(rl.ones(2)), []
    opt = Plain([weight])
    opt.register_step_post_hook(lambda *a: log.append("post"))
    weight.grad = rl.ones(2)
    opt.step()
    np.testing.assert_array_equal(array(weight), np.full(2, 0.5, np.float32))
    assert log == ["post"]


def test_named_parameters_are_kept():
    layer = nn.Linear(1, 1)
    opt = optim.SGD(layer.named_parameters())
    assert opt.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


@pytest.mark.parametrize(
    "build",
    [
        lambda lib: lib.optim.SGD([]),
        lambda lib: lib.optim.SGD([3]),
        lambda lib: lib.optim.SGD([lib.ones(1)], lr=-1.0),
        lambda lib: lib.optim.SGD([lib.ones(1)], nesterov=True),
        lambda lib: lib.optim.Adam([lib.ones(1)], betas=(1.0, 0.9)),
        lambda lib: lib.optim.Rprop([lib.ones(1)], etas=(1.0, 0.5)),
        lambda lib: lib.optim.Adafactor([lib.ones(1)], d=0.5),
        lambda lib: lib.optim.SGD([{"params": [t := lib.ones(1)]}, {"params": [t]}]),
        lambda lib: lib.optim.SGD([lib.ones(1)]).load_state_dict(
            lib.optim.SGD([lib.ones(1), lib.ones(1)]).state_dict()
        ),
    ],
)
def test_messages_are_pytorchs(build):
    both_raise(build)


# ---- schedules


def double(epoch):
    return 1 / (epoch + 1)


SCHEDULES = {
    "lambda": lambda L, o: L.LambdaLR(o, [double, lambda e: 0.9**e]),
    "multiplicative": lambda L, o: L.MultiplicativeLR(o, lambda e: 0.9 + 0.01 * (e % 3)),
    "step": lambda L, o: L.StepLR(o, 3, 0.5),
    "milestones": lambda L, o: L.MultiStepLR(o, [3, 4, 4, 9], 0.3),
    "constant": lambda L, o: L.ConstantLR(o, 0.25, 4),
    "linear": lambda L, o: L.LinearLR(o, 0.2, 0.7, 6),
    "exponential": lambda L, o: L.ExponentialLR(o, 0.9),
    "polynomial": lambda L, o: L.PolynomialLR(o, 8, 2.5),
    "cosine": lambda L, o: L.CosineAnnealingLR(o, 5, 0.001),
    "restarts": lambda L, o: L.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "cyclic": lambda L, o: L.CyclicLR(o, 0.01, 0.1, 3, 6, "triangular2"),
    "exp_range": lambda L, o: L.CyclicLR(o, [0.01, 0.02], [0.1, 0.2], 4, mode="exp_range",
                                         gamma=0.97),
    "one_cycle": lambda L, o: L.OneCycleLR(o, [0.3, 0.1], total_steps=30),
    "three_phase": lambda L, o: L.OneCycleLR(o, 0.2, epochs=3, steps_per_epoch=10,
                                             three_phase=True, anneal_strategy="linear"),
    "sequential": lambda L, o: L.SequentialLR(
        o, [L.ConstantLR(o, 0.1, 20), L.ExponentialLR(o, 0.9), L.StepLR(o, 4)], [5, 12]
    ),
    "chained": lambda L, o: L.ChainedScheduler(
        [L.ConstantLR(o, 0.1, 6), L.ExponentialLR(o, 0.9)]
    ),
    "plateau": lambda L, o: L.ReduceLROnPlateau(o, "max", 0.5, 1, cooldown=2, min_lr=[1e-3, 0]),
}  # fmt: skip


def rates(lib, make, resume_at=None, epochs=25):
    """All rates and momenta over some epochs, and the state at the end."""

    def fresh():
        params = start(lib)
        opt = lib.optim.SGD([{"params": params[:1]}, {"params": params[1:], "lr": 0.2}],
                            lr=0.1, momentum=0.9)  # fmt: skip
        return opt, make(lib.optim.lr_scheduler, opt)

    opt, schedule = fresh()
    trail = []
    for epoch in range(epochs):
        if epoch == resume_at:
            saved = opt.state_dict(), schedule.state_dict()
            opt, schedule = fresh()
            opt.load_state_dict(saved[0])
            schedule.load_state_dict(saved[1])
        trail.append([(g["lr"], g["momentum"]) for g in opt.param_groups])
        trail.append(list(schedule.get_last_lr()))
        opt.step()
        is_plateau = type(schedule).__name__ == "ReduceLROnPlateau"
        schedule.step(*([epoch % 7] if is_plateau else []))
    return trail, schedule.state_dict()


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_pytorchs(name):
    (ours, state), (theirs, their_state) = (rates(lib, SCHEDULES[name]) for lib in (rl, torch))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert state.keys() == their_state.keys()


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_resume(name):
    straight, _ = rates(rl, SCHEDULES[name])
    resumed, _ = rates(rl, SCHEDULES[name], resume_at=11)
    assert straight == resumed


def test_a_schedule_before_its_optimizer_is_reported():
    opt = optim.SGD(start(rl), lr=0.1)
    schedule = optim.lr_scheduler.StepLR(opt, 2)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()
    opt.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()


# ---- averages


@pytest.mark.parametrize("kind", [None, "avg_fn", "multi_avg_fn"])
def test_averaged_models(kind):
    results = []
    for lib in (rl, torch):
        swa = lib.optim.swa_utils
        model = lib.nn.Linear(2, 2)
        options = {kind: getattr(swa, f"get_ema_{kind}")(0.75)} if kind else {}
        average = swa.AveragedModel(model, **options)
        for i in range(4):
            with lib.no_grad():
                for p in model.parameters():
                    p.fill_(float(i * i))
            average.update_parameters(model)
        results.append(array(dict(average.state_dict())))
    assert_same(*results)


def test_update_bn_takes_the_mean_of_all_batches():
    model = nn.Sequential(nn.BatchNorm1d(2)).eval()
    batches = [rl.tensor(np.full((3, 2), v, np.float32)) for v in (1.0, 3.0)]
    optim.swa_utils.update_bn(batches, model)
    np.testing.assert_allclose(array(model[0].running_mean), [2.0, 2.0])
    assert not model.training and model[0].momentum == 0.1


def _named_module(names):
    module = nn.Module()
    for name in names:
        setattr(module, name, nn.Parameter(rl.zeros(2)))
    return module


def _saved_adam(names):
    """The state_dict of a step in which each parameter's gradient is its place among names."""
    module = _named_module(names)
    opt = optim.Adam(module.named_parameters())
    for i, parameter in enumerate(module.parameters()):
        parameter.grad = rl.full((2,), float(i))
    opt.step()
    return opt.state_dict()


def test_state_follows_names_and_not_positions():
    module = _named_module(["c", "a", "b"])
    opt = optim.Adam(module.named_parameters())
    opt.load_state_dict(_saved_adam(["a", "b", "c"]))
    for i, name in enumerate(["a", "b", "c"]):
        assert opt.state[getattr(module, name)]["exp_avg"].tolist() == pytest.approx(
            [i * 0.1] * 2
        )
    assert opt.param_groups[0]["param_names"] == ["c", "a", "b"]


def test_names_with_another_prefix_go_by_position():
    module = _named_module(["x_a", "x_b"])
    opt = optim.Adam(module.named_parameters())
    opt.load_state_dict(_saved_adam(["a", "b"]))
    assert opt.state[module.x_b]["exp_avg"].tolist() == pytest.approx([0.1] * 2)


def test_names_of_which_only_some_are_known_are_refused():
    opt = optim.Adam(_named_module(["b", "d"]).named_parameters())
    with pytest.raises(ValueError, match=r"missing \['d'\], unexpected \['a'\]"):
        opt.load_state_dict(_saved_adam(["a", "b"]))
