"""Tensors on `meta`: what they hold, what they refuse, and that nothing is computed or kept."""

import copy
import gc
import pickle

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.runtime import buffers


def rand(*shape, dtype=None):
    return rl.empty(*shape, device="meta", dtype=dtype)


def test_meta_tensors_print_and_tell_their_place():
    m = rl.empty(2, 3, device="meta")
    assert repr(m) == "tensor(..., device='meta', size=(2, 3))"
    assert str(m.long()) == "tensor(..., device='meta', size=(2, 3), dtype=torch.int64)"
    assert f"{m.sum()}" == "tensor(..., device='meta', size=())"
    assert m.is_meta and not m.is_cpu and m.device == rl.device("meta")
    assert m.type() == "torch.meta.FloatTensor"
    assert m.data_ptr() == 0
    assert m.untyped_storage().nbytes() == 24


@pytest.mark.parametrize(
    ("look", "error"),
    [
        (lambda m: m.sum().item(), RuntimeError),
        (lambda m: bool(m.sum()), RuntimeError),
        (lambda m: float(m.sum()), RuntimeError),
        (lambda m: m.tolist(), NotImplementedError),
        (lambda m: m.numpy(), TypeError),
        (lambda m: m.numpy(force=True), NotImplementedError),
        (lambda m: m.__array__(), TypeError),
        (lambda m: m.cpu(), NotImplementedError),
        (lambda m: m.to("cpu"), NotImplementedError),
        (lambda m: m.nonzero(), NotImplementedError),
        (lambda m: m[m > 0], NotImplementedError),
        (lambda m: m.unique(), NotImplementedError),
        (lambda m: rl.ones(2, 3).copy_(m), NotImplementedError),
        (lambda m: m + rl.ones(2, 3), RuntimeError),
        (lambda m: m + rl.tensor([1.0, 2.0, 3.0]), RuntimeError),
        (lambda m: m * (rl.ones(2, 3) * 2), RuntimeError),
        (lambda m: rl.cat([m, rl.ones(2, 3)]), RuntimeError),
        (lambda m: nn.Linear(3, 4, device="meta")(rl.ones(2, 3)), RuntimeError),
        (lambda m: nn.Linear(3, 4, device="meta").to("cpu"), NotImplementedError),
    ],
)
def test_looking_at_elements_and_mixing_devices_raise(look, error):
    with pytest.raises(error):
        look(rand(2, 3))


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m + 1,
        lambda m: m + rl.tensor(1.0),
        lambda m: m.add_(1),
        lambda m: m.copy_(rl.ones(2, 3)),
        lambda m: rl.ones(2, 3).to("meta"),
        lambda m: m.clone(),
        lambda m: m.data,
        lambda m: rl.zeros_like(m),
        lambda m: rl.rand_like(m),
        lambda m: m.normal_(),
        lambda m: copy.deepcopy(m),
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: nn.init.kaiming_uniform_(m),
        lambda m: m.view(rl.int32).view(rl.float32),
        lambda m: m.masked_fill(m > 0, 1),
        lambda m: m[rl.tensor([0, 1])],
        lambda m: m.new_zeros(2, 3),
        lambda m: m.new_tensor([[1.0] * 3] * 2),
        lambda m: F.dropout(m),
        lambda m: rl.empty_strided((2, 3), (1, 2), device="meta"),
    ],
)
def test_results_are_on_meta(make):
    made = make(rand(2, 3))
    assert made.is_meta and made.shape == (2, 3) and made.dtype is rl.float32


def test_what_asks_for_the_cpu_by_name_gets_it():
    assert rl.zeros_like(rand(2), device="cpu").tolist() == [0.0, 0.0]


