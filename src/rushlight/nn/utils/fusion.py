"""Folding a batch norm into the layer before it, for inference."""

from __future__ import annotations

import copy
from typing import Any

import rushlight as rl
from rushlight.nn.parameter import Parameter
from rushlight.tensor import Tensor


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does what a convolution and a batch norm in eval mode do."""
    return _fuse(conv, bn, fuse_conv_bn_weights, transpose)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that does what a linear layer and a batch norm in eval mode do."""
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1"
        )
    return _fuse(linear, bn, fuse_linear_bn_weights)


def _fuse(layer: Any, bn: Any, weights: Any, *options: Any) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("batch norm must keep running statistics to be fused")
    fused = copy.deepcopy(layer)
    fused.weight, fused.bias = weights(
        fused.weight,
        fused.bias,
        bn.running_mean,
        bn.running_var,
        bn.eps,
        bn.weight,
        bn.bias,
        *options,
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution with a batch norm folded in."""
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    return _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer with a batch norm folded in."""
    return _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _folded(
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    eps: float,
    scale: Tensor | None,
    shift: Tensor | None,
    shape: list[int],
) -> tuple[Parameter, Parameter]:
    needs_grad = weight.requires_grad
    dtypes = weight.dtype, (weight if bias is None else bias).dtype
    with rl.no_grad():
        factor = rl.rsqrt(variance + eps)
        factor = factor if scale is None else scale * factor
        new_bias = (0 if bias is None else bias) - mean
        new_bias = new_bias * factor + (0 if shift is None else shift)
        new_weight = weight * factor.reshape(shape)
    return (
        Parameter(new_weight.to(dtypes[0]), needs_grad),
        Parameter(new_bias.to(dtypes[1]), needs_grad if bias is None else bias.requires_grad),
    )
