"""What tests of user code ask for: comparing results, and making inputs.

In come tensors, arrays, numbers and containers of them; out comes silence, or an AssertionError
that says how many elements differ, by how much and where. Nothing here knows an op.
"""

from rushlight.testing.comparison import assert_allclose, assert_close, default_tolerances
from rushlight.testing.creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "default_tolerances", "make_tensor"]
