"""Functions that PyTorch has removed: the names say what to use instead."""

from __future__ import annotations

from typing import Any  # whatever is given

from rushlight.ops.registry import documented, public

_INSTEAD = {  # name: what replaced it, and whether tensors had it as a method
    "eig": ("torch.linalg.eig", True),
    "lstsq": ("torch.linalg.lstsq", True),
    "matrix_rank": ("torch.linalg.matrix_rank", False),
    "solve": ("torch.linalg.solve", True),
    "symeig": ("torch.linalg.eigh", True),
}
_PARAMETERS = {
    "eig": ("eigenvectors",), "symeig": ("eigenvectors",), "solve": ("other",),
    "lstsq": ("other",),
}  # fmt: skip


def _removed(name: str, instead: str, is_method: bool) -> None:
    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"{name}: This function was deprecated since version 1.9 and is now removed. "
            f"`torch.{name}` is deprecated in favor of `{instead}`."
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Removed: use `{instead}`."
    places = ("torch", "Tensor") if is_method else ("torch",)
    public(*places, name=name)(documented(*_PARAMETERS.get(name, ()))(function))


for _name, (_instead, _is_method) in _INSTEAD.items():
    _removed(_name, _instead, _is_method)


@public("Tensor")
def reinforce(input: Any, reward: Any) -> Any:
    """Removed: use `distributions`."""
    raise RuntimeError("reinforce() was removed. Use torch.distributions instead.")
