"""Linear maps, softmax, normalisation, embedding, cross entropy and attention against
PyTorch.
"""

import itertools
import math

import numpy as np
import pytest
from parity import check, check_error, normal

import rushlight

X = normal(4, 6)


@pytest.mark.parametrize("shape", [(6,), (4, 6), (2, 4, 6), (0, 6)])
def test_linear(shape):
    check("F.linear", normal(*shape), normal(3, 6, seed=1), normal(3, seed=2))
    check("F.linear", normal(*shape), normal(3, 6, seed=1))


@pytest.mark.parametrize(
    "a, b",
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
     ((5, 2, 3), (3,)), ((3,), (5, 3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)),
     ((7, 1, 2, 3), (5, 3, 4)), ((2, 0), (0, 3))],
)  # fmt: skip
def test_matmul(a, b):
    check("matmul", normal(*a), normal(*b, seed=1))


def test_products():
    a, b, v = normal(3, 4), normal(4, 5, seed=1), normal(4, seed=2)
    check("mm", a, b)
    check("mv", a, v)
    check("dot", v, normal(4, seed=5))
    check("outer", v, normal(3, seed=4))
    check("inner", a, normal(2, 4, seed=4))
    check("addmm", normal(5, seed=3), a, b, beta=0.5, alpha=2)
    check("addmm", normal(3, 5, seed=3), a, b, beta=0, second=False)
    check("addmv", normal(3, seed=3), a, v)
    check("addr", normal(4, 3, seed=3), v, normal(3, seed=4))
    check("bmm", normal(2, 3, 4), normal(2, 4, 5, seed=1))
    check("baddbmm", normal(2, 3, 5, seed=2), normal(2, 3, 4), normal(2, 4, 5, seed=1), beta=2)
    check("addbmm", normal(3, 5, seed=2), normal(2, 3, 4), normal(2, 4, 5, seed=1))
    check("chain_matmul", a, b, normal(5, 2, seed=6))
    check("linalg.multi_dot", [v, b, normal(5, seed=6)])
    check("tensordot", normal(2, 3, 4), normal(4, 3, 5, seed=1), dims=([1, 2], [1, 0]))
    check("tensordot", normal(2, 3), normal(3, 5, seed=1), 1)
    check("kron", normal(2, 3), normal(3, seed=1))
    check("mm", np.array([[1, 2], [3, 4]]), np.array([[1, 0], [0, 1]]))
    check(
        "F.bilinear",
        normal(4, 2),
        normal(4, 3, seed=1),
        normal(5, 2, 3, seed=2),
        normal(5, seed=3),
    )


def test_product_errors():
    check_error(RuntimeError, "mm", normal(2, 3), normal(2, 3))
    check_error(RuntimeError, "matmul", normal(2, 3), normal(4))
    check_error(RuntimeError, "dot", normal(2), normal(3))
    check_error(RuntimeError, "bmm", normal(2, 3, 4), normal(3, 4, 5))
    check_error(RuntimeError, "F.linear", normal(2, 3), normal(2, 4))
    check_error(RuntimeError, "mm", normal(2, 3), normal(3, 2, dtype="float32"))


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "F.softmin"])
def test_softmax(name, dim):
    check(name, X * 3, dim)
    check(name, np.array([[1e4, -1e4], [-np.inf, 0.0]]), dim, second=False)


def test_softmax_forms():
    check("softmax", np.array(1.0), 0)
    check("F.softmax", X)
    check("softmax", np.array([1, 2]), 0, dtype="dtype:float64")
    check("log_softmax", X.astype("float32"), 1, dtype="dtype:float64", second=False)


