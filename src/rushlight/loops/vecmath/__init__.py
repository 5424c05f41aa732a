"""Vector mathematics as LLVM text.

In: the name of a function and a dtype. Out: `define internal` text on sixteen logical lanes,
with a stated error bound and the same bits on every target. It must never call a mathematics
library, use fast-math flags, or look values up in memory on a usual path.

Results that are NaN are some NaN: sign and payload are not specified.
"""

from rushlight.loops.vecmath import (
    bessel,
    error,
    exponential,
    gamma,
    inverse,
    logarithm,
    power,
    quantile,
    rounding,
    trigonometric,
)
from rushlight.loops.vecmath.registry import FUNCTIONS, arity, declaration, definition, symbol

__all__ = ["FUNCTIONS", "arity", "declaration", "definition", "symbol"]
