"""Every operation of the user's, one declaration each, one file a family.

An Op says its type rule, its derivative and its lowering; in come operand types or builder references,
out go types, gradients or primitives. This room never touches memory, kernels or the trace.
"""