def test_layer_norms():
    w, b = normal(6, seed=1), normal(6, seed=2)
    check("F.layer_norm", X, (6,))
    check("F.layer_norm", X, (6,), w, b)
    check("F.layer_norm", normal(2, 3, 4), (3, 4), normal(3, 4, seed=1), eps=1e-3)
    check("F.rms_norm", X, (6,), w)
    check("F.rms_norm", X, (6,), eps=1e-3)
    check("F.layer_norm", X.astype("float32"), (6,), w.astype("float32"), b.astype("float32"))
    check_error(RuntimeError, "F.layer_norm", X, (5,))


def test_group_norms():
    x = normal(2, 6, 3, 2)
    w, b = normal(6, seed=1), normal(6, seed=2)
    check("F.group_norm", x, 3, w, b)
    check("F.instance_norm", x, weight=w, bias=b)
    check_error(RuntimeError, "F.group_norm", x, 4)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(training):
    mean, var = normal(6, seed=3), np.abs(normal(6, seed=4))
    for x in (normal(4, 6), normal(2, 6, 3, 2)):
        check("F.batch_norm", x, mean.astype("float64"), var, normal(6, seed=1), normal(6,
        seed=2),
              training=training, grad=False)  # fmt: skip
    check(
        "F.batch_norm",
        normal(4, 6),
        None,
        None,
        normal(6, seed=1),
        normal(6, seed=2),
        training=True,
    )


KINDS = ("float32", "float64", "float16", "bfloat16")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "batch_norm", "instance_norm"])
def test_the_dtypes_that_may_be_beside_one_another_in_normalisation(name, kind):
    torch = pytest.importorskip("torch")

    def outcome(lib, weight, bias):
        x = lib.ones(2, 3, dtype=getattr(lib, kind))
        w = lib.ones(3, dtype=getattr(lib, weight))
        b = lib.zeros(3, dtype=getattr(lib, bias))
        function = getattr(lib.nn.functional, name)
        try:
            if name == "layer_norm":
                return str(function(x, (3,), w, b).dtype)
            if name == "group_norm":
                return str(function(x, 1, w, b).dtype)
            if name == "instance_norm":
                return str(function(x.reshape(1, 3, 2), None, None, w, b).dtype)
            return str(function(x, b, w, w, b).dtype)
        except RuntimeError:
            return "refused"

    for weight, bias in itertools.product(KINDS, KINDS):
        assert outcome(rushlight, weight, bias) == outcome(torch, weight, bias), (weight, bias)


def test_the_function_is_named_whose_parameters_have_another_dtype():
    x = rushlight.ones(2, 3, dtype=rushlight.float64)
    with pytest.raises(RuntimeError, match=r"^layer_norm: mixed dtype.*float64.*float32"):
        rushlight.nn.LayerNorm(3)(x)


