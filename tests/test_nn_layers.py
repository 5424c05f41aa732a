"""Layers against PyTorch: text, state, output, gradients, running statistics, errors."""

import numpy as np
import pytest
from nn_parity import array, assert_same, both_raise, check_module, pair, torch

import rushlight as rl


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def build(name, *args, **kwargs):
    return lambda lib: getattr(lib.nn, name)(*args, **kwargs)


ACTIVATIONS = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "ReLU", "ReLU6", "SELU", "SiLU",
    "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh",
    "Tanhshrink",
]  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    args = (1,) if "Soft" in name and name[4:] in ("max", "min") else ()
    args = (1,) if name == "LogSoftmax" else args
    check_module(build(name, *args), normal(2, 4, 3, 2))


LAYERS = [
    (build("Linear", 3, 4), (2, 5, 3)),
    (build("Linear", 3, 4, bias=False), (3,)),
    (build("Conv1d", 4, 6, 3, padding="same", groups=2), (2, 4, 7)),
    (build("Conv2d", 2, 3, (3, 2), stride=2, padding=(1, 0)), (2, 2, 6, 5)),
    (build("Conv2d", 2, 3, 3, padding=1, padding_mode="circular", bias=False), (1, 2, 5, 5)),
    (build("Conv3d", 1, 2, 2, dilation=2), (1, 1, 4, 4, 4)),
    (build("ConvTranspose1d", 2, 3, 3, stride=2, output_padding=1), (2, 2, 4)),
    (build("ConvTranspose2d", 2, 4, 3, groups=2, padding=1), (1, 2, 4, 4)),
    (build("MaxPool2d", 2, ceil_mode=True), (1, 2, 5, 5)),
    (build("AvgPool1d", 3, 2, 1), (1, 2, 7)),
    (build("AdaptiveAvgPool2d", (2, None)), (1, 2, 5, 3)),
    (build("LPPool1d", 2, 3), (1, 2, 7)),
    (build("BatchNorm1d", 4), (6, 4)),
    (build("BatchNorm2d", 3, momentum=None), (4, 3, 2, 2)),
    (build("BatchNorm1d", 4, affine=False, track_running_stats=False), (6, 4, 2)),
    (build("InstanceNorm1d", 3, affine=True, track_running_stats=True), (4, 3, 5)),
    (build("LayerNorm", (2, 3)), (4, 2, 3)),
    (build("RMSNorm", 3, eps=1e-5), (4, 3)),
    (build("GroupNorm", 2, 4), (3, 4, 2)),
    (build("LocalResponseNorm", 2), (2, 4, 3)),
    (build("Flatten"), (2, 3, 4)),
    (build("Unflatten", 1, (2, 3)), (2, 6)),
    (build("PixelShuffle", 2), (1, 8, 2, 3)),
    (build("ChannelShuffle", 2), (1, 4, 2, 2)),
    (build("Fold", (4, 5), 2), (2, 12, 12)),
    (build("Unfold", 2), (2, 2, 4, 5)),
    (build("Upsample", scale_factor=2, mode="bilinear"), (1, 2, 3, 4)),
    (build("ReflectionPad1d", (2, 1)), (1, 2, 4)),
    (build("ConstantPad2d", 1, 3.5), (1, 2, 4, 4)),
    (build("CircularPad2d", 1), (1, 2, 4, 4)),
    (build("ZeroPad1d", 2), (1, 2, 4)),
]


