"""`torch.functional`: functions of the namespace under their older address."""

from rushlight import surface as _surface

_NAMES = (
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes",
    "broadcast_tensors", "cartesian_prod", "cdist", "chain_matmul", "einsum", "istft", "lu",
    "meshgrid", "norm", "pca_lowrank", "split", "stft", "svd_lowrank", "tensordot", "unique",
    "unique_consecutive", "unravel_index",
)  # fmt: skip

globals().update({name: _surface.NAMESPACES["torch"][name] for name in _NAMES})
__all__ = list(_NAMES)
