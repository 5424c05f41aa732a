"""`torch.utils.data.distributed`: the sampler that deals a data set out to ranks."""

from rushlight.data.sampler import DistributedSampler

__all__ = ["DistributedSampler"]