def test_embedding():
    w = normal(5, 3)
    check("F.embedding", np.array([[0, 4], [4, 1]]), w)
    check("F.embedding", np.array([[0, 4], [4, 1]]), w, padding_idx=4)
    check("F.embedding", np.array([0, 4, 4]), w, scale_grad_by_freq=True, second=False)
    check_error(IndexError, "F.embedding", np.array([5]), w)
    check_error(IndexError, "F.embedding", np.array([-1]), w)
    check_error(RuntimeError, "F.embedding", np.array([1.0]), w)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode):
    w = normal(5, 3)
    check("F.embedding_bag", np.array([[0, 4], [4, 1]]), w, mode=mode, second=False)
    check(
        "F.embedding_bag",
        np.array([0, 4, 4, 1]),
        w,
        np.array([0, 1, 1]),
        mode=mode,
        second=False,
    )
    check(
        "F.embedding_bag", np.array([[0, 4], [4, 1]]), w, mode=mode, padding_idx=4, second=False
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy(reduction, smoothing):
    how = {"reduction": reduction, "label_smoothing": smoothing}
    target = np.array([0, 5, -100, 2])
    check("F.cross_entropy", X, target, **how)
    weight = np.abs(normal(6, seed=1))
    check("F.cross_entropy", X, np.array([0, 5, 1, 2]), ignore_index=1, **how)
    check("F.cross_entropy", normal(2, 3, 4), np.array([[0, 1, 2, 0], [2, 2, 1, 0]]), **how)
    check("F.cross_entropy", X, np.abs(normal(4, 6, seed=2)), **how)
    check("F.cross_entropy", X[0], np.array(3), **how)
    check("F.cross_entropy", X, target, weight, grad=False, **how)


def test_nll_loss():
    check("F.nll_loss", X, np.array([0, 5, -100, 2]))
    check("F.nll_loss", X, np.array([-100] * 4), second=False)
    check_error(IndexError, "F.cross_entropy", X, np.array([0, 6, 1, 2]))
    check_error(IndexError, "F.nll_loss", X, np.array([0, -1, 1, 2]))
    check_error(ValueError, "F.cross_entropy", X, np.array([0, 1, 2]))


@pytest.mark.parametrize("how", [{}, {"is_causal": True}, {"scale": 0.3}])
def test_attention(how):
    q, k, v = normal(2, 3, 4, 5), normal(2, 3, 6, 5, seed=1), normal(2, 3, 6, 7, seed=2)
    check("F.scaled_dot_product_attention", q, k, v, **how)


def test_attention_masks():
    q, k, v = normal(2, 3, 4, 5), normal(2, 3, 6, 5, seed=1), normal(2, 3, 6, 7, seed=2)
    mask = normal(4, 6, seed=3) > 0
    mask[0] = False
    check("F.scaled_dot_product_attention", q, k, v, mask, second=False)
    check("F.scaled_dot_product_attention", q, k, v, normal(2, 1, 4, 6, seed=4), second=False)
    check("F.scaled_dot_product_attention", normal(2, 4, 3, 5), normal(2, 2, 6, 5, seed=1),
          normal(2, 2, 6, 5, seed=2), enable_gqa=True, second=False)  # fmt: skip


def test_gradients_without_gradient_mode():
    """The fused backward of attention (no graph is made of it)."""
    q, k, v = normal(2, 3, 4, 5), normal(2, 3, 6, 5, seed=1), normal(2, 3, 6, 7, seed=2)
    check("F.scaled_dot_product_attention", q, k, v, is_causal=True, second=False)


@pytest.mark.parametrize("name", ["addmm", "addmv", "baddbmm", "addbmm"])
def test_scales_of_integer_products_are_cut_to_integers(name):
    shapes = {
        "addmm": [(2, 4), (2, 3), (3, 4)], "addmv": [(2,), (2, 3), (3,)],
        "baddbmm": [(2, 2, 4), (2, 2, 3), (2, 3, 4)], "addbmm": [(2, 4), (2, 2, 3), (2, 3, 4)],
    }  # fmt: skip
    operands = [np.arange(np.prod(s)).reshape(s) for s in shapes[name]]
    check(name, *operands, beta=1.8, alpha=2.2)
    check(name, *operands, beta=0.6, alpha=1.0)


@pytest.mark.parametrize("name", ["addmm", "addmv", "addr", "baddbmm", "addbmm"])
def test_what_a_factor_of_zero_leaves_out_has_a_gradient_of_zero(name):
    shapes = {
        "addmm": [(4,), (2, 3), (3, 4)], "addmv": [(2,), (2, 3), (3,)],
        "addr": [(2, 1), (2,), (3,)], "baddbmm": [(2, 2, 4), (2, 2, 3), (2, 3, 4)],
        "addbmm": [(2, 4), (2, 2, 3), (2, 3, 4)],
    }  # fmt: skip
    x, *factors = (rushlight.ones(s) for s in shapes[name])
    x.fill_(math.nan).requires_grad_()
    found = getattr(rushlight, name)(x, *factors, beta=0, alpha=2)
    assert found.detach().isfinite().all()
    found.sum().backward()
    assert x.grad.tolist() == rushlight.zeros_like(x).tolist()
    assert not getattr(rushlight, name)(x.detach(), *factors, beta=0).requires_grad


def _one_beside_much(lib, kind, much):
    """What a product of `much` + 1 is added to: exactly -`much`."""
    left, right = (lib.zeros(3, 4, 4, dtype=kind) for _ in range(2))
    left[..., 0], left[..., 1] = much, 1.0
    right[:, :2] = 1.0
    return lib.full((4, 4), -much, dtype=kind), left, right


ADDED = {
    "addmm": lambda t, c, a, b: t.addmm(c, a[0], b[0]),
    "addmm of a row": lambda t, c, a, b: t.addmm(c[0], a[0], b[0]),
    "addmm scaled": lambda t, c, a, b: t.addmm(c * 0.5, a[0], b[0], beta=4, alpha=2),
    "addmm_": lambda t, c, a, b: c.addmm_(a[0], b[0]),
    "addmv": lambda t, c, a, b: t.addmv(c[0], a[0], b[0, :, 0]),
    "baddbmm": lambda t, c, a, b: t.baddbmm(c.expand(3, 4, 4), a, b),
    "baddbmm scaled": lambda t, c, a, b: t.baddbmm(c.expand(3, 4, 4) * 2, a, b, beta=0.5),
    "linear": lambda t, c, a, b: t.nn.functional.linear(a[0], b[0].mT, c[0]),
    "conv": lambda t, c, a, b: t.conv1d(a.mT, b.mT[0, :, :, None], c[0]),
    "conv_transpose": lambda t, c, a, b: t.conv_transpose1d(a.mT, b[0][:, :, None], c[0]),
    "conv_transpose far": lambda t, c, a, b: t.conv_transpose1d(
        a.mT, b[0][:, :, None], c[0], stride=20
    ),
}


@pytest.mark.parametrize(("kind", "much"), [("bfloat16", 256.0), ("float16", 2048.0)])
@pytest.mark.parametrize("name", ADDED)
def test_products_of_half_precision_are_added_to_before_they_are_rounded(name, kind, much):
    torch = pytest.importorskip("torch")
    found, expected = (
        ADDED[name](lib, *_one_beside_much(lib, getattr(lib, kind), much))
        for lib in (rushlight, torch)
    )
    assert found.dtype is getattr(rushlight, kind)
    if kind == "bfloat16" or "transpose" not in name:  # there PyTorch rounds twice
        assert found.tolist() == expected.tolist()
    exact = ADDED[name](torch, *_one_beside_much(torch, torch.float64, much))
    assert found.tolist() == exact.tolist()


@pytest.mark.filterwarnings("ignore:.torch.jit")  # by PyTorch of itself, in jvp
@pytest.mark.parametrize("name", ["addmm", "baddbmm", "addmv", "conv_transpose"])
def test_gradients_and_tangents_of_products_of_half_precision(name):
    torch = pytest.importorskip("torch")

    def derivatives(lib):
        given = _one_beside_much(lib, lib.bfloat16, 4.0)
        leaves = [g.detach().requires_grad_() for g in given]
        made = ADDED[name](lib, *leaves)
        grads = lib.autograd.grad((made * made).sum(), leaves)
        _, tangent = lib.func.jvp(lambda *xs: ADDED[name](lib, *xs), given, given)
        return [t.tolist() for t in (*grads, tangent)]

    assert derivatives(rushlight) == derivatives(torch)


def test_sums_of_products_of_half_precision_are_rounded_once():
    c, a, b = _one_beside_much(rushlight, rushlight.bfloat16, 256.0)
    assert rushlight.addbmm(c * 3, a, b)[0, 0].item() == 3.0  # PyTorch rounds each: 2
    a.requires_grad_()
    rushlight.addbmm(c, a, b, alpha=2).sum().backward()
    assert a.grad[0].tolist() == [[8.0, 8.0, 0.0, 0.0]] * 4


@pytest.mark.parametrize("factor", [0, 1, 2, 0.5, True, 1j])
def test_addr_promotes_its_operands_and_checks_its_factors(factor):
    torch = pytest.importorskip("torch")
    names = ("float64", "float32", "int64", "bool", "complex64")
    for kinds in itertools.product(names, repeat=3):
        try:
            expected = torch.addr(*_ones(torch, kinds), beta=factor)
        except RuntimeError:
            if factor != 1j:  # complex numbers make complex results here
                with pytest.raises(RuntimeError, match="addr: "):
                    rushlight.addr(*_ones(rushlight, kinds), beta=factor)
            continue
        made = rushlight.addr(*_ones(rushlight, kinds), beta=factor)
        assert repr(made.dtype).split(".")[1] == repr(expected.dtype).split(".")[1]
        assert made.tolist() == expected.tolist()


def _ones(library, kinds):
    shapes = ((2, 2), (2,), (2,))
    return [library.ones(s, dtype=getattr(library, k)) for s, k in zip(shapes, kinds)]


def test_products_of_bools_are_not_implemented():
    x = rushlight.ones(2, 2, dtype=rushlight.bool)
    for product in (rushlight.mm, rushlight.matmul, rushlight.inner):
        with pytest.raises(NotImplementedError, match="matmul: .* torch.bool"):
            product(x, x)


def test_a_sum_of_products_takes_its_shape_in_place():
    x = rushlight.zeros(1)
    x.addbmm_(rushlight.ones(2, 3, 4), rushlight.ones(2, 4, 5))
    assert x.shape == (3, 5) and bool((x == 8).all())


def test_tensordot_repeats_sizes_of_one():
    check("tensordot", normal(1, 2), normal(3, 4), ([0], [0]))
    check("tensordot", normal(3, 2), normal(4, 1), ([0], [1]))


def test_normalize_delivers_into_out():
    x, out = rushlight.tensor([[3.0, 4.0]]), rushlight.empty(0)
    assert rushlight.nn.functional.normalize(x, out=out) is out
    assert out.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)]]


