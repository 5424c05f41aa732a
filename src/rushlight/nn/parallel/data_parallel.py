"""A batch over several GPUs. Where there is none, PyTorch just calls the module: so do we."""

from __future__ import annotations

from typing import Any  # a module takes and returns anything

from rushlight.nn.module import Module


class DataParallel(Module):
    """Holds `module` under that name, so that state dicts have the keys they have on GPUs."""

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)
