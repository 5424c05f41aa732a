"""Names that scripts call around their work: what they answer, accept or refuse."""

import importlib
import threading

import pytest

import rushlight
from rushlight import nn


@pytest.fixture
def theirs():
    return pytest.importorskip("torch")


def module(name):
    return importlib.import_module(f"rushlight.{name}")


jit = module("jit")


# -- torch.jit


def test_script_and_trace_return_what_they_are_given():
    @jit.script
    def double(x: rushlight.Tensor) -> rushlight.Tensor:
        return x * 2

    layer = nn.Linear(2, 3).eval()
    assert double(rushlight.ones(2)).tolist() == [2.0, 2.0]
    assert jit.script(layer) is layer
    assert jit.trace(layer, rushlight.ones(1, 2)) is layer
    assert jit.trace(double, (rushlight.ones(1),)) is double
    assert jit.trace_module(layer, {"forward": rushlight.ones(1, 2)}) is layer
    assert jit.freeze(layer) is layer
    assert jit.optimize_for_inference(layer) is layer
    assert not jit.is_scripting()
    assert not jit.is_tracing()


def test_a_trace_runs_the_function_once():
    with pytest.raises(RuntimeError, match="mat"):
        jit.trace(nn.Linear(2, 3), rushlight.ones(1, 5))
    with pytest.raises(RuntimeError, match="example_inputs should be given"):
        jit.trace(nn.Linear(2, 3))


def test_decorators_return_their_function():
    def f():
        return 1

    for mark in (jit.ignore, jit.unused, jit.export, jit.interface, jit.script_if_tracing):
        assert mark(f) is f
    assert jit.ignore(drop=True)(f) is f
    assert jit.annotate(list, [1]) == [1]
    assert jit.Attribute(1, int).value == 1