TABLE = {
    "softmax": lambda t, m, x: m.softmax(-1),
    "std": lambda t, m, x: m.std(0),
    "topk": lambda t, m, x: m.topk(2)[1],
    "einsum": lambda t, m, x: t.einsum("ij,kj->ik", m, m),
    "stack": lambda t, m, x: t.stack([m, m]),
    "where": lambda t, m, x: t.where(m > 0, m, 0),
    "layer_norm": lambda t, m, x: t.nn.functional.layer_norm(m, (4,)),
    "interpolate": lambda t, m, x: t.nn.functional.interpolate(
        x, scale_factor=2, mode="bicubic"
    ),
    "adaptive": lambda t, m, x: t.nn.functional.adaptive_avg_pool2d(x, 3),
    "pad": lambda t, m, x: t.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"),
    "unfold": lambda t, m, x: t.nn.functional.unfold(x, 2),
    "attention": lambda t, m, x: t.nn.functional.scaled_dot_product_attention(
        x, x, x, is_causal=True
    ),
    "one_hot": lambda t, m, x: t.nn.functional.one_hot(m.argmax(1), 4),
    "inv": lambda t, m, x: t.linalg.inv(m[:, :3]),
    "svd": lambda t, m, x: t.linalg.svd(m)[2],
    "bernoulli": lambda t, m, x: t.bernoulli(m.sigmoid()),
    "index": lambda t, m, x: m[1:, None, ::2],
    "chunk": lambda t, m, x: x.chunk(2)[1],
    "complex": lambda t, m, x: t.complex(m, m),
    "double": lambda t, m, x: m.double(),
}


@pytest.mark.parametrize("name", TABLE)
def test_types_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    results = []
    for lib in (torch, rl):
        m, x = lib.randn(3, 4, device="meta"), lib.randn(2, 3, 8, 8, device="meta")
        out = TABLE[name](lib, m, x)
        assert out.is_meta
        results.append((tuple(out.shape), str(out.dtype)))
    assert results[0] == results[1]


def test_default_device_is_a_context_and_a_setting():
    with rl.device("meta"):
        assert rl.ones(2).is_meta and rl.tensor(1).is_meta and rl.randperm(3).is_meta
        assert nn.Linear(2, 2).weight.is_meta
        assert rl.get_default_device() == rl.device("meta")
        assert not rl.zeros(2, device="cpu").is_meta
        assert not F.dropout(rl.ones(3, device="cpu")).is_meta
    assert not rl.ones(2).is_meta
    rl.set_default_device("meta")
    try:
        assert rl.ones(2).is_meta
    finally:
        rl.set_default_device(None)
    assert rl.ones(2).tolist() == [1.0, 1.0]


def _network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(8 * 16, 10),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_training_on_meta_gives_meta_gradients(kind):
    with rl.device("meta"):
        net, x, y = _network(), rl.randn(4, 3, 8, 8), rl.randint(10, (4,))
    optimizer = getattr(rl.optim, kind)(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    assert all(p.is_meta and p.grad.is_meta for p in net.parameters())
    assert loss.is_meta and net[1].running_mean.is_meta


def test_nothing_is_allocated_for_meta():
    gc.collect()
    buffers.reset_peak()
    before = buffers.memory_counters().peak
    layer = nn.Linear(1 << 20, 1 << 20, device="meta")
    out = layer(rl.empty(3, 1 << 20, device="meta"))
    out.sum().backward()
    assert out.shape == (3, 1 << 20)
    assert buffers.memory_counters().peak - before < 1 << 20


def test_meta_draws_no_random_numbers():
    rl.manual_seed(0)
    expected = rl.rand(3)
    rl.manual_seed(0)
    nn.Linear(3, 4, device="meta")
    rl.rand(5, device="meta")
    assert rl.equal(rl.rand(3), expected)


def test_skip_init_and_to_empty_give_memory_without_initial_values():
    rl.manual_seed(0)
    expected = rl.rand(3)
    rl.manual_seed(0)
    layer = nn.utils.skip_init(nn.Linear, 3, 4)
    assert not layer.weight.is_meta and layer.weight.requires_grad
    assert rl.equal(rl.rand(3), expected)
    moved = nn.Linear(3, 4, device="meta").to_empty(device="cpu")
    assert moved(rl.zeros(1, 3)).shape == (1, 4)


def test_meta_modules_take_their_values_from_a_state_dict():
    source, target = nn.Linear(3, 4), nn.Linear(3, 4, device="meta")
    target.load_state_dict(source.state_dict(), assign=True)
    x = rl.ones(2, 3)
    assert rl.equal(target(x), source(x))


def test_meta_and_memory_side_by_side_in_one_trace():
    m, x = rand(2, 3), rl.ones(2, 3, requires_grad=True)
    shape = (m @ m.T).shape
    loss = (x * shape[0]).sum()
    (m.requires_grad_() * 2).sum().backward()
    loss.backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2
    assert m.grad.is_meta


def test_the_recorder_tells_meta_from_memory_on_the_same_steps():
    def step(x):
        return (x.exp() + 1).sum(0)

    for _ in range(3):
        assert step(rl.zeros(2, 3)).tolist() == [4.0, 4.0, 4.0]
        assert step(rand(2, 3)).is_meta
