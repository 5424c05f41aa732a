"""Names of PyTorch's namespace that are no operations: what they answer here, and there."""

import importlib
import pickle

import pytest

import rushlight
from rushlight import nn


def both():
    return rushlight, pytest.importorskip("torch")


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.typename(1),
        lambda t: t.typename(t.ones(2)),
        lambda t: t.sym_int(-2.5),
        lambda t: t.sym_float(2),
        lambda t: t.sym_not(True),
        lambda t: t.sym_sqrt(4),
        lambda t: (t.sym_max(1, 2.5), t.sym_max(3, 2.5), t.sym_min(1, 2.5)),
        lambda t: t.sym_sum([1, 2]),
        lambda t: t.sym_ite(True, 1, 2),
        lambda t: isinstance(1, t.SymInt),
        lambda t: t.get_device(t.ones(1)),
        lambda t: t.get_device_module("cpu").__name__.rpartition(".")[2],
        lambda t: t.compiled_with_cxx11_abi(),
        lambda t: t.is_vulkan_available(),
        lambda t: t.is_distributed(t.ones(1)),
        lambda t: t.is_warn_always_enabled(),
        lambda t: t.cond(
            t.ones(1).sum() > 2, lambda x: x + 1, lambda x: x - 1, (t.ones(1),)
        ).item(),
        lambda t: t.ones(2, 3).t().dim_order(),
        lambda t: t.ones(2, 3).to_dense().tolist(),
        lambda t: t.ones(1).volatile,
        lambda t: t.ones(1).name,
        lambda t: t.ones(2, 3).storage_type().__name__,
        lambda t: t.ones(2).module_load(t.zeros(2)).tolist(),
        lambda t: t.ones(2, 3).swapaxes(axis0=0, axis1=1).shape == (3, 2),
        lambda t: t.swapdims(t.ones(2, 3), dim0=0, dim1=1).shape == (3, 2),
        lambda t: t.__version__ > "2.0",
        lambda t: reversed(t.arange(6).reshape(2, 3)).tolist(),
        lambda t: reversed(t.tensor(3)).item(),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated", "ignore:volatile was removed")
def test_answers_are_those_of_pytorch(call):
    ours, theirs = both()
    assert call(ours) == call(theirs)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.eig(t.ones(2, 2)),
        lambda t: t.ones(2, 2).lstsq(t.ones(2, 2)),
        lambda t: t.solve(t.ones(2, 2), t.ones(2, 2)),
        lambda t: t.symeig(t.ones(2, 2)),
        lambda t: t.matrix_rank(t.ones(2, 2)),
        lambda t: t.ones(1).reinforce(1),
        lambda t: t.accelerator.memory_allocated(),
        lambda t: t.accelerator.current_stream(),
        lambda t: t.accelerator.get_memory_info(),
    ],
)
def test_refusals_are_those_of_pytorch(call):
    ours, theirs = both()
    with pytest.raises(RuntimeError):
        call(theirs)
    with pytest.raises(RuntimeError):
        call(ours)


def test_loops_go_on_while_their_condition_holds():
    (last,) = rushlight.while_loop(lambda i: i < 3, lambda i: (i + 1,), (rushlight.tensor(0),))
    assert last.item() == 3
    with pytest.raises(RuntimeError, match="2 results"):
        rushlight.while_loop(lambda i: i < 3, lambda i: (i, i), (rushlight.tensor(0),))


def test_swapped_tensors_are_each_other():
    a = rushlight.zeros(2, requires_grad=True)
    b = nn.Parameter(rushlight.ones(3))
    b.note = "b"
    rushlight.utils.swap_tensors(a, b)
    assert type(a) is nn.Parameter and a.note == "b" and a.tolist() == [1.0] * 3
    assert type(b) is rushlight.Tensor and b.shape == (2,)
    (a * 2).sum().backward()
    assert a.grad.tolist() == [2.0] * 3 and b.grad is None


def test_conversions_put_new_parameters_where_a_program_asks_for_them():
    switches = importlib.import_module("rushlight.__future__")
    layer = nn.Linear(1, 1)
    before = layer.weight
    assert layer.double().weight is before
    switches.set_overwrite_module_params_on_conversion(True)
    try:
        assert layer.float().weight is not before
    finally:
        switches.set_overwrite_module_params_on_conversion(False)


def test_the_build_is_described():
    config = importlib.import_module("rushlight.__config__")
    assert "llvmlite" in config.show() and "get_num_threads" in config.parallel_info()
    assert rushlight.types.Number == int | float | bool


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.ones(2, 3).max(0),
        lambda t: t.arange(3).sort(),
        lambda t: t.arange(3.0).topk(1),
        lambda t: t.linalg.slogdet(t.eye(2)),
        lambda t: t.linalg.inv_ex(t.eye(2)),
        lambda t: t.linalg.eigh(t.eye(2)),
        lambda t: t.frexp(t.ones(1)),
        lambda t: type(t.linalg.qr(t.eye(2))).__name__,
        lambda t: type(t.linalg.svd(t.eye(2))).__name__,
        lambda t: type(t.linalg.lu_factor(t.eye(2))).__name__,
        lambda t: type(t.linalg.cholesky_ex(t.eye(2))).__name__,
    ],
)
def test_results_of_several_tensors_print_as_in_pytorch(call):
    ours, theirs = both()
    assert repr(call(ours)) == repr(call(theirs))


def test_results_of_several_tensors_are_pickled():
    found = pickle.loads(pickle.dumps(rushlight.linalg.slogdet(rushlight.eye(2))))
    assert found._fields == ("sign", "logabsdet") and found.sign.item() == 1.0
    assert type(found) is rushlight.return_types.linalg_slogdet
