"""Functions made from functions (`torch.func`): in comes a function of tensors, out goes one
that computes its derivative, or does it for every sample of a batch. They record with the ops
and walk the tape that everybody uses, and never touch memory or kernels.
"""

from rushlight.func.forward import jvp, linearize
from rushlight.func.jacobians import hessian, jacfwd, jacrev
from rushlight.func.modules import (
    functional_call,
    replace_all_batch_norm_modules_,
    stack_module_state,
)
from rushlight.func.rearrange import rearrange
from rushlight.func.reverse import grad, grad_and_value, vjp
from rushlight.func.values import debug_unwrap, functionalize
from rushlight.func.vmap import chunk_vmap, vmap

__all__ = [
    "chunk_vmap",
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
