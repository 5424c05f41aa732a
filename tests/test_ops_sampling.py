"""Grids, distances, fractional windows and CTC against PyTorch."""

import numpy as np
import pytest
from parity import check, check_error, normal

import rushlight

torch = pytest.importorskip("torch")

IMAGE = normal(2, 3, 4, 5)
VOLUME = normal(1, 2, 3, 4, 3)
GRID = normal(2, 3, 2, 2, seed=1) * 0.9
GRID_3D = normal(1, 2, 3, 2, 3, seed=2) * 0.9


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_samples_of_images(mode, padding, align):
    second = mode == "bilinear"  # PyTorch has no second derivatives of the others
    check(
        "F.grid_sample", IMAGE, GRID, mode=mode, padding_mode=padding, align_corners=align,
        second=second,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "reflection"])
def test_samples_of_volumes(mode, padding):
    check(
        "F.grid_sample", VOLUME, GRID_3D, mode=mode, padding_mode=padding, align_corners=False,
        second=False,
    )  # fmt: skip


def test_positions_that_are_no_numbers_read_zeros():
    image = rushlight.ones(1, 1, 2, 2)
    grid = rushlight.tensor([[[[float("nan"), 0.0], [float("inf"), 0.0]]]])
    out = rushlight.nn.functional.grid_sample(image, grid, align_corners=False)
    assert out.flatten().tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("mode", "padding"),
    [("bilinear", "reflection"), ("nearest", "zeros"), ("bicubic", "border")],
)
def test_samples_have_derivatives_of_higher_orders(mode, padding):
    x = rushlight.tensor(IMAGE[:1, :1], requires_grad=True)
    grid = rushlight.tensor(GRID[:1, :1], requires_grad=True)

    def sampled(x, grid):
        return rushlight.nn.functional.grid_sample(x, grid, mode, padding, align_corners=False)

    assert rushlight.autograd.gradgradcheck(sampled, (x.double(), grid.double()))


def test_elements_outside_are_not_read_and_have_no_gradient():
    image = rushlight.full((1, 1, 2, 2), float("inf"), requires_grad=True)
    grid = rushlight.full((1, 1, 1, 2), 5.0, requires_grad=True)
    out = rushlight.nn.functional.grid_sample(image, grid, align_corners=False)
    out.sum().backward()
    assert out.tolist() == [[[[0.0]]]]
    assert not image.grad.any() and not grid.grad.any()


def test_half_precision_is_rounded_once():
    image, grid = torch.randn(1, 1, 6, 6), torch.rand(1, 3, 3, 2)
    half = [rushlight.tensor(t.numpy()).to(rushlight.bfloat16) for t in (image, grid)]
    wide = [t.to(rushlight.float32) for t in half]
    sample = rushlight.nn.functional.grid_sample
    expected = sample(*wide, align_corners=False).to(rushlight.bfloat16)
    assert sample(*half, align_corners=False).tolist() == expected.tolist()


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize(
    ("theta", "size"), [((2, 2, 3), (2, 3, 4, 1)), ((2, 3, 4), (2, 1, 2, 3, 4))]
)
def test_affine_grids(theta, size, align):
    check("F.affine_grid", normal(*theta), size, align_corners=align)


def test_wrong_grids_raise_what_pytorch_raises():
    check_error(ValueError, "F.grid_sample", IMAGE, GRID, mode="cubic")
    check_error(ValueError, "F.grid_sample", IMAGE, GRID, padding_mode="wrap")
    check_error(RuntimeError, "F.grid_sample", IMAGE, GRID[:1], align_corners=True)
    check_error(RuntimeError, "F.grid_sample", IMAGE, normal(2, 3, 2, 3), align_corners=True)
    check_error(RuntimeError, "F.grid_sample", IMAGE[:, :, :0], GRID, align_corners=True)
    check_error(
        RuntimeError, "F.grid_sample", VOLUME, GRID_3D, mode="bicubic", align_corners=True
    )
    check_error(NotImplementedError, "F.affine_grid", normal(2, 2, 3), (2, 3, 4), True)
    check_error(ValueError, "F.affine_grid", normal(2, 2, 3), (2, 3, 4, 0), True)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
