"""`torch.__config__`: how this build was made, as text."""

from __future__ import annotations

import os
import platform
from importlib import metadata

import numpy as np

from rushlight.runtime.pool import get_num_threads
from rushlight.version import __version__


def show() -> str:
    """Versions of the library and of what it stands on."""
    compiler = metadata.version("llvmlite")
    return (
        f"Rushlight {__version__} built with:\n"
        f"  - Python {platform.python_version()}\n"
        f"  - NumPy {np.__version__}\n"
        f"  - llvmlite {compiler}\n"
        f"  - {platform.machine()} CPU, no CUDA\n"
    )


def parallel_info() -> str:
    """How many threads a program uses."""
    return (
        f"Rushlight/Parallel:\n"
        f"\tget_num_threads() : {get_num_threads()}\n"
        f"\tos.cpu_count() : {os.cpu_count()}\n"
    )
