"""Binds the registry of public functions to `torch`, `Tensor`, `nn.functional` and the rest.

In-place (`name_`) and `out=` forms are made here from the plain function, once for all.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any  # binds functions of any signature

from rushlight import errors, ops, parameter_names, refusals, views
from rushlight.advice import warn_caller
from rushlight.argument_kinds import kinds_of
from rushlight.arrays import tensor
from rushlight.config import process
from rushlight.dtypes import int64
from rushlight.ops import precision
from rushlight.ops.registry import PUBLIC, Public, recorder
from rushlight.tensor import Tensor
from rushlight.trace.trace import local, recording
from rushlight.trace.write import check_apart, write

Function = Callable[..., Any]
NAMESPACES: dict[str, dict[str, Function]] = {
    "torch": {}, "F": {}, "linalg": {}, "special": {}, "fft": {},
}  # fmt: skip


def bind_all() -> None:
    """Bind every public function of every family."""
    ops.load_families()
    for entry in PUBLIC:
        for name in (entry.name, *entry.aliases):
            _bind(entry, name)
    NAMESPACES["torch"]["tensor"] = _at(guarded(tensor, "tensor"), "torch", "tensor")


_MODULES = {"torch": "rushlight", "F": "rushlight.nn.functional"}


def _at(function: Function, place: str, name: str) -> Function:
    """The function, after noting where users find it: so does pickle."""
    is_method = place == "Tensor"
    function.__module__ = (
        "rushlight" if is_method else _MODULES.get(place, f"rushlight.{place}")
    )
    function.__qualname__ = f"Tensor.{name}" if is_method else name
    return function


def _bind(entry: Public, name: str) -> None:
    plain, called = entry.function, entry.called
    if called is not plain:
        plain = precision.as_given(plain)
    if "Tensor" in entry.places:
        setattr(Tensor, name, _at(method_form(called, plain, name), "Tensor", name))
        if entry.inplace:
            written = name + "_"
            setattr(Tensor, written, _at(in_place_form(plain, name), "Tensor", written))
    callable_form = out_form(called, plain, name) if entry.out else guarded(called, name)
    if "torch" in entry.places and is_factory(plain):
        callable_form = factory_form(called, callable_form)
    # a function that is in several places is of the last of these
    for place in sorted(entry.places, key="torch".__eq__):
        if place != "Tensor":
            form = function_form(callable_form, place, name)
            NAMESPACES[place][name] = _at(form, place, name)
            if entry.inplace and place in ("torch", "F"):
                written = name + "_"
                NAMESPACES[place][written] = _at(in_place_form(plain, name), place, written)


_METHODS_WITH_OUT = frozenset(  # PyTorch's documentation says so, though it refuses `out` there
    ("arccosh", "clamp_max", "clamp_min", "hash_tensor", "less")
)


def method_form(called: Function, plain: Function, name: str) -> Function:
    """The function as a method of tensors."""
    if name in _METHODS_WITH_OUT:
        return out_form(called, plain, name)
    names = parameter_names.METHODS.get(name)
    takes_more = not GUARDED.isdisjoint(inspect.signature(called).parameters)
    is_guarded = (takes_more or kinds_of(called, name).is_declared) and name not in _HOT
    method = guarded(called, f"Tensor.{name}") if is_guarded else twin(called, name)
    return method if names is None else parameter_names.spelled(method, names)


def function_form(function: Function, place: str, name: str) -> Function:
    """The function as users call it in one namespace, where PyTorch's may have other names."""
    names = parameter_names.FUNCTIONS.get(name if place == "torch" else f"{place}.{name}")
    return function if names is None else parameter_names.spelled(function, names)


