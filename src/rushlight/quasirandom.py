"""`torch.quasirandom`: points that fill a cube evenly (Sobol, 1967).

The direction numbers are those of Joe and Kuo (2008), which SciPy has; the points are
PyTorch's, bit by bit.
"""

from __future__ import annotations

import warnings
from typing import Any  # SciPy's engine

import numpy as np

from rushlight import config
from rushlight.arrays import from_numpy
from rushlight.dtypes import dtype as _dtype
from rushlight.random.generator import default_generator
from rushlight.tensor import Tensor

_BITS = 30


class SobolEngine:
    """A sequence of points in [0, 1) of a dimension up to 21201.

    scramble: shuffle the digits at random (Matousek, 1998), which keeps the points even; by
    `seed`, or by the default generator's next number.

    Needs SciPy.

    >>> from rushlight.quasirandom import SobolEngine
    >>> SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT, MAXDIM = _BITS, 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                "Supported range of dimensionality for SobolEngine is "
                f"[1, {self.MAXDIM}], got {dimension}"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        self._engine = _engine(dimension, scramble, seed)

    def draw(
        self, n: int = 1, out: Tensor | None = None, dtype: _dtype | None = None
    ) -> Tensor:
        """The next `n` points: (n, dimension), of the default dtype."""
        kind = dtype or (config.default_dtype() if out is None else out.dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SciPy's, about numbers that are no power of 2
            points = self._engine.random(n) if n else np.zeros((0, self.dimension))
        self.num_generated += n
        made = from_numpy(points).to(kind)
        return made if out is None else out.resize_(made.shape).copy_(made)

    def draw_base2(
        self, m: int, out: Tensor | None = None, dtype: _dtype | None = None
    ) -> Tensor:
        """The next 2**m points; with those before them they must be a power of two."""
        total = self.num_generated + 2**m
        if total & (total - 1):
            raise ValueError(
                f"SobolEngine.draw_base2: {self.num_generated} points and 2**{m} are {total}, "
                "no power of 2: draw() takes any number"
            )
        return self.draw(2**m, out, dtype)

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out `n` points."""
        if n:
            self._engine.fast_forward(n)
        self.num_generated += n
        return self

    def reset(self) -> SobolEngine:
        """Go back to the first point."""
        self._engine.reset()
        self.num_generated = 0
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"SobolEngine({', '.join(parts)})"


def _engine(dimension: int, scramble: bool, seed: int | None) -> Any:
    try:
        from scipy.stats import qmc  # optional, and slow to import
    except ImportError as error:
        raise ImportError("SobolEngine needs SciPy: pip install scipy") from error
    if not scramble:
        return qmc.Sobol(dimension, scramble=False, bits=_BITS)
    drawn = default_generator.take(1) if seed is None else (seed,)
    stream = np.random.default_rng([number % (1 << 64) for number in drawn])
    return qmc.Sobol(dimension, bits=_BITS, seed=stream)
