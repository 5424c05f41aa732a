"""Kernels as LLVM text, one writer a family, and `interpret.py`, which defines them in NumPy.

In come units of a schedule and places in memory; out go launches. Nothing
here compiles or runs anything.
"""