def twin(function: Function, name: str) -> Function:
    """The function as another object with its public name: users' calls can be taken over, ours
    are not.

    It has the same code, so a call costs the same (overrides/dispatch.py).
    """
    assert isinstance(function, FunctionType)
    made = FunctionType(
        function.__code__,
        function.__globals__,
        name,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = name  # Python's own messages say it
    made.__doc__ = function.__doc__
    made.__module__, made.__annotations__ = function.__module__, function.__annotations__
    made.__dict__.update(function.__dict__)
    return made


GUARDED = frozenset((  # parameters that may be no tensor, or have NumPy's name in a call
    "dim", "keepdim",
    "L", "aweights", "batch1", "batch2", "fweights", "index", "indices", "mask", "mat", "mat1",
    "mat2", "other", "repeats", "sorter", "source", "src", "tau", "tensor", "tensor1",
    "tensor2", "the_template", "values", "vec", "vec1", "vec2", "weight", "weights",
))  # fmt: skip
_DIRECT = frozenset(  # families whose functions record what they are given, and nothing before
    f"rushlight.ops.{family}"
    for family in (
        "activation",
        "arithmetic",
        "bitwise",
        "comparison",
        "elementwise",
        "shrinkage",
    )
)


# A guard costs a tenth of what recording does, so these have none: methods that take no tensors
# but their own, and functions that look at their arguments themselves.
_HOT = frozenset((
    "div", "expand", "flatten", "log_softmax", "narrow", "select", "softmax", "squeeze",
    "transpose", "unsqueeze",
))  # fmt: skip
_OWN_CHECKS = frozenset((
    "div", "dropout", "elu", "embedding_function", "gelu", "layer_norm", "leaky_relu",
    "log_softmax_function", "rms_norm", "softmax_function",
))  # fmt: skip


def guarded(called: Function, name: str) -> Function:
    """The function as users call it: when it fails, its arguments are looked at."""
    kinds = kinds_of(called, name)
    first, fitted = kinds.first, kinds.fitted
    is_direct = called.__module__ in _DIRECT and not kinds.is_declared
    if is_direct or called.__name__ in _OWN_CHECKS or precision.is_cast(called):
        return twin(called, name.rpartition(".")[2])  # the last are guarded there

    @functools.wraps(called)
    def inner(*args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs or len(args) > first:
                args, kwargs = fitted(args, kwargs)
            return called(*args, **kwargs)
        except Exception as error:
            return refusals.recovered(inner, called, name, args, kwargs, error)

    inner.__name__ = inner.__qualname__ = name.rpartition(".")[2]
    return inner


def is_factory(plain: Function) -> bool:
    """Whether a function makes tensors from other things than a tensor."""
    code = plain.__code__
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return "device" in named and named[0] not in ("input", "self")


def factory_form(called: Function, form: Function) -> Function:
    """A factory as users call it: by default on the default device."""
    kinds = kinds_of(called, called.__name__)
    first, fitted = kinds.first, kinds.fitted

    @functools.wraps(form)
    def inner(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is not None:
            _take_dtype(out, called.__name__, kwargs)
            return form(*args, out=out, **kwargs)
        try:
            if kwargs or len(args) > first:
                args, kwargs = fitted(args, kwargs)
            if process.has_places:
                return recorder.by_name(called, args, kwargs)
            return called(*args, **kwargs)
        except Exception as error:
            return refusals.recovered(inner, called, called.__name__, args, kwargs, error)

    inner.__signature__ = inspect.signature(form)  # type: ignore[attr-defined]
    return inner


def _take_dtype(out: Any, name: str, kwargs: dict[str, Any]) -> None:
    """Make a factory calculate in the dtype of what receives its result."""
    if not isinstance(out, Tensor):
        raise errors.out_is_no_tensor(name, out)
    if kwargs.get("dtype") is None:
        kwargs["dtype"] = out.dtype
    elif kwargs["dtype"] is not out.dtype:
        raise errors.other_dtype_than_out(name, kwargs["dtype"], out.dtype)


def in_place_form(plain: Function, name: str) -> Function:
    """`name_(x, ...)`: the result becomes the contents of x."""
    kinds = kinds_of(plain, f"Tensor.{name}_")
    first, fitted = kinds.first, kinds.fitted

    @functools.wraps(plain)
    def inner(self: Any, *args: Any, **kwargs: Any) -> Any:
        trace = local.trace
        before, trace.may_window = trace.may_window, False
        with recording:  # no other thread writes between what is read here and what is written
            try:
                if kwargs or len(args) >= first:
                    (self, *args), kwargs = fitted((self, *args), kwargs)
                result = plain(self, *args, **kwargs)
            except Exception as error:
                given = (self, *args)
                result = refusals.recovered(
                    plain, plain, f"Tensor.{name}_", given, kwargs, error
                )
            finally:
                trace.may_window = before
            return _store(self, result, name + "_")

    inner.__name__ = inner.__qualname__ = name + "_"
    inner.__doc__ = f"In-place form of `{name}`."
    names = parameter_names.METHODS.get(name + "_")
    if names is not None:
        inner.__signature__ = parameter_names.renamed(inspect.signature(plain), names)  # type: ignore[attr-defined]
    return inner


def _store(x: Any, result: Any, name: str) -> Any:
    if result.dtype.category > x.dtype.category:
        raise errors.cannot_cast(name, result.dtype, x.dtype)
    if x.dtype.is_complex and result.dtype.is_floating_point:
        raise errors.refuses_complex(name, x.dtype)
    if result._shape != x._shape:
        raise errors.shape_in_place(name, x._shape, result._shape)
    return write(x, result, name)


def out_form(called: Function, plain: Function, name: str) -> Function:
    """The function with `out=`: a tensor (or tuple of them) that receives the result."""
    kinds = kinds_of(plain, name)
    first, fitted = kinds.first, kinds.fitted

    @functools.wraps(plain)
    def inner(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            try:
                if kwargs or len(args) > first:
                    args, kwargs = fitted(args, kwargs)
                return called(*args, **kwargs)
            except Exception as error:
                if isinstance(error, AttributeError | TypeError):
                    result = taken_over(inner, args, kwargs)
                    if result is not NotImplemented:
                        return result
                return refusals.recovered(inner, plain, name, args, kwargs, error)
        args, kwargs = fitted(args, parameter_names.respelled(plain, name, kwargs) or kwargs)
        result = plain(*args, **kwargs)
        if isinstance(result, tuple):
            _check_outs(out, result, name)
        _check_shared(out, result, (*args, *kwargs.values()), plain, name)
        if isinstance(result, tuple):
            for target, part in zip(out, result, strict=True):
                deliver(target, part, name)
            return type(result)(*out) if hasattr(result, "_fields") else tuple(out)
        return deliver(out, result, name)

    inner.__signature__ = _with_out(plain, name)  # type: ignore[attr-defined]
    return inner


def _check_outs(out: Any, result: tuple[Any, ...], name: str) -> None:
    """Raise for an `out` that is no tuple of as many tensors; indices need int64."""
    if not isinstance(out, tuple | list) or len(out) != len(result):
        given = f"{len(out)} of them" if isinstance(out, tuple | list) else type(out).__name__
        raise TypeError(
            f"{name}(): argument 'out' must be a tuple of {len(result)} Tensors, not {given}"
        )
    for field, target in zip(getattr(result, "_fields", ()), out, strict=False):
        if field == "indices" and isinstance(target, Tensor) and target.dtype is not int64:
            raise RuntimeError(
                f"{name}(): output indices must be of dtype {int64!r}, not {target.dtype!r}"
            )


def taken_over(function: Function, args: Any, kwargs: Any) -> Any:
    """A call that failed, if it is the first that an argument overrides; or NotImplemented."""
    given = [v for a in (*args, *kwargs.values()) for v in (a if _is_list(a) else (a,))]
    for value in given:
        if errors.is_foreign_tensor(value):
            raise refusals.explained(function, function.__name__, args, kwargs, TypeError())
    if process.has_overrides or not any(map(_may_override, given)):
        return NotImplemented
    from rushlight.overrides import dispatch  # for programs that override only

    dispatch.activate()
    return function(*args, **kwargs)


def _is_list(value: Any) -> bool:
    return isinstance(value, tuple | list)


def _may_override(value: Any) -> bool:
    return hasattr(type(value), "__torch_function__") and not isinstance(value, Tensor)


recorder.taken_over = taken_over


def _with_out(plain: Function, name: str) -> inspect.Signature:
    """The function's signature with a keyword `out` more, for readers and for tools: where
    PyTorch has it, which is before the dtype of factories and after everything elsewhere.
    """
    signature = inspect.signature(plain)
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    parameters = list(signature.parameters.values())
    names = [p.name for p in parameters if p.kind is out.kind and p.name != "generator"]
    if names and is_factory(plain):
        at = list(signature.parameters).index(names[0])
    elif _OUT_BEFORE.get(name) in names:
        at = list(signature.parameters).index(_OUT_BEFORE[name])
    else:
        has_rest = bool(parameters) and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
        at = len(parameters) - has_rest
    parameters.insert(at, out)
    return signature.replace(parameters=parameters)


_OUT_BEFORE = {"nonzero": "as_tuple", "norm": "dtype", "searchsorted": "sorter"}


# Whose results PyTorch writes while it reads, so that `out` may share no part of an operand:
# all but those that compute in memory of their own and copy.
_COPIED = frozenset(
    f"rushlight.ops.{family}"
    for family in (
        "copies", "fourier", "histograms", "ldl", "least_squares", "linear_algebra",
        "linear_solve", "lu", "matrix_norm", "pool", "quantile", "reduce", "reflections",
        "softmax", "statistics", "triangles",
    )
)  # fmt: skip
_COPIED_NAMES = frozenset((
    "amax", "amin", "dot", "inner", "log_sigmoid", "logsigmoid", "matmul", "matrix_power", "mm",
    "multigammaln", "mv", "mvlgamma", "ndtr", "tensordot", "tensorinv", "tensorsolve", "vdot",
    "vecdot",
))  # fmt: skip
_APART = frozenset((  # which may not write to an operand at all
    "cat", "cross", "gather", "index_select", "kthvalue", "masked_select", "stack", "take",
    "take_along_dim",
))  # fmt: skip


def _check_shared(
    out: Any, result: Any, given: tuple[Any, ...], plain: Function, name: str
) -> None:
    """Raise for an `out` in the memory of an operand, where that is refused."""
    is_single = not isinstance(result, tuple)
    if is_single and (plain.__module__ in _COPIED or name in _COPIED_NAMES):
        return
    if plain.__module__ == "rushlight.ops.extremes" and is_single:
        return
    is_apart = name in _APART or plain.__name__ in _APART
    operands = [x for a in given for x in (a if _is_list(a) else (a,)) if isinstance(x, Tensor)]
    pairs = ((out, result),) if is_single else zip(out, result, strict=True)
    for target, made in pairs:
        for x in operands:
            if not isinstance(target, Tensor) or x._storage is not target._storage:
                continue
            shared = views.sharing(
                _memory(target, made._shape), _memory(x, x._shape),
                target.dtype.itemsize, x.dtype.itemsize,
            )  # fmt: skip
            if shared is views.Sharing.PART or (is_apart and shared is views.Sharing.ALL):
                raise errors.shared_output(name, made._shape)


def _memory(x: Any, shape: views.Shape) -> views.View:
    """The elements of a tensor that takes this shape if it has another one."""
    strides = x._strides if x._shape == shape else views.contiguous_strides(shape)
    return views.View(tuple(shape), strides, x._offset)


_EXACT = frozenset({  # functions that convert nothing on the way into `out`
    "argmax", "argmin", "complex", "gather", "histc", "index_select", "isin", "masked_select",
    "mm", "multinomial", "nonzero", "polar", "searchsorted", "take",
})  # fmt: skip


def deliver(target: Any, result: Any, name: str) -> Any:
    """Write a result into `out`, which takes the result's shape."""
    from rushlight import config  # the slow path only

    if not isinstance(target, Tensor):
        raise errors.out_is_no_tensor(name, target)
    if config.scopes.grad_enabled and (target.requires_grad or result.requires_grad):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic "
            f"differentiation, but one of the arguments requires grad."
        )
    is_exact = name in _EXACT and result.dtype is not target.dtype
    if is_exact or result.dtype.category > target.dtype.category:
        raise errors.cannot_cast(name, result.dtype, target.dtype)
    check_apart(target, name)
    if target._shape != result._shape:
        if 0 not in target._shape:
            warn_caller(
                f"{name}: out of shape {list(target._shape)} does not match the result's "
                f"{list(result._shape)} and was resized; this is deprecated: pass one that "
                f"matches, or out.resize_(0)"
            )
        target.resize_(result._shape)
    return write(target, result, name)


# here, not in the package's __init__: there `rushlight.dtype` soon means the class, not the
# module, and families that are imported afterwards could not say `from rushlight import dtype
# as dt`
bind_all()