def test_distances(p):
    check("pdist", normal(4, 3), p, second=False)
    check("cdist", normal(2, 4, 3), normal(1, 5, 3, seed=3), p, second=False)
    check("dist", normal(4, 3), normal(3, seed=4), p, grad=p > 0, second=False)


def test_distances_of_nothing():
    check("pdist", normal(1, 3), second=False)
    check("cdist", normal(2, 0), normal(3, 0), second=False)
    check("cdist", normal(0, 2), normal(3, 2), second=False)


def test_equal_points_have_no_gradient():
    check("pdist", np.ones((3, 2)), second=False)


def test_wrong_distances_raise_what_pytorch_raises():
    check_error(RuntimeError, "pdist", normal(2, 3, 4))
    check_error(RuntimeError, "pdist", normal(2, 3), -1.0)
    check_error(RuntimeError, "cdist", normal(3), normal(2, 3))
    check_error(RuntimeError, "cdist", normal(2, 3), normal(2, 4))
    check_error(ValueError, "cdist", normal(2, 3), normal(2, 3), 2.0, "fast")


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("size", [3, 1])
def test_fractional_windows(count, size):
    x = normal(2, 3, *(7, 6, 5)[:count])
    samples = np.random.default_rng(0).random((2, 3, count))
    found = []
    for library in (torch, rushlight):
        leaf = library.tensor(x.tolist(), dtype=library.float64, requires_grad=True)
        drawn = library.tensor(samples.tolist(), dtype=library.float64)
        pool = getattr(library.nn.functional, f"fractional_max_pool{count}d")
        values, places = pool(leaf, 2, size, return_indices=True, _random_samples=drawn)
        values.sum().backward()
        by_ratio = pool(leaf, 2, output_ratio=(0.5,) * count, _random_samples=drawn)
        found.append([t.tolist() for t in (values, places, leaf.grad, by_ratio)])
    assert found[0] == found[1]


def test_fractional_windows_are_drawn_by_the_seed():
    x = rushlight.arange(400.0).reshape(1, 1, 20, 20)
    pool = rushlight.nn.functional.fractional_max_pool2d
    made = []
    for seed in (1, 1, 2):
        rushlight.manual_seed(seed)
        made.append(pool(x, 2, output_size=6).tolist())
    assert made[0] == made[1] != made[2]


def test_windows_may_be_drawn_for_more_samples_than_there_are():
    x, samples = normal(2, 7, 6, 5), normal(3, 2, 3) % 1
    check("F.fractional_max_pool3d", x, 2, 3, None, True, samples, grad=False)


@pytest.mark.parametrize("value", [float("inf"), -float("inf")])
def test_fractional_windows_of_infinities(value):
    x, samples = np.full((1, 1, 5, 5), value), normal(1, 1, 2) % 1
    check("F.fractional_max_pool2d", x, 2, 3, None, True, samples, grad=False)


def test_wrong_fractional_windows_raise_what_pytorch_raises():
    x = normal(1, 2, 5, 5)
    check_error(ValueError, "F.fractional_max_pool2d", x, 2)
    check_error(RuntimeError, "F.fractional_max_pool2d", x, 2, output_size=5)
    check_error(RuntimeError, "F.fractional_max_pool2d", x[:, :0], 2, output_size=2)


# -- ctc


def scores(steps, batch, classes, seed=0):
    x = normal(steps, batch, classes, seed=seed)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


