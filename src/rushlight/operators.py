"""`torch.ops`: operators by namespace and name, as `torch.ops.aten.add.Tensor`.

PyTorch's own (`aten`) are the public functions here, under the operator library's names; those
that programs define come from `torch.library`. One function serves all overloads of a name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any  # operators take anything

import rushlight
from rushlight import ops
from rushlight.dtypes import float32
from rushlight.nn import functional
from rushlight.ops.indexing import slice_along
from rushlight.surface import NAMESPACES
from rushlight.tensor import Tensor

Function = Callable[..., Any]
rl: Any = rushlight  # the namespaces' names are bound when they are imported
F: Any = functional


class OpOverload:
    """One overload of an operator: `torch.ops.aten.add.Tensor`."""

    def __init__(self, packet: OpOverloadPacket, overload: str) -> None:
        self.overloadpacket = packet
        self._overloadname = overload
        self.namespace = packet._qualified_op_name.partition("::")[0]
        self.__name__ = f"{packet.__name__}.{overload}"

    def name(self) -> str:
        """The operator's full name, without the default overload's."""
        full = self.overloadpacket._qualified_op_name
        return full if self._overloadname == "default" else f"{full}.{self._overloadname}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.overloadpacket(*args, **kwargs)

    def __repr__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.overloadpacket, self._overloadname)


class OpOverloadPacket:
    """An operator with all its overloads: `torch.ops.aten.add`."""

    def __init__(self, qualified_name: str, function: Function, overloads: tuple[str, ...]):
        self._qualified_op_name = qualified_name
        self.__name__ = qualified_name.partition("::")[2]
        self._function = function
        self._overloads = overloads

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        return list(self._overloads)

    def __getattr__(self, name: str) -> OpOverload:
        if name.startswith("__") or name not in self._overloads:
            raise AttributeError(f"The underlying op of {self!r} has no overload name {name!r}")
        made = self.__dict__[name] = OpOverload(self, name)
        return made

    def __repr__(self) -> str:
        return self._qualified_op_name.replace("::", ".")

    def __reduce__(self) -> tuple[Any, ...]:
        return _operator, tuple(self._qualified_op_name.split("::"))


def _operator(namespace: str, name: str) -> OpOverloadPacket:
    """An operator by its name: what a pickle holds of it."""
    found: OpOverloadPacket = getattr(getattr(rl.ops, namespace), name)
    return found


class OpNamespace:
    """The operators of one library: `torch.ops.mylib`."""

    def __init__(self, name: str, find: Callable[[str], OpOverloadPacket | None]) -> None:
        self.name = name
        self._find = find

    def __getattr__(self, name: str) -> OpOverloadPacket:
        found = None if name.startswith("__") else self._find(name)
        if found is None:
            raise AttributeError(f"there is no operator {name!r} in torch.ops.{self.name}")
        self.__dict__[name] = found
        return found

    def __repr__(self) -> str:
        return f"<operators of torch.ops.{self.name}>"


# -- PyTorch's

_OVERLOADS = (
    "default", "Tensor", "Scalar", "out", "dim", "dim_IntList", "int", "self", "dtype", "float",
    "Scalar_out", "Tensor_out", "Tensor_Scalar", "Tensor_Tensor", "ScalarOther", "ScalarSelf",
    "Tensor_mode", "Scalar_mode", "correction", "names_dim", "vec", "start", "start_step",
    "value", "src", "reduce", "sizes", "Dimname", "correction_out",
)  # fmt: skip
_OF_LAYERS = (  # functions of nn.functional whose arguments come as in the operator library
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "elu", "gelu",
    "glu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "linear", "log_sigmoid",
    "max_pool1d", "max_pool2d", "max_pool3d", "mish", "one_hot", "pad", "relu6",
    "scaled_dot_product_attention", "silu", "softplus", "softshrink",
)  # fmt: skip


_ROOMS = ("linalg", "special", "fft")  # whose functions have their name in front: linalg_norm


def _softmax_in(function: Function, x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return function(x, dim, dtype=float32 if half_to_float else None)


def _to_copy(x: Tensor, *, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:
    return x.to(device=device, dtype=dtype or x.dtype, copy=True)


def _expand(x: Tensor, size: Any, *, implicit: bool = False) -> Tensor:
    return x.expand(size)


def _index(x: Any, indices: Any) -> Any:
    return x[tuple(slice(None) if i is None else i for i in indices)]


def _sigmoid_backward(grad: Tensor, output: Tensor) -> Tensor:
    return grad * (1 - output) * output


def _tanh_backward(grad: Tensor, output: Tensor) -> Tensor:
    return grad * (1 - output * output)


def _threshold_backward(grad: Tensor, x: Tensor, threshold: Any) -> Tensor:
    return rl.where(x <= threshold, 0, grad)


_OWN: dict[str, Function] = {
    "_softmax": functools.partial(_softmax_in, F.softmax),
    "_log_softmax": functools.partial(_softmax_in, F.log_softmax),
    "_adaptive_avg_pool2d": F.adaptive_avg_pool2d,
    "_local_scalar_dense": lambda x: x.item(),
    "_to_copy": _to_copy,
    "_unsafe_view": lambda x, size: x.reshape(size),
    "_reshape_alias": lambda x, size, stride: x.as_strided(size, stride),
    "alias": lambda x: x.view(x.shape),
    "expand": _expand,
    "index": _index,
    "lift_fresh_copy": lambda x: x.clone(),
    "sigmoid_backward": _sigmoid_backward,
    "slice": slice_along,
    "sym_numel": lambda x: x.numel(),
    "sym_size": lambda x, dim=None: x.size(dim),
    "tanh_backward": _tanh_backward,
    "threshold_backward": _threshold_backward,
}


def _aten(name: str) -> OpOverloadPacket | None:
    """PyTorch's operator of a name: its own function, else the namespace's or the method."""
    function = _OWN.get(name) or _public(name)
    if function is None and name in _OF_LAYERS:
        function = getattr(F, name)
    return function and OpOverloadPacket(f"aten::{name}", function, _OVERLOADS)


def _public(name: str) -> Any:
    """A function of tensors by its name; None for constants, classes and what is not one."""
    prefix, _, rest = name.partition("_")
    if prefix in _ROOMS and rest:
        return vars(getattr(rl, prefix)).get(rest)
    found = getattr(rl, name, None)
    if callable(found) and found is NAMESPACES["torch"].get(name):
        return found
    found = vars(Tensor).get(name)
    return found if callable(found) and not name.startswith("__") else None


ops.namespaces["aten"] = OpNamespace("aten", _aten)
