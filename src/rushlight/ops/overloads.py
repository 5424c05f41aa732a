"""`torch.ops.aten.mm.default`: PyTorch's names for operations, as objects to compare and call.

Programs name operations by them, in policies of `torch.utils.checkpoint` above all. `of_call`
says which one PyTorch would run for a call of a public function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any  # functions of any signature


class OpOverload:
    """One form of an operation; calling it calls the public function of its name."""

    def __init__(self, packet: OpOverloadPacket, overload: str) -> None:
        self.overloadpacket, self.overload = packet, overload

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.overloadpacket(*args, **kwargs)

    def name(self) -> str:
        suffix = "" if self.overload == "default" else f".{self.overload}"
        return f"{self.overloadpacket.space}::{self.overloadpacket.name}{suffix}"

    @property
    def __name__(self) -> str:
        return f"{self.overloadpacket.name}.{self.overload}"

    def __repr__(self) -> str:
        packet = self.overloadpacket
        return f"<OpOverload(op='{packet.space}.{packet.name}', overload='{self.overload}')>"


class OpOverloadPacket:
    """All forms of an operation: `torch.ops.aten.add` has `.Tensor` and `.Scalar`."""

    def __init__(self, space: str, name: str) -> None:
        self.space, self.name = space, name
        self._forms: dict[str, OpOverload] = {}

    def __getattr__(self, overload: str) -> OpOverload:
        if overload.startswith("__"):
            raise AttributeError(overload)
        return self._forms.setdefault(overload, OpOverload(self, overload))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _function_of(self.name)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self.space}.{self.name}')>"


class Namespace:
    """`torch.ops.aten`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._packets: dict[str, OpOverloadPacket] = {}

    def __getattr__(self, name: str) -> OpOverloadPacket:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._packets.setdefault(name, OpOverloadPacket(self.name, name))


@cache
def namespace(name: str) -> Namespace:
    """The one namespace of a name, so that its operations are the same objects everywhere."""
    return Namespace(name)


def _function_of(name: str) -> Callable[..., Any]:
    import rushlight as rl  # the public names come after the operations

    for home in (rl, rl.nn.functional, rl.Tensor, rl.special, rl.linalg):
        found: Any = getattr(home, name, None)
        if found is not None:
            return found  # type: ignore[no-any-return]
    raise AttributeError(
        f"torch.ops has no operation {name!r} that is known by its public name"
    )


# -- which operation a public function is

_FORMS = {  # where the form that a call of the function runs is not called `default`
    "add": "add.Tensor", "sub": "sub.Tensor", "mul": "mul.Tensor", "div": "div.Tensor",
    "truediv": "div.Tensor", "pow": "pow.Tensor_Scalar", "eq": "eq.Tensor", "lt": "lt.Tensor",
    "gt": "gt.Tensor", "sum": "sum.dim_IntList", "mean": "mean.dim", "var": "var.correction",
    "std": "std.correction", "max": "max.dim", "min": "min.dim", "where": "where.self",
    "rsub": "rsub.Scalar", "radd": "add.Tensor", "rmul": "mul.Tensor", "rtruediv": "div.Tensor",
    "softmax": "_softmax.default", "log_softmax": "_log_softmax.default",
    "layer_norm": "native_layer_norm.default", "group_norm": "native_group_norm.default",
    "batch_norm": "native_batch_norm.default", "dropout": "native_dropout.default",
    "scaled_dot_product_attention": "_scaled_dot_product_flash_attention_for_cpu.default",
    "conv1d": "convolution.default", "conv2d": "convolution.default",
    "conv3d": "convolution.default", "conv_transpose1d": "convolution.default",
    "conv_transpose2d": "convolution.default", "conv_transpose3d": "convolution.default",
    "getitem": "slice.Tensor",
}  # fmt: skip
_MATRIX_FORMS = {(1, 1): "dot", (2, 1): "mv", (1, 2): "mm", (2, 2): "mm"}


def of_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpOverload:
    """The operation that PyTorch runs for a call of the public function `name`."""
    name = name.strip("_")
    if name in ("matmul", "rmatmul"):
        form = _MATRIX_FORMS.get((args[0].ndim, args[1].ndim), "bmm") + ".default"
    elif name == "linear":
        bias = args[2] if len(args) > 2 else kwargs.get("bias")
        form = "mm.default" if bias is None else "addmm.default"
    else:
        form = _FORMS.get(name, f"{name}.default")
    packet, _, overload = form.partition(".")
    return getattr(getattr(namespace("aten"), packet), overload)  # type: ignore[no-any-return]
