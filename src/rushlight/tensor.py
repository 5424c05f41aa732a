"""Tensor: a handle on a view of a storage. Operations are bound to it by `surface.py`."""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn  # the API takes numbers, nested lists, arrays

import numpy as np

from rushlight import config, errors, float8, views
from rushlight import dtypes as dt
from rushlight.advice import warn_caller, warn_deprecated
from rushlight.arrays import from_numpy, legacy_tensor
from rushlight.autograd import engine
from rushlight.devices import CPU, META, check_usable, device
from rushlight.dtypes import dtype
from rushlight.layout import Size
from rushlight.ops import complex_parts, movement
from rushlight.ops.registry import recorder
from rushlight.tensor_operators import ELEMENTS, Operators
from rushlight.trace import inference
from rushlight.trace.placement import is_meta
from rushlight.trace.record import make_tensor, set_view
from rushlight.trace.tape import AccumulateGrad, Node, RemovableHandle
from rushlight.trace.trace import before_sharing, hooks, settle
from rushlight.trace.value import Storage
from rushlight.trace.write import current_node, tracks_gradients
from rushlight.views import AnyView, Recast


def disabled_torch_function(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """`__torch_function__` of a class that overrides nothing: results are plain tensors."""
    return func(*args, **(kwargs or {}))


class Tensor(Operators):
    """An n-dimensional array with automatic differentiation (PyTorch's `torch.Tensor`).

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = (
        "__dict__", "__weakref__", "_base", "_chain", "_grad", "_node", "_offset", "_output",
        "_rebased", "_retains", "_seen", "_shape", "_storage", "_strides", "_view", "dtype",
    )  # fmt: skip

    _storage: Storage
    _shape: tuple[int, ...]
    _strides: tuple[int, ...]
    _offset: int
    _view: AnyView | None  # None: reads the whole storage in order
    _node: Node | None
    _output: int
    _grad: Tensor | None
    _base: Tensor | None  # the tensor this is a view of, and the chain of view ops from it
    _chain: tuple[Any, ...]
    _rebased: int  # counts changes of gradient history by in-place writes
    _retains: bool  # unset until retain_grad() was called
    _seen: int  # the base's count when this view's history was derived
    dtype: dtype

    __array_priority__ = 1000

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = legacy_tensor(*args, **kwargs)
        return made if cls is Tensor else _in_class(made, cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if hasattr(cls, "__torch_dispatch__"):
            raise errors.not_there(
                f"{cls.__name__}.__torch_dispatch__",
                "dispatch below its functions: only __torch_function__ is called",
            )
        if cls.__torch_function__ is not disabled_torch_function:
            from rushlight.overrides import dispatch  # for programs with such a class only

            dispatch.activate()

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call `func`; tensors among the results become tensors of this class."""
        from rushlight.overrides import protocol  # for programs with subclasses only

        return protocol.default_handler(cls, func, types, args, kwargs)

    def as_subclass(self, cls: Any) -> Any:
        """The same tensor, with its memory and history, as one of a subclass."""
        if not (isinstance(cls, type) and issubclass(cls, Tensor)):
            raise TypeError(f"as_subclass: {cls!r} is no subclass of Tensor")
        return _in_class(self, cls)

    if TYPE_CHECKING:  # the operations that `surface.py` binds

        def __getattr__(self, name: str) -> Any: ...

    # -- metadata

    @property
    def shape(self) -> Size:
        """The sizes of the dimensions, as a `torch.Size`."""
        return Size(self._shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one of its sizes."""
        if dim is None:
            return Size(self._shape)
        if not self._shape:
            raise errors.dim_out_of_range("size", dim, 0)
        return self._shape[views.dim_index("size", dim, len(self._shape))]

    def stride(self, dim: int | None = None) -> Any:
        """Steps in elements between neighbours along each dimension (or one)."""
        if dim is None:
            return self._strides
        return self._strides[views.dim_index("stride", dim, len(self._shape))]

    def storage_offset(self) -> int:
        """Where in its memory the first element lies, in elements."""
        return self._offset

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self._shape)

    def dim(self) -> int:
        """How many dimensions it has."""
        return len(self._shape)

    ndimension = dim

    def numel(self) -> int:
        """How many elements it has."""
        return math.prod(self._shape)

    nelement = numel

    def element_size(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.numel() * self.dtype.itemsize

    @property
    def device(self) -> device:
        """Where it is: `cpu`, or `meta` for a tensor without elements."""
        return META if is_meta(self) else CPU

    @property
    def is_meta(self) -> bool:
        """Whether it has no elements, only a shape and a dtype."""
        return is_meta(self)

    @property
    def is_cpu(self) -> bool:
        """Whether it has elements, which are on the CPU."""
        return not is_meta(self)

    def get_device(self) -> int:
        """The index of its device: -1, as for all that is no accelerator."""
        return -1

    is_cuda = is_sparse = is_quantized = is_mps = is_mkldnn = is_nested = False
    is_xla = is_xpu = is_ipu = is_vulkan = is_sparse_csr = False
    is_maia = is_mtia = volatile = False
    names = ()
    name = None

    @property
    def T(self) -> Any:
        """All dimensions in reverse order."""
        if len(self._shape) != 2:
            warn_deprecated("x.T of other than two dimensions", "x.mT or x.permute(...)")
        return movement.permute(self, tuple(reversed(range(len(self._shape)))))

    @property
    def mT(self) -> Any:
        """The last two dimensions exchanged; of a number itself."""
        if not self._shape:
            return self
        if len(self._shape) < 2:
            raise RuntimeError(
                f"tensor.mT is only supported on matrices or batches of matrices. Got "
                f"{len(self._shape)}-D tensor."
            )
        return movement.transpose(self, -2, -1)

    @property
    def H(self) -> Any:
        """The conjugate transpose of a matrix."""
        if len(self._shape) not in (0, 2):
            raise RuntimeError(
                "tensor.H is only supported on matrices (2-D tensors). Got "
                f"{len(self._shape)}-D tensor."
            )
        return movement.adjoint(self)

    @property
    def mH(self) -> Any:
        """The conjugate transposes of a batch of matrices."""
        return movement.adjoint(self)

    @property
    def real(self) -> Any:
        """The real parts, in the same memory: of a real tensor itself."""
        return complex_parts.real(self)

    @real.setter
    def real(self, value: Any) -> None:
        complex_parts.real(self).copy_(value)

    @property
    def imag(self) -> Any:
        """The imaginary parts of a complex tensor, in the same memory."""
        return complex_parts.imag(self)

    @imag.setter
    def imag(self, value: Any) -> None:
        complex_parts.imag(self).copy_(value)

    def new(self, *args: Any, device: Any = None) -> Any:
        """`new(2, 3)`: zeros of this dtype and shape; `new([..])` holds the data."""
        check_usable(device)
        made = legacy_tensor(*args, dtype=self.dtype)
        return recorder.on_device(made, self.device if device is None else device)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether elements lie in memory in order, or in the order of a memory format."""
        if memory_format is not None and str(memory_format).endswith("channels_last"):
            order = (0, 2, 3, 1)
            if len(self._shape) != 4:
                return False
            return views.is_contiguous(
                [self._shape[d] for d in order], [self._strides[d] for d in order]
            )
        return views.is_contiguous(self._shape, self._strides)

    def is_floating_point(self) -> bool:
        """Whether its dtype is a floating one."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether its dtype is a complex one."""
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether its dtype has negative numbers."""
        return self.dtype.is_signed

    def is_inference(self) -> bool:
        """Whether it was made in `inference_mode`."""
        return inference.is_made_inside(self._storage.value)

    def is_pinned(self) -> bool:
        """Whether its memory is page-locked: there is no such memory."""
        return False

    def is_shared(self) -> bool:
        """Whether its memory is shared by processes: there is no such memory."""
        return False

    @property
    def layout(self) -> Any:
        """How elements are stored: always `torch.strided`."""
        from rushlight import strided  # the public namespace imports this module

        return strided

    # -- gradients

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are taken by it; may be set for leaves."""
        return tracks_gradients(self)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(f"requires_grad must be a bool, not {type(value).__name__}")
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set whether gradients are accumulated for this leaf."""
        if requires_grad is not True:
            views.flag("requires_grad_", "requires_grad", requires_grad)
            if self._node is not None and not isinstance(self._node, AccumulateGrad):
                raise RuntimeError(
                    "you can only change requires_grad flags of leaf variables. If you want to "
                    "use a computed variable in a subgraph that doesn't require "
                    "differentiation use var_no_grad = var.detach()."
                )
            self._node = None
            return self
        if not (self.dtype.is_floating_point or self.dtype.is_complex):
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if self.is_inference() and not config.scopes.inference:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not "
                "allowed."
            )
        if self._node is None:
            self._node = AccumulateGrad(self)
            self._output = 0
            self._base = None
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no operation made it, as far as gradients go."""
        node = current_node(self)
        return node is None or isinstance(node, AccumulateGrad)

    @property
    def grad_fn(self) -> Node | None:
        """The node of the gradient's graph that made it; None for leaves."""
        node = current_node(self)
        return None if isinstance(node, AccumulateGrad) else node

    @property
    def output_nr(self) -> int:
        """Which result of its `grad_fn` it is."""
        return self._output

    @property
    def _version(self) -> int:
        if self.is_inference():
            raise RuntimeError("Inference tensors do not track version counter.")
        return self._storage.version

    @property
    def grad_dtype(self) -> dt.dtype | None:
        """The dtype of `.grad`: this tensor's. Other dtypes are refused."""
        if not self.is_leaf:
            raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
        return self.dtype

    @grad_dtype.setter
    def grad_dtype(self, value: dt.dtype | None) -> None:
        if value is not self.dtype:
            raise errors.not_there(
                f"grad_dtype={value!r}", "gradients of another dtype than their tensor's"
            )

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward` accumulated for this leaf, or None."""
        if self._grad is None and not (self.is_leaf or self.retains_grad):
            warn_caller(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. "
                "It is not filled by backward() unless retain_grad() was called on this Tensor "
                "before. If you meant a leaf, access that instead."
            )
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got grad of type "
                    f"{type(value).__name__}"
                )
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if value._shape != self._shape:
                raise RuntimeError(
                    f"assigned grad has data of a different size: {list(value._shape)} for a "
                    f"tensor of shape {list(self._shape)}"
                )
            if value.dtype is not self.dtype:
                raise RuntimeError(
                    f"assigned grad has data of a different type: {value.dtype!r} for a tensor "
                    f"of {self.dtype!r}"
                )
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the gradient of this tensor to `.grad` of the leaves it came from.

        gradient: the cotangent, of this tensor's shape; needed unless it has one element.
        """
        if inputs is not None:
            from rushlight.autograd import grad_api  # comes after tensors

            return grad_api.backward(self, gradient, retain_graph, create_graph, None, inputs)
        keep = create_graph if retain_graph is None else retain_graph
        current_node(self)
        return engine.backward([self], [gradient], keep, create_graph)

    def detach(input) -> Tensor:
        """The same memory without gradient history."""
        if not input.is_leaf:  # a write through the result is to be noticed
            input._storage.owner = weakref.ref(input if input._base is None else input._base)
        return hooks.alias(input)

    def detach_(input) -> Tensor:
        """Without its gradient history from here on; views refuse it."""
        if input._base is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        input._node = None
        return input

    @property
    def data(self) -> Tensor:
        """The same memory without gradient history; may be set to another tensor."""
        return hooks.alias(self)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self.requires_grad and value.dtype.is_integral:
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or "
                "complex dtype"
            )
        self._storage = value._storage
        self._shape, self._strides, self._offset = value._shape, value._strides, value._offset
        self._view, self.dtype = value._view, value.dtype

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call `hook(grad)` when the gradient of this tensor is known; it may return
        another.
        """
        node = current_node(self)
        if node is None:
            raise RuntimeError(
                "cannot register a hook on a tensor that doesn't require gradient"
            )
        if node.output_hooks is None:
            node.output_hooks = {}
        node.touch()
        return RemovableHandle(node.output_hooks.setdefault(self._output, {}), hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Any:
        """Call `hook(tensor)` after its `.grad` was accumulated (leaves only)."""
        if not isinstance(self._node, AccumulateGrad):
            raise RuntimeError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors"
            )
        if self._node.accumulate_hooks is None:
            self._node.accumulate_hooks = {}
        self._node.touch()
        return RemovableHandle(self._node.accumulate_hooks, hook)

    def retain_grad(self) -> None:
        """Keep `.grad` of this non-leaf tensor too."""
        if self.is_leaf:
            if self._node is None:
                raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
            return
        if self.retains_grad:
            return
        self._retains = True
        me = weakref.ref(self)

        def keep(grad: Tensor) -> None:
            target = me()
            if target is not None:
                engine.accumulate(target, grad, config.scopes.grad_enabled)

        node = current_node(self)
        assert node is not None, "it is no leaf"
        node.touch()
        node.retainers = {**(node.retainers or {}), self._output: keep}

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called on this non-leaf."""
        return getattr(self, "_retains", False)

    @classmethod
    def _make_subclass(cls, kind: Any, data: Tensor, require_grad: bool = False) -> Any:
        """A tensor of class `kind` on the memory of `data`, without history."""
        out = make_tensor(kind, data._storage, data._storage.value.type)
        if data._view is not None:
            set_view(out, data._view)
        if require_grad:
            out.requires_grad_()
        return out

    # -- values

    def _array(self) -> Any:
        """This tensor's elements as a NumPy view of its memory (stored bits for bfloat16); a
        copy of them where they are conjugates or negatives of what is there.
        """
        return self._array_on(realised(self._storage))

    def _array_on(self, buffer: Any) -> Any:
        kind = self.dtype.storage
        strides = tuple(s * kind.itemsize for s in self._strides)
        array = buffer.as_numpy(kind, self._shape, strides, self._offset * kind.itemsize)
        return array if type(self._view) is not Recast else self._as_read(array)

    def _as_read(self, stored: Any) -> Any:
        """What is in memory, conjugated and negated as the view says."""
        is_conj, is_neg = views.marks(self._view)
        array = np.conjugate(stored) if is_conj else stored
        if not is_neg:
            return array
        if self.dtype is dt.bfloat16 or self.dtype.is_float8:  # bits, the highest the sign
            return array ^ array.dtype.type(1 << 8 * array.itemsize - 1)
        return np.negative(array)

    def numpy(self, *, force: bool = False) -> Any:
        """The elements as a NumPy array that shares this tensor's memory.

        force: copy what cannot be shared, instead of raising (gradients, conjugates).
        """
        if is_meta(self) and not force:
            raise errors.numpy_of_meta()
        if not force and config.scopes.grad_enabled and self.requires_grad:
            raise errors.numpy_needs_detach()
        if not force and any(marks := views.marks(self._view)):
            raise errors.numpy_of_marked(is_conj=marks[0])
        if self.dtype is dt.bfloat16 or self.dtype.is_float8:
            name = "BFloat16" if self.dtype is dt.bfloat16 else self.dtype.name.capitalize()
            raise TypeError(f"Got unsupported ScalarType {name}")
        return self._shared_array()

    def _shared_array(self) -> Any:
        """The elements as stored, in an array that others may write while it lives."""
        buffer = realised(self._storage)
        if not buffer.is_shared:
            before_sharing(buffer)
        array = self._array_on(buffer)
        buffer.export(array)
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __array_wrap__(
        self, array: Any, context: Any = None, return_scalar: bool = False
    ) -> Tensor:
        """What NumPy's functions return for a tensor: their result as one."""
        array = np.asarray(array)
        return from_numpy(array.astype("uint8") if array.dtype == bool else array)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule on this tensor's memory, for `from_dlpack` of any library."""
        from rushlight.utils import dlpack  # imported when memory is exchanged

        if dl_device is not None and tuple(dl_device) != dlpack.device_of(self):
            raise BufferError(f"__dlpack__: cannot export to device {dl_device}")
        return dlpack.capsule_of(self, max_version=max_version, copy=copy)

    def __dlpack_device__(self) -> tuple[Any, int]:
        """The device of the capsule: its type's number in DLPack, and its index."""
        from rushlight.utils import dlpack  # imported when memory is exchanged

        return dlpack.device_of(self)

    def item(self) -> Any:
        """The value of a one-element tensor as a Python number."""
        if is_meta(self):
            raise errors.item_of_meta()
        if self.numel() != 1:
            raise errors.not_one_element(self._shape)
        if self._storage.value.type.levels:
            raise errors.batched_item()
        native = _NATIVE.get(self.dtype)
        if native is None or type(self._view) is Recast:
            return self._numbers().reshape(-1)[0].item()
        address = realised(self._storage).address + self._offset * self.dtype.itemsize
        return native.from_address(address).value  # an array takes ten times as long

    def _numbers(self) -> Any:
        """The elements as a NumPy array of plain numbers."""
        array = self._array()
        if self.dtype is dt.bfloat16:
            return np.asarray(array.astype(np.uint32) << 16).view(np.float32)
        if self.dtype.is_float8:
            return float8.decoded(array, self.dtype.name)
        return array

    def tolist(self) -> Any:
        """Nested lists of Python numbers (a number for a 0-d tensor)."""
        return self._numbers().tolist()

    def __bool__(self) -> bool:
        if self._storage.value.type.levels:
            raise errors.batched_bool()
        if self.numel() == 1:
            return bool(self.item())
        raise errors.ambiguous_bool(self._shape) if self.numel() else errors.no_values_bool()

    __nonzero__ = __bool__  # PyTorch still has Python 2's name

    def __delitem__(self, key: Any) -> NoReturn:
        raise TypeError("Tensor does not support deleting items")

    def __int__(self) -> int:
        return int(self._only_real("int"))

    def __float__(self) -> float:
        return float(self._only_real("float"))

    __long__ = __int__

    def _only(self, kind: str) -> Any:
        """The one element, for Python's conversion to a `kind`."""
        if self.numel() != 1:
            raise errors.not_one_number(kind, self._shape)
        return self.item()

    def _only_real(self, kind: str) -> Any:
        """The one element; a complex one must have no imaginary part."""
        number = self._only(kind)
        if not isinstance(number, complex):
            return number
        if number.imag:
            raise RuntimeError(f"value {number} cannot be converted to a real number")
        return number.real

    def __complex__(self) -> complex:
        return complex(self._only("complex"))

    def __index__(self) -> int:
        if self.numel() != 1 or not self.dtype.is_integral:
            raise TypeError(
                "only integer tensors of a single element can be converted to an index"
            )
        return int(self.item())

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a 0-d tensor")
        return self._shape[0]

    def __iter__(self) -> Any:
        if not self._shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __reversed__(self) -> Any:
        """A tensor with the first dimension in reverse order; a 0-d tensor itself."""
        return self.flip(0) if self._shape else self

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, ELEMENTS):
            raise errors.cannot_contain(element)
        return bool((self == element).any())

    def __hash__(self) -> int:
        return id(self)

    def __setstate__(self, state: Any) -> None:
        """Become what an old pickle of a tensor (4 parts) or of a variable (5) describes."""
        if not self.is_leaf:
            raise RuntimeError("__setstate__ can be only called on leaf Tensors")
        if len(state) == 4:
            self.set_(*state)
            return
        if len(state) == 5:
            self.data = state[0]
            state = (state[3], state[4], state[2])
        self.requires_grad = state[0]

    def data_ptr(self) -> int:
        """The address of its first element; computes what is pending."""
        if is_meta(self):
            return 0
        return int(realised(self._storage).address) + self._offset * self.dtype.itemsize

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from rushlight import printing  # imported when something is printed

        return printing.tensor_repr(self)

    def __format__(self, format_spec: str) -> str:
        if not self._shape and type(self) is Tensor and not is_meta(self):
            return format(self.item(), format_spec)
        return object.__format__(self, format_spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        from rushlight import serialization  # imported when something is copied

        return serialization.deepcopy_tensor(self, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        from rushlight import serialization  # imported when something is pickled

        return serialization.reduce_tensor(self)


hooks.tensor_class = Tensor


def _in_class(x: Any, cls: Any) -> Any:
    """Another handle of a class on x: a leaf's gradient still goes to x."""
    source = movement.view_as(x, x) if isinstance(x._node, AccumulateGrad) else x
    out = object.__new__(cls)
    for name in Tensor.__slots__:
        if not name.startswith("__") and hasattr(source, name):
            setattr(out, name, getattr(source, name))
    return out


_NATIVE: dict[dtype, Any] = {
    dt.float32: ctypes.c_float,
    dt.float64: ctypes.c_double,
    dt.int64: ctypes.c_int64,
    dt.int32: ctypes.c_int32,
    dt.bool_: ctypes.c_bool,
}
"""How numbers lie in memory, for dtypes whose elements are often read one by one."""


def realised(storage: Storage) -> Any:
    """The buffer of a storage, after a flush if its value is pending."""
    value = storage.value
    if value.type.levels:
        raise errors.batched_read()
    if hooks.reading is not None:
        hooks.reading()
    if value.buffer is None:
        settle(value)
    return value.buffer
