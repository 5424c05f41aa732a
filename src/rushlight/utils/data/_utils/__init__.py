"""`torch.utils.data._utils`: where programs import the collating functions from."""

from rushlight.utils.data._utils import collate

__all__ = ["collate"]
