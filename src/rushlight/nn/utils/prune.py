"""`torch.nn.utils.prune`: parameters with a mask of zeros, made again before each forward.

A pruned parameter `weight` becomes the parameter `weight_orig`, the buffer `weight_mask` and
the attribute `weight`, their product. Pruning again only looks at what is left.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import rushlight as rl
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.tensor import Tensor

Amount = float  # a part between 0 and 1 as a float, or a number as an int


class BasePruningMethod(ABC):
    """How a mask is made; an instance is the forward pre-hook that applies it.

    PRUNING_TYPE: "unstructured" where single elements are chosen, "structured" where whole
    slices along `dim` are, "global" where the mask is given.
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for scores `t`, none of whose zeros are ones in `default_mask`."""

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter times its mask."""
        name = self._tensor_name
        if name is None:
            raise AssertionError("prune: the method has not been applied to a module")
        original = getattr(module, name + "_orig")
        return getattr(module, name + "_mask").to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter of a module, after what was pruned of it before.

        importance_scores: what the mask is made for instead of the parameter's elements.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        earlier = _take_hook(module, name)
        parameter = getattr(module, name)
        scores = parameter if importance_scores is None else importance_scores
        _check_scores(scores, parameter)
        if earlier is None:
            mask = _start(module, name, method, scores)
        else:
            mask = getattr(module, name + "_mask").detach().clone()
            method = _together(earlier, method)
            mask = method.compute_mask(scores, mask)
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Any = None
    ) -> Tensor:
        """A tensor times the mask that this makes for it (or for its scores)."""
        scores = t if importance_scores is None else importance_scores
        _check_scores(scores, t)
        mask = rl.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Make the pruned parameter an ordinary one again; its zeros stay."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        original.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


def _start(module: Module, name: str, method: BasePruningMethod, scores: Any) -> Tensor:
    """Split a parameter that has not been pruned; the mask."""
    parameter = getattr(module, name)
    mask = method.compute_mask(scores, default_mask=rl.ones_like(parameter))
    if not isinstance(parameter, Parameter):
        parameter = Parameter(parameter.detach())
    delattr(module, name)
    module.register_parameter(name + "_orig", parameter)
    return mask.detach()


def _hooks(module: Module) -> Iterator[tuple[int, BasePruningMethod]]:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod):
            yield key, hook


def _take_hook(module: Module, name: str) -> BasePruningMethod | None:
    for key, hook in list(_hooks(module)):
        if hook._tensor_name == name:
            del module._forward_pre_hooks[key]
            return hook
    return None


def _check_scores(scores: Tensor, parameter: Tensor) -> None:
    if scores.shape != parameter.shape:
        raise AssertionError(
            f"prune: importance_scores {tuple(scores.shape)} need the parameter's shape "
            f"{tuple(parameter.shape)}"
        )


class PruningContainer(BasePruningMethod):
    """Several methods, one after the other, each on what those before it have left."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        methods = args if not args or isinstance(args[0], BasePruningMethod) else tuple(args[0])
        if methods:
            self._tensor_name = methods[0]._tensor_name
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add a method for the same parameter."""
        if method is None:
            return
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                f"prune: a method for {method._tensor_name!r} cannot follow those for "
                f"{self._tensor_name!r}"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask after the last method, which sees what `default_mask` leaves."""
        method = self._pruning_methods[-1]
        left = _left_for(method, default_mask)
        mask = default_mask.clone().to(t.dtype)
        mask[left] = method.compute_mask(t[left], default_mask=mask[left])
        return mask


def _together(earlier: BasePruningMethod, method: BasePruningMethod) -> PruningContainer:
    both = earlier if isinstance(earlier, PruningContainer) else PruningContainer(earlier)
    both.add_pruning_method(method)
    return both


def _left_for(method: BasePruningMethod, mask: Tensor) -> Any:
    """The index of what a method may still choose from."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE == "structured":
        dim = method.dim % mask.ndim  # type: ignore[attr-defined]
        others = [d for d in range(mask.ndim) if d != dim]
        is_left = (mask.sum(others) != 0).nonzero().flatten()
        return (*[slice(None)] * dim, is_left)
    if method.PRUNING_TYPE == "global":
        return (slice(None),) * mask.ndim
    raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")


# -- methods


class Identity(BasePruningMethod):
    """Prunes nothing: the parameter gets a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is zero."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"prune: a mask {tuple(self.mask.shape)} for a parameter "
                f"{tuple(default_mask.shape)}"
            )
        return default_mask * self.mask.to(default_mask.dtype)


class RandomUnstructured(BasePruningMethod):
    """Prunes elements by chance."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Amount) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _count(self.amount, t.nelement())
        return _without_smallest(rl.rand_like(t), default_mask, count)


