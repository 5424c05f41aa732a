"""`torch.utils.data.dataloader`: where older code imports the loader from."""

from rushlight.data.collate import default_collate, default_convert
from rushlight.data.loader import DataLoader, get_worker_info

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]
