"""`torch.utils.data._utils.collate`: how samples become batches."""

from rushlight.data.collate import (
    collate,
    default_collate,
    default_collate_fn_map,
    default_convert,
)

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]
