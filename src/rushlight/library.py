"""`torch.library`: operators that a program defines in Python, with derivatives of its own.

A defined operator is opaque: its body runs outside of recording for gradients, on the samples
of `vmap` one by one unless it says how else, and on meta tensors not at all. It is called by
its object and as `torch.ops.<namespace>.<name>`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn  # operators take anything

from rushlight import errors
from rushlight import ops as _ops
from rushlight.custom_operator import DEFINED, CustomOpDef, defined
from rushlight.operators import OpNamespace, OpOverload, OpOverloadPacket
from rushlight.schemas import infer_schema, signature_of

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl",
    "impl_abstract", "infer_schema", "opcheck", "register_autograd", "register_fake",
    "register_kernel", "register_vmap", "triton_op", "wrap_triton",
]  # fmt: skip

Function = Callable[..., Any]


def custom_op(
    name: str,
    fn: Function | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """An operator of a Python function; as a decorator too.

    name: "namespace::name". mutates_args: the arguments that the function writes into, or
    "unknown". The function's annotations say what it takes and returns, unless `schema` does;
    ValueError where one is missing. What it returns must not share memory with what it takes.

    >>> import numpy
    >>> import rushlight as torch
    >>> @torch.library.custom_op("docs::cube", mutates_args=())
    ... def cube(x: torch.Tensor) -> torch.Tensor:
    ...     return torch.from_numpy(numpy.power(x.numpy(), 3))
    >>> cube.register_autograd(
    ...     lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2,
    ...     setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    ... )
    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> torch.ops.docs.cube(x).backward()
    >>> x.grad
    tensor([12.])
    """

    def decorate(function: Function) -> CustomOpDef:
        text = schema or infer_schema(function, mutates_args=mutates_args)
        made = CustomOpDef(name, text, signature_of(text), function, device_types)
        return _defined_as(name, made)

    return decorate if fn is None else decorate(fn)


def _defined_as(name: str, made: CustomOpDef) -> CustomOpDef:
    space, separator, own = name.partition("::")
    if not separator or not space.isidentifier() or not own.isidentifier():
        raise ValueError(f'custom_op: expected a name like "namespace::name", got {name!r}')
    DEFINED[name] = made
    if space not in _ops.namespaces:
        _ops.namespaces[space] = OpNamespace(space, lambda own: _packet(f"{space}::{own}"))
    vars(_ops.namespaces[space]).pop(own, None)  # one of this name that was called before
    return made


def _packet(name: str) -> OpOverloadPacket | None:
    return OpOverloadPacket(name, DEFINED[name], ("default",)) if name in DEFINED else None


# -- what is said of an operator afterwards


def _of(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if isinstance(op, OpOverload):
        op = op.overloadpacket
    return defined(op._qualified_op_name if isinstance(op, OpOverloadPacket) else op)


def register_fake(op: Any, func: Function | None = None, /, **_: Any) -> Any:
    """Say what meta tensors an operator makes of meta tensors; as a decorator too."""
    return _of(op).register_fake(func) if func else _of(op).register_fake


impl_abstract = register_fake


def register_autograd(
    op: Any, backward: Function, /, *, setup_context: Function | None = None, lib: Any = None
) -> None:
    """Say an operator's derivative: see `CustomOpDef.register_autograd`."""
    _of(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: Any, func: Function | None = None, /, *, lib: Any = None) -> Any:
    """Say what an operator makes of batches: see `CustomOpDef.register_vmap`."""
    return _of(op).register_vmap(func) if func else _of(op).register_vmap


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: Function | None = None,
    /,
    *,
    lib: Any = None,
) -> Any:
    """Give an operator a function for devices; as a decorator too."""
    return _of(op).register_kernel(device_types, func)


# -- operators by schema


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """An operator without a function yet: `define("mylib::f", "(Tensor x) -> Tensor")`."""
    _defined_as(qualname, CustomOpDef(qualname, schema, signature_of(schema), None, None))


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Library | None = None) -> Any:
    """Give an operator its function: `impl("mylib::f", "cpu", f)`; as a decorator too.

    types: device types or PyTorch's dispatch keys: "CPU", "Meta", and
    "CompositeImplicitAutograd" for a function that is differentiated by what it calls.
    """
    if isinstance(qualname, Library):  # impl(lib, name, dispatch_key="")
        qualname, types, func = f"{qualname.ns}::{types}", func or "", None
    found = defined(qualname)

    def decorate(function: Function) -> Function:
        for key in (types,) if isinstance(types, str) else types:
            found.implement(key, function)
        return function

    return decorate if func is None else decorate(func)


class Library:
    """The operators of a namespace, defined by schema.

    >>> import rushlight as torch
    >>> library = torch.library.Library("docs_scale", "DEF")
    >>> library.define("scale(Tensor x, float by=2.0) -> Tensor")
    'scale'
    >>> library.impl("scale", lambda x, by: x * by, "CompositeImplicitAutograd")
    >>> torch.ops.docs_scale.scale(torch.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Library: unsupported kind {kind!r}")
        if ns == "aten":
            raise errors.not_there('Library("aten")', "operators that could be exchanged")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator, "name(arguments) -> results", and return its name."""
        name, parenthesis, rest = schema.partition("(")
        define(f"{self.ns}::{name.strip()}", parenthesis + rest)
        return name.strip()

    def impl(self, op_name: Any, fn: Function, dispatch_key: str = "", **options: Any) -> None:
        """Give an operator its function."""
        name = op_name if isinstance(op_name, str) else op_name.name().partition("::")[2]
        impl(f"{self.ns}::{name}", dispatch_key or self.dispatch_key, fn)

    def fallback(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: there is nothing that would be fallen back from."""
        raise errors.not_there("Library.fallback", "dispatch by keys")


def fallthrough_kernel() -> None:
    """Named in `impl` for keys that are passed over; never called."""


# -- what there is none of


def get_ctx() -> NoReturn:
    """Refuse: sizes that depend on data are known, and never symbols."""
    raise errors.not_there("library.get_ctx", "symbolic sizes")


def triton_op(name: str, fn: Function | None = None, /, **options: Any) -> Any:
    """Refuse: there is no GPU that would run a Triton kernel."""
    raise errors.not_there("library.triton_op", "Triton")


def wrap_triton(triton_kernel: Any, /) -> NoReturn:
    """Refuse: there is no GPU that would run a Triton kernel."""
    raise errors.not_there("library.wrap_triton", "Triton")


def opcheck(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, **options: Any
) -> dict[str, str]:
    """Call an operator and compare shapes and dtypes with what its fake function says.

    RuntimeError says what is wrong; the result names the checks, all "SUCCESS".
    """
    found = _of(op)
    found.check(found.signature.bind(*args, **(kwargs or {})))
    return {"test_schema": "SUCCESS", "test_faketensor": "SUCCESS"}