def test_a_script_module_is_a_module():
    class Doubling(jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(rushlight.ones(2))

        @jit.script_method
        def forward(self, x):
            return self.weight * x * 2

    model = Doubling()
    assert model(rushlight.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(NotImplementedError, match=r"ScriptModule.save: .* no TorchScript"):
        model.save("model.pt")


@pytest.mark.parametrize(
    "call",
    [
        lambda: jit.save(nn.Linear(1, 1), "x.pt"),
        lambda: jit.load("x.pt"),
        jit.ScriptFunction,
        jit.CompilationUnit,
    ],
)
def test_what_needs_a_torchscript_program_is_refused(call):
    with pytest.raises(NotImplementedError, match="TorchScript"):
        call()


def test_generic_types_are_looked_into():
    assert jit.isinstance([1, 2], list[int])
    assert not jit.isinstance([1, "a"], list[int])
    assert jit.isinstance({"a": [1.0]}, dict[str, list[float]])
    assert jit.isinstance((1, "a"), tuple[int, str])
    assert not jit.isinstance((1,), tuple[int, str])
    assert jit.isinstance(None, int | None)
    assert jit.isinstance(2, (str, int))


# -- futures


def test_futures_hand_results_over():
    futures = module("futures")
    future = futures.Future()
    following = future.then(lambda done: done.value() + 1)
    seen = []
    future.add_done_callback(lambda done: seen.append(done.value()))
    assert not following.done()
    with pytest.raises(RuntimeError, match="no result yet"):
        future.value()
    threading.Thread(target=future.set_result, args=(1,)).start()
    assert following.wait() == 2
    assert seen == [1]
    with pytest.raises(RuntimeError, match="already has a result"):
        future.set_result(3)
    assert futures.wait_all([future, following]) == [1, 2]
    assert futures.collect_all([]).wait() == []


def test_futures_hand_exceptions_over():
    futures = module("futures")
    future = futures.Future()
    following = future.then(lambda done: done.wait())
    future.set_exception(KeyError("gone"))
    with pytest.raises(KeyError, match="gone"):
        following.wait()
    assert jit.wait(jit.fork(lambda a, b: a - b, 3, b=1)) == 2


# -- conditions


CONDITIONS = [
    lambda t: t._assert(True, "m"),
    lambda t: t._assert(False, "m"),
    lambda t: t._assert(t.tensor(False), "m"),
    lambda t: t._check(True),
    lambda t: t._check(False),
    lambda t: t._check(1),
    lambda t: t._check(False, "text"),
    lambda t: t._check(t.tensor(True)),
    lambda t: t._check_index(False),
    lambda t: t._check_value(False, lambda: "v"),
    lambda t: t._check_type(False),
    lambda t: t._check_not_implemented(False),
    lambda t: t._check_with(KeyError, False, lambda: "k"),
    lambda t: t._check_tensor_all(t.tensor([True, True])),
    lambda t: t._check_tensor_all(t.tensor([True, False])),
    lambda t: t._check_tensor_all(t.ones(2)),
]


@pytest.mark.parametrize("call", CONDITIONS)
def test_conditions_raise_what_pytorch_raises(call, theirs):
    def outcome(t):
        try:
            return call(t)
        except Exception as error:
            return type(error)

    assert outcome(rushlight) == outcome(theirs)


def test_a_condition_says_its_message():
    with pytest.raises(RuntimeError, match="too long: 3"):
        rushlight._check(False, lambda: f"too long: {3}")
    with pytest.raises(RuntimeError):
        rushlight._check_is_size(-1)
    with pytest.raises(RuntimeError):
        rushlight._check_is_size(3, max=2)
    with pytest.raises(RuntimeError, match="zero"):
        rushlight._assert_async(rushlight.tensor(0))


# -- devices and streams


@pytest.mark.parametrize(
    "name",
    [
        "is_available", "device_count", "is_bf16_supported", "memory_allocated", "memory_stats",
        "empty_cache", "current_device", "synchronize", "get_device_name", "mem_get_info",
        "get_rng_state", "init", "seed", "get_rng_state_all",
    ],
)  # fmt: skip
def test_xpu_answers_as_pytorch_without_it(name, theirs):
    def outcome(t):
        try:
            return getattr(t.xpu, name)()
        except AssertionError as error:
            return str(error)

    assert outcome(rushlight) == outcome(theirs)


def test_what_acts_on_no_xpu_returns():
    xpu = module("xpu")
    xpu.manual_seed(1)
    xpu.manual_seed_all(1)
    xpu.set_device(-1)
    xpu.reset_peak_memory_stats()
    with xpu.device(None), xpu.stream(None), xpu.device_of(rushlight.ones(1)):
        pass
    with pytest.raises(AssertionError, match="XPU"):
        xpu.set_device(0)
    with pytest.raises(RuntimeError, match="XPU"):
        xpu.Stream()


def test_the_cpu_has_one_stream_and_no_events():
    stream = rushlight.Stream(device="cpu")
    with stream:
        x = rushlight.ones(2) + 1
    stream.synchronize()
    assert stream.query()
    assert stream == rushlight.Stream()
    assert x.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="no events"):
        rushlight.Event().record(stream)
    with pytest.raises(RuntimeError, match="cuda"):
        rushlight.Stream(device="cuda")


# -- compilers' settings


@pytest.mark.parametrize("name", ["_dynamo.config", "_inductor.config", "_functorch.config"])
def test_settings_are_taken_and_given_back(name):
    config = module(name)
    config.made_up_by_a_test = 1
    with config.patch(made_up_by_a_test=2, another=3):
        assert (config.made_up_by_a_test, config.another) == (2, 3)
    with config.patch("made_up_by_a_test", 4):
        assert config.made_up_by_a_test == 4
    with config.patch({"made_up_by_a_test": 5}):
        assert config.made_up_by_a_test == 5
    assert config.made_up_by_a_test == 1
    assert not hasattr(config, "another")
    del config.made_up_by_a_test


def test_settings_have_pytorchs_defaults(theirs):
    dynamo = importlib.import_module("torch._dynamo.config")
    ours = module("_dynamo.config")
    for name in ("cache_size_limit", "suppress_errors", "capture_scalar_outputs", "verbose"):
        assert getattr(ours, name) == getattr(dynamo, name), name


def test_dynamo_changes_nothing():
    dynamo = rushlight._dynamo

    def double(x):
        return x * 2

    dynamo.reset()
    dynamo.mark_dynamic(rushlight.ones(2), 0)
    for wrap in (dynamo.disable, dynamo.optimize(), dynamo.run, dynamo.disallow_in_graph):
        assert wrap(double) is double
    model = nn.Linear(1, 1)
    assert not isinstance(rushlight.compile(model), dynamo.OptimizedModule)
    assert not dynamo.is_compiling()
    assert dynamo.utils.counters["graph_break"]["x"] == 0
    with pytest.raises(NotImplementedError, match="graphs of functions"):
        dynamo.explain(double)
    rushlight._logging.set_logs(graph_breaks=True)
    rushlight._inductor.config.triton.unique_kernel_names = True
    rushlight._inductor.cudagraph_mark_step_begin()


# -- private names


def test_tensors_lie_end_to_end(theirs):
    def outcome(t):
        utils = importlib.import_module(f"{t.__name__}._utils")
        parts = [t.arange(6.0).reshape(2, 3), t.ones(()), t.zeros(0, 2)]
        flat = utils._flatten_dense_tensors(parts)
        back = utils._unflatten_dense_tensors(flat, parts)
        return flat.tolist(), [part.tolist() for part in back], utils._element_size(t.float16)

    assert outcome(rushlight) == outcome(theirs)


def test_sizes_are_repeated(theirs):
    for t in (rushlight, theirs):
        utils = importlib.import_module(f"{t.__name__}.nn.modules.utils")
        assert utils._pair(3) == (3, 3)
        assert utils._triple([1, 2, 3]) == (1, 2, 3)
        assert utils._single("ab") == ("a", "b")
        assert utils._reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
        assert utils._list_with_default([None, 3], [4, 5, 6]) == [5, 3]
        state = {"module.a": 1, "b": 2}
        utils.consume_prefix_in_state_dict_if_present(state, "module.")
        assert state == {"a": 1, "b": 2}


def test_older_places_hold_the_same_objects():
    assert rushlight.optim.lr_scheduler._LRScheduler is rushlight.optim.lr_scheduler.LRScheduler
    keys = nn.Linear(1, 1).load_state_dict({}, strict=False)
    assert isinstance(keys, nn.modules.module._IncompatibleKeys)
    collate = module("utils.data._utils.collate")
    assert collate.default_collate is rushlight.utils.data.default_collate
    assert rushlight._C._LinAlgError is rushlight.linalg.LinAlgError
    assert rushlight._C._nn.linear is nn.functional.linear
    device, dtype, *_ = rushlight._C._nn._parse_to("cpu", rushlight.float16)
    assert (device.type, dtype) == ("cpu", rushlight.float16)
    assert rushlight._C._jit_set_profiling_executor(False) is False


@pytest.mark.parametrize(
    "name",
    [
        "", "_C", "_C._nn", "_dynamo", "_dynamo.config", "amp", "autograd", "backends", "cuda",
        "distributions", "fft", "foreach", "func", "jit", "linalg", "nn", "nn.functional",
        "nn.modules", "nn.utils", "ops", "optim", "overrides", "random", "special", "utils",
        "utils.data",
    ],
)  # fmt: skip
def test_absent_names_are_missing_attributes(name):
    found = module(name) if name else rushlight
    assert not hasattr(found, "no_such_name")
    for made_up in ("nothing_here", "NothingTensor", "_foreach_nothing", "__wrapped__"):
        assert not hasattr(found, made_up)
