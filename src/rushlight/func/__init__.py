"""Functions made from functions (`torch.func`): in comes a function of tensors, out goes one
that does it for every sample of a batch. It records with the ops everybody uses, and never
touches memory or kernels.
"""

from rushlight.func.vmap import chunk_vmap, vmap

__all__ = ["chunk_vmap", "vmap"]
