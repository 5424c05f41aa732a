"""Rushlight beside PyTorch (and JAX, NumPy) on one machine in one run: `python -m benchmarks`.

What is compared is the same model code with another module in the place of `torch`, each
library in a process of its own, taking turns. The package itself is never imported by the
process that compares.
"""
