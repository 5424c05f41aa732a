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
        lambda t: t.torch is t,
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
        lambda t: t.narrow_copy(t.ones(2, 3), 2, 0, 1),
        lambda t: t.nn.functional.multi_margin_loss(t.ones(2, 0), t.tensor([0, 0])),
        lambda t: t.nn.functional.multi_margin_loss(t.ones(1, 2, 3), t.tensor([0])),
        lambda t: t.nn.functional.multilabel_margin_loss(t.ones(0), t.zeros(0).long()),
        lambda t: t.nn.functional.cross_entropy(t.ones(1, 2), t.ones(1, 2), ignore_index=1),
        lambda t: t.nn.functional.fractional_max_pool2d(
            t.ones(2, 1, 4, 4), 2, 2, _random_samples=t.ones(1, 1, 2)
        ),
        lambda t: t.nn.functional.multilabel_margin_loss(t.ones(2, 0), t.zeros(2, 0).long()),
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


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.hash_tensor(t.tensor([1.5, 2.0, 7.0])).item(),
        lambda t: t.hash_tensor(t.tensor([-1, 2], dtype=t.int8)).item(),
        lambda t: t.hash_tensor(t.arange(6.0).reshape(2, 3), dim=1).tolist(),
        lambda t: t.hash_tensor(t.tensor([True, False, True]), keepdim=True).tolist(),
        lambda t: t.hash_tensor(t.ones(3, dtype=t.bfloat16)).item(),
        lambda t: t.functional.norm(t.ones(4)).item(),
        lambda t: repr(t.torch_version.TorchVersion("1.2") < "1.10"),
        lambda t: t.legacy_contiguous_format is t.contiguous_format,
        lambda t: (repr(t.int4), t.int4.itemsize, t.int4.is_signed, repr(t.bit)),
        lambda t: (repr(t.bits1x8), t.bits16.itemsize, t.float4_e2m1fn_x2.is_floating_point),
        lambda t: t.thread_safe_generator(),
        lambda t: t.ones(1).__long__(),
        lambda t: t.ones(2).grad_dtype is t.float32,
        lambda t: repr(t.Stream("cpu")),
        lambda t: t.Stream() == t.Stream("cpu"),
        lambda t: t.nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": t.int8}})[
            "device"
        ],
        lambda t: t.compiler.keep_tensor_guards_unsafe([]),
        lambda t: t.autograd.enforce_grad_layout_policy(True).__enter__(),
    ],
)
def test_answers_of_rarer_names_are_those_of_pytorch(call):
    ours, theirs = both()
    assert call(ours) == call(theirs)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.hash_tensor(t.ones(2), mode=1),
        lambda t: t.hash_tensor(t.ones(0)),
        lambda t: t.smm(t.ones(2, 2), t.ones(2, 2)),
        lambda t: t.indices_copy(t.ones(2)),
        lambda t: t.values_copy(t.ones(2)),
        lambda t: t.saddmm(t.ones(2, 2), t.ones(2, 2), t.ones(2, 2)),
        lambda t: t.tensor([1], dtype=t.uint3),
        lambda t: t.ones(2).to(t.bits8),
        lambda t: t.ones(2).__delitem__(0),
        lambda t: t.lobpcg(t.eye(4), k=2),
        lambda t: t.serialization.set_default_mmap_options(17),
        lambda t: t.serialization.set_default_load_endianness(3),
        lambda t: t.nn.factory_kwargs({"foo": 1}),
        lambda t: t.nn.parallel.scatter(t.ones(2), [t.device("cpu")]),
        lambda t: t.nn.functional.group_norm(t.ones(1, 2), 2),
        lambda t: t.nn.functional.binary_cross_entropy(t.tensor([1.5]), t.ones(1)).item(),
        lambda t: t.nn.functional.binary_cross_entropy(t.ones(1), t.tensor([-0.5])).item(),
        lambda t: t.nn.functional.gaussian_nll_loss(t.ones(1), t.ones(1), -t.ones(1)).item(),
    ],
)
def test_refusals_of_rarer_names_are_those_of_pytorch(call):
    ours, theirs = both()
    with pytest.raises((RuntimeError, TypeError, ValueError)) as known:
        call(theirs)
    with pytest.raises((RuntimeError, TypeError, ValueError)) as raised:
        call(ours)
    assert isinstance(raised.value, NotImplementedError) or issubclass(
        raised.type, known.type.__mro__[-4] if known.type is Exception else known.type
    )


