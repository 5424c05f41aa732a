"""`torch.utils.tensorboard`: a writer of event files for TensorBoard, by tensorboardX.

It takes what tensorboardX takes, and tensors. Without that package (`pip install
rushlight[tensorboard]`) the import says so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

try:
    import tensorboardX
except ImportError as error:
    raise ModuleNotFoundError(
        "torch.utils.tensorboard: SummaryWriter needs tensorboardX, which is not installed: "
        "pip install rushlight[tensorboard]"
    ) from error

from rushlight import dtypes, tree
from rushlight.tensor import Tensor

__all__ = ["SummaryWriter"]

_ADDING = (
    "add_scalar", "add_scalars", "add_histogram", "add_image", "add_images", "add_audio",
    "add_video", "add_embedding", "add_mesh", "add_pr_curve", "add_pr_curve_raw",
    "add_image_with_boxes",
)  # fmt: skip


def _as_array(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x
    x = x.detach()
    return (x.float() if x.dtype is dtypes.bfloat16 else x).numpy()


class SummaryWriter(tensorboardX.SummaryWriter):  # type: ignore[misc]  # it has no types
    """Writes scalars, histograms, images and more into `log_dir`.

    >>> import os, tempfile
    >>> import rushlight as torch
    >>> from rushlight.utils.tensorboard import SummaryWriter
    >>> folder = tempfile.mkdtemp()
    >>> with SummaryWriter(folder) as writer:
    ...     writer.add_scalar("loss", torch.tensor(0.5), global_step=1)
    ...     writer.add_histogram("weights", torch.randn(100), 1)
    >>> len(os.listdir(folder))
    1
    """

    def __init__(
        self,
        log_dir: str | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        super().__init__(log_dir, comment, purge_step, max_queue, flush_secs, filename_suffix)
        self.log_dir = self.logdir

    def get_logdir(self) -> str:
        """The folder of the event files."""
        return str(self.logdir)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, Any] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Settings of a run, and what came of them."""
        numbers = {
            name: _as_array(x).item() if isinstance(x, Tensor) else x
            for name, x in metric_dict.items()
        }
        super().add_hparams(hparam_dict, numbers, run_name, global_step)

    def add_tensor(self, tag: str, tensor: Tensor, global_step: int | None = None) -> None:
        """Raises: TensorBoard's raw tensors are not among what tensorboardX writes."""
        raise NotImplementedError("SummaryWriter.add_tensor: tensorboardX has no raw tensors")

    def add_graph(self, model: Any, *args: Any, **kwargs: Any) -> None:
        """Raises: there is no TorchScript graph to write; `torch.explain` shows kernels."""
        raise NotImplementedError(
            "SummaryWriter.add_graph: there is no TorchScript graph; see rushlight.explain"
        )


def _taking_tensors(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def adding(self: SummaryWriter, *args: Any, **kwargs: Any) -> Any:
        return method(self, *tree.map(_as_array, list(args)), **tree.map(_as_array, kwargs))

    return adding


for _name in _ADDING:
    setattr(SummaryWriter, _name, _taking_tensors(getattr(tensorboardX.SummaryWriter, _name)))
