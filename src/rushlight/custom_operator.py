"""One operator that a program defined: its functions by device, its derivative and batches."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any  # operators take anything

from rushlight import tree
from rushlight.autograd.function import Function
from rushlight.errors import class_name
from rushlight.ops.joining import stack
from rushlight.schemas import is_value
from rushlight.tensor import Tensor

Kernel = Callable[..., Any]
DEFINED: dict[str, CustomOpDef] = {}
_META_KEYS = ("meta", "abstract")
_EVERY_DEVICE = ("", "default", "compositeexplicitautograd", "backendselect")


def defined(name: str) -> CustomOpDef:
    """The operator of a name; RuntimeError if there is none."""
    if name not in DEFINED:
        raise RuntimeError(f"library: there is no operator {name!r} that a program defined")
    return DEFINED[name]


class CustomOpDef:
    """An operator in the hands of who defined it (`torch.library.custom_op`)."""

    def __init__(
        self,
        name: str,
        schema: str,
        signature: inspect.Signature,
        function: Kernel | None,
        device_types: str | Sequence[str] | None,
    ) -> None:
        self._name = name.partition("::")[2]
        self._qualname = name
        self._schema = schema
        self.signature = signature
        self._kernels: dict[str, Kernel] = {}
        self._composite: Kernel | None = None
        self._fake: Kernel | None = None
        self._backward: Kernel | None = None
        self._setup_context: Kernel | None = None
        self._vmap: Kernel | None = None
        if function is not None:
            self.register_kernel(device_types, function)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    # -- what it does

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Kernel | None = None, /
    ) -> Any:
        """The function for devices (None: all); as a decorator too."""

        def decorate(function: Kernel) -> Kernel:
            is_one = device_types is None or isinstance(device_types, str)
            names: Any = (device_types or "",) if is_one else device_types
            for name in names:
                self._kernels[name] = function
            return function

        return decorate if fn is None else decorate(fn)

    def implement(self, key: str, function: Kernel) -> None:
        """The function for one of PyTorch's dispatch keys."""
        name = key.lower()
        if name in _META_KEYS:
            self._fake = function
        elif name == "compositeimplicitautograd":
            self._composite = function
        else:
            self._kernels["" if name in _EVERY_DEVICE else name] = function

    def register_fake(self, fn: Kernel, /) -> Kernel:
        """What meta tensors it makes of meta tensors."""
        self._fake = fn
        return fn

    def register_autograd(
        self, backward: Kernel, /, *, setup_context: Kernel | None = None
    ) -> None:
        """Its derivative: `backward(ctx, *grads)` gives a gradient, or None, for each argument;
        `setup_context(ctx, inputs, output)` keeps what it needs. Results are differentiated
        again if `backward` is made of differentiable functions.
        """
        self._backward, self._setup_context = backward, setup_context

    def register_vmap(self, func: Kernel, /) -> Kernel:
        """What it makes of batches: `func(info, in_dims, *args)` gives the result and where
        its samples are. Without one the samples are taken one by one.
        """
        self._vmap = func
        return func

    # -- calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise RuntimeError(
                f"{self._qualname}() {error}. Declaration: {self._qualname}{self._schema}"
            ) from None
        self._check_types(bound)
        bound.apply_defaults()
        if self._composite is not None and not self._kernels:
            return self._composite(*bound.args, **bound.kwargs)
        leaves, structure = tree.flatten(tuple(bound.arguments.values()))
        made = _application(self, structure).apply(*leaves)
        return list(made) if _returns_list(self._schema) else made

    def _check_types(self, bound: inspect.BoundArguments) -> None:
        for name, value in bound.arguments.items():
            wanted = self.signature.parameters[name].annotation
            if not is_value(value, wanted):
                raise RuntimeError(
                    f"{self._qualname}() Expected a value of type {wanted!r} for argument "
                    f"{name!r} but instead found type {class_name(value)!r}."
                )

    def run(self, *args: Any) -> Any:
        """The result for these values of all arguments, without history."""
        tensors = [leaf for leaf in tree.flatten(args)[0] if isinstance(leaf, Tensor)]
        kernel = self._kernel_for(tensors)
        given = dict(zip(self.signature.parameters, args, strict=True))
        bound = inspect.BoundArguments(self.signature, given)
        made = kernel(*bound.args, **bound.kwargs)
        self._check_memory(made, tensors)
        return tuple(made) if isinstance(made, list) else made

    def _kernel_for(self, tensors: list[Tensor]) -> Kernel:
        if any(t.is_meta for t in tensors):
            if self._fake is None:
                raise RuntimeError(
                    f"{self._qualname}: it has no function for meta tensors: register_fake"
                )
            return self._fake
        kernel = self._kernels.get("cpu") or self._kernels.get("")
        if kernel is None:
            raise NotImplementedError(f"{self._qualname}: it has no function for the CPU")
        return kernel

    def _check_memory(self, made: Any, tensors: list[Tensor]) -> None:
        own = {id(t._storage) for t in tensors}
        for out in tree.flatten(made)[0]:
            if isinstance(out, Tensor) and id(out._storage) in own:
                raise RuntimeError(
                    f"{self._qualname}: a result shares memory with an argument: clone() it"
                )

    def setup(self, ctx: Any, args: tuple[Any, ...], output: Any) -> None:
        """Keep what the derivative needs."""
        if self._setup_context is not None:
            self._setup_context(ctx, args, output)

    def gradients(self, ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """The gradient of each argument, in the structure of the arguments."""
        if self._backward is None:
            raise RuntimeError(f"{self._qualname}: it has no derivative: see register_autograd")
        if _returns_list(self._schema):
            grads = (list(grads),)
        made = self._backward(ctx, *grads)
        return made if isinstance(made, tuple) else (made,)

    def over_batch(self, info: Any, in_dims: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
        """The result for a batch, and where its samples are."""
        if self._vmap is not None:
            return self._vmap(info, in_dims, *args)
        leaves, structure = tree.flatten(args)
        dims = tree.flatten(in_dims)[0]
        pairs = list(zip(leaves, dims, strict=True))
        made = []
        for i in range(info.batch_size):
            sample = [x if d is None else x.select(d, i) for x, d in pairs]
            made.append(tree.flatten(self(*tree.unflatten(sample, structure))))
        columns = zip(*(found for found, _ in made), strict=True)
        out = tree.unflatten([stack(column) for column in columns], made[0][1])
        return out, tree.map(lambda _: 0, out)

    def check(self, bound: inspect.BoundArguments) -> None:
        """Run it, and compare the result with the one of its function for meta tensors."""
        bound.apply_defaults()
        real = tree.flatten(self(*bound.args, **bound.kwargs))[0]
        if self._fake is None and self._composite is None:
            raise RuntimeError(f"{self._qualname}: it has no function for meta tensors")
        fake = tree.flatten(
            self(*tree.map(_to_meta, bound.args), **tree.map(_to_meta, bound.kwargs))
        )[0]
        kinds = [[(tuple(t.shape), t.dtype) for t in found] for found in (real, fake)]
        if kinds[0] != kinds[1]:
            raise RuntimeError(
                f"{self._qualname}: results are {kinds[0]}, and its function for meta tensors "
                f"says {kinds[1]}"
            )


def _to_meta(x: Any) -> Any:
    return x.to("meta") if isinstance(x, Tensor) else x


def _returns_list(schema: str) -> bool:
    return schema.rpartition("->")[2].strip().endswith("[]")


def _application(op: CustomOpDef, structure: Any) -> type[Function]:
    """A Function of the leaves of the arguments, which have this structure."""

    class Application(Function):
        @staticmethod
        def forward(*leaves: Any) -> Any:
            return op.run(*tree.unflatten(list(leaves), structure))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.needs_input_grad = tree.unflatten(list(ctx.needs_input_grad), structure)
            made = list(output) if _returns_list(op._schema) else output
            op.setup(ctx, tree.unflatten(list(inputs), structure), made)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            found = op.gradients(ctx, *grads)
            spread = tree.spread_prefix(found, structure)
            if spread is None:
                raise RuntimeError(
                    f"{op._qualname}: its backward gave {len(found)} gradients, which do not "
                    f"fit its {len(structure[2])} arguments"
                )
            return tuple(spread)

        @staticmethod
        def vmap(info: Any, in_dims: tuple[Any, ...], *leaves: Any) -> Any:
            dims = tree.unflatten(list(in_dims), structure)
            return op.over_batch(info, dims, tree.unflatten(list(leaves), structure))

    Application.__name__ = f"GeneratedBackwardFor_{op._qualname.replace('::', '_')}_default"
    return Application
