"""Schedules of the learning rate.

In comes an optimizer; at every step of a schedule its groups get new rates. Schedules touch
nothing but the options of the groups.
"""

from rushlight.optim.lr_scheduler.base import LRScheduler
from rushlight.optim.lr_scheduler.compose import ChainedScheduler, SequentialLR
from rushlight.optim.lr_scheduler.curves import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from rushlight.optim.lr_scheduler.cycles import (
    CosineAnnealingWarmRestarts,
    CyclicLR,
    OneCycleLR,
)
from rushlight.optim.lr_scheduler.plateau import ReduceLROnPlateau

_LRScheduler = LRScheduler  # the older name, which classes derive from

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
