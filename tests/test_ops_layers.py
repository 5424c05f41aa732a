"""Linear maps, softmax, normalisation, embedding, cross entropy and attention against
PyTorch.
"""

import numpy as np
import pytest
from parity import check, check_error, normal

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
