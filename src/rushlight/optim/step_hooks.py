"""Hooks that are called around the steps of every optimizer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any  # hooks take an optimizer and what its step was given

from rushlight.nn.hooks import RemovableHandle

StepHook = Callable[..., Any]
BEFORE_STEPS: OrderedDict[int, StepHook] = OrderedDict()
AFTER_STEPS: OrderedDict[int, StepHook] = OrderedDict()


def register_optimizer_step_pre_hook(hook: StepHook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before the step of every optimizer."""
    handle = RemovableHandle(BEFORE_STEPS)
    BEFORE_STEPS[handle.id] = hook
    return handle


def register_optimizer_step_post_hook(hook: StepHook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after the step of every optimizer."""
    handle = RemovableHandle(AFTER_STEPS)
    AFTER_STEPS[handle.id] = hook
    return handle