LABELS = np.array([[1, 2, 2, 0], [3, 3, 0, 0], [1, 0, 0, 0]])


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("blank", [0, 4])
def test_ctc(reduction, blank):
    labels = LABELS if blank == 0 else LABELS + 0
    check(
        "F.ctc_loss", scores(7, 3, 5), labels, [7, 5, 6], [3, 2, 1], blank, reduction,
        second=False,
    )  # fmt: skip


@pytest.mark.parametrize("padding", [-1, 5, 255])
def test_ctc_reads_no_labels_behind_the_end_of_a_sequence(padding):
    labels = np.array([[1, 2, 2, padding], [3, 3, padding, padding], [1] + [padding] * 3])
    check("F.ctc_loss", scores(7, 3, 5), labels, [7, 5, 6], [3, 2, 1], second=False)


@pytest.mark.parametrize("label", [-1, 5])
def test_ctc_of_labels_that_are_no_classes_raises(label):
    """PyTorch reads other memory."""
    labels = rushlight.tensor([[1, label], [1, 2]])
    with pytest.raises(
        IndexError, match=rf"^ctc_loss: Target {label} at \[0, 1\] .* there are 5 classes"
    ):
        rushlight.nn.functional.ctc_loss(rushlight.zeros(7, 2, 5), labels, [7, 7], [2, 1])


def test_ctc_with_labels_in_one_vector():
    labels = np.array([1, 2, 2, 3, 3, 1])
    lengths = (np.array([7, 5, 6]), np.array([3, 2, 1]))
    check("F.ctc_loss", scores(7, 3, 5), labels, *lengths, second=False)


@pytest.mark.parametrize("zero_infinity", [True, False])
def test_ctc_of_sequences_too_short_for_their_labels(zero_infinity):
    check(
        "F.ctc_loss", scores(7, 3, 5), LABELS, [3, 2, 6], [3, 2, 0], 0, "none", zero_infinity,
        second=False,
    )  # fmt: skip


def test_ctc_without_a_batch():
    check("F.ctc_loss", scores(6, 1, 4)[:, 0], np.array([1, 2]), [6], [2], second=False)


def test_the_ctc_gradient_by_unnormalised_scores_is_the_derivative():
    """Through log_softmax, where PyTorch's rule is the plain derivative."""
    x = normal(4, 1, 3)
    leaf = rushlight.tensor(x.tolist(), dtype=rushlight.float64, requires_grad=True)

    def loss(values):
        scores = rushlight.log_softmax(values, -1)
        return rushlight.nn.functional.ctc_loss(
            scores, rushlight.tensor([[1, 2]]), [4], [2], reduction="sum"
        )

    assert rushlight.autograd.gradcheck(loss, (leaf,))


def test_wrong_ctc_arguments_raise_what_pytorch_raises():
    x = scores(5, 2, 4)
    labels = np.array([[1, 2, 1], [2, 2, 3]])
    check_error(RuntimeError, "F.ctc_loss", x, labels, [5, 6], [3, 3])
    check_error(RuntimeError, "F.ctc_loss", x, labels, [5], [3, 3])
    check_error(RuntimeError, "F.ctc_loss", x, labels, [5, 5], [3, 4])
    check_error(RuntimeError, "F.ctc_loss", x, labels, [5, 5], [3, 3], 4)
    check_error(RuntimeError, "F.ctc_loss", x, labels, [5, 5], [3, -1])
    check_error(RuntimeError, "F.ctc_loss", x, labels[0], [5, 5], [3, 3])


def test_draws_of_all_categories_end_with_those_of_no_weight():
    for weights, count in (([1.0, 0.0], 2), ([0.0, 0.5, 0.5], 3), ([0.0, 3.0, 0.0], 3)):
        drawn = rushlight.multinomial(rushlight.tensor(weights), count).tolist()
        heavy = [i for i, w in enumerate(weights) if w]
        light = [i for i, w in enumerate(weights) if not w]
        assert sorted(drawn[: len(heavy)]) == heavy
        assert drawn[len(heavy) :] == light
