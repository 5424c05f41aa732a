"""`__torch_function__`: subclasses of Tensor, other objects, modes; no cost without them."""

import copy
import importlib
import inspect
import pickle
import subprocess
import sys

import pytest

import rushlight
from rushlight import nn
from rushlight._C import _disabled_torch_function_impl


def libraries():
    return [rushlight, pytest.importorskip("torch")]


class Plain(rushlight.Tensor):
    """A subclass that changes nothing: results are of its class."""


class Unit(rushlight.Tensor):
    """A tensor that carries a unit through arithmetic."""

    unit = ""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs)
        units = [a.unit for a in args if isinstance(a, Unit)]
        if isinstance(out, Unit) and func is rushlight.Tensor.mul and len(units) == 2:
            out.unit = "*".join(units)
        elif isinstance(out, Unit) and units:
            out.unit = units[0]
        return out


def unit(data, name):
    made = rushlight.tensor(data).as_subclass(Unit)
    made.unit = name
    return made


def test_results_of_a_subclass_are_of_the_subclass():
    x = rushlight.ones(2, 3).as_subclass(Plain)
    for out in (x + 1, 1 + x, x.T, x.detach(), x.data, x[0], x.sum(), rushlight.relu(x),
                rushlight.cat([x, x]), nn.functional.softmax(x, 0), x.max(0).values,
                rushlight.ones(2, 3) + x, rushlight.ones(2, 3).add(x), x.to(rushlight.int32),
                rushlight.zeros_like(x), x.split(1)[0], list(x)[0]):  # fmt: skip
        assert type(out) is Plain
    assert type(x.shape) is rushlight.Size and type(x.tolist()) is list
    assert x.max(0)._fields == ("values", "indices")


def test_a_subclass_is_made_from_data_and_from_tensors():
    assert Plain([1.0, 2.0]).tolist() == [1.0, 2.0] and type(Plain([1.0])) is Plain
    base = rushlight.zeros(2)
    view = base.as_subclass(Plain)
    view.add_(1)
    assert base.tolist() == [1.0, 1.0]
    made = rushlight.Tensor._make_subclass(Plain, base, True)
    assert type(made) is Plain and made.requires_grad and made.is_leaf
    assert repr(view) == "Plain([1., 1.])"


