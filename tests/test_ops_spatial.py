"""Convolution, pooling, resampling and padding against PyTorch."""

import numpy as np
import pytest
from parity import check, check_error, normal

import rushlight

X2 = normal(2, 4, 7, 6)


@pytest.mark.parametrize(
    "how",
    [{}, {"stride": 2}, {"padding": 1}, {"padding": (2, 1), "stride": (2, 3)}, {"dilation": 2},
     {"padding": "same"}, {"padding": "valid", "dilation": (1, 2)}, {"padding": 3,
     "stride": 2}],
)  # fmt: skip
def test_conv2d(how):
    check("F.conv2d", X2, normal(6, 4, 3, 2, seed=1), normal(6, seed=2), **how)


@pytest.mark.parametrize("groups", [2, 4])
def test_grouped_convolutions(groups):
    check("F.conv2d", X2, normal(8, 4 // groups, 3, 3, seed=1), None, padding=1, groups=groups)
    check("F.conv_transpose2d", X2, normal(4, 3, 2, 3, seed=1), normal(3 * groups, seed=2),
          stride=2, groups=groups)  # fmt: skip


@pytest.mark.parametrize("stride", [1, 2, 3, (4, 2)])
@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_every_phase_of_a_stride_has_its_gradient(stride, dilation):
    x = normal(2, 3, 13, 12)
    for kernel, padding in ((1, 0), (2, 1), (3, 1), (4, 0)):
        weight = normal(5, 3, kernel, kernel, seed=1)
        how = {"stride": stride, "padding": padding, "dilation": dilation}
        check("F.conv2d", x, weight, None, **how, second=False)
        check("F.conv_transpose2d", x, normal(3, 2, kernel, 2, seed=1), None, **how)


@pytest.mark.parametrize(
    "how", [{"padding": 1}, {"stride": 2, "padding": (2, 1)}, {"dilation": 2}]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_convolution_of_each_channel_by_itself(how, dtype):
    x = normal(3, 5, 9, 8).astype(dtype)
    for results, kernel in ((1, (3, 3)), (1, (5, 2)), (2, (1, 3))):
        weight = normal(5 * results, 1, *kernel, seed=1).astype(dtype)
        check("F.conv2d", x, weight, normal(5 * results, seed=2).astype(dtype), groups=5, **how)
    check("F.conv_transpose2d", x, normal(5, 1, 3, 3, seed=1).astype(dtype), groups=5, **how)


def test_long_strides_lay_kernels_down_and_add_them_up():
    x = normal(2, 4, 3, 5)
    for kernel, how in (
        ((5, 4), {"stride": (5, 4)}),
        ((7, 9), {"stride": (5, 4), "padding": (2, 1), "output_padding": (3, 0)}),
        ((3, 2), {"stride": (5, 4), "padding": 1}),
    ):
        weight = normal(4, 3, *kernel, seed=1)
        check("F.conv_transpose2d", x, weight, normal(3, seed=2), **how)
        check("F.conv_transpose2d", x, weight, normal(6, seed=2), groups=2, **how)
    check("F.conv2d", normal(2, 3, 17, 19), normal(4, 3, 5, 6, seed=1), None, stride=(5, 4))
    check("F.conv_transpose1d", normal(2, 3, 6), normal(3, 2, 50, seed=1), stride=20)


def test_other_dimensions():
    check(
        "F.conv1d",
        normal(2, 3, 9),
        normal(4, 3, 3, seed=1),
        normal(4, seed=2),
        stride=2,
        padding=1,
    )
    check("F.conv1d", normal(3, 9), normal(4, 3, 1, seed=1))
    check(
        "F.conv3d",
        normal(1, 2, 4, 5, 3),
        normal(3, 2, 2, 2, 2, seed=1),
        padding=1,
        second=False,
    )
    check("F.conv_transpose1d", normal(2, 3, 5), normal(3, 2, 4, seed=1), stride=3, padding=1,
          output_padding=1, dilation=2)  # fmt: skip
    check(
        "F.conv_transpose3d",
        normal(1, 2, 3, 2, 3),
        normal(2, 3, 2, 2, 2, seed=1),
        stride=2,
        second=False,
    )
    check(
        "F.conv_transpose2d", normal(4, 3, 3), normal(4, 2, 1, 1, seed=1), padding=0, stride=2
    )
    check("F.conv2d", normal(0, 4, 5, 5), normal(2, 4, 3, 3), second=False)


def test_convolution_errors():
    w = normal(6, 4, 3, 3)
    check_error(RuntimeError, "F.conv2d", normal(2, 3, 7, 6), w)
    check_error(RuntimeError, "F.conv2d", normal(2, 7), w)
    check_error(RuntimeError, "F.conv2d", normal(2, 4, 2, 2), w)
    check_error(RuntimeError, "F.conv2d", X2, w, stride=0)
    check_error(RuntimeError, "F.conv2d", X2, w, padding=-1)
    check_error(RuntimeError, "F.conv2d", X2, w, padding="same", stride=2)
    check_error(RuntimeError, "F.conv2d", X2, w, normal(5))
    check_error(RuntimeError, "F.conv_transpose2d", X2, w)


@pytest.mark.parametrize(
    "how",
    [{}, {"stride": 1}, {"padding": 1}, {"padding": 1, "stride": (2, 1), "ceil_mode": True},
     {"dilation": 2, "stride": 1}],
)  # fmt: skip
def test_max_pool2d(how):
    check("F.max_pool2d", X2, 3, **how)
    check("F.max_pool2d", X2, (2, 3), **how, return_indices=True)


@pytest.mark.parametrize(
    "how",
    [{}, {"stride": 1}, {"padding": 1}, {"padding": 1, "count_include_pad": False},
     {"padding": 1, "stride": 2, "ceil_mode": True}, {"divisor_override": 5, "padding": (1, 0)},
     {"stride": (3, 2), "ceil_mode": True, "count_include_pad": False}],
)  # fmt: skip
def test_avg_pool2d(how):
    check("F.avg_pool2d", X2, (3, 2), **how)


def test_pools_of_other_dimensions():
    check("F.max_pool1d", normal(2, 3, 9), 3, 2)
    check("F.max_pool1d", normal(3, 9), 3, 2, 1)
    check("F.max_pool3d", normal(1, 2, 4, 4, 5), 2, return_indices=True, second=False)
    check("F.avg_pool1d", normal(2, 3, 9), 3, 2, 1)
    check("F.avg_pool1d", normal(2, 3, 40), 18)
    check("F.avg_pool2d", normal(2, 3, 11, 13), (3, 6))
    check("F.avg_pool3d", normal(1, 2, 4, 4, 5), 2, ceil_mode=True)
    check("F.lp_pool2d", np.abs(X2), 2.0, 3, stride=2)
    check("F.max_pool2d", np.array([[[[1, 5, 2], [3, 3, 9]]]]), 2)
    check("F.max_pool2d", np.full((1, 1, 4, 4), -np.inf), 3, padding=1, second=False)


@pytest.mark.parametrize("norm_type", [1, 2, 3.0])
def test_norms_of_windows_of_zeros_have_no_gradient(norm_type):
    x = rushlight.tensor([[[0.0, 0.0, 3.0, 0.0]]], requires_grad=True)
    rushlight.nn.functional.lp_pool1d(x, norm_type, 2).sum().backward()
    last = 1.0 if norm_type == 1 else 0.0  # x^p has the derivative 1 at zero if p is 1
    assert rushlight.allclose(x.grad, rushlight.tensor([[[0.0, 0.0, 1.0, last]]]))


def test_unpooling():
    index = np.array([[[[3, 5], [8, 15]]]])
    check("F.max_unpool2d", normal(1, 1, 2, 2), index, 2)
    check("F.max_unpool2d", normal(1, 1, 2, 2), index, 2, output_size=(5, 4))


@pytest.mark.parametrize("size", [1, 3, (2, 4), (7, 6), (None, 2), (10, 9)])
def test_adaptive_pools(size):
    check("F.adaptive_avg_pool2d", X2, size)
    check("F.adaptive_max_pool2d", X2, size, return_indices=True)


def test_adaptive_pools_of_other_dimensions():
    check("F.adaptive_avg_pool1d", normal(2, 3, 7), 3)
    check("F.adaptive_max_pool1d", normal(3, 7), 3)
    check("F.adaptive_avg_pool3d", normal(1, 2, 3, 4, 5), (2, 2, 2))


def test_pool_errors():
    check_error(RuntimeError, "F.max_pool2d", X2, 3, padding=2)
    check_error(RuntimeError, "F.max_pool2d", normal(3, 3), 2)
    check_error(RuntimeError, "F.avg_pool2d", X2, 9)
    check_error(RuntimeError, "F.avg_pool2d", X2, 3, divisor_override=0)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
def test_interpolate(mode):
    check("F.interpolate", X2, size=(11, 4), mode=mode)
    check("F.interpolate", X2, scale_factor=(1.7, 0.6), mode=mode)
    check("F.interpolate", X2, scale_factor=2.0, mode=mode, recompute_scale_factor=True)
    if mode.startswith("bi"):
        check("F.interpolate", X2, size=(11, 4), mode=mode, align_corners=True)
        check("F.interpolate", X2, size=(3, 9), mode=mode, antialias=True)


def test_interpolate_of_other_dimensions():
    check("F.interpolate", normal(2, 3, 5), size=8, mode="linear")
    check("F.interpolate", normal(1, 2, 3, 4, 5), scale_factor=2, mode="trilinear")
    check("F.interpolate", X2.astype("float32"), scale_factor=1.3, mode="nearest")
    check_error(ValueError, "F.interpolate", X2)
    check_error(NotImplementedError, "F.interpolate", X2, 3, mode="linear")


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_pad(mode):
    check("F.pad", X2, (1, 2, 3, 0), mode=mode)
    check("F.pad", normal(2, 3, 5), (2, 1), mode=mode)
    check("F.pad", X2, (-1, 2, 0, -2), mode=mode)


def test_shuffles_and_blocks():
    check("F.pixel_shuffle", normal(2, 8, 3, 2), 2)
    check("F.pixel_unshuffle", normal(2, 2, 6, 4), 2)
    check("F.unfold", X2, (3, 2), dilation=(1, 2), padding=1, stride=2)
    check("F.fold", normal(2, 12, 9), (6, 6), 2, stride=2)
    check("F.fold", normal(2, 12, 25), (6, 6), 2, stride=1)
    check("F.fold", normal(2, 18, 9), (6, 6), 3, padding=1, stride=2)
    check("F.local_response_norm", X2, 3, alpha=0.1)
    check("F.local_response_norm", X2, 2)


def test_transposed_convolution_padded_by_its_stride_or_more():
    how = {"stride": 2, "padding": 1, "output_padding": 2, "dilation": 3}
    check("F.conv_transpose2d", X2, normal(4, 3, 3, 3, seed=1), None, **how)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_means_of_integers_are_cut(count):
    x = np.arange(5**count).reshape(1, 1, *(5,) * count) - 7
    check(f"F.avg_pool{count}d", x, 2)
    check(f"F.avg_pool{count}d", x, 3, 1, 1, False, False)
    check_error(RuntimeError, f"F.avg_pool{count}d", x > 0, 2)


def test_pools_deliver_into_out():
    x = rushlight.arange(8.0).reshape(1, 2, 2, 2)
    out = rushlight.empty(0)
    assert rushlight.nn.functional.avg_pool2d(x, 2, out=out) is out
    assert out.flatten().tolist() == [1.5, 5.5]


def test_adaptive_pools_of_too_few_dimensions():
    for name in ("avg", "max"):
        check_error(ValueError, f"F.adaptive_{name}_pool2d", normal(2, 2), (1, 1))
        check_error(ValueError, f"F.adaptive_{name}_pool3d", normal(2, 2, 2), (1, 1, 1))
        check_error(RuntimeError, f"F.adaptive_{name}_pool1d", normal(2), 1)


@pytest.mark.parametrize("name", ["pixel_shuffle", "pixel_unshuffle", "channel_shuffle"])
def test_shuffles_of_one_are_copies(name):
    for shape in ((1, 2, 2, 2), (1, 2, 0, 2)):
        x = rushlight.ones(shape)
        getattr(rushlight.nn.functional, name)(x, 1).zero_()
        assert bool((x == 1).all())


def test_neighbourhoods_of_integers():
    check("F.local_response_norm", np.arange(18).reshape(1, 6, 3), 2)


def test_time_first_convolution():
    check("conv_tbc", normal(5, 2, 3), normal(2, 3, 4, seed=1), normal(4, seed=2), 1)
    for weight in (normal(2, 4, 4), normal(3, 4)):
        check_error(RuntimeError, "conv_tbc", normal(5, 2, 3), weight, normal(4), 1)


@pytest.mark.parametrize("place", range(8))
def test_infinities_stay_in_the_windows_that_have_them(place):
    x = np.ones((1, 8), np.float32)
    x[0, place] = -np.inf
    found = []
    for lib in (pytest.importorskip("torch"), rushlight):
        t = lib.tensor(x, requires_grad=True)
        y = lib.nn.functional.adaptive_avg_pool1d(t, 5)
        (g,) = lib.autograd.grad(y, t, lib.tensor([[1.0, np.inf, 2.0, 3.0, 4.0]]))
        found.append((y.tolist(), g.tolist()))
    assert found[0] == found[1]
