"""Optimizers and schedules of their learning rates.

In come parameters with gradients; an optimizer writes new values into them and keeps what it
must remember in `state`. It must never look at a tensor's values to decide what to do next.
"""

from rushlight.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.sgd import ASGD, SGD
