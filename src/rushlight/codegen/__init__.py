"""Machine code: LLVM text comes in, addresses of kernels that can be called come out.

Objects are kept on disk by content, so a second process compiles nothing. This room knows
nothing of tensors, launches or threads, and only `llvm.py` may import llvmlite.
"""
