"""Gradients: the engine that walks the tape, custom functions, hooks and checks.

In come tensors with a tape; out go gradients, recorded by the same ops and compiled like everything else.
"""
