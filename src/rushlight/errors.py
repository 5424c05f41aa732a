"""Every message a user can cause, built from fields so that it cannot drift.

Each builder returns an exception of the class PyTorch raises; callers write `raise
errors.x(...)`.
"""

from __future__ import annotations

from collections.abc import Sequence


class NotAnOperandError(TypeError):
    """An operand of an op that is neither a tensor nor a number."""

    def __init__(self, got: object, operand: str = "") -> None:
        super().__init__(f"{operand}expected a Tensor or a number, but got {class_name(got)}")
        self.got = got


class OutOfMemoryError(RuntimeError, MemoryError):
    """Memory that could not be had: a RuntimeError in PyTorch, a MemoryError in Python."""


def out_of_memory(nbytes: int, beside: str) -> OutOfMemoryError:
    amount, unit = float(nbytes), 0
    while amount >= 1024 and unit < 5:
        amount /= 1024
        unit += 1
    text = f"{amount:.4g} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')[unit]}"
    return OutOfMemoryError(f"cannot allocate {text} ({nbytes} bytes); {beside}")


class AcceleratorError(RuntimeError):
    """A device reported an error: named for programs that catch it, there is no device."""


class LinAlgError(RuntimeError):
    """A matrix that has no inverse, or no such factor (`torch.linalg.LinAlgError`)."""


class IndexOutOfRangeError(IndexError, RuntimeError):
    """One that PyTorch gives as a RuntimeError or an IndexError, by the number of dimensions
    and by how it adds.
    """


