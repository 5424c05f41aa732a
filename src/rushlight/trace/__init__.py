"""Recording: user calls become a path in a trie of edges, and values that wait for a flush.

In come ops with tensors and numbers; out go tensors whose values are pending. Nothing here
computes: a flush hands the path to the executor that `pipeline` installs.
"""

from rushlight.trace.trace import before_steady_steps, flush

__all__ = ["before_steady_steps", "flush"]
