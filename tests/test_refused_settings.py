"""Settings that ask for what is not there raise: none is quietly replaced by something else."""

from __future__ import annotations

import math

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F

x = torch.ones(2, 2)

FACTORIES = {
    "zeros": lambda **s: torch.zeros(2, **s),
    "ones_like": lambda **s: torch.ones_like(x, **s),
    "new_zeros": lambda **s: x.new_zeros(2, **s),
    "full": lambda **s: torch.full((2,), 1.0, **s),
    "full_like": lambda **s: torch.full_like(x, 1.0, **s),
    "new_full": lambda **s: x.new_full((2,), 1.0, **s),
    "new_tensor": lambda **s: x.new_tensor([1.0], **s),
    "empty_strided": lambda **s: torch.empty_strided((2,), (1,), **s),
    "empty_permuted": lambda **s: torch.empty_permuted((2, 2), (1, 0), **s),
    "arange": lambda **s: torch.arange(2, **s),
    "linspace": lambda **s: torch.linspace(0, 1, 3, **s),
    "logspace": lambda **s: torch.logspace(0, 1, 3, **s),
    "eye": lambda **s: torch.eye(2, **s),
    "tril_indices": lambda **s: torch.tril_indices(2, 2, **s),
    "scalar_tensor": lambda **s: torch.scalar_tensor(2.0, **s),
    "rand": lambda **s: torch.rand(2, **s),
    "randn_like": lambda **s: torch.randn_like(x, **s),
    "randint": lambda **s: torch.randint(3, (2,), **s),
    "randint_like": lambda **s: torch.randint_like(x, 3, **s),
    "randperm": lambda **s: torch.randperm(3, **s),
    "normal": lambda **s: torch.normal(0.0, 1.0, (2,), **s),
    "hann_window": lambda **s: torch.hann_window(3, **s),
    "kaiser_window": lambda **s: torch.kaiser_window(3, **s),
    "fftfreq": lambda **s: torch.fft.fftfreq(3, **s),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories_make_strided_tensors_only(name: str) -> None:
    assert FACTORIES[name](layout=torch.strided).layout is torch.strided
    for layout in (torch.sparse_coo, torch.sparse_csr):
        with pytest.raises(NotImplementedError, match=f"layout={layout!r}.*no sparse"):
            FACTORIES[name](layout=layout)


def test_named_dimensions() -> None:
    for make in (torch.zeros, torch.rand, lambda *s, **k: torch.full(s, 1.0, **k)):
        assert make(1, 2, names=None).shape == (1, 2)
        with pytest.raises(NotImplementedError, match="no named dimensions"):
            make(1, 2, names=("a", "b"))


def test_sparse_gradients() -> None:
    index, table = torch.tensor([0, 1]), torch.ones(3, 2)
    for make in (
        lambda: nn.Embedding(3, 2, sparse=True),
        lambda: nn.Embedding.from_pretrained(table, sparse=True),
        lambda: nn.EmbeddingBag(3, 2, sparse=True),
        lambda: F.embedding(index, table, sparse=True),
        lambda: F.embedding_bag(index, table, torch.tensor([0]), sparse=True),
        lambda: torch.embedding(table, index, sparse=True),
        lambda: torch.gather(table, 0, torch.zeros(1, 1).long(), sparse_grad=True),
    ):
        with pytest.raises(NotImplementedError, match="no sparse gradients"):
            make()


def test_memory_that_processes_share() -> None:
    for holder in (x, nn.Linear(2, 2), x.untyped_storage(), x.storage()):
        share = getattr(holder, "share_memory_", None) or holder.share_memory
        with pytest.raises(NotImplementedError, match="no memory that processes share"):
            share()
    assert not x.is_shared()


def test_dispatch_below_functions() -> None:
    with pytest.raises(NotImplementedError, match="only __torch_function__"):

        class Dispatched(torch.Tensor):
            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))


def test_modes_below_functions() -> None:
    from rushlight.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    mode = Counting()
    with pytest.raises(NotImplementedError, match="Counting.*TorchFunctionMode"), mode:
        pass


def test_compile_knows_its_modes_and_backends() -> None:
    for mode in ("default", "max-autotune", "max-autotune-no-cudagraphs"):
        assert torch.compile(len, mode=mode) is len
    for backend in ("inductor", "eager", "aot_eager"):
        assert torch.compile(len, backend=backend) is len
    with pytest.raises(RuntimeError, match="Unrecognized mode=bogus.*reduce-overhead"):
        torch.compile(len, mode="bogus")
    with pytest.raises(RuntimeError, match="Invalid backend: 'bogus'.*inductor"):
        torch.compile(len, backend="bogus")
    with pytest.raises(RuntimeError, match="Unrecognized mode"):
        torch.compile(mode="bogus")
    with pytest.raises(RuntimeError, match="not both"):
        torch.compile(len, mode="default", options={})
    with pytest.raises(NotImplementedError, match="other compilers"):
        torch.compile(len, backend=lambda graph, inputs: graph)