def test_gradients_go_through_as_subclass():
    x = rushlight.tensor([1.0, 2.0], requires_grad=True)
    (x.as_subclass(Plain) * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    y = (x * 2).as_subclass(Plain)
    y.sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_units_follow_arithmetic():
    length, time = unit([2.0, 3.0], "m"), unit([1.0, 2.0], "s")
    assert (length * time).unit == "m*s"
    assert (length + 1).unit == "m" and length.sum().unit == "m"


def test_a_subclass_is_copied_and_pickled():
    x = rushlight.ones(2).as_subclass(Plain)
    for other in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert type(other) is Plain and other.tolist() == [1.0, 1.0]


def _logger(lib, log):
    class Logger(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    return Logger


CALLS = [
    "x + 1", "1 + x", "x - 1", "1 - x", "x * 2", "2 * x", "x / 2", "x ** 2", "2 ** x", "x // 2",
    "x % 2", "x @ x", "-x", "abs(x)", "x < 1", "x == 1", "x[0]", "len(x)", "x.shape",
    "x[None].T",
    "x.device", "x.requires_grad", "x.grad", "x.data", "x.detach()", "repr(x)", "x.sum()",
    "x.size()", "lib.sum(x)", "lib.add(x, 1)", "lib.cat([x, x])", "lib.stack((lib.ones(3), x))",
    "lib.nn.functional.relu(x)", "lib.nn.functional.softmax(x, 0)", "lib.zeros_like(x)",
    "lib.ones(3) + x", "lib.ones(3).add(x)", "x.split(1)", "x.max(0)", "x.to(lib.float64)",
    "x.numpy()", "lib.where(x > 0, x, x)", "lib.nn.Linear(3, 2)(x)", "lib.nn.ReLU()(x)",
    "x.new_zeros(2)", "x.dim()", "lib.is_tensor(x)", "f'{x}'", "x.stride()", "x.clone()",
    "hash(x)", "x.add_(1)", "x.requires_grad_()", "x.is_leaf",
    "lib.nn.functional.linear(x, lib.ones(2, 3))",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_handlers_are_told_what_pytorchs_are(call):
    logs = []
    for lib in libraries():
        log = []
        x = lib.ones(3).as_subclass(_logger(lib, log))
        del log[:]
        result = eval(call, {"lib": lib, "x": x})
        logs.append((log, type(result).__name__))
    assert logs[0] == logs[1]


class Duck:
    """No tensor, but it has something to say to functions."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is rushlight.mul:
            return NotImplemented
        return func.__name__, [t.__name__ for t in types]


def test_other_objects_take_functions_over():
    x = rushlight.ones(2)
    assert rushlight.mean(Duck()) == ("mean", ["Duck"])
    assert rushlight.add(x, Duck()) == ("add", ["Duck"])
    assert rushlight.add(x, other=Duck()) == ("add", ["Duck"])
    assert rushlight.cat([x, Duck()]) == ("cat", ["Duck"])
    assert nn.functional.relu(Duck()) == ("relu", ["Duck"])
    assert x + Duck() == ("add", ["Duck"])
    assert x.add(Duck()) == ("add", ["Duck"])
    assert x @ Duck() == ("matmul", ["Duck"])
    assert Duck.__torch_function__(rushlight.mul, ()) is NotImplemented
    with pytest.raises(TypeError, match="mul"):
        rushlight.mul(x, Duck())
    with pytest.raises(TypeError):
        x + object()


FRESH = """
import rushlight as torch
class Duck:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func is {function}
assert {call} is True
"""


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("torch.mean", "torch.mean(Duck())"),
        ("torch.add", "torch.add(torch.ones(2), Duck())"),
        ("torch.Tensor.add", "torch.ones(2) + Duck()"),
        ("torch.Tensor.matmul", "torch.ones(2) @ Duck()"),
        ("torch.Tensor.add_", "torch.ones(2).__iadd__(Duck())"),
    ],
)
def test_the_first_object_that_overrides_is_found(function, call):
    program = FRESH.format(function=function, call=call)
    subprocess.run([sys.executable, "-c", program], check=True)


def test_nothing_is_exchanged_without_a_class_that_overrides():
    program = (
        "import sys, rushlight as torch\n"
        "torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()\n"
        "assert 'rushlight.overrides' not in sys.modules\n"
        "assert torch.Tensor.add.__code__ is torch.ops.arithmetic.add.__code__\n"
        "before, function = torch.relu, torch.Tensor.add\n"
        "class Sub(torch.Tensor): pass\n"
        "assert torch.relu is before and torch.Tensor.add is function\n"
        "assert type(before(torch.ones(2).as_subclass(Sub))) is Sub\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_signatures_and_names_stay():
    assert list(inspect.signature(rushlight.relu).parameters) == ["input"]
    assert "out" in inspect.signature(rushlight.add).parameters
    assert rushlight.Tensor.softmax.__name__ == "softmax"
    assert rushlight.Tensor.__rsub__.__name__ == "__rsub__"


def test_subclasses_come_before_their_base_and_the_left_before_the_right():
    order = []

    class Base(rushlight.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            order.append(cls.__name__)
            return NotImplemented

    class Derived(Base):
        pass

    a, b = rushlight.ones(2).as_subclass(Base), rushlight.ones(2).as_subclass(Derived)
    with pytest.raises(TypeError):
        rushlight.add(a, b)
    assert order == ["Derived", "Base"]
    del order[:]
    with pytest.raises(TypeError):
        rushlight.add(Duck2(order), a)
    assert order == ["Duck2", "Base"]


class Duck2:
    def __init__(self, order):
        self.order = order

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.order.append("Duck2")
        return NotImplemented


def test_parameters_override_nothing_and_keep_a_subclass():
    assert type(nn.Parameter(rushlight.ones(2)) * 2) is rushlight.Tensor
    parameter = nn.Parameter(rushlight.ones(2).as_subclass(Plain))
    assert isinstance(parameter, Plain) and isinstance(parameter, nn.Parameter)
    assert parameter.requires_grad
    layer = nn.Linear(2, 2)
    layer.weight = nn.Parameter(rushlight.ones(2, 2).as_subclass(Plain))
    out = layer(rushlight.ones(1, 2))
    assert type(out) is Plain
    out.sum().backward()
    assert layer.weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert nn.Parameter.__torch_function__ is _disabled_torch_function_impl


def test_modes_see_every_call_and_nest():
    overrides = importlib.import_module("rushlight.overrides")
    seen = []

    class Log(overrides.TorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((self.name, func.__name__))
            return func(*args, **(kwargs or {}))

    with Log("outer"), Log("inner"):
        x = rushlight.ones(2)
        x + 1
    x + 1
    assert seen == [
        ("inner", "ones"), ("outer", "ones"), ("inner", "add"), ("outer", "add"),
    ]  # fmt: skip


def test_scopes_in_which_nothing_overrides():
    overrides = importlib.import_module("rushlight.overrides")
    x = rushlight.ones(2).as_subclass(Plain)
    with overrides.DisableTorchFunctionSubclass():
        assert type(x + 1) is rushlight.Tensor
        assert not overrides.has_torch_function((x,))
    assert type(x + 1) is Plain
    assert overrides.has_torch_function((x,))
    assert not overrides.has_torch_function((rushlight.ones(2), 1))


def test_functions_of_a_program_can_be_overridable():
    overrides = importlib.import_module("rushlight.overrides")

    def double(x):
        if overrides.has_torch_function((x,)):
            return overrides.handle_torch_function(double, (x,), x)
        return x * 2

    @overrides.wrap_torch_function(lambda x: (x,))
    def triple(x):
        return x * 3

    assert double(Duck()) == ("double", ["Duck"]) and triple(Duck()) == ("triple", ["Duck"])
    assert double(rushlight.ones(1)).tolist() == [2.0]
    assert triple(rushlight.ones(1)).tolist() == [3.0]


def test_tables_name_what_can_be_overridden():
    overrides = importlib.import_module("rushlight.overrides")
    table = overrides.get_overridable_functions()
    assert rushlight.add in table[rushlight] and rushlight.Tensor.add in table[rushlight.Tensor]
    assert rushlight.ones not in table[rushlight]
    assert nn.functional.relu in table[nn.functional]
    assert overrides.resolve_name(rushlight.Tensor.add) == "torch.Tensor.add"
    assert overrides.is_tensor_method_or_property(rushlight.Tensor.shape.__get__)
    assert not overrides.is_tensor_method_or_property(rushlight.add)
    assert overrides.get_testing_overrides()[rushlight.add](1, 2) == -1
    assert overrides.is_tensor_like(Duck()) and not overrides.is_tensor_like(1)


@pytest.mark.filterwarnings("ignore:__array__ implementation")
def test_tensors_of_pytorch_are_refused_and_nothing_stays_broken():
    torch = pytest.importorskip("torch")
    mine, theirs = rushlight.ones(2), torch.ones(2)
    calls = [
        lambda: mine + theirs,
        lambda: theirs + mine,
        lambda: rushlight.add(mine, torch.nn.Parameter(theirs)),
        lambda: rushlight.cat([mine, theirs]),
        lambda: rushlight.matmul(theirs, mine),
        lambda: nn.functional.linear(theirs, rushlight.ones(2, 2)),
        lambda: torch.add(mine, 1),
        lambda: rushlight.ones(2).copy_(theirs),
        lambda: mine[torch.tensor([0])],
    ]
    for call in calls:
        with pytest.raises(TypeError, match="of another library"):
            call()
    assert rushlight.tensor(theirs).tolist() == [1.0, 1.0]
    assert rushlight.as_tensor(theirs).tolist() == [1.0, 1.0]
    assert (mine + mine).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "name", ("full", "sum", "relu", "softmax", "cat", "zeros", "add", "sort")
)
def test_frames_of_functions_can_be_looked_at(name: str) -> None:
    """A debugger reads the variables of every frame: those of closures too."""
    importlib.import_module("rushlight.overrides.dispatch").activate()
    seen = []
    for function in (getattr(rushlight, name), getattr(rushlight.Tensor, name, rushlight.add)):
        with pytest.raises((TypeError, AttributeError, RuntimeError, ValueError)) as raised:
            function("a", ["b"], no_such_argument=rushlight.ones(1))
        frame = raised.tb
        while frame is not None:
            seen.append(frame.tb_frame.f_locals)
            frame = frame.tb_next
    assert any("dispatching" in names for names in seen)
