"""Forward mode: the tangent of every differentiable op, dual tensors, custom functions."""

from __future__ import annotations

import numpy as np
import pytest
from differentiable_programs import Step, steps

import rushlight as torch
import rushlight.autograd.forward_ad as fwAD
from rushlight.autograd import tangents
from rushlight.ops.registry import OPS

# Ops without a step of their own to check, and why.
VIEWS = {op.name for op in OPS.values() if op.lower.__name__ == "no_lowering"}
REFUSED = {op.name for op in OPS.values() if op.vjp.__name__ == "refuse"}  # no derivative
ONLY_HISTORY = {"forgotten", "write_region", "overwritten"}  # which no program computes
BATCHES = {"enter_batch", "leave_batch", "spread_batch", "sum_batch"}  # in test_func.py
OTHERS = {  # not of float64 numbers
    "nextafter_half", "to_meta", "contract_wide", "convolution_transpose_wide",
}  # fmt: skip
EXEMPT = VIEWS | REFUSED | ONLY_HISTORY | BATCHES | OTHERS
NAMES = [op.name for op in OPS.values() if op.is_differentiable and op.name not in EXEMPT]
# Differentiable by definition rather than by numbers: their gradient is what PyTorch says.
DEFINED = {
    "ctc_loss": "the gradient includes the normalisation of the scores",
    "ctc_loss_gradient": "only linear in the cotangent",
    "linalg.cholesky": "the operand is symmetric: a direction that is not leaves the domain",
    "linalg.eig": "vectors are defined up to their phase",
    "linalg.eigh": "as for cholesky",
    "linalg.eigvalsh": "as for cholesky",
    "linalg.lstsq": "only the solution has a derivative",
    "linalg.lu_factor": "pivots are part of the results",
    "median": "its second operand is found among the elements of the first",
    "other_zeros": "a product of zeros is known from their number alone",
    "padded_embedding": "the gradient of the padding is zero by definition",
    "standard_gamma": "the gradient is that of a number at the same place of its distribution",
    "unrelated": "the gradient is zero by definition",
    "cast": "rounds to float32",
}
# Operands that have a derivative, and how many results have one, where that is not all of them.
OPERANDS = {
    "zeta": (1,), "gammainc": (1,), "gammaincc": (1,), "resample": (0,), "median": (0,),
    "resample_grad": (0,), "ctc_loss_gradient": (4,), "linalg.pinv": (0,),
    "fractional_max_pool": (0,),
}  # fmt: skip
RESULTS = {"attention": 1, "gru": 1, "lstm": 2}


@pytest.fixture(scope="module")
def recorded() -> dict[str, Step]:
    return steps()


def directions(step: Step) -> list:
    """A random tangent for each operand that may have one."""
    stream = np.random.default_rng(5)
    chosen = OPERANDS.get(step.op.name, range(len(step.operands)))
    return [
        torch.from_numpy(_normal(stream, o)).to(o.dtype)
        if i in chosen and hasattr(o, "_storage") and tangents.is_smooth(o)
        else None
        for i, o in enumerate(step.operands)
    ]


def _normal(stream, o):
    drawn = stream.standard_normal(tuple(o.shape))
    return drawn + 1j * stream.standard_normal(tuple(o.shape)) if o.is_complex() else drawn


def results(step: Step, operands) -> tuple:
    out = step.op(*operands, **dict(zip(step.op.attrs, step.attrs, strict=True)))
    return out if isinstance(out, tuple) else (out,)


@pytest.mark.parametrize("name", NAMES)
def test_the_tangent_of_an_op_is_its_derivative_in_a_direction(name, recorded):
    assert name in recorded, "add a program that records it to differentiable_programs.py"
    step = recorded[name]
    given = directions(step)
    out = results(step, step.operands)
    whole = out if len(out) > 1 else out[0]
    found = tangents.tangents_of(step.op, step.attrs, step.operands, given, whole)
    transposed = tangents.transposed(
        step.op, step.attrs, [_tensor(o) for o in step.operands], given, whole
    )
    for made, other in zip(found, transposed, strict=True):
        if made is not None:
            torch.testing.assert_close(made, other)
    if name in DEFINED:
        return
    eps = 1e-6
    up, down = (
        results(step, [o if t is None else o + sign * eps * t for o, t in pairs(step, given)])
        for sign in (1, -1)
    )
    count = RESULTS.get(name, len(out))
    for made, a, b in zip(found[:count], up[:count], down[:count], strict=True):
        if made is not None:
            torch.testing.assert_close(made, (a - b) / (2 * eps), rtol=1e-4, atol=1e-6)


def pairs(step, given):
    return zip(step.operands, given, strict=True)


def _tensor(o):
    return o if hasattr(o, "_storage") else torch.tensor(o)


def test_every_exempt_op_exists():
    assert set(OPS) >= EXEMPT | set(DEFINED)


