"""Optimizers and schedules of their learning rates.

In come parameters with gradients; an optimizer writes new values into them and keeps what it
must remember in `state`. It must never look at a tensor's values to decide what to do next
(LBFGS alone does).
"""

from rushlight.optim import lr_scheduler, swa_utils
from rushlight.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from rushlight.optim.adaptive import Adadelta, Adafactor, Adagrad, RMSprop
from rushlight.optim.lbfgs import LBFGS
from rushlight.optim.muon import Muon
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.rprop import Rprop
from rushlight.optim.sgd import ASGD, SGD
from rushlight.optim.swapping import swap_in_optimizer_params_and_state
from rushlight.places import add_places as _add_places

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swap_in_optimizer_params_and_state",
    "swa_utils",
]

_add_places(
    __name__,
    {
        "adadelta": ("adaptive",),
        "adagrad": ("adaptive",),
        "adamax": ("adam",),
        "adamw": ("adam",),
        "asgd": ("sgd",),
        "nadam": ("adam",),
        "radam": ("adam",),
        "rmsprop": ("adaptive",),
    },
)