def test_targets_of_binary_cross_entropy() -> None:
    p = torch.tensor([0.25, 0.5])
    for kind in (torch.int64, torch.bool):
        target = torch.tensor([1, 0]).to(kind)
        with pytest.raises(RuntimeError, match=f"dtype {kind}.*expected torch.float32"):
            F.binary_cross_entropy(p, target)
        with pytest.raises(RuntimeError, match=f"not implemented for {kind}"):
            F.binary_cross_entropy_with_logits(p, target)
        with pytest.raises(RuntimeError, match=f"not implemented for {kind}"):
            nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))(p, target)
    with pytest.raises(RuntimeError, match="dtype torch.float64"):
        nn.BCELoss()(p, p.double())
    with pytest.raises(NotImplementedError, match="not implemented for torch.int64"):
        F.binary_cross_entropy(torch.tensor([1]), torch.tensor([1.0]))
    mixed = F.binary_cross_entropy_with_logits(p, p.double())  # softplus(x) - x * t
    right = sum(math.log1p(math.exp(x)) - x * x for x in (0.25, 0.5)) / 2
    assert mixed.item() == pytest.approx(right, rel=1e-6)


NOT_SETTINGS = {
    "requires_grad = 1": lambda t: setattr(t.ones(1), "requires_grad", 1),
    "requires_grad = None": lambda t: setattr(t.ones(1), "requires_grad", None),
    "requires_grad_(1)": lambda t: t.ones(1).requires_grad_(1),
    "ones(requires_grad=1)": lambda t: t.ones(1, requires_grad=1),
    "tensor(requires_grad=None)": lambda t: t.tensor([1.0], requires_grad=None),
    "set_grad_enabled": lambda t: t.set_grad_enabled(1),
    "use_deterministic_algorithms": lambda t: t.use_deterministic_algorithms("a"),
    "warn_only": lambda t: t.use_deterministic_algorithms(True, warn_only=1),
    "debug mode": lambda t: t.set_deterministic_debug_mode(5),
    "debug mode None": lambda t: t.set_deterministic_debug_mode(None),
    "large seed": lambda t: t.manual_seed(2**70),
    "seed of a generator": lambda t: t.Generator().manual_seed(1.5),
    "state of floats": lambda t: t.set_rng_state(t.ones(16)),
    "short state": lambda t: t.set_rng_state(t.ones(2, dtype=t.uint8)),
    "no state": lambda t: t.set_rng_state(5),
    "linear of a number": lambda t: t.nn.functional.linear(3, t.ones(2, 2)),
}


@pytest.mark.parametrize("name", NOT_SETTINGS)
def test_what_is_no_setting_raises_what_pytorch_raises(name: str) -> None:
    theirs = pytest.importorskip("torch")
    set_it = NOT_SETTINGS[name]
    with pytest.raises((RuntimeError, TypeError, ValueError)) as expected:
        set_it(theirs)
    with pytest.raises(expected.type):
        set_it(torch)


def test_seeds_are_cut_to_whole_numbers() -> None:
    before = torch.get_rng_state()
    assert torch.manual_seed(1.5).initial_seed() == 1
    assert torch.manual_seed(torch.tensor(3)).initial_seed() == 3
    torch.set_rng_state(before)


IMAGE, MATRIX = (1, 1, 4, 4), (2, 2)
FRACTIONS = {  # whole numbers that are none: a truncated one would be a silent mistake
    "stride": lambda t: t.nn.functional.conv2d(t.ones(IMAGE), t.ones(1, 1, 2, 2), stride=2.0),
    "padding": lambda t: t.nn.functional.conv2d(t.ones(IMAGE), t.ones(1, 1, 2, 2), padding=1.0),
    "groups": lambda t: t.nn.functional.conv2d(t.ones(IMAGE), t.ones(1, 1, 2, 2), groups=1.0),
    "kernel_size": lambda t: t.nn.functional.max_pool2d(t.ones(IMAGE), (2.0, 2)),
    "text": lambda t: t.nn.functional.max_pool2d(t.ones(IMAGE), "2"),
    "divisor": lambda t: t.nn.functional.avg_pool2d(t.ones(IMAGE), 2, divisor_override=2.0),
    "output_size": lambda t: t.nn.functional.adaptive_avg_pool2d(t.ones(IMAGE), 2.0),
    "unfold": lambda t: t.nn.functional.unfold(t.ones(IMAGE), 2.0),
    "pad": lambda t: t.nn.functional.pad(t.ones(IMAGE), (1.0, 1)),
    "pad text": lambda t: t.nn.functional.pad(t.ones(IMAGE), "11"),
    "interpolate": lambda t: t.nn.functional.interpolate(t.ones(IMAGE), size=(2.0, 2)),
    "tril": lambda t: t.ones(MATRIX).tril(1.5),
    "triu": lambda t: t.ones(MATRIX).triu("1"),
    "diagonal": lambda t: t.ones(MATRIX).diagonal(1.0),
    "narrow": lambda t: t.ones(MATRIX).narrow(0, 0, 1.5),
    "windows": lambda t: t.ones(MATRIX).unfold(0, 1.0, 1),
    "as_strided": lambda t: t.ones(MATRIX).as_strided((2,), (1,), 1.0),
    "split": lambda t: t.ones(MATRIX).split([1.0, 1]),
    "rot90": lambda t: t.ones(MATRIX).rot90(1.0),
    "eye": lambda t: t.eye(2.0),
}


@pytest.mark.parametrize("name", FRACTIONS)
def test_whole_numbers_are_not_cut(name: str) -> None:
    theirs = pytest.importorskip("torch")
    for library in (theirs, torch):
        with pytest.raises(TypeError):
            FRACTIONS[name](library)