# -- dual tensors


def dual(value, tangent):
    return fwAD.make_dual(torch.tensor(value), torch.tensor(tangent))


def tangent_of(tensor):
    found = fwAD.unpack_dual(tensor).tangent
    return None if found is None else found.tolist()


def test_a_level_gives_tangents_and_takes_them_back():
    with fwAD.dual_level():
        x = dual([1.0, 2.0], [1.0, 10.0])
        y = x * x
        assert tangent_of(y) == [2.0, 40.0]
        assert fwAD.unpack_dual(y).primal.tolist() == [1.0, 4.0]
    assert fwAD.unpack_dual(y) == (y, None)
    with fwAD.dual_level():
        assert tangent_of(y) is None


def test_tangents_need_no_gradient_recording_and_ask_for_none():
    with fwAD.dual_level(), torch.no_grad():
        y = dual([1.0], [2.0]).exp()
        assert not y.requires_grad
        assert tangent_of(y) == pytest.approx([2 * np.e])


def test_views_and_writes_through_views_carry_tangents():
    with fwAD.dual_level():
        x = dual([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0])
        made = torch.zeros(2, 2)
        column = made[:, 0]
        column.copy_(x.view(2, 2)[1])
        made[0].mul_(2)
        assert tangent_of(made) == [[6.0, 0.0], [4.0, 0.0]]
        assert tangent_of(column) == [6.0, 4.0]
        made.zero_()
        assert tangent_of(column) in (None, [0.0, 0.0])


def test_a_dual_tensor_is_a_copy_and_its_source_has_no_tangent():
    with fwAD.dual_level():
        source = torch.ones(2)
        x = fwAD.make_dual(source, torch.ones(2))
        x.mul_(3)
        assert tangent_of(x) == [3.0, 3.0]
        assert tangent_of(source) is None
        assert source.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["detach", "data", "long", "item"])
def test_what_leaves_differentiation_has_no_tangent(name):
    with fwAD.dual_level():
        x = dual([2.0], [5.0])
        left = x.data if name == "data" else getattr(x, name)()
        if name != "item":
            assert tangent_of(left) is None
        assert float(left) == 2.0


def test_tangents_can_be_differentiated_backwards():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with fwAD.dual_level():
        y = fwAD.make_dual(x, torch.tensor([1.0, 1.0])) ** 3
        tangent = fwAD.unpack_dual(y).tangent
        tangent.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


@pytest.mark.parametrize("way", ["grad", "backward"])
def test_gradients_of_dual_tensors_have_tangents(way):
    with fwAD.dual_level():
        x = dual([1.0, 2.0], [1.0, 10.0]).requires_grad_()
        loss = (x**3).sum()
        if way == "grad":
            (found,) = torch.autograd.grad(loss, x)
        else:
            loss.backward()
            found = x.grad
        assert not found.requires_grad
        assert tangent_of(found) == [6.0, 120.0]


def test_parameters_of_a_module_may_be_dual_under_a_remembered_backward():
    layer = torch.nn.Linear(2, 1)
    given = torch.ones(3, 2)
    for _ in range(2):  # the second backward of the same path is remembered
        layer(given).pow(2).sum().backward()
    with fwAD.dual_level():
        weight = fwAD.make_dual(layer.weight.detach(), torch.ones(1, 2)).requires_grad_()
        torch.nn.functional.linear(given, weight, layer.bias.detach()).pow(2).sum().backward()
        assert tangent_of(weight.grad) == [[12.0, 12.0]]


