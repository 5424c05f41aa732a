"""`torch.nn.modules`: the places PyTorch's own files have, for code that names classes by them.

Which class is in which file is said once, in `_PLACES`; each file's name becomes a module that
holds those classes, so that `import torch.nn.modules.batchnorm` works as well.
"""

from __future__ import annotations

from rushlight import nn as _nn
from rushlight.nn import hooks as _hooks
from rushlight.nn.module_state import EXTRA_STATE as _EXTRA_STATE
from rushlight.nn.module_state import IncompatibleKeys as _IncompatibleKeys
from rushlight.nn.modules import utils
from rushlight.places import add_places as _add_places

_PLACES = {
    "activation": ("activation", "multihead"),
    "adaptive": ("adaptive",),
    "batchnorm": ("batchnorm",),
    "container": ("container",),
    "conv": ("conv",),
    "distance": ("distance",),
    "dropout": ("dropout",),
    "flatten": ("reshape",),
    "fold": ("reshape",),
    "instancenorm": ("batchnorm", "normalization"),
    "linear": ("linear",),
    "loss": ("loss",),
    "module": ("module",),
    "normalization": ("normalization",),
    "padding": ("padding",),
    "pixelshuffle": ("reshape",),
    "pooling": ("pooling",),
    "rnn": ("recurrent",),
    "sparse": ("embedding",),
    "transformer": ("transformer",),
    "upsampling": ("reshape",),
}
"""PyTorch's file: the files here that define its classes."""


_add_places(__name__, _PLACES, source="rushlight.nn")
globals()["module"]._IncompatibleKeys = _IncompatibleKeys
globals()["module"]._EXTRA_STATE_KEY_SUFFIX = _EXTRA_STATE
for _name, _member in vars(_hooks).items():
    if _name.startswith("register_module_"):
        setattr(globals()["module"], _name, _member)
globals().update({name: getattr(_nn, name) for name in _nn.__all__ if name[0].isupper()})
