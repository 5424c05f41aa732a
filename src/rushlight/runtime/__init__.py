"""Running: compiled kernels and memory come in, results appear in memory.

Buffers are allocated and reused here, threads are parked here, and a program of many launches
runs as one native call without the interpreter lock. This room never looks at shapes, dtypes or
operations.
"""
