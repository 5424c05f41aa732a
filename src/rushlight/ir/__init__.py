"""The graph the compiler works on: hash-consed nodes, references through views, and a builder.

In come primitives named by the lowerings in `ops/`; out goes a graph that `schedule/` cuts into
kernels. This room knows no operation of the user's, no kernel and no memory.
"""