def test_batch_norm_of_nothing():
    for training in (True, False):
        check("F.batch_norm", np.zeros(0), np.zeros(0), np.zeros(0), training=training,
              grad=False)  # fmt: skip


def attention_arguments(separate, static=False):
    q, k, v = normal(3, 2, 4), normal(5, 2, 4, seed=1), normal(5, 2, 4, seed=2)
    packed = None if separate else normal(12, 4, seed=3)
    out = (normal(4, 4, seed=4), normal(4, seed=5))
    args = (q, k, v, 4, 2, packed, normal(12, seed=6), normal(1, 1, 4), normal(1, 1, 4, seed=8))
    named = {"training": False, "use_separate_proj_weight": separate}
    if separate:
        for i, name in enumerate("qkv"):
            named[f"{name}_proj_weight"] = normal(4, 4, seed=9 + i)
    if static:
        named |= {"static_k": normal(4, 6, 2, seed=12), "static_v": normal(4, 6, 2, seed=13)}
    return (*args, True, 0.0, *out), named


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_attention_in_heads_as_a_function(separate, need_weights):
    args, named = attention_arguments(separate)
    mask = normal(3, 5, seed=20) > 0
    mask[:, 0] = False
    check(
        "F.multi_head_attention_forward", *args, **named, need_weights=need_weights,
        attn_mask=mask, second=False,
    )  # fmt: skip


def test_attention_over_keys_and_values_kept_from_before():
    args, named = attention_arguments(False, static=True)
    args = (*args[:7], None, None, False, *args[10:])
    check("F.multi_head_attention_forward", *args, **named, second=False)
    wrong = named | {"static_k": normal(3, 6, 2)}
    check_error(AssertionError, "F.multi_head_attention_forward", *args, **wrong)
    check_error(AssertionError, "F.multi_head_attention_forward", *args[:3], 8, *args[4:])
