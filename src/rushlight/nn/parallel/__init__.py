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

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]
