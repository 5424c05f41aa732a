"""Operators that programs define, and PyTorch's by the names of its library."""

import numpy
import pytest

import rushlight
from rushlight import library

Tensor = rushlight.Tensor


@library.custom_op("rltests::scaled_sine", mutates_args=())
def scaled_sine(x: Tensor, by: float = 2.0) -> Tensor:
    return rushlight.from_numpy(numpy.sin(x.numpy()) * by)


@scaled_sine.register_fake
def _(x, by=2.0):
    return rushlight.empty_like(x)


def _keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.by = inputs[1]
    ctx.needed = ctx.needs_input_grad


def _slope(ctx, grad):
    assert ctx.needed == (True, False)
    return grad * ctx.saved_tensors[0].cos() * ctx.by, None


scaled_sine.register_autograd(_slope, setup_context=_keep)


def test_an_operator_is_called_by_its_object_and_by_its_name():
    x = rushlight.tensor([0.5, 1.0])
    wanted = (x.sin() * 3).tolist()
    assert scaled_sine(x, 3.0).tolist() == pytest.approx(wanted)
    assert rushlight.ops.rltests.scaled_sine(x, by=3.0).tolist() == pytest.approx(wanted)
    assert rushlight.ops.rltests.scaled_sine.default(x, 3.0).tolist() == pytest.approx(wanted)
    assert repr(rushlight.ops.rltests.scaled_sine.default) == "rltests.scaled_sine.default"
    with pytest.raises(AttributeError, match="no operator 'other' in torch.ops.rltests"):
        rushlight.ops.rltests.other
    with pytest.raises(RuntimeError, match=r"rltests::scaled_sine\(\) missing"):
        scaled_sine()


def test_an_operator_has_its_derivative():
    x = rushlight.tensor([0.5, 1.0], requires_grad=True)
    scaled_sine(x * 1, 3.0).sum().backward()
    assert x.grad.tolist() == pytest.approx((x.cos() * 3).tolist())


def test_a_derivative_made_of_functions_has_its_own():
    x = rushlight.tensor([0.5], requires_grad=True, dtype=rushlight.float64)
    (first,) = rushlight.autograd.grad(scaled_sine(x).sum(), x, create_graph=True)
    (second,) = rushlight.autograd.grad(first.sum(), x)
    assert second.item() == pytest.approx(-2 * numpy.sin(0.5))


def test_samples_are_taken_one_by_one_or_by_the_operators_own_rule():
    rows = rushlight.arange(6.0).reshape(3, 2)
    wanted = rows.sin() * 2
    assert rushlight.vmap(scaled_sine)(rows).allclose(wanted)
    assert rushlight.vmap(scaled_sine, in_dims=1, out_dims=1)(rows).allclose(wanted)
    slopes = rushlight.vmap(rushlight.func.grad(lambda x: scaled_sine(x).sum()))(rows)
    assert slopes.allclose(rows.cos() * 2)

    calls = []

    @library.custom_op("rltests::doubled", mutates_args=())
    def doubled(x: Tensor) -> Tensor:
        calls.append(x.shape)
        return x * 2

    @doubled.register_vmap
    def _(info, in_dims, x):
        assert (info.batch_size, in_dims) == (3, (0,))
        return doubled(x), 0

    assert rushlight.vmap(doubled)(rows).equal(rows * 2)
    assert calls == [(3, 2)]


def test_lists_of_tensors_go_in_and_out():
    @library.custom_op("rltests::all_doubled", mutates_args=())
    def all_doubled(xs: list[Tensor], shift: Tensor | None = None) -> list[Tensor]:
        return [x * 2 if shift is None else x * 2 + shift for x in xs]

    all_doubled.register_autograd(lambda ctx, grads: ([g * 2 for g in grads], None))
    xs = [rushlight.ones(n, requires_grad=True) for n in (1, 2)]
    made = all_doubled(xs)
    (made[0].sum() + 3 * made[1].sum()).backward()
    assert isinstance(made, list)
    assert [x.grad.tolist() for x in xs] == [[2.0], [6.0, 6.0]]


def test_an_operator_may_write_into_what_it_names():
    @library.custom_op("rltests::increase_", mutates_args={"x"})
    def increase(x: Tensor) -> None:
        x.add_(1)

    x = rushlight.ones(2)
    assert increase(x) is None
    assert x.tolist() == [2.0, 2.0]
    assert increase._schema == "(Tensor(a0!) x) -> ()"