class L1Unstructured(BasePruningMethod):
    """Prunes the elements of least magnitude."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Amount) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without_smallest(t.abs(), default_mask, _count(self.amount, t.nelement()))


class RandomStructured(BasePruningMethod):
    """Prunes slices along a dimension by chance."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Amount, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _check_slices(t, self.dim)
        return _without_slices(rl.rand(t.shape[self.dim]), default_mask, self.amount, self.dim)


class LnStructured(BasePruningMethod):
    """Prunes the slices along a dimension whose norm, of order `n`, is least."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Amount, n: Any, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _check_slices(t, self.dim)
        norm = _compute_norm(t, self.n, self.dim)
        return _without_slices(norm, default_mask, self.amount, self.dim)


def _without_smallest(scores: Tensor, mask: Tensor, count: int) -> Tensor:
    if count == 0:
        return mask.clone()
    smallest = scores.flatten().topk(count, largest=False).indices
    return mask.flatten().index_fill(0, smallest, 0).reshape(mask.shape)


def _without_slices(scores: Tensor, mask: Tensor, amount: Amount, dim: int) -> Tensor:
    count = _count(amount, scores.nelement())
    kept = _without_smallest(scores, rl.ones_like(scores), count)
    return mask * kept.to(mask.dtype).reshape(-1, *[1] * (mask.ndim - 1 - dim % mask.ndim))


def _compute_norm(t: Tensor, n: Any, dim: int) -> Tensor:
    """The norm, of order `n`, of each slice along a dimension."""
    return rl.norm(t, p=n, dim=[d for d in range(t.ndim) if d != dim % t.ndim])


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    is_count = isinstance(amount, numbers.Integral)
    if (is_count and amount < 0) or (not is_count and not 0.0 <= float(amount) <= 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _count(amount: Amount, size: int) -> int:
    """How many of `size` an amount is."""
    if not isinstance(amount, numbers.Integral):
        return round(amount * size)
    if amount > size:
        raise ValueError(f"amount={amount} should be smaller than what is to prune, {size}")
    return int(amount)


def _check_slices(t: Tensor, dim: int) -> None:
    if t.ndim <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor "
            f"of shape {tuple(t.shape)} with {t.ndim} dims"
        )
    if not -t.ndim <= dim < t.ndim:
        raise IndexError(f"Invalid index {dim} for tensor of size {tuple(t.shape)}")


# -- functions of modules


def identity(module: Module, name: str) -> Module:
    """Give a parameter a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Amount) -> Module:
    """Prune elements by chance: a part of them (float) or so many (int)."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: Amount, importance_scores: Any = None
) -> Module:
    """Prune the elements of least magnitude.

    >>> from rushlight import nn
    >>> from rushlight.nn.utils import prune
    >>> layer = prune.l1_unstructured(nn.Linear(4, 5), "weight", amount=0.25)
    >>> int(layer.weight_mask.sum()), sorted(dict(layer.named_parameters()))
    (15, ['bias', 'weight_orig'])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Amount, dim: int) -> Module:
    """Prune slices along a dimension by chance."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Amount, n: Any, dim: int, importance_scores: Any = None
) -> Module:
    """Prune the slices along a dimension whose norm, of order `n`, is least."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune a parameter where a mask is zero."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one: some may lose more than others."""
    chosen = list(parameters)
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the pruning_method: '
            f"{pruning_method.__name__} is {method.PRUNING_TYPE!r}"
        )
    given = importance_scores or {}
    tensors = [getattr(module, name) for module, name in chosen]
    scores = [given.get(pair, t) for pair, t in zip(chosen, tensors, strict=True)]
    masks = [
        getattr(module, name + "_mask", rl.ones_like(t))
        for (module, name), t in zip(chosen, tensors, strict=True)
    ]
    method._tensor_name = "all of them"
    together = PruningContainer(method).compute_mask(
        rl.cat([s.detach().flatten() for s in scores]), rl.cat([m.flatten() for m in masks])
    )
    parts = together.split([t.numel() for t in tensors])
    for (module, name), t, part in zip(chosen, tensors, parts, strict=True):
        custom_from_mask(module, name, mask=part.view(t.shape))


def remove(module: Module, name: str) -> Module:
    """Make a pruned parameter an ordinary one again; its zeros stay."""
    hook = _take_hook(module, name)
    if hook is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be "
            "removed"
        )
    hook.remove(module)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of a module, or of one inside it, is pruned."""
    return any(True for inner in module.modules() for _ in _hooks(inner))