def test_what_hooks_keep_for_backward_keeps_its_tangents():
    def packed(x):
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: t.detach().clone().numpy(), torch.from_numpy
        ):
            return (x.sin() * x).sum()

    def recomputed(x):
        made = torch.utils.checkpoint.checkpoint(lambda x: x.sin() * x, x, use_reentrant=False)
        return made.sum()

    x = torch.tensor([0.5, 2.0], dtype=torch.float64)
    expected = torch.diag(2 * x.cos() - x * x.sin())
    for function in (packed, recomputed):
        torch.testing.assert_close(torch.func.hessian(function)(x), expected)
        torch.testing.assert_close(
            torch.func.jvp(function, (x,), (x,))[1], ((x.cos() * x + x.sin()) * x).sum()
        )


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_an_optimizer_step_has_a_tangent(kind):
    def value_at(shift):
        weight = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
        x = torch.tensor([3.0 + shift, 0.5 - shift], dtype=torch.float64)
        return _steps(kind, weight, x).detach().numpy()

    with fwAD.dual_level():
        weight = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
        x = fwAD.make_dual(
            torch.tensor([3.0, 0.5], dtype=torch.float64),
            torch.tensor([1.0, -1.0], dtype=torch.float64),
        )
        found = fwAD.unpack_dual(_steps(kind, weight, x)).tangent.detach().numpy()
    expected = (value_at(1e-6) - value_at(-1e-6)) / 2e-6
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def _steps(kind, weight, x):
    optimizer = getattr(torch.optim, kind)([weight], lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        ((weight * x) ** 2).sum().backward()
        optimizer.step()
    return weight


def test_a_flush_in_the_middle_loses_nothing():
    with fwAD.dual_level():
        y = dual([3.0], [1.0]) * 2
        assert y.item() == 6.0
        assert tangent_of(y * y) == [24.0]


def test_other_threads_see_no_level_of_this_one():
    import threading

    found = []
    with fwAD.dual_level():
        x = dual([1.0], [1.0])
        thread = threading.Thread(target=lambda: found.append(fwAD.unpack_dual(x * 2).tangent))
        thread.start()
        thread.join()
    assert found == [None]


def test_levels_nest_and_end_in_order():
    outer = fwAD.enter_dual_level()
    inner = fwAD.enter_dual_level()
    x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0), level=outer)
    y = fwAD.make_dual(x, torch.tensor(1.0), level=inner)
    slope = fwAD.unpack_dual(y * y, level=inner).tangent
    assert slope.item() == 6.0
    with pytest.raises(RuntimeError, match="not the last one"):
        fwAD.exit_dual_level(level=outer)
    fwAD.exit_dual_level()
    assert fwAD.unpack_dual(slope, level=outer).tangent.item() == 2.0
    fwAD.exit_dual_level()
    with pytest.raises(RuntimeError, match="not the last one"):
        fwAD.exit_dual_level()


def test_wrong_duals_are_refused():
    with pytest.raises(RuntimeError, match="no level exists"):
        dual([1.0], [1.0])
    with fwAD.dual_level():
        with pytest.raises(ValueError, match="primal to be floating point"):
            dual([1], [1.0])
        with pytest.raises(ValueError, match="tangent to be floating point"):
            dual([1.0], [1])
        with pytest.raises(RuntimeError, match=r"of size \[1\] .* of size \[2\]"):
            dual([1.0], [1.0, 2.0])
        with pytest.raises(RuntimeError, match="same level 0"):
            fwAD.make_dual(dual([1.0], [1.0]), torch.ones(1))


def test_an_operand_without_derivative_is_refused_rather_than_taken_for_a_constant():
    with fwAD.dual_level():
        x = dual([1.5], [1.0])
        assert tangent_of(torch.special.zeta(torch.tensor([3.0]), x)) is not None
        with pytest.raises(NotImplementedError, match="'zeta'"):
            torch.special.zeta(x + 1, torch.tensor([1.0]))


def test_a_level_decorates_functions():
    @fwAD.dual_level()
    def slope(at):
        return tangent_of(torch.sin(dual([at], [1.0])))

    assert slope(0.0) == [1.0]
    assert slope(0.0) == [1.0]


def test_a_dual_tensor_prints_its_tangent():
    with fwAD.dual_level():
        x = dual([1.0, 2.0], [3.0, 4.0])
        assert repr(x) == "tensor([1., 2.], tangent=tensor([3., 4.]))"
        assert repr(x[0]) == "tensor(1., tangent=3.0)"
    assert repr(x) == "tensor([1., 2.])"


# -- custom functions


class Product(torch.autograd.Function):
    @staticmethod
    def forward(a, b, factor):
        return a * b * factor, (a > b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, b, ctx.factor = inputs
        ctx.save_for_backward(a, b)
        ctx.save_for_forward(a, b)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, g, _):
        a, b = ctx.saved_tensors
        return g * b * ctx.factor, g * a * ctx.factor, None

    @staticmethod
    def jvp(ctx, ta, tb, factor):
        assert factor is None
        a, b = ctx.saved_tensors
        return (ta * b + tb * a) * ctx.factor, None


class Reversed(torch.autograd.Function):
    """Says that its derivative is minus the true one."""

    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def jvp(ctx, tangent):
        return -tangent.view(-1)