def test_what_an_operator_lacks_is_said():
    @library.custom_op("rltests::bare", mutates_args=())
    def bare(x: Tensor) -> Tensor:
        return x + 1

    @library.custom_op("rltests::identity", mutates_args=())
    def identity(x: Tensor) -> Tensor:
        return x

    x = rushlight.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match="rltests::bare: it has no derivative"):
        bare(x).backward()
    with pytest.raises(RuntimeError, match="rltests::bare: .* register_fake"):
        bare(rushlight.ones(1, device="meta"))
    with pytest.raises(RuntimeError, match="rltests::identity: a result shares memory"):
        identity(x)
    with pytest.raises(ValueError, match="Parameter x must have a type annotation"):
        library.custom_op("rltests::untyped", lambda x: x, mutates_args=())
    with pytest.raises(ValueError, match='a name like "namespace::name"'):
        library.custom_op("noname", bare._kernels[""], mutates_args=())


def test_an_operator_is_checked_against_its_function_for_meta_tensors():
    assert set(library.opcheck(scaled_sine, (rushlight.ones(2),)).values()) == {"SUCCESS"}
    assert scaled_sine(rushlight.ones(3, device="meta")).shape == (3,)

    @library.custom_op("rltests::first", mutates_args=())
    def first(x: Tensor) -> Tensor:
        return x[0].clone()

    library.register_fake("rltests::first")(rushlight.empty_like)
    with pytest.raises(RuntimeError, match="results are .* says"):
        library.opcheck(rushlight.ops.rltests.first.default, (rushlight.ones(2),))


def test_schemas_are_those_of_pytorch():
    torch = pytest.importorskip("torch")

    def functions(t):
        def a(x: t.Tensor, k: int, s: float = 2.0, flag: bool = True) -> t.Tensor: ...
        def b(xs: list[t.Tensor], y: t.Tensor | None, *, mode: str = "a") -> list[t.Tensor]: ...
        def c(x: t.Tensor, d: t.dtype | None = None) -> tuple[t.Tensor, int]: ...
        def d(x: t.Tensor, sizes: list[int]) -> None: ...

        return a, b, c, d

    for ours, theirs in zip(functions(rushlight), functions(torch), strict=True):
        for mutated in ((), "unknown"):
            assert library.infer_schema(
                ours, mutates_args=mutated
            ) == torch.library.infer_schema(theirs, mutates_args=mutated)


def test_operators_are_defined_by_schema():
    with_two = library.Library("rltests_schema", "DEF")
    assert with_two.define("scale(Tensor x, *, float by=2.0) -> Tensor") == "scale"
    library.impl(with_two, "scale", "CompositeImplicitAutograd")(lambda x, by: x * by)
    library.define("rltests_schema::shift", "(Tensor x, int[2] by=[1, 2]) -> Tensor")
    library.impl("rltests_schema::shift", "CPU", lambda x, by: x + by[1])
    library.impl("rltests_schema::shift", "Meta", lambda x, by: rushlight.empty_like(x))
    x = rushlight.ones(2, requires_grad=True)
    rushlight.ops.rltests_schema.scale(x, by=3.0).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert rushlight.ops.rltests_schema.shift(x).tolist() == [3.0, 3.0]
    assert library.opcheck(rushlight.ops.rltests_schema.shift, (x,))
    with pytest.raises(RuntimeError, match="no operator 'rltests_schema::none'"):
        library.impl("rltests_schema::none", "CPU", max)