def test_lobpcg_finds_extreme_pairs_of_a_generalised_problem():
    ours, theirs = both()
    numbers = theirs.randn(2, 9, 9, dtype=theirs.float64, generator=theirs.Generator())
    a = (numbers @ numbers.mT).numpy()
    b = (numbers.mT @ numbers).numpy() + 9 * theirs.eye(9, dtype=theirs.float64).numpy()
    A, B = ours.from_numpy(a), ours.from_numpy(b)
    values, vectors = ours.lobpcg(A, k=2, B=B, largest=False)
    assert (A @ vectors - B @ vectors * values[:, None]).abs().max() < 1e-9
    wanted = theirs.linalg.eigvals(theirs.linalg.solve(theirs.tensor(b), theirs.tensor(a)))
    assert values.tolist() == [
        pytest.approx(sorted(row)[:2], abs=1e-9) for row in wanted.real.tolist()
    ]


def test_futures_call_what_waits_for_them():
    future = rushlight.futures.Future()
    seen = []
    future.add_done_callback(lambda f: seen.append(f.value()))
    failing = future.then(lambda f: 1 // 0)
    future.set_result(3)
    assert seen == [3] and rushlight.futures.wait_all([future]) == [3]
    with pytest.raises(ZeroDivisionError):
        failing.wait()
    with pytest.raises(RuntimeError, match="already has a result"):
        future.set_result(4)


def test_files_are_memory(tmp_path):
    path = tmp_path / "numbers"
    shared = rushlight.from_file(str(path), shared=True, size=4, dtype=rushlight.int32)
    shared.fill_(7)
    apart = rushlight.from_file(str(path), size=2, dtype=rushlight.int32)
    assert (apart + 1).tolist() == [8, 8] and path.stat().st_size == 16
    apart.fill_(0)
    apart.tolist()
    assert rushlight.from_file(str(path), size=4, dtype=rushlight.int32).tolist() == [7] * 4
    with pytest.raises(RuntimeError, match="16 bytes, and 5 elements"):
        rushlight.from_file(str(path), size=5, dtype=rushlight.int32)
    path.write_bytes(bytes([0, 0x40, 0x38, 0xC0]))
    assert rushlight.from_file(str(path), size=1, dtype=rushlight.bfloat16).tolist() == [2.0]
    eight = rushlight.from_file(str(path), size=4, dtype=rushlight.float8_e4m3fn)
    assert eight.tolist() == [0.0, 2.0, 1.0, -2.0]


def test_gradients_of_convolutions_by_name():
    ours, theirs = both()
    x, w, g = theirs.randn(2, 4, 7, 5), theirs.randn(6, 2, 3, 3), theirs.randn(2, 6, 3, 2)
    how = {"stride": 2, "padding": (0, 0), "dilation": 1, "groups": 2}
    a, b, c = (ours.from_numpy(t.numpy()) for t in (x, w, g))
    mine = ours.nn.grad.conv2d_input(x.shape, b, c, **how)
    known = theirs.nn.grad.conv2d_input(x.shape, w, g, **how)
    assert theirs.allclose(theirs.from_numpy(mine.numpy()), known, atol=1e-5)
    mine = ours.nn.grad.conv2d_weight(a, w.shape, c, **how)
    known = theirs.nn.grad.conv2d_weight(x, w.shape, g, **how)
    assert theirs.allclose(theirs.from_numpy(mine.numpy()), known, atol=1e-4)


def test_parallel_functions_without_devices_call_module_after_module():
    parallel, twice = nn.parallel, nn.Linear(1, 1, bias=False)
    twice.weight.data.fill_(2)
    one = rushlight.ones(1, 1)
    results = parallel.parallel_apply([twice, nn.Identity()], [one, (one,)])
    assert [r.item() for r in results] == [2.0, 1.0]
    assert parallel.data_parallel(twice, one).item() == 2.0
    joined = parallel.gather([{"a": one}, {"a": one + 1}], "cpu")
    assert joined["a"].tolist() == [[1.0], [2.0]]
    with pytest.raises(RuntimeError, match="not available"):
        parallel.scatter(one, [0])
    with pytest.raises(AssertionError, match="number of inputs"):
        parallel.parallel_apply([twice], [one, one])


def test_an_optimizer_is_lent_other_parameters():
    model = nn.Linear(2, 1, bias=False)
    optimizer = rushlight.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    model(rushlight.ones(2)).sum().backward()
    optimizer.step()
    other = rushlight.ones(1, 2, requires_grad=True)
    other.grad = rushlight.ones(1, 2)
    before, state = model.weight.tolist(), optimizer.state_dict()
    lend = rushlight.optim.swap_in_optimizer_params_and_state
    with lend(optimizer, {"weight": other}, state):
        optimizer.step()
    assert other[0].tolist() == pytest.approx([1 - 0.5 * 1.9] * 2)
    assert model.weight.tolist() == before
    assert optimizer.param_groups[0]["params"][0] is model.weight
    borrowed = lend(optimizer, {"a": other, "b": other}, state)
    with pytest.raises(ValueError, match="2 parameters"):
        borrowed.__enter__()