@pytest.mark.parametrize("make, shape", LAYERS)
def test_layers(make, shape):
    check_module(make, normal(*shape), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make, shape", LAYERS)
def test_layers_in_eval_mode(make, shape):
    check_module(make, normal(*shape), eval_mode=True, rtol=1e-4, atol=1e-5)


def test_response_norms_are_one_formula():
    x = rl.tensor(normal(2, 4, 3, 3))
    layers = rl.nn.CrossMapLRN2d(3, 0.1), rl.nn.LocalResponseNorm(3, 0.1)
    np.testing.assert_array_equal(*(array(layer(x)) for layer in layers))


def test_two_input_layers():
    check_module(build("Bilinear", 3, 4, 2), normal(5, 3), normal(5, 4, seed=1))
    check_module(build("CosineSimilarity"), normal(5, 3), normal(5, 3, seed=1))
    check_module(build("PairwiseDistance", 1), normal(5, 3), normal(5, 3, seed=1))


def test_embeddings():
    rows = np.array([[1, 0, 3], [2, 2, 1]])
    check_module(build("Embedding", 4, 3, padding_idx=-3), rows)
    for mode in ("sum", "mean", "max"):
        check_module(build("EmbeddingBag", 4, 3, mode=mode), rows)


def test_dropout_drops_in_training_only():
    x = rl.ones(1000)
    layer = rl.nn.Dropout(0.25)
    kept = array(layer(x))
    assert set(np.unique(kept)) == {np.float32(0), np.float32(4 / 3)}
    assert 600 < np.count_nonzero(kept) < 900
    np.testing.assert_array_equal(array(layer.eval()(x)), array(x))


LOSSES = [
    ("L1Loss", {}, "float"), ("MSELoss", {"reduction": "sum"}, "float"),
    ("HuberLoss", {"delta": 0.5}, "float"), ("SmoothL1Loss", {"beta": 0.5}, "float"),
    ("CrossEntropyLoss", {"label_smoothing": 0.1, "ignore_index": 1}, "class"),
    ("NLLLoss", {"reduction": "none"}, "class"), ("MultiMarginLoss", {"p": 2}, "class"),
    ("BCEWithLogitsLoss", {}, "unit"), ("KLDivLoss", {"reduction": "batchmean"}, "unit"),
    ("MultiLabelSoftMarginLoss", {}, "unit"), ("SoftMarginLoss", {}, "sign"),
    ("HingeEmbeddingLoss", {"margin": 0.5}, "sign"),
    ("PoissonNLLLoss", {"full": True}, "count"),
]  # fmt: skip


def target_of(kind):
    rng = np.random.default_rng(5)
    return {
        "float": normal(6, 4, seed=1),
        "class": rng.integers(0, 4, 6),
        "unit": rng.random((6, 4), dtype=np.float32),
        "sign": np.where(normal(6, 4, seed=2) > 0, 1, -1),
        "count": rng.integers(0, 4, (6, 4)),
    }[kind]


@pytest.mark.parametrize("name, options, kind", LOSSES)
def test_losses(name, options, kind):
    results = []
    for lib in (rl, torch):
        loss = getattr(lib.nn, name)(**options)
        x = lib.tensor(normal(6, 4)).requires_grad_(True)
        value = loss(x, lib.tensor(target_of(kind)))
        value.sum().backward()
        results.append([repr(loss), array(value), array(x.grad)])
    assert_same(*results)


def test_class_weights_are_state():
    loss = rl.nn.CrossEntropyLoss(weight=rl.ones(3))
    assert list(loss.state_dict()) == ["weight"]


def test_adaptive_softmax():
    make = build("AdaptiveLogSoftmaxWithLoss", 5, 8, [2, 5], div_value=2.0)
    ours, theirs = pair(make)
    target = np.array([0, 3, 6, 7, 1, 4])
    results = []
    for lib, module in ((rl, ours), (torch, theirs)):
        x = lib.tensor(normal(6, 5)).requires_grad_(True)
        out = module(x, lib.tensor(target))
        out.loss.backward()
        results.append(array([out.output, out.loss, x.grad, module.log_prob(x.detach())]))
    assert_same(*results)


def test_lazy_layers_become_plain():
    lazy = rl.nn.Sequential(rl.nn.LazyLinear(4), rl.nn.ReLU(), rl.nn.LazyLinear(2))
    lazy(rl.ones(3, 5))
    assert [type(m).__name__ for m in lazy] == ["Linear", "ReLU", "Linear"]
    assert lazy[0].weight.shape == (4, 5) and not lazy[0]._forward_pre_hooks


@pytest.mark.parametrize(
    "make",
    [
        build("Conv2d", 3, 4, 3, groups=2),
        build("Conv2d", 3, 4, 3, stride=2, padding="same"),
        build("ConvTranspose1d", 3, 4, 3, padding_mode="reflect"),
        build("GroupNorm", 2, 3),
        build("Dropout", 1.5),
        build("Embedding", 3, 2, padding_idx=3),
        build("MultiMarginLoss", p=3),
        build("Hardtanh", 1.0, 0.0),
        lambda lib: lib.nn.BatchNorm2d(3)(lib.ones(2, 3)),
        lambda lib: lib.nn.BatchNorm1d(3)(lib.ones(2, 3, 4, 5)),
    ],
)
def test_messages_are_pytorchs(make):
    both_raise(make)


def test_batch_norms_become_synchronised_ones_with_the_same_tensors():
    import rushlight

    nn = rushlight.nn
    model = nn.Sequential(
        nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3), nn.Sequential(nn.BatchNorm2d(4))
    )
    before = dict(model.named_parameters())
    x = rushlight.linspace(-1, 1, 24).reshape(4, 2, 3)
    expected = model[:2](x)
    made = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert [type(m).__name__ for m in made.modules()][2:] == [
        "SyncBatchNorm", "Sequential", "SyncBatchNorm",
    ]  # fmt: skip
    assert all(p is before[name] for name, p in made.named_parameters())
    assert rushlight.equal(made[:2](x), expected)
    assert isinstance(
        nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(2)), nn.SyncBatchNorm
    )
    with pytest.raises(ValueError, match="at least 2D"):
        nn.SyncBatchNorm(3)(rushlight.ones(3))


def test_the_delta_of_a_loss_is_a_real_number():
    for library in (torch, rl):
        with pytest.raises(TypeError, match="delta must be a float or int"):
            library.nn.HuberLoss(delta=1j)
