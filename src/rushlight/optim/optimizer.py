"""Optimizer: parameter groups, state, and the step that maps a rule over all parameters.

Note: rules. A concrete optimizer is a rule for one parameter, in three parts:

* `init(param, group)` makes the tensors of its state, once;
* `advance(group, numbers)` does everything that depends on the step count, in Python numbers:
  it returns static flags, which choose what is computed, and floats, which only enter it;
* `update(param, grad, state, flags, hyper)` is tensor operations alone.

`step` collects the parameters that share flags and floats into batches and hands all of them to
`update_all`, which is a pure function of tensors, flags and floats: one that can be recorded
once and replayed with other floats. Step counts and the like are tensors in `state`, as in
PyTorch, but their values are remembered as Python numbers, so that no step waits for a tensor.
"""

from __future__ import annotations

import functools
import struct
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

import numpy as np

import rushlight as rl
from rushlight import config, errors
from rushlight.arrays import tensor_of_array, tensor_of_number
from rushlight.nn.hooks import RemovableHandle, insert_hook
from rushlight.nn.module import clear_gradient, type_text
from rushlight.ops import creation
from rushlight.optim.batch import Batch, Watch, update_all
from rushlight.optim.matching import matched, merged
from rushlight.optim.step_hooks import AFTER_STEPS, BEFORE_STEPS, StepHook
from rushlight.optim.step_hooks import (  # PyTorch has them in this module
    register_optimizer_step_post_hook as register_optimizer_step_post_hook,
)
from rushlight.optim.step_hooks import (
    register_optimizer_step_pre_hook as register_optimizer_step_pre_hook,
)
from rushlight.tensor import Tensor
from rushlight.trace import before_steady_steps, flush

ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
"""What an optimizer takes: parameters, groups of them, or parameters with names."""


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer:
    """Base of all optimizers; see the note on rules at the top of this file.

    A subclass that overrides `step` alone works as in PyTorch.
    """

    STATE: tuple[str, ...] = ()
    NUMBERS: tuple[str, ...] = ("step",)
    OptimizerPreHook = OptimizerPostHook = StepHook

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _around_step(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._init_hooks()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {type_text(params)}"
            )
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _init_hooks(self) -> None:
        for name in _HOOK_TABLES:
            setattr(self, name, OrderedDict())
        self._numbers: dict[int, tuple[Tensor, float]] = {}

    # ---- the rule, given by subclasses

    def init(self, param: Tensor, group: dict[str, Any]) -> tuple[Tensor, ...]:
        """The tensors of a parameter's state before its first step, in the order of STATE."""
        return tuple(_zeros_like(param) for _ in self.state_names(group, param))

    def state_names(self, group: dict[str, Any], param: Tensor) -> tuple[str, ...]:
        """The names of a parameter's state tensors under a group's options."""
        return self.STATE

    def first_numbers(self, group: dict[str, Any]) -> dict[str, float]:
        """The numbers of a parameter's state before its first step."""
        return dict.fromkeys(self.NUMBERS, 0.0)

    def advance(
        self, group: dict[str, Any], numbers: dict[str, float], is_first: bool
    ) -> tuple[Any, tuple[float, ...]]:
        """Count a step in `numbers`; return flags and floats for `update`.

        `is_first` says that the state tensors have just been made.
        """
        raise errors.left_to_subclasses(self, "advance")

    @staticmethod
    def update(
        param: Tensor,
        grad: Tensor,
        state: tuple[Tensor, ...],
        flags: Any,
        hyper: tuple[float, ...],
    ) -> None:
        """Update a parameter and its state in place."""
        raise NotImplementedError("an optimizer without `update` has a `step` of its own")

    # ---- stepping

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient.

        A closure, if given, computes the loss and its gradients first; its result is returned.
        """
        loss = None
        if closure is not None:
            with rl.enable_grad():
                loss = closure()
        with config.gradients_off():
            batches = self._collect()
            if Watch.step is not None:
                Watch.step(self, batches)
            update_all(self.update, batches)
        return loss

    def advance_again(
        self, batches: Sequence[tuple[Batch, list[dict[str, Any]]]]
    ) -> tuple[list[float], Callable[[], None]]:
        """The floats of the next step on the same batches, each with the states of its
        parameters, and what to call once it is done.

        ValueError if that step would do something else than the one before.
        """
        floats: list[float] = []
        counted: list[tuple[list[dict[str, Any]], dict[str, float]]] = []
        for batch, states in batches:
            numbers = self._numbers_of(states[0])
            flags, hyper = self.advance(batch.group, numbers, False)
            if flags != batch.flags:
                raise ValueError("the options have changed")
            floats += map(float, hyper)
            counted.append((states, numbers))
        return floats, functools.partial(self._count, counted)

    def _numbers_of(self, state: dict[str, Any]) -> dict[str, float]:
        """The numbers of a state that this optimizer wrote itself; ValueError otherwise."""
        found = {}
        for name in self.NUMBERS:
            tensor, number = self._numbers.get(id(state.get(name)), (None, 0.0))
            if tensor is None:
                raise ValueError("the state was written by somebody else")
            found[name] = number
        return found

    def _count(self, counted: Sequence[tuple[list[dict[str, Any]], dict[str, float]]]) -> None:
        fresh: dict[int, tuple[Tensor, float]] = {}
        for states, numbers in counted:
            dtypes = {name: states[0][name].dtype for name in self.NUMBERS}
            tensors = _as_tensors(numbers, dtypes, fresh)
            for state in states:
                state.update(tensors)
        self._numbers = fresh

    def _collect(self) -> list[Batch]:  # hot
        """The parameters with gradients, by what their update has in common."""
        batches: list[Batch] = []
        fresh: dict[int, tuple[Tensor, float]] = {}
        for group in self.param_groups:
            found: dict[tuple[Any, ...], tuple[Batch, dict[str, Tensor]]] = {}
            for param in group["params"]:
                if param.grad is None:
                    continue
                names = self.state_names(group, param)
                state = self.state[param] if names or self.NUMBERS else {}
                key = self._place(state, param, group, names)
                entry = found.get(key)
                if entry is None:
                    entry = found[key] = self._new_batch(group, key, state, fresh)
                    batches.append(entry[0])
                batch, tensors = entry
                state.update(tensors)
                _append(batch, param, tuple([state[name] for name in names]))
        self._numbers = fresh
        return batches

    def _place(
        self, state: dict[str, Any], param: Tensor, group: dict[str, Any], names: Any
    ) -> tuple[Any, ...]:  # hot
        """Whether a parameter's state was just made, and its numbers: a batch shares them."""
        key: list[Any] = [False]
        for name in names:
            if state.get(name) is None:
                self._fill_state(state, param, group, names)
                key[0] = True
                break
        for name in self.NUMBERS:
            value = state.get(name)
            known = self._numbers.get(id(value))
            is_known = known is not None and known[0] is value
            key.append(known[1] if is_known else self._read(state, name, group))
        return tuple(key)

    def _read(self, state: dict[str, Any], name: str, group: dict[str, Any]) -> float:
        """A number of a state that this optimizer did not write itself."""
        if state.get(name) is None:
            state[name] = rl.tensor(self.first_numbers(group)[name], dtype=number_dtype())
        return float(state[name])

    def _new_batch(
        self,
        group: dict[str, Any],
        key: tuple[Any, ...],
        state: dict[str, Any],
        fresh: dict[int, Any],
    ) -> tuple[Batch, dict[str, Tensor]]:
        """An empty batch, and the numbers of its parameters after this step as tensors."""
        numbers = dict(zip(self.NUMBERS, key[1:], strict=True))
        flags, hyper = self.advance(group, numbers, key[0])
        dtypes = {name: getattr(state[name], "dtype", None) for name in self.NUMBERS}
        return Batch(flags, hyper, [], [], [], group), _as_tensors(numbers, dtypes, fresh)

    def _fill_state(
        self, state: dict[str, Any], param: Tensor, group: dict[str, Any], names: Any
    ) -> None:
        for name, value in self.first_numbers(group).items():
            if state.get(name) is None:
                state[name] = rl.tensor(value, dtype=number_dtype())
        missing = [name for name in names if state.get(name) is None]
        if missing:
            made = dict(zip(names, self.init(param, group), strict=True))
            state.update({name: made[name] for name in missing})

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients, or fill them with zero."""
        for group in self.param_groups:
            for param in group["params"]:
                clear_gradient(param, set_to_none)

    # ---- groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        param_group = dict(param_group)  # the caller's may become another optimizer's too
        params = param_group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list "
                "instead."
            )
        params = list(params)
        named = [isinstance(param, tuple) for param in params]
        if any(named):
            if not all(named):
                raise ValueError(
                    "all optimizer params should be with/without names. Some param names are "
                    "missing"
                )
            param_group["param_names"] = [name for name, _ in params]
            params = [param for _, param in params]
        param_group["params"] = params
        for param in params:
            _check_param(param)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization "
                    f"parameter {name}"
                )
            param_group.setdefault(name, default)
        self._check_repetition(param_group)
        self.param_groups.append(param_group)
        flush()  # what makes the parameters is no part of the first step

    def _check_repetition(self, group: dict[str, Any]) -> None:
        named = ["param_names" in g for g in self.param_groups]
        if named and named[0] != ("param_names" in group):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param "
                "group without names to the optimizer"
                if named[0]
                else "all optimizer param groups should be with/without names. cannot add "
                "param group with names to the optimizer"
            )
        params = group["params"]
        if len(params) != len(set(params)):
            import warnings  # only this mistake needs it

            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, "
                "this will cause an error; see github.com/pytorch/pytorch/issues/40967 for "
                "more information",
                stacklevel=4,
            )
        known = set(chain.from_iterable(g["params"] for g in self.param_groups))
        if not known.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")

    # ---- saving and loading

    def state_dict(self) -> dict[str, Any]:
        """State and options with parameters replaced by their position."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        positions: dict[int, int] = {}
        for group in self.param_groups:
            for param in group["params"]:
                positions.setdefault(id(param), len(positions))
        groups = [
            {**_without_params(group), "params": [positions[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {
            (positions[id(key)] if isinstance(key, Tensor) else key): value
            for key, value in self.state.items()
        }
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            result = result if changed is None else changed
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` of an optimizer with the same groups gave.

        State goes to the parameter of the same name where both were given `named_parameters()`,
        and otherwise to the one at the same position.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        saved = deepcopy(state_dict["param_groups"])
        by_number = matched(self.param_groups, saved)
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in by_number:
                state[by_number[key]] = _cast(by_number[key], value, self.NUMBERS)
            else:
                state[key] = value
        groups = [merged(own, new) for own, new in zip(self.param_groups, saved, strict=True)]
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_numbers" not in self.__dict__:
            self._init_hooks()
        self._numbers = {}
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)

    # ---- hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step."""
        return self._hook("_optimizer_step_pre_hooks", hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return self._hook("_optimizer_step_post_hooks", hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`."""
        return self._hook("_optimizer_state_dict_pre_hooks", hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; it may return another."""
        return self._hook("_optimizer_state_dict_post_hooks", hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; it may return another."""
        return self._hook("_optimizer_load_state_dict_pre_hooks", hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after loading."""
        return self._hook("_optimizer_load_state_dict_post_hooks", hook, prepend)

    def _hook(
        self, table: str, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        handle = RemovableHandle(getattr(self, table))
        insert_hook(getattr(self, table), handle, hook, prepend)
        return handle

    def __repr__(self) -> str:
        lines = []
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}\n")
            shown = sorted(key for key in group if key != "params")
            lines.extend(f"    {key}: {group[key]}\n" for key in shown)
            if i + 1 < len(self.param_groups):
                lines.append("\n")
        return f"{type(self).__name__} (\n{''.join(lines)})"


_HOOK_TABLES = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


def _around_step(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step with its hooks, which marks the end of the training step for the runtime."""
    if getattr(step, "hooked", False):
        return step

    @functools.wraps(step)
    def run(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        before = self._optimizer_step_pre_hooks
        for hook in chain(BEFORE_STEPS.values(), before.values()):
            result = hook(self, args, kwargs)
            if result is not None:
                args, kwargs = _new_arguments(step, result)
        self._opt_called = True
        before_steady_steps()  # a batch of another size needs no other step
        out = step(self, *args, **kwargs)
        after = self._optimizer_step_post_hooks
        for hook in chain(after.values(), AFTER_STEPS.values()):
            hook(self, args, kwargs)
        flush()
        return out

    run.hooked = True  # type: ignore[attr-defined]
    return run


Optimizer.step = _around_step(Optimizer.step)  # type: ignore[method-assign]
Optimizer.profile_hook_step = staticmethod(_around_step)  # type: ignore[attr-defined]


def _new_arguments(step: Any, result: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(result, tuple) and len(result) == 2:
        return result
    raise RuntimeError(
        f"{step} must return None or a tuple of (new_args, new_kwargs), but got {result}."
    )


def _check_param(param: Any) -> None:
    if not isinstance(param, Tensor):
        raise TypeError(
            f"optimizer can only optimize Tensors, but one of the params is {type_text(param)}"
        )
    if not (param.is_leaf or param.retains_grad):
        raise ValueError("can't optimize a non-leaf Tensor")


def _append(batch: Batch, param: Tensor, state: tuple[Tensor, ...]) -> None:
    """Add a parameter to a batch; a complex one as pairs of real numbers."""
    grad = param.grad
    if param.dtype.is_complex:
        param, grad = rl.view_as_real(param), rl.view_as_real(grad)
        state = tuple(rl.view_as_real(s) if s.is_complex() else s for s in state)
    batch.params.append(param)
    batch.grads.append(grad)
    batch.states.append(state)


def _as_tensors(
    numbers: dict[str, float], dtypes: dict[str, Any], fresh: dict[int, tuple[Tensor, float]]
) -> dict[str, Tensor]:
    """Numbers as the tensors that `state` shows; one tensor serves a whole batch."""
    tensors = {}
    for name, number in numbers.items():
        kind = dtypes[name] or number_dtype()
        number = as_held(number, kind)
        tensor = tensor_of_number(number, kind)
        fresh[id(tensor)] = (tensor, number)
        tensors[name] = tensor
    return tensors


def as_held(number: float, kind: Any) -> float:
    """A number as a tensor of `state` holds it, and as it is after a restart."""
    if kind is not rl.float32:
        return number
    held: float = _FLOAT32.unpack(_FLOAT32.pack(number))[0]
    return held


_FLOAT32 = struct.Struct("f")


def number_dtype() -> Any:
    return rl.float64 if rl.get_default_dtype() == rl.float64 else rl.float32


def _zeros_like(param: Tensor) -> Tensor:
    """Zeros that are in memory at once, so that the first step finds what later steps find."""
    made = tensor_of_array(np.broadcast_to(0, tuple(param.shape)), param.dtype)
    return creation.with_grad(made, False, like=param)


def _without_params(group: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key != "params"}


def _cast(param: Tensor, value: Any, numbers: tuple[str, ...], key: str | None = None) -> Any:
    """State in the parameter's dtype; numbers keep theirs, so that a restart changes no bit."""
    if isinstance(value, Tensor):
        if key == "step" or key in numbers:
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)
    if isinstance(value, dict):
        return {k: _cast(param, v, numbers, key=k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return type(value)(_cast(param, v, numbers) for v in value)  # type: ignore[call-arg]
    return value


def number(value: Any) -> float:
    """An option that may be given as a tensor, as the number it holds."""
    return float(value) if isinstance(value, Tensor) else value


def check_options(**options: Any) -> None:
    """Refuse what makes no sense in any optimizer: negative rates, betas outside [0, 1)."""
    lr = options.get("lr", 0.0)
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    for name, text in _NON_NEGATIVE.items():
        value = options.get(name, 0.0)
        if not value >= 0.0:
            raise ValueError(f"Invalid {text}: {value}")
    for i, beta in enumerate(options.get("betas", ())):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


_NON_NEGATIVE = {
    "lr": "learning rate",
    "eps": "epsilon value",
    "weight_decay": "weight_decay value",
    "momentum": "momentum value",
    "lr_decay": "lr_decay value",
    "initial_accumulator_value": "initial_accumulator_value value",
    "momentum_decay": "momentum_decay value",
    "alpha": "alpha value",
}


def check_modes(differentiable: bool, fused: bool | None, foreach: bool | None) -> None:
    """The ways of running that exclude each other; all of them run the same code here."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
