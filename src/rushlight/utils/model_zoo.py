"""`torch.utils.model_zoo`: the older name of what `torch.hub` does with files."""

from rushlight.hub import download_url_to_file
from rushlight.hub import load_state_dict_from_url as load_url

__all__ = ["download_url_to_file", "load_url"]
