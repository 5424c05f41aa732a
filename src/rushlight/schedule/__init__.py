"""Which primitives share a kernel, in what order, and in which memory.

In comes a graph with wanted results; out goes an ordered list of units (groups of one loop
nest, contractions, host calls) and a memory plan. Nothing here knows instructions or targets.
"""
