"""`torch.nn.parallel`: modules that spread a batch over devices or processes."""

from rushlight.nn.parallel.data_parallel import DataParallel
from rushlight.nn.parallel.distributed import DistributedDataParallel
from rushlight.nn.parallel.functions import (
    data_parallel,
    gather,
    parallel_apply,
    replicate,
    scatter,
)
from rushlight.places import add_places as _add_places

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]

_add_places(__name__, {"scatter_gather": ("functions",)})
