"""PyTorch's lower spellings of layers: `torch.batch_norm`, `torch.convolution` and the like.

They calculate what the functions of `nn.functional` calculate; their arguments come in the
order of PyTorch's operator library, and a reduction is a number: 0 for none (which PyTorch
takes where nothing is said), 1 for the mean, 2 for the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # operands are tensors

from rushlight.argument_kinds import IntList, Ints
from rushlight.dtypes import bool_
from rushlight.ops import (
    contract,
    conv,
    ctc,
    dropout,
    embedding,
    interpolate,
    loss,
    margin_loss,
    norm,
)
from rushlight.ops.activation import rrelu as _rrelu
from rushlight.ops.creation import FULL
from rushlight.ops.elementwise import CAST, WHERE
from rushlight.ops.matrix_norm import matrix_norm_of
from rushlight.ops.registry import public
from rushlight.ops.samples import bernoulli
from rushlight.ops.statistics import NORM

_REDUCTIONS = ("none", "mean", "sum")


def _reduction(number: int) -> str:
    if not 0 <= number < len(_REDUCTIONS):
        raise ValueError(f"{number} is not a valid value for reduction")
    return _REDUCTIONS[number]


# -- normalisation


@public("torch")
def batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float, cudnn_enabled: bool = False,
) -> Any:  # fmt: skip
    """Each channel normalised over the batch (training) or by the running statistics.

    >>> x = torch.tensor([[1.0], [3.0]])
    >>> torch.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, False)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    return norm.batch_norm(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )


@public("torch")
def instance_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any,
    use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool = False,
) -> Any:  # fmt: skip
    """Each channel of each sample normalised.

    >>> x = torch.tensor([[[1.0, 3.0]]])
    >>> torch.instance_norm(x, None, None, None, None, True, 0.1, 1e-5, False)
    tensor([[[-1.0000,  1.0000]]])
    """
    return norm.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


@public("torch")
def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """The norms of the parts along `dim`, with all dimensions kept; -1: of everything.

    >>> torch.norm_except_dim(torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5.],
            [1.]])
    """
    dims = tuple(d for d in range(v.ndim) if dim == -1 or d != dim % v.ndim)
    size = v.abs() if v.dtype.is_complex else v
    return NORM(size, ord=float(pow), dim=dims, keepdim=dim != -1)


@public("torch", out=True)
def frobenius_norm(input: Any, dim: Ints, keepdim: bool = False) -> Any:
    """The square root of the sum of squares over one or two dimensions.

    >>> torch.frobenius_norm(torch.tensor([[3.0, 4.0]]), (0, 1))
    tensor(5.)
    """
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) > 2:
        raise RuntimeError(
            f"frobenius_norm: Expected at most 2 dimensions, but got {len(dims)} dimensions"
        )
    return input.norm(2, dims or None, keepdim)


@public("torch", out=True)
def nuclear_norm(input: Any, dim: Ints | None = None, keepdim: bool = False) -> Any:
    """The sum of singular values of matrices in two dimensions (by default the last).

    >>> torch.nuclear_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(7.)
    """
    dims = (-2, -1) if dim is None else tuple(dim)
    return matrix_norm_of("nuclear_norm", input, "nuc", dims, keepdim, None)


# -- products


@public("torch")
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """input1 @ weight[n] @ input2 for every output n, plus bias.

    >>> torch.bilinear(torch.ones(1, 2), torch.ones(1, 3), torch.ones(4, 2, 3))
    tensor([[6., 6., 6., 6.]])
    """
    return contract.bilinear(input1, input2, weight, bias)


@public("torch")
def convolution(
    input: Any, weight: Any, bias: Any, stride: IntList, padding: IntList,
    dilation: IntList, transposed: bool, output_padding: IntList, groups: int,
) -> Any:  # fmt: skip
    """A convolution, or a transposed one, over as many dimensions as the weight has.

    >>> x, w = torch.arange(4.0).view(1, 1, 4), torch.ones(1, 1, 2)
    >>> torch.convolution(x, w, None, [1], [0], [1], False, [0], 1)
    tensor([[[1., 3., 5.]]])
    """
    count = weight.ndim - 2
    if not 1 <= count <= 3:
        raise RuntimeError(f"convolution: expected 1 to 3 spatial dimensions, got {count}")
    if transposed:
        function: Callable[..., Any] = getattr(conv, f"conv_transpose{count}d")
        return function(input, weight, bias, stride, padding, output_padding, groups, dilation)
    function = getattr(conv, f"conv{count}d")
    return function(input, weight, bias, stride, padding, dilation, groups)


