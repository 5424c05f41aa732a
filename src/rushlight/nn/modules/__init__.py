"""`torch.nn.modules`: the places PyTorch's own files have, for code that names classes by them.

Which class is in which file is said once, in `_PLACES`; each file's name becomes a module that
holds those classes, so that `import torch.nn.modules.batchnorm` works as well.
"""

from __future__ import annotations

import sys
from types import ModuleType

from rushlight import nn as _nn
from rushlight.nn.module_state import IncompatibleKeys as _IncompatibleKeys
from rushlight.nn.modules import utils

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


def _place(name: str) -> ModuleType:
    room = ModuleType(f"{__name__}.{name}", f"PyTorch's place for the classes of {name}.")
    for source in _PLACES[name]:
        defined = sys.modules[f"rushlight.nn.{source}"]
        for key, value in vars(defined).items():
            if isinstance(value, type) and value.__module__ == defined.__name__:
                setattr(room, key, value)
    sys.modules[room.__name__] = room
    return room


for _name in _PLACES:
    globals()[_name] = _place(_name)
globals()["module"]._IncompatibleKeys = _IncompatibleKeys
globals().update({name: getattr(_nn, name) for name in _nn.__all__ if name[0].isupper()})