def shape_text(shape: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def cannot_broadcast(op: str, shapes: Sequence[Sequence[int]], axis: int) -> RuntimeError:
    names = " and ".join(shape_text(s) for s in shapes)
    sizes = " and ".join(str(s[axis]) for s in shapes if -axis <= len(s))
    return RuntimeError(
        f"{op}: shapes {names} cannot be broadcast: sizes {sizes} at dimension {axis} differ "
        f"and neither is 1"
    )


def dim_out_of_range(op: str, dim: int, ndim: int) -> IndexError:
    bound = max(ndim, 1)
    return IndexError(
        f"{op}: Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], "
        f"but got {dim})"
    )


def repeated_dim(op: str, dim: int) -> RuntimeError:
    return RuntimeError(f"{op}: dim {dim} appears multiple times in the list of dims")


def bad_view(
    op: str, shape: Sequence[int], strides: Sequence[int], to: Sequence[int]
) -> RuntimeError:
    return RuntimeError(
        f"{op}: view size {shape_text(to)} is not compatible with input tensor's size "
        f"{shape_text(shape)} and stride {shape_text(strides)} (at least one dimension spans "
        f"across two contiguous subspaces). Use .reshape(...) instead."
    )


def bad_numel(op: str, to: Sequence[int], shape: Sequence[int]) -> RuntimeError:
    count = 1
    for size in shape:
        count *= size
    return RuntimeError(
        f"{op}: shape '{shape_text(to)}' is invalid for input of size {count} (shape "
        f"{shape_text(shape)})"
    )


def ambiguous_minus_one(op: str, to: Sequence[int]) -> RuntimeError:
    return RuntimeError(
        f"{op}: cannot reshape tensor of 0 elements into shape {shape_text(to)} because the "
        f"unspecified dimension size -1 can be any value and is ambiguous"
    )


def cannot_multiply(
    op: str,
    a: Sequence[int],
    b: Sequence[int],
    a_size: int,
    b_size: int,
    *,
    names: tuple[str, str] = ("a", "b"),
    is_turned: bool = False,
) -> RuntimeError:
    """`is_turned`: whether b is multiplied along its last dimension."""
    place = "only" if len(b) == 1 else "last" if is_turned else "second-to-last"
    return RuntimeError(
        f"{op}: mat1 and mat2 shapes cannot be multiplied: {names[0]} {shape_text(a)} and "
        f"{names[1]} {shape_text(b)}: the {'only' if len(a) == 1 else 'last'} size {a_size} of "
        f"{names[0]} must equal the {place} size {b_size} of {names[1]}"
    )


def other_batches(op: str, a: Sequence[int], b: Sequence[int]) -> RuntimeError:
    return RuntimeError(
        f"{op}: the batches of a {shape_text(a)} and b {shape_text(b)} cannot be broadcast: "
        f"{shape_text(a[:-2])} and {shape_text(b[:-2])}"
    )


def wrong_dtype(op: str, got: object, wanted: str) -> RuntimeError:
    return RuntimeError(f'{op}: "{op}" not implemented for {got!r}: expected {wanted}')


def not_implemented_for(op: str, got: object, wanted: str) -> NotImplementedError:
    return NotImplementedError(f'{op}: "{op}" not implemented for {got!r}: expected {wanted}')


def not_for_complex(op: str, got: object) -> NotImplementedError:
    return not_implemented_for(op, got, "real numbers")


def refuses_complex(op: str, got: object) -> RuntimeError:
    """Where PyTorch checks for itself, and does not only lack the kernel."""
    return RuntimeError(f"{op}: not supported for complex tensors, got {got!r}")


def class_name(got: object) -> str:
    """The name of an object's class; PyTorch's are told apart from this library's."""
    kind = type(got)
    return f"torch.{kind.__name__} (of PyTorch)" if is_foreign(kind) else kind.__name__


def not_a_tensor(
    op: str, name: str, got: object, position: int = 0, element: int | None = None
) -> TypeError:
    """`element`: which one of a list of tensors."""
    where = f"{op}(): argument {name!r}" + (f" (position {position})" if position else "")
    if is_foreign_tensor(got):
        return foreign_tensor(where, type(got))
    if element is None:
        return TypeError(f"{where} must be Tensor, not {class_name(got)}")
    return TypeError(
        f"{where}: expected Tensor as element {element}, but got {class_name(got)}"
    )


def wrong_kind(op: str, name: str, position: int, wanted: str, got: object) -> TypeError:
    """An argument of another kind than the parameter's; position 0: given by keyword."""
    where = f" (position {position})" if position else ""
    if isinstance(got, list | tuple) and got and wanted == "tuple of ints":
        kinds = ", ".join(map(class_name, got))
        return TypeError(f"{op}(): argument '{name}'{where} must be {wanted}, not of ({kinds})")
    return TypeError(
        f"{op}(): argument '{name}'{where} must be {wanted}, not {class_name(got)}"
    )


def not_a_generator(got: object) -> TypeError:
    return TypeError(f"argument 'generator' must be Generator, not {type(got).__name__}")


def is_foreign(kind: type) -> bool:
    """Whether a class is PyTorch's or derives from one; the package itself never imports it."""
    return any(base.__module__.partition(".")[0] == "torch" for base in kind.__mro__)


def is_foreign_tensor(got: object) -> bool:
    return hasattr(type(got), "__torch_function__") and is_foreign(type(got))


def foreign_tensor(where: str, kind: type) -> TypeError:
    return TypeError(
        f"{where}: {kind.__name__} is a torch.Tensor of another library: convert it with "
        f"rushlight.from_numpy(x.numpy()) or rushlight.from_dlpack(x)"
    )


def not_an_operand(op: str, place: int, got: object) -> TypeError:
    if is_foreign_tensor(got):
        return foreign_tensor(f"{op}(): operand {place}", type(got))
    return NotAnOperandError(got, f"{op}(): operand {place}: ")


def other_dtype_than(op: str, name: str, wanted: str, got: object) -> RuntimeError:
    return RuntimeError(f"{op}: expected {name} of dtype {wanted}, but got {got!r}")


def mixed_dtypes(op: str, first: object, second: object) -> RuntimeError:
    return RuntimeError(
        f"{op}: expected operands to have the same dtype, but got: {first!r} and {second!r}"
    )


def cannot_cast(op: str, got: object, to: object) -> RuntimeError:
    return RuntimeError(
        f"{op}: result type {got!r} can't be cast to the desired output type {to!r}"
    )


def other_dtype_than_out(op: str, asked: object, got: object) -> RuntimeError:
    return RuntimeError(f"{op}: dtype {asked!r} does not match dtype of out parameter {got!r}")


def out_is_no_tensor(op: str, got: object) -> TypeError:
    return TypeError(f"{op}(): argument 'out' must be Tensor, not {type(got).__name__}")


def value_overflows(op: str, value: object, kind: object) -> RuntimeError:
    return RuntimeError(
        f"{op}: value cannot be converted to type {kind!r} without overflow: {value}"
    )


def leaf_in_place(op: str) -> RuntimeError:
    return RuntimeError(
        f"{op}: a leaf Variable that requires grad is being used in an in-place operation."
    )


def view_of_leaf_in_place(op: str) -> RuntimeError:
    return RuntimeError(
        f"{op}: a view of a leaf Variable that requires grad is being used in an in-place "
        f"operation."
    )


def view_without_gradients_in_place(what: str) -> RuntimeError:
    return RuntimeError(
        f"A view was created in no_grad mode and {what} with grad mode enabled. Whether it is "
        f"to be part of the gradient's history is not clear: make the view with gradients "
        f"enabled, or write to it without."
    )


def custom_view_in_place(what: str) -> RuntimeError:
    return RuntimeError(
        f"Output 0 of a custom Function is a view and {what}. This view was created inside a "
        f"custom Function (or because an input was returned as-is) and the autograd logic to "
        f"handle view+inplace would override the custom backward associated with the custom "
        f"Function, leading to incorrect gradients. Clone the output of the custom Function to "
        f"write to it."
    )


def one_of_several_in_place(op: str, what: str) -> RuntimeError:
    return RuntimeError(
        f"Output of {op} is a view and {what}. This view is the output of a function that "
        f"returns multiple views. Such functions do not allow the output views to be modified "
        f"inplace. You should replace the inplace operation by an out-of-place one."
    )


def shape_in_place(op: str, own: Sequence[int], result: Sequence[int]) -> RuntimeError:
    return RuntimeError(
        f"{op}: output with shape {shape_text(own)} doesn't match the broadcast shape "
        f"{shape_text(result)}"
    )


def overlapping_write(op: str, shape: Sequence[int], strides: Sequence[int]) -> RuntimeError:
    return RuntimeError(
        f"{op}: unsupported operation: more than one element of the written-to tensor (shape "
        f"{shape_text(shape)}, stride {shape_text(strides)}) refers to a single memory "
        f"location. Please clone() the tensor before performing the operation."
    )


def shared_output(op: str, shape: Sequence[int]) -> RuntimeError:
    return RuntimeError(
        f"{op}: unsupported operation: some elements of an input and of the written-to tensor "
        f"(shape {shape_text(shape)}) refer to a single memory location. Please clone() the "
        f"tensor before performing the operation."
    )


def grad_not_scalar(shape: Sequence[int]) -> RuntimeError:
    return RuntimeError(
        f"grad can be implicitly created only for scalar outputs (backward of a tensor of "
        f"shape {shape_text(shape)})"
    )


def tangent_of_another_shape(shape: Sequence[int], tangent: Sequence[int]) -> RuntimeError:
    return RuntimeError(
        "Trying to set a forward gradient that has a different size than that of the original "
        f"Tensor, this is not supported. Tensor is of size {list(shape)} while the given "
        f"forward gradient is of size {list(tangent)}."
    )


def no_grad_fn(index: int = 0) -> RuntimeError:
    return RuntimeError(
        f"element {index} of tensors does not require grad and does not have a grad_fn"
    )


def graph_freed(op: str, place: str) -> RuntimeError:
    recorded = f" (recorded{place})" if place else ""
    return RuntimeError(
        f"{op}{recorded}: Trying to backward through the graph a second time (or directly "
        "access saved tensors after they have already been freed). Saved intermediate values "
        "of the graph are freed when you call .backward() or autograd.grad(). Specify "
        "retain_graph=True if you need to backward through the graph a second time or if you "
        "need to access saved tensors after calling backward."
    )


def intermediate_forgotten(function: str) -> RuntimeError:
    return RuntimeError(
        f"{function}: its backward reads a tensor that its forward computed, and a second "
        f"derivative goes through it; how it was computed is no longer known because values "
        f"were needed in between. Keep inputs or results of forward with save_for_backward, "
        f"and compute the tensor from them in backward."
    )


def overwritten(name: str, by: str, where: str) -> RuntimeError:
    place = f" at {where}" if where else ""
    return RuntimeError(
        f"{name}: one of the variables needed for gradient computation has been modified by an "
        f"inplace operation: {by}{place} wrote to it through a tensor without its gradient "
        f"history (detach() or no_grad); write to a clone() instead"
    )


def nan_before_backward(reason: str, place: str, line: str) -> RuntimeError:
    quoted = f": {line}" if line else ""
    return RuntimeError(
        f"backward: the tensor that gradients are taken of holds nan; {reason}{place}{quoted}"
    )


def nan_gradient(node: str, output: int, place: str, line: str) -> RuntimeError:
    recorded = f" (recorded{place}{': ' if line else ''}{line})" if place else ""
    return RuntimeError(
        f"Function '{node}' returned nan values in its {output}th output.{recorded}"
    )


def unused_in_graph(index: int) -> RuntimeError:
    return RuntimeError(
        f"The differentiated Tensor at index {index} appears to not have been used in the "
        f"graph. Set allow_unused=True if this is the desired behavior."
    )


def inference_saved() -> RuntimeError:
    return RuntimeError(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
        "inference mode in computation tracked by autograd. To work around this, you can make "
        "a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` "
        "instead of `torch.inference_mode()`."
    )


def inference_in_place() -> RuntimeError:
    return RuntimeError(
        "Inplace update to inference tensor outside InferenceMode is not allowed. You can make "
        "a clone to get a normal tensor before doing inplace update."
    )


def numpy_needs_detach() -> RuntimeError:
    return RuntimeError(
        "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
    )


def numpy_of_marked(is_conj: bool) -> RuntimeError:
    bit, way = ("conjugate", "conj") if is_conj else ("negative", "neg")
    return RuntimeError(
        f"Can't call numpy() on Tensor that has {bit} bit set. Use "
        f"tensor.resolve_{way}().numpy() instead."
    )


def view_of_marked(op: str, got: str, instead: str) -> RuntimeError:
    return RuntimeError(
        f"{op}: the memory of {got} does not hold the values that it reads, so there is no "
        f"such view of them; {instead} makes a copy that does"
    )


def not_differentiable(op: str) -> NotImplementedError:
    return NotImplementedError(f"the derivative for '{op}' is not implemented")


def operand_requires_grad(op: str, name: str) -> RuntimeError:
    return RuntimeError(
        f"{op} is not differentiable with respect to {name!r}, which requires gradients; "
        f"use {name}.detach()"
    )


_RUNTIME_RANGES = (  # where PyTorch raises RuntimeError
    "gather",
    "take_along_dim",
    "scatter",
    "scatter_add",
    "scatter_reduced",
    "scatter_summed",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "masked_scatter",
    "pool_scatter",
    "sorted_sequence",
    "searchsorted",
    "embedding_bag",
)


_CALLED = {  # what users call ops that are a part of what a function does
    "scatter_reduced": "scatter_reduce",
    "scatter_summed": "scatter_reduce",
    "padded_embedding": "embedding",
    "pool_scatter": "max_unpool",
    "pool_gather": "max_unpool",
    "sorted_sequence": "searchsorted",
}


def origin_text(where: str, label: str) -> str:
    """Where a step was recorded: ` in Model.head at train.py:12`, as far as it is known."""
    return (f" in {label}" if label else "") + (f" at {where}" if where else "")


WRAPPED_INDEX = "wrapped index"  # one that counted from the end where it was negative


def index_out_of_range(
    op: str,
    where: str,
    label: str,
    found: tuple[str, int, int, tuple[int, ...]] | None = None,
) -> IndexError | RuntimeError:
    """`found`: what was indexed with, the value, the size, and the place of the value."""
    kind: type[IndexError | RuntimeError] = IndexError
    if op == "index_add":
        kind = IndexOutOfRangeError
    elif op in _RUNTIME_RANGES:
        kind = RuntimeError
    op = _CALLED.get(op, op)
    text = f"{op}: index out of range"
    if found is not None:
        name, value, size, place = found
        if name == WRAPPED_INDEX:
            name, value = "index", value - size if value < 0 else value
        at = f" at {list(place)}" if place else ""
        if name == "target":
            text = f"{op}: Target {value}{at} is out of bounds: there are {size} classes"
        else:
            text += f" in self: {name} {value}{at} is not within the size {size}"
    return kind(text + origin_text(where, label))


DIVISIONS = {  # the ops that refuse an integer zero as divisor, and what users call them
    "floor_divide": "floor_divide",
    "floor_quotient": "div",
    "trunc_divide": "div",
    "remainder": "remainder",
    "fmod": "fmod",
}


def zero_division(op: str, where: str = "", label: str = "") -> RuntimeError:
    return RuntimeError(
        f"{DIVISIONS.get(op, op)}: ZeroDivisionError: an integer divided by zero"
        f"{origin_text(where, label)}"
    )


_REFUSED = {  # labels of data checks that are about values: what the user is told, and how
    "probability": (RuntimeError, "all elements of input should be between 0 and 1"),
    "variance": (ValueError, "var has negative entry/entries"),
    "target probability": (RuntimeError, "all elements of target should be between 0 and 1"),
}


def refused_value(what: str, op: str, where: str, label: str) -> Exception | None:
    """The error of a data check about values; None where it is one of indices."""
    if what not in _REFUSED:
        return None
    kind, text = _REFUSED[what]
    return kind(f"{op}: {text}{origin_text(where, label)}")


def ambiguous_bool(shape: Sequence[int]) -> RuntimeError:
    return RuntimeError(
        f"Boolean value of Tensor with more than one value is ambiguous (shape "
        f"{shape_text(shape)})"
    )


def no_values_bool() -> RuntimeError:
    return RuntimeError("Boolean value of Tensor with no values is ambiguous")


def not_one_element(shape: Sequence[int]) -> RuntimeError:
    count = 1
    for size in shape:
        count *= size
    return RuntimeError(f"a Tensor with {count} elements cannot be converted to Scalar")


def not_one_number(kind: str, shape: Sequence[int]) -> ValueError:
    return ValueError(
        f"only one element tensors can be converted to Python scalars: {kind}() of a tensor of "
        f"shape {shape_text(shape)}"
    )


def cannot_contain(element: object) -> RuntimeError:
    return RuntimeError(
        f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
        f"{type(element)}."
    )


def only_of_integers(symbol: str, got: object) -> TypeError:
    return TypeError(
        f"{symbol} is only implemented on integer and Boolean-type tensors, got {got}"
    )


def left_to_subclasses(owner: object, method: str) -> NotImplementedError:
    return NotImplementedError(f"{type(owner).__name__} leaves `{method}` to subclasses")


def no_data() -> NotImplementedError:
    return NotImplementedError("Cannot copy out of meta tensor; no data!")


def item_of_meta() -> RuntimeError:
    return RuntimeError("Tensor.item() cannot be called on meta tensors")


def numpy_of_meta() -> TypeError:
    return TypeError(
        "can't convert meta device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
        "to host memory first."
    )


def mixed_devices(op: str, one: str, other: str) -> RuntimeError:
    return RuntimeError(
        f"{op}: Expected all tensors to be on the same device, but found at least two devices, "
        f"{one} and {other}!"
    )


def random_in_vmap() -> RuntimeError:
    return RuntimeError(
        "vmap: a random operation was called with randomness='error' (the default). Use "
        "randomness='same' or 'different', or draw the numbers outside of vmap."
    )


def batched_item() -> RuntimeError:
    return RuntimeError(
        "vmap: .item() was called on a Tensor that has a value for each sample of a batch. "
        "Only tensor operations can take all of them at once."
    )


def batched_bool() -> RuntimeError:
    return RuntimeError(
        "vmap: data-dependent control flow on a Tensor that has a value for each sample of a "
        "batch: samples would go different ways. torch.where chooses for each of them."
    )


def batched_read() -> RuntimeError:
    return RuntimeError(
        "vmap: elements of a Tensor that stands for each sample of a batch were to be read. "
        "Inside of vmap only tensor operations see them."
    )


def batched_dynamic_shape(op: str) -> RuntimeError:
    return RuntimeError(
        f"vmap: {op} makes a shape that depends on data, so the samples of a batch would have "
        f"different ones"
    )


def unbatched_write(shape: Sequence[int], sizes: Sequence[int]) -> RuntimeError:
    return RuntimeError(
        f"vmap: inplace write of a Tensor that is different for each sample of a batch (of "
        f"{', '.join(map(str, sizes))}) into one of shape {shape_text(shape)} that all samples "
        f"share. Use an operation that is not in-place, or make the destination from a batched "
        f"Tensor (torch.zeros_like(x), x.new_zeros(...))."
    )


def backward_in_vmap(shape: Sequence[int]) -> RuntimeError:
    return RuntimeError(
        f"vmap: backward() inside of it would accumulate the gradient of each sample into one "
        f"leaf of shape {shape_text(shape)} from outside. Use torch.func.grad or "
        f"torch.autograd.grad inside, or call backward() on the result."
    )


NO_COMPLEX_HALF = "complex numbers of half precision: complex64 is the smallest dtype of them"


def no_complex_half(given: str = "torch.complex32") -> NotImplementedError:
    return not_there(given, NO_COMPLEX_HALF)


def only_named(kind: object) -> NotImplementedError:
    """A dtype that no tensor can have."""
    return not_there(repr(kind), "tensors of this dtype: it can only be named")


def not_there(given: str, what: str) -> NotImplementedError:
    """A setting that asks for something this library has none of."""
    return NotImplementedError(f"{given}: rushlight has no {what}")