class WithoutRule(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


def test_a_function_says_what_its_tangent_is():
    with fwAD.dual_level():
        a, b = dual([2.0], [1.0]), torch.tensor([3.0])
        made, flag = Product.apply(a, b, 10.0)
        assert tangent_of(made) == [30.0]
        assert tangent_of(flag) is None
        assert tangent_of(Product.apply(a, a, 1.0)[0]) == [4.0]
        assert tangent_of(Reversed.apply(a)) == [-1.0]
        assert tangent_of(a) == [1.0]


def test_second_order_through_functions():
    def cube(x):
        return Product.apply(Product.apply(x, x, 1.0)[0], x, 1.0)[0]

    def slope(x):
        return torch.func.jvp(cube, (x,), (torch.ones(()),))[1]

    x, one = torch.tensor(2.0), torch.ones(())
    assert torch.func.jvp(slope, (x,), (one,))[1].item() == 12.0
    assert torch.func.grad(slope)(x).item() == 12.0
    assert torch.func.jvp(torch.func.grad(cube), (x,), (one,))[1].item() == 12.0


def test_functions_that_say_nothing_or_something_wrong():
    class Short(Reversed):
        @staticmethod
        def jvp(ctx, tangent):
            return tangent.view(-1)[:1]

    class Many(Reversed):
        @staticmethod
        def jvp(ctx, tangent):
            return tangent, tangent

    with fwAD.dual_level():
        x = dual([1.0, 2.0], [1.0, 1.0])
        with pytest.raises(NotImplementedError, match="must implement the jvp function"):
            WithoutRule.apply(x)
        with pytest.raises(RuntimeError, match="different size"):
            Short.apply(x)
        with pytest.raises(RuntimeError, match="expected 1 but got 2"):
            Many.apply(x)
        assert WithoutRule.apply(torch.ones(1)).item() == 2.0


# -- whole models, against PyTorch


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own
def test_a_model_has_the_tangent_that_pytorch_gives_it():
    oracle = pytest.importorskip("torch")
    stream = np.random.default_rng(0)
    arrays = [stream.standard_normal(s) for s in [(4, 2, 8, 8), (3, 2, 3, 3), (3,), (3,), (3,)]]
    directions = [stream.standard_normal(a.shape) for a in arrays]

    def run(library):
        import importlib

        forward = importlib.import_module(f"{library.__name__}.autograd.forward_ad")
        F = library.nn.functional
        with forward.dual_level():
            given = [
                forward.make_dual(library.from_numpy(a), library.from_numpy(t))
                for a, t in zip(arrays, directions, strict=True)
            ]
            images, kernel, bias, scale, shift = given
            hidden = F.conv2d(images, kernel, bias, padding=1)
            hidden = F.batch_norm(hidden, None, None, scale, shift, training=True)
            hidden = F.max_pool2d(F.gelu(hidden), 2).flatten(2).mT
            attended = F.scaled_dot_product_attention(hidden, hidden, hidden)
            loss = F.cross_entropy(attended.mean(1), library.tensor([0, 1, 2, 0]))
            return [part.item() for part in forward.unpack_dual(loss)]

    np.testing.assert_allclose(run(torch), run(oracle), rtol=1e-10)


# -- gradcheck


class Rules(torch.autograd.Function):
    """x -> 2 x with the slopes that the call says."""

    @staticmethod
    def forward(ctx, x, backward_slope, forward_slope):
        ctx.slopes = backward_slope, forward_slope
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * ctx.slopes[0], None, None

    @staticmethod
    def jvp(ctx, tangent, *_):
        return tangent * ctx.slopes[1]


def checked(backward_slope, forward_slope, **options):
    x = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
    return torch.autograd.gradcheck(
        lambda x: Rules.apply(x, backward_slope, forward_slope), (x,), **options
    )


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradcheck_compares_tangents_when_asked(fast_mode):
    error = torch.autograd.GradcheckError
    assert checked(2.0, 2.0, check_forward_ad=True, fast_mode=fast_mode)
    assert checked(2.0, 3.0, fast_mode=fast_mode)
    with pytest.raises(error, match="computed with forward mode mismatch"):
        checked(2.0, 3.0, check_forward_ad=True, fast_mode=fast_mode)
    with pytest.raises(error, match="Jacobian mismatch"):
        checked(3.0, 2.0, check_forward_ad=True, fast_mode=fast_mode)
    assert checked(3.0, 2.0, check_forward_ad=True, check_backward_ad=False)
    with pytest.raises(AssertionError, match="nothing to check"):
        checked(2.0, 2.0, check_backward_ad=False)


def test_gradcheck_can_be_called_also_when_its_module_was_imported():
    import rushlight.autograd.gradcheck  # noqa: F401

    x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(torch.sin, (x,))


def test_gradcheck_of_complex_functions_and_of_batches():
    stream = np.random.default_rng(0)
    z = torch.from_numpy(stream.standard_normal(3) + 1j * stream.standard_normal(3))
    z.requires_grad_()
    for function in (lambda z: z * z.conj() + z, lambda z: z.abs(), lambda z: (z * z).exp()):
        assert torch.autograd.gradcheck(
            function,
            (z,),
            check_forward_ad=True,
            check_batched_grad=True,
            check_batched_forward_grad=True,
        )
    with pytest.raises(RuntimeError, match="mismatch"):
        torch.autograd.gradcheck(lambda z: Rules.apply(z, 3.0, 2.0), (z,))


def test_gradgradcheck_forward_over_reverse():
    x = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(
        torch.tanh, (x,), check_fwd_over_rev=True, check_batched_grad=True
    )