@public("torch", "F")
def native_channel_shuffle(input: Any, groups: int) -> Any:
    """Channels of different groups interleaved.

    >>> torch.native_channel_shuffle(torch.arange(4.0).view(1, 4, 1, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    return interpolate.channel_shuffle(input, groups)


# -- losses


@public("torch")
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 0
) -> Any:
    """Binary cross entropy of sigmoid(input).

    >>> torch.binary_cross_entropy_with_logits(torch.tensor([0.0]), torch.tensor([1.0]))
    tensor([0.6931])
    """
    return loss.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_reduction(reduction), pos_weight=pos_weight
    )


@public("torch")
def kl_div(input: Any, target: Any, reduction: int = 0, *, log_target: bool = False) -> Any:
    """target * (log(target) - input), where input is a logarithm already.

    >>> torch.kl_div(torch.tensor([0.5]).log(), torch.tensor([1.0]))
    tensor([0.6931])
    """
    kind = _reduction(reduction)
    out = loss.kl_div(input, target, reduction="none", log_target=log_target)
    return {"none": lambda: out, "mean": out.mean, "sum": out.sum}[kind]()


@public("torch")
def poisson_nll_loss(
    input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int
) -> Any:
    """The negative log likelihood of counts.

    >>> torch.poisson_nll_loss(torch.tensor([0.0]), torch.tensor([2.0]), True, False, 1e-8, 1)
    tensor(1.)
    """
    return loss.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=_reduction(reduction)
    )


@public("torch")
def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = 0, zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """-log P(targets) of labels without a given alignment: `nn.functional.ctc_loss`."""
    return ctc.ctc_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank,
        _reduction(reduction),
        zero_infinity,
    )


@public("torch")
def hinge_embedding_loss(
    input: Any, target: Any, margin: float = 1.0, reduction: int = 0
) -> Any:
    """`nn.functional.hinge_embedding_loss`."""
    return margin_loss.hinge_embedding_loss(
        input, target, margin, reduction=_reduction(reduction)
    )


@public("torch")
def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0
) -> Any:
    """`nn.functional.margin_ranking_loss`."""
    kind = _reduction(reduction)
    return margin_loss.margin_ranking_loss(input1, input2, target, margin, reduction=kind)


@public("torch")
def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0
) -> Any:
    """`nn.functional.cosine_embedding_loss`."""
    kind = _reduction(reduction)
    return margin_loss.cosine_embedding_loss(input1, input2, target, margin, reduction=kind)


@public("torch")
def triplet_margin_loss(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, reduction: int = 0,
) -> Any:  # fmt: skip
    """`nn.functional.triplet_margin_loss`."""
    kind = _reduction(reduction)
    return margin_loss.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=kind
    )


# -- random layers and tables


@public("torch")
def rrelu(
    input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Any:
    """Negative elements times random slopes (times their mean when not training).

    >>> torch.rrelu(torch.tensor([-1.0, 2.0]), 0.2, 0.4)
    tensor([-0.3000,  2.0000])
    """
    return _rrelu(input, lower, upper, training)


@public("torch")
def native_dropout(input: Any, p: float, train: bool | None) -> tuple[Any, Any]:
    """Elements kept with probability 1 - p and scaled up (unless `train` is false), and which
    were kept, of the input's dtype where there are none.

    >>> torch.native_dropout(torch.ones(2), 0.5, False)
    (tensor([1., 1.]), tensor([True, True]))
    """
    if not input.numel():
        return input.clone(), FULL(shape=input._shape, value=True, dtype=input.dtype)
    if train is not None and not train:
        return input.clone(), FULL(shape=input._shape, value=True, dtype=bool_)
    chance = FULL(shape=input._shape, value=1 - p, dtype=input.dtype)
    keep = CAST(bernoulli(chance), dtype=bool_)
    return WHERE(keep, input / (1 - p if p < 1 else 1), 0), keep


def _in_place(name: str, function: Callable[..., Any]) -> None:
    def inner(input: Any, p: float, train: bool) -> Any:
        return function(input, p, train, inplace=True)

    inner.__name__ = inner.__qualname__ = name
    inner.__doc__ = f"In-place form of `{name[:-1]}`."
    public("torch", name=name)(inner)


def _feature_dropout(input: Any, p: float, train: bool, inplace: bool = False) -> Any:
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return dropout.of_channels("feature_dropout", input, p, train, inplace)


@public("torch")
def feature_dropout(input: Any, p: float, train: bool) -> Any:
    """dropout of whole channels.

    >>> torch.feature_dropout(torch.ones(1, 2, 1), 1.0, True)
    tensor([[[0.],
             [0.]]])
    """
    return _feature_dropout(input, p, train)


_in_place("dropout_", dropout.dropout)
_in_place("feature_dropout_", _feature_dropout)
_in_place("alpha_dropout_", dropout.alpha_dropout)
_in_place("feature_alpha_dropout_", dropout.feature_alpha_dropout)


@public("torch")
def embedding_renorm_(weight: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """Scale those rows of weight in place that are indexed and longer than max_norm.

    >>> table = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    >>> torch.embedding_renorm_(table, torch.tensor([0, 1]), 1.0, 2.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    embedding.renormalise(weight, indices, float(max_norm), float(norm_type))
    return weight


# -- methods as functions


@public("torch")
def is_signed(input: Any) -> bool:
    """Whether the dtype has negative numbers.

    >>> torch.is_signed(torch.tensor([1], dtype=torch.uint8))
    False
    """
    return bool(input.is_signed())


@public("torch")
def detach_(input: Any) -> Any:
    """The tensor without its gradient history, in place.

    >>> torch.ones(1, requires_grad=True).mul(2).detach_().requires_grad
    False
    """
    return input.detach_()
