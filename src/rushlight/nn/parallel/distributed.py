"""Replicas in several processes: needs a process group, which this build cannot start."""

from __future__ import annotations

from typing import Any  # a module takes and returns anything

from rushlight import distributed
from rushlight.nn.module import Module


class DistributedDataParallel(Module):
    """Known by name, for `isinstance` and imports; making one needs a process group."""

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False,
        check_reduction: bool = False, gradient_as_bucket_view: bool = False,
        static_graph: bool = False, delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None, mixed_precision: Any = None,
        device_mesh: Any = None, skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Any = None, batched_grad_copy: bool = False,
        forward_sync_buffers: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        distributed.no_group()
