"""`torch.utils.benchmark`: how long a statement takes.

In comes a statement as text; out go measurements, and a table of several. What a statement
records is computed before the clock is read.
"""

from rushlight.utils.benchmark.compare import Compare
from rushlight.utils.benchmark.measurement import Measurement, TaskSpec, select_unit
from rushlight.utils.benchmark.timer import Language, Timer, timer

__all__ = [
    "Compare", "Language", "Measurement", "TaskSpec", "Timer", "select_unit", "timer",
]  # fmt: skip