ATEN = [
    lambda aten, t: aten.relu(t.tensor([-1.0, 2.0])),
    lambda aten, t: aten.add.Tensor(t.ones(2), t.ones(2), alpha=3),
    lambda aten, t: aten.mm.default(t.ones(2, 3), t.ones(3, 1)),
    lambda aten, t: aten._softmax.default(t.arange(3.0), 0, False),
    lambda aten, t: aten.slice.Tensor(t.arange(5), 0, 1, 4, 2),
    lambda aten, t: aten.view.default(t.ones(4), [2, 2]),
    lambda aten, t: aten.index.Tensor(t.arange(6).reshape(2, 3), [None, t.tensor([2, 0])]),
    lambda aten, t: aten._to_copy.default(t.ones(2), dtype=t.int64),
    lambda aten, t: aten.sum.dim_IntList(t.ones(2, 3), [1]),
    lambda aten, t: aten.linalg_vector_norm(t.ones(4), 2),
    lambda aten, t: aten.gelu(t.ones(2), approximate="tanh"),
    lambda aten, t: aten.embedding(t.arange(6.0).reshape(3, 2), t.tensor([2, 0])),
    lambda aten, t: aten.threshold_backward(t.ones(2), t.tensor([-1.0, 1.0]), 0),
    lambda aten, t: aten.tanh_backward(t.ones(2), t.tensor([0.5, 0.25])),
    lambda aten, t: aten.copy_(t.ones(2), t.zeros(2)),
]


@pytest.mark.parametrize("call", ATEN)
def test_pytorchs_operators_do_the_same(call):
    torch = pytest.importorskip("torch")
    ours, theirs = call(rushlight.ops.aten, rushlight), call(torch.ops.aten, torch)
    assert ours.shape == theirs.shape
    assert ours.flatten().tolist() == pytest.approx(theirs.flatten().tolist())
    assert str(ours.dtype) == str(theirs.dtype)


def test_overloads_have_names():
    add = rushlight.ops.aten.add
    assert (repr(add), repr(add.Tensor)) == ("aten.add", "aten.add.Tensor")
    assert (add.Tensor.name(), add.default.name()) == ("aten::add.Tensor", "aten::add")
    assert add.Tensor.overloadpacket is add
    assert add is rushlight.ops.aten.add
    with pytest.raises(AttributeError, match="no overload name 'nothing'"):
        add.nothing
    for name in ("nothing", "float32", "Tensor", "pi"):
        assert not hasattr(rushlight.ops.aten, name)


VALUES = {
    "1": lambda lib: 1,
    "1.5": lambda lib: 1.5,
    "True": lambda lib: True,
    "None": lambda lib: None,
    "'a'": lambda lib: "a",
    "1j": lambda lib: 1j,
    "[1]": lambda lib: [1],
    "(1,)": lambda lib: (1,),
    "[1.5]": lambda lib: [1.5],
    "[]": lambda lib: [],
    "[None]": lambda lib: [None],
    "tensor": lambda lib: lib.ones(2),
    "one element": lambda lib: lib.tensor(2),
    "[tensor]": lambda lib: [lib.ones(2)],
    "object": lambda lib: object(),
}
TYPES = (
    "int",
    "float",
    "bool",
    "str",
    "Tensor",
    "Tensor?",
    "int[]",
    "Tensor[]",
    "int?",
    "float?",
)


@pytest.mark.parametrize("kind", TYPES)
def test_types_of_arguments_are_checked_as_by_pytorch(kind):
    torch = pytest.importorskip("torch")
    outcomes = []
    for lib in (torch, rushlight):
        name = f"rltests::typed_{TYPES.index(kind)}"
        lib.library.define(name, f"(Tensor x, {kind} k) -> Tensor")
        lib.library.impl(name, "cpu", lambda x, k: x.clone())
        function = getattr(lib.ops.rltests, name.partition("::")[2])
        outcomes.append({})
        for label, make in VALUES.items():
            try:
                function(lib.ones(1), make(lib))
                outcomes[-1][label] = "taken"
            except RuntimeError as error:
                assert "argument 'k'" in str(error), error
                outcomes[-1][label] = "refused"
    assert outcomes[0] == outcomes[1]


def test_arguments_that_are_missing_or_too_many():
    torch = pytest.importorskip("torch")
    for lib in (torch, rushlight):
        name = "rltests::counted"
        lib.library.define(name, "(Tensor x, int k) -> Tensor")
        lib.library.impl(name, "cpu", lambda x, k: x.clone())
        x = lib.ones(1)
        for call in (
            lambda f, x: f(x), lambda f, x: f(x, 1, 2), lambda f, x: f(x, z=1),
            lambda f, x: f("x", 1), lambda f, x: f([1.0], 1),
        ):  # fmt: skip
            with pytest.raises(RuntimeError, match="counted"):
                call(lib.ops.rltests.counted, x)
