"""`torch.nn.parallel`: modules that spread a batch over devices or processes."""

from rushlight.nn.parallel.data_parallel import DataParallel
from rushlight.nn.parallel.distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel"]
