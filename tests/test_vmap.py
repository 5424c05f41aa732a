"""`vmap` against PyTorch's, and against the function called for each row alone."""

from __future__ import annotations

import ast
import importlib
import warnings
from pathlib import Path

import numpy as np
import pytest

import rushlight
from rushlight.ir.batch import BatchBuilder
from rushlight.ir.builder import Builder
from rushlight.ir.host import does_take_batches

torch = pytest.importorskip("torch")
SEED = 20

# name -> (function of the library, inputs by name); a capital is a batch (5, ...), what is not
# is shared by all samples
ROWS = {"X": (3, 4), "Y": (3, 4), "V": (4,), "M": (4, 4), "I": (6, 6), "C": (2, 6, 6)}
SHARED = {"x": (3, 4), "v": (4,), "w": (7, 4), "k": (3, 2, 3, 3), "b": (3,)}


def _cases():
    def f(lib):
        return lib.nn.functional

    cases = {
        "add": (lambda t, X, x: X + x, "Xx"),
        "add number": (lambda t, X: 2.5 - X, "X"),
        "mul broadcast": (lambda t, X, V: X * V, "XV"),
        "div": (lambda t, X, v: X / (v.abs() + 1), "Xv"),
        "pow": (lambda t, X: X.abs() ** 1.5, "X"),
        "compare": (lambda t, X, Y: X > Y, "XY"),
        "where": (lambda t, X, Y, x: t.where(x < X, X, Y), "XYx"),
        "clamp": (lambda t, X: X.clamp(-0.5, 0.5), "X"),
        "exp log sin": (lambda t, X: (X.exp() + 1).log() * X.sin(), "X"),
        "gelu": (lambda t, X: f(t).gelu(X), "X"),
        "sum all": (lambda t, X: X.sum(), "X"),
        "sum dim": (lambda t, X: X.sum(-1, keepdim=True), "X"),
        "mean": (lambda t, X: X.mean(0), "X"),
        "var": (lambda t, X: X.var(1), "X"),
        "max": (lambda t, X: X.max(-1).values, "X"),
        "argmax": (lambda t, X: X.argmax(), "X"),
        "amin": (lambda t, X: X.amin((0, 1)), "X"),
        "prod": (lambda t, X: X.prod(0), "X"),
        "norm": (lambda t, X: t.linalg.vector_norm(X), "X"),
        "logsumexp": (lambda t, X: X.logsumexp(-1), "X"),
        "cumsum": (lambda t, X: X.cumsum(0), "X"),
        "cummax": (lambda t, X: X.cummax(1).values, "X"),
        "all any": (lambda t, X: (X > 0).any(0) & (X > -9).all(), "X"),
        "reshape": (lambda t, X: X.reshape(2, 6), "X"),
        "view of transpose": (lambda t, X: X.t().reshape(-1), "X"),
        "permute": (lambda t, C: C.permute(2, 0, 1), "C"),
        "expand": (lambda t, V: V.expand(3, 4), "V"),
        "flip roll": (lambda t, X: X.flip(0).roll(1, 1), "X"),
        "slice": (lambda t, X: X[1:, ::2], "X"),
        "select": (lambda t, X: X[..., 1], "X"),
        "diagonal": (lambda t, M: M.diagonal(1), "M"),
        "tril": (lambda t, M: M.tril(-1), "M"),
        "cat": (lambda t, X, x: t.cat([X, x], 1), "Xx"),
        "stack": (lambda t, X, Y: t.stack([X, Y], -1), "XY"),
        "chunk": (lambda t, X: X.chunk(2, 1)[1], "X"),
        "pad": (lambda t, X: f(t).pad(X, (1, 2), value=3.0), "X"),
        "unfold": (lambda t, X: X.unfold(1, 2, 1), "X"),
        "index": (lambda t, X, V: X[(V > 0).long()], "XV"),
        "index shared": (lambda t, X: X[:, t.tensor([0, 2, 2])], "X"),
        "gather": (lambda t, X, Y: X.gather(1, (Y > 0).long()), "XY"),
        "scatter": (lambda t, X, Y: X.scatter(1, (Y > 0).long(), 9.0), "XY"),
        "index_add": (lambda t, X, Y: X.index_add(0, t.tensor([0, 0, 2]), Y), "XY"),
        "take_along_dim": (lambda t, X: X.take_along_dim(X.argsort(1), 1), "X"),
        "masked_fill": (lambda t, X, Y: X.masked_fill(Y > 0, 0.0), "XY"),
        "sort": (lambda t, X: X.sort(0).values, "X"),
        "topk": (lambda t, X: X.topk(2).values, "X"),
        "median": (lambda t, X: X.median(1).values, "X"),
        "searchsorted": (lambda t, v, X: t.searchsorted(v.sort().values, X), "vX"),
        "one_hot": (lambda t, V: f(t).one_hot((V > 0).long(), 3), "V"),
        "embedding": (lambda t, V, w: f(t).embedding((V > 0).long(), w), "Vw"),
        "dot": (lambda t, V, v: t.dot(V, v), "Vv"),
        "mv": (lambda t, w, V: w @ V, "wV"),
        "matmul": (lambda t, X, M: X @ M, "XM"),
        "outer": (lambda t, V, v: t.outer(V, v), "Vv"),
        "complex": (lambda t, X, Y: (t.complex(X, Y) * t.complex(Y, X).conj()).real, "XY"),
        "complex number": (lambda t, V: (t.complex(V, V)[0] * (2 + 1j)).real, "V"),
        "complex matmul": (lambda t, M, X: (t.complex(X, X) @ t.complex(M, M)).abs(), "MX"),
        "einsum": (lambda t, X, Y: t.einsum("ij,kj->ik", X, Y), "XY"),
        "linear": (lambda t, X, w: f(t).linear(X, w), "Xw"),
        "bmm": (lambda t, C: t.bmm(C, C), "C"),
        "conv2d": (lambda t, C, k, b: f(t).conv2d(C, k, b, padding=1), "Ckb"),
        "conv2d strided": (lambda t, C, k: f(t).conv2d(C[None], k, stride=2), "Ck"),
        "conv2d of both": (
            lambda t, C, I: f(t).conv2d(C[None], I[:4].reshape(3, 2, 2, 2)), "CI"
        ),
        "max_pool2d": (lambda t, C: f(t).max_pool2d(C, 2), "C"),
        "avg_pool2d": (lambda t, C: f(t).avg_pool2d(C, 3, 2, 1), "C"),
        "interpolate": (
            lambda t, C: f(t).interpolate(C[None], scale_factor=2, mode="bilinear"), "C"
        ),
        "softmax": (lambda t, X: X.softmax(-1), "X"),
        "log_softmax": (lambda t, X: X.log_softmax(0), "X"),
        "layer_norm": (lambda t, X, v: f(t).layer_norm(X, (4,), v, v), "Xv"),
        "group_norm": (lambda t, C: f(t).group_norm(C[None], 2), "C"),
        "batch_norm": (lambda t, X: f(t).batch_norm(X, None, None, training=True), "X"),
        "cross_entropy": (
            lambda t, X: f(t).cross_entropy(X, t.tensor([0, 3, 1]), t.arange(1.0, 5.0)), "X"
        ),
        "mse_loss": (lambda t, X, Y: f(t).mse_loss(X, Y), "XY"),
        "attention": (
            lambda t, X, Y: f(t).scaled_dot_product_attention(X[None], Y[None], X[None]), "XY"
        ),
        "inverse": (lambda t, M: t.linalg.inv(M + 5 * t.eye(4)), "M"),
        "solve": (lambda t, M, v: t.linalg.solve(M + 5 * t.eye(4), v), "Mv"),
        "cholesky": (lambda t, M: t.linalg.cholesky(M @ M.mT + t.eye(4)), "M"),
        "det": (lambda t, M: t.linalg.det(M), "M"),
        "svdvals": (lambda t, M: t.linalg.svdvals(M), "M"),
        "select_scatter": (lambda t, x, V: t.select_scatter(x, V, 0, 1), "xV"),
    }  # fmt: skip
    return {name: (function, letters) for name, (function, letters) in cases.items()}


CASES = _cases()


def _arrays(letters):
    rng = np.random.default_rng(SEED)
    sizes = {**{n: (5, *s) for n, s in ROWS.items()}, **SHARED}
    return [rng.standard_normal(sizes[c]).astype(np.float32) for c in letters]


def _in_dims(letters):
    return tuple(0 if c.isupper() else None for c in letters)


def _as_numpy(x):
    return x.detach().numpy()


@pytest.mark.parametrize("name", CASES)
def test_an_operation_gives_what_it_gives_in_pytorch(name):
    function, letters = CASES[name]
    arrays, dims = _arrays(letters), _in_dims(letters)
    made = [
        lib.func.vmap(lambda *xs, lib=lib: function(lib, *xs), in_dims=dims)(
            *(lib.tensor(a) for a in arrays)
        )
        for lib in (torch, rushlight)
    ]
    np.testing.assert_allclose(
        _as_numpy(made[1]), _as_numpy(made[0]), rtol=2e-5, atol=2e-6, err_msg=name
    )


@pytest.mark.parametrize("name", CASES)
def test_a_row_of_a_batch_has_the_bits_that_it_has_alone(name):
    function, letters = CASES[name]
    arrays, dims = _arrays(letters), _in_dims(letters)
    tensors = [rushlight.tensor(a) for a in arrays]
    together = rushlight.vmap(lambda *xs: function(rushlight, *xs), in_dims=dims)(*tensors)
    for i in range(5):
        own = [t if d is None else t[i].clone() for t, d in zip(tensors, dims, strict=True)]
        alone = function(rushlight, *own)
        assert alone.dtype == together.dtype
        if rushlight.config.process.backend == "reference":  # BLAS promises no bits
            assert alone.allclose(together[i], rtol=1e-6, atol=1e-6)
        else:
            assert _as_numpy(together[i]).tobytes() == _as_numpy(alone).tobytes(), (name, i)


DIFFERENTIABLE = [
    n for n in CASES
    if n not in ("compare", "argmax", "all any", "searchsorted", "one_hot", "svdvals")
    and n != "select_scatter"  # PyTorch's gradient there is that of repeated rows
]  # fmt: skip


def _loss(lib, function, tensors, dims):
    made = lib.func.vmap(lambda *xs: function(lib, *xs), in_dims=dims)(*tensors)
    return (made * made.detach().cos()).sum()


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_go_through_a_batch(name):
    """Of every input, batched or shared, against PyTorch."""
    function, letters = CASES[name]
    dims = _in_dims(letters)
    found = []
    for lib in (torch, rushlight):
        tensors = [lib.tensor(a, requires_grad=True) for a in _arrays(letters)]
        loss = _loss(lib, function, tensors, dims)
        grads = lib.autograd.grad(loss, tensors, allow_unused=True)
        found.append([None if g is None else _as_numpy(g) for g in grads])
    for expected, got in zip(*found, strict=True):
        assert (expected is None or not expected.any()) or got is not None
        if expected is not None and got is not None:
            np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5, err_msg=name)


def test_every_primitive_of_the_builder_has_a_batching_rule():
    """One that is not overridden would see one sample's shape and all samples' elements."""
    written_in_others = {
        "arg", "const", "leaf", "scalar", "full", "iota", "wide", "flip", "checked", "pad",
        "cat", "recurrence", "recurrence_grad", "items", "extent", "complex", "conj", "paired",
        "interleaved", "recast", "seen", "marked",
    }  # fmt: skip
    public = {n for n in vars(Builder) if not n.startswith("_")}
    assert public - written_in_others <= set(vars(BatchBuilder))


def _host_functions():
    """The functions that lowerings call by name between kernels."""
    for path in sorted(Path(rushlight.__file__).parent.glob("ops/*.py")):
        module = importlib.import_module(f"rushlight.ops.{path.stem}")
        for node in ast.walk(ast.parse(path.read_text())):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if is_call and node.func.attr == "host" and isinstance(node.args[0], ast.Name):
                yield vars(module).get(node.args[0].id)


def test_only_these_operations_are_computed_sample_by_sample():
    """A new host function says whether it takes batches, or is added here."""
    found = {f.__name__ for f in _host_functions() if f and not does_take_batches(f, {})}
    assert found == {
        "ctc_losses", "ctc_gradients", "_sample_rows", "_poisson_rows", "_binomial_rows",
        "_numpy_bag_max", "_products", "_gamma_rows", "_gamma_slopes",
    }  # fmt: skip


@pytest.fixture
def x():
    return rushlight.arange(6.0).reshape(2, 3)


# -- where batches are


@pytest.mark.parametrize("in_dim", [0, 1, 2, -1, -2])
@pytest.mark.parametrize("out_dim", [0, 1, -1])
def test_dimensions_of_samples(in_dim, out_dim):
    array = np.arange(24.0).reshape(2, 3, 4)
    made = [
        lib.func.vmap(lambda t: t * 2 + t.sum(), in_dims=in_dim, out_dims=out_dim)(
            lib.tensor(array)
        )
        for lib in (torch, rushlight)
    ]
    assert made[0].tolist() == made[1].tolist()


def test_trees_go_in_and_come_out(x):
    def function(tree, factor):
        return {"sum": tree["a"] + tree["b"][0] * factor, "rest": (tree["b"][1], tree["a"][0])}

    mapped = rushlight.vmap(
        function,
        in_dims=({"a": 0, "b": (1, None)}, None),
        out_dims={"sum": 1, "rest": (None, 0)},
    )
    shared = rushlight.ones(2)
    made = mapped({"a": x, "b": (x.t(), shared)}, 10)
    assert made["sum"].tolist() == (x * 11).t().tolist()
    assert made["rest"][0] is shared
    assert made["rest"][1].tolist() == [0.0, 3.0]


def test_keyword_arguments_are_shared(x):
    made = rushlight.vmap(lambda a, other: a.sum() * other)(x, other=rushlight.tensor([1.0, 2]))
    assert made.tolist() == [[3.0, 6.0], [12.0, 24.0]]


def test_batches_in_batches(x):
    def inner(a, b):
        return (a * b).sum() + a[0]

    rows = rushlight.vmap(rushlight.vmap(inner, in_dims=(None, 0)), in_dims=(0, None))(x, x + 1)
    expected = [[inner(a, b).item() for b in x + 1] for a in x]
    assert rows.tolist() == expected
    turned = rushlight.vmap(
        rushlight.vmap(inner, in_dims=(None, 0)), in_dims=(0, None), out_dims=1
    )
    assert turned(x, x + 1).tolist() == rows.t().tolist()


def test_a_batch_of_nothing(x):
    made = rushlight.vmap(lambda a: a.sum() * 2)(x[:0])
    assert made.shape == (0,)
    assert rushlight.vmap(lambda a: a * 2)(x[:0]).shape == (0, 3)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 9])
def test_chunks_have_the_same_bits(size):
    rows = rushlight.randn(7, 5)
    weight = rushlight.randn(4, 5)

    def function(a):
        return (weight @ a).softmax(0), a.sum()

    together = rushlight.vmap(function, out_dims=(1, 0))(rows)
    apart = rushlight.vmap(function, out_dims=(1, 0), chunk_size=size)(rows)
    parts = rushlight.func.chunk_vmap(function, out_dims=(1, 0), chunks=size)(rows)
    for a, b, c in zip(together, apart, parts, strict=True):
        assert a.tolist() == b.tolist() == c.tolist()


def test_a_sample_looks_like_one(x):
    seen = []

    def function(a):
        seen.append((a.shape, a.size(0), a.ndim, a.numel(), a.stride(), len(a), a.dtype))
        seen.append((a[1:].storage_offset(), a.is_contiguous(), len(list(a))))
        return a

    rushlight.vmap(function, in_dims=1)(x)
    assert seen[0] == ((2,), 2, 1, 2, (1,), 2, rushlight.float32)
    assert seen[1] == (1, True, 2)


def test_printing_shows_all_samples(x):
    texts = []
    rushlight.vmap(lambda a: texts.append(repr(a)) or a)(x)
    assert texts[0].startswith("BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[0., 1., 2.],")
    kept = rushlight.vmap(lambda a: a * 2)(x.clone().requires_grad_())  # its number is in use
    rushlight.vmap(rushlight.vmap(lambda a: texts.append(repr(a)) or a))(x)
    assert texts[1].startswith("BatchedTensor(lvl=2,")
    assert kept.requires_grad


# -- gradients


def _net():
    rushlight.manual_seed(3)
    return rushlight.nn.Sequential(
        rushlight.nn.Linear(3, 4), rushlight.nn.Tanh(), rushlight.nn.Linear(4, 2)
    )


def test_gradients_of_each_sample_through_a_module():
    net, rows = _net(), rushlight.randn(6, 3)
    values = {name: p.detach() for name, p in net.named_parameters()}

    def gradients(row):
        own = {name: p.clone().requires_grad_() for name, p in values.items()}
        loss = rushlight.nn.utils.stateless.functional_call(net, own, (row,)).square().sum()
        return dict(zip(own, rushlight.autograd.grad(loss, own.values()), strict=True))

    together = rushlight.vmap(gradients)(rows)
    for i, row in enumerate(rows):
        net.zero_grad()
        net(row).square().sum().backward()
        for name, p in net.named_parameters():
            assert together[name][i].allclose(p.grad, rtol=1e-5, atol=1e-7)


def test_shared_weights_get_the_sum_over_the_batch():
    net, rows = _net(), rushlight.randn(6, 3)
    rushlight.vmap(net)(rows).square().sum().backward()
    together = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net(rows).square().sum().backward()
    for a, p in zip(together, net.parameters(), strict=True):
        assert a.allclose(p.grad, rtol=1e-5, atol=1e-6)


def test_what_was_computed_before_the_batch_is_differentiated_once():
    """Its gradient is summed where it leaves the batch, not at the leaf."""
    weight = rushlight.randn(3, 3, requires_grad=True)
    seen = []
    before = weight.sin()
    before.register_hook(lambda g: seen.append(g.shape) or None)
    rushlight.vmap(lambda row: (before @ row).exp().sum())(
        rushlight.randn(5, 3)
    ).sum().backward()
    assert seen == [(3, 3)] and not weight.grad._storage.value.type.levels


def test_second_derivatives_through_a_batch():
    rows = np.random.default_rng(1).standard_normal((4, 3))
    found = []
    for lib in (torch, rushlight):
        leaf = lib.tensor(rows, requires_grad=True)
        weight = lib.tensor(rows[:3], requires_grad=True)
        out = lib.func.vmap(lambda row, w=weight: (w @ row).tanh().prod())(leaf)
        (first,) = lib.autograd.grad(out.sum(), leaf, create_graph=True)
        found.append(
            [_as_numpy(g) for g in lib.autograd.grad(first.square().sum(), [leaf, weight])]
        )
    for expected, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)


def _derivatives(lib):
    """Compositions with the other functions of `func`."""
    func, rng = lib.func, np.random.default_rng(0)
    rows, weight, targets = (
        lib.tensor(rng.standard_normal(s)) for s in ((5, 3), (4, 3), (5, 4))
    )
    vmap, grad = func.vmap, func.grad

    def loss(w, row, target):
        return ((lib.tanh(w @ row) - target) ** 2).sum()

    losses = vmap(loss, in_dims=(None, 0, 0))
    gradients = vmap(grad(loss), in_dims=(None, 0, 0))
    yield "grad in vmap", gradients(weight, rows, targets)
    yield "vmap in grad", grad(lambda w: losses(w, rows, targets).sum())(weight)
    yield (
        "grad in vmap in grad",
        grad(lambda w: gradients(w, rows, targets).sin().sum())(weight),
    )
    yield (
        "vmap in grad in vmap",
        vmap(grad(lambda w: losses(w, rows, targets).sum()))(lib.stack([weight, weight * 2])),
    )
    yield "hessian in vmap", vmap(func.hessian(lambda r, t: loss(weight, r, t)))(rows, targets)
    yield "jacrev in vmap", vmap(func.jacrev(lambda r: lib.tanh(weight @ r)))(rows)
    yield "jacfwd in vmap", vmap(func.jacfwd(lambda r: lib.tanh(weight @ r)))(rows)
    yield "vmap in jacrev", func.jacrev(vmap(lambda r: lib.tanh(weight @ r)))(rows)
    yield "vmap in jacfwd", func.jacfwd(vmap(lambda r: lib.tanh(weight @ r)))(rows)
    yield (
        "vjp in vmap",
        vmap(lambda r, t: func.vjp(lambda w: w @ r, weight)[1](t)[0])(rows, targets),
    )
    yield (
        "jvp of grad in vmap",
        vmap(lambda r, t: func.jvp(grad(lambda v: loss(weight, v, targets[0])), (r,), (t,))[1])(
            rows, rows + 1
        ),
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch's own jvp
def test_derivatives_in_batches_and_around_them():
    for expected, got in zip(_derivatives(torch), _derivatives(rushlight), strict=True):
        np.testing.assert_allclose(
            _as_numpy(got[1]), _as_numpy(expected[1]), rtol=1e-7, atol=1e-10, err_msg=got[0]
        )


def test_a_batch_of_cotangents():
    rows = np.random.default_rng(2).standard_normal((4, 3))
    found = []
    for lib in (torch, rushlight):
        leaf = lib.tensor(rows, requires_grad=True)
        out = lib.func.vmap(lambda row: row.exp().cumprod(0))(leaf).sum(0)
        eye = lib.eye(3, dtype=lib.float64)
        (jacobian,) = lib.autograd.grad(out, leaf, eye, is_grads_batched=True)
        found.append(_as_numpy(jacobian))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-9)


def test_a_graph_that_is_kept_keeps_its_batch_apart_from_new_ones():
    """The number of a batch is given out again only when nothing can flow back into it."""
    leaf = rushlight.randn(3, requires_grad=True)
    rows = rushlight.randn(4, 3)
    kept = rushlight.vmap(lambda row: (row * leaf).sin().sum())(rows)

    def later(factor):
        (g,) = rushlight.autograd.grad(
            kept, leaf, factor * rushlight.ones(4), retain_graph=True
        )
        return g

    together = rushlight.vmap(later)(rushlight.tensor([1.0, 2.0, 3.0]))
    for factor, g in zip((1.0, 2.0, 3.0), together, strict=True):
        assert g.allclose(later(rushlight.tensor(factor)))


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_the_gradient_of_shared_weights_is_one_product(kind):
    """It has the bits that it has without `vmap`, and no sample's gradient is stored."""
    kind = getattr(rushlight, kind)
    weight = rushlight.randn(9, 7).to(kind).requires_grad_()
    rows, seed = rushlight.randn(40, 7).to(kind), rushlight.randn(40, 9).to(kind)
    found = []
    for call in (lambda w: rushlight.vmap(lambda r: w @ r)(rows), lambda w: rows @ w.t()):
        (g,) = rushlight.autograd.grad(call(weight), weight, seed)
        found.append(g.float().tolist())
    if kind is rushlight.float32:
        assert found[0] == found[1]
    assert np.allclose(found[0], found[1], rtol=2e-2, atol=2e-1)


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_the_gradient_of_a_shared_table_is_one_scatter(kind):
    kind = getattr(rushlight, kind)
    table = rushlight.randn(11, 3).to(kind).requires_grad_()
    index, seed = rushlight.randint(0, 11, (6, 5)), rushlight.randn(6, 5, 3).to(kind)
    embedding = rushlight.nn.functional.embedding
    together = rushlight.vmap(lambda i: embedding(i, table))(index)
    (g,) = rushlight.autograd.grad(together, table, seed)
    (expected,) = rushlight.autograd.grad(embedding(index, table), table, seed)
    assert g.tolist() == expected.tolist()
    seen = [
        n.shape
        for n in _nodes_of(
            lambda: rushlight.vmap(lambda i: embedding(i, table))(index), table, seed
        )
    ]
    assert (6, 11, 3) not in seen


def _nodes_of(call, leaf, seed):
    """The nodes that a gradient needs in the compiler's graph."""
    from rushlight.pipeline import lower_path
    from rushlight.trace.trace import local

    (g,) = rushlight.autograd.grad(call(), leaf, seed)
    lowered = lower_path(local.trace.edge, (g._storage.value.position,))
    stack, seen = list(lowered.results.values()), []
    while stack:
        node = stack.pop()
        seen.append(node)
        stack += [arg for arg, _ in node.args]
    return seen


def test_backward_inside_of_a_batch():
    leaf, rows = rushlight.ones(3, requires_grad=True), rushlight.randn(4, 3)

    def inner(row):
        own = row.clone().requires_grad_()
        own.sum().backward()
        (own * own).sum().backward()
        return own.grad

    assert rushlight.vmap(inner)(rows).allclose(1 + 2 * rows)
    with pytest.raises(RuntimeError, match="outside"):
        rushlight.vmap(lambda row: (row * leaf).sum().backward() or row)(rows)
    assert leaf.grad is None


def test_forward_mode_in_a_batch_and_around_one():
    forward_ad = rushlight.autograd.forward_ad
    rushlight.manual_seed(4)
    rows, tangents, weight = rushlight.randn(5, 3), rushlight.randn(5, 3), rushlight.randn(4, 3)

    def function(row):
        made = rushlight.zeros_like(row)
        made[0] = row[1] * 2
        made[1:].add_(row[0])
        return (weight @ made).tanh().prod()

    def derivative(call, primal, tangent):
        with forward_ad.dual_level():
            out = call(forward_ad.make_dual(primal, tangent))
            return forward_ad.unpack_dual(out).tangent

    alone = [derivative(function, r, t) for r, t in zip(rows, tangents, strict=True)]
    inside = rushlight.vmap(lambda r, t: derivative(function, r, t))(rows, tangents)
    around = derivative(rushlight.vmap(function), rows, tangents)
    for expected, a, b in zip(alone, inside, around, strict=True):
        assert a.allclose(expected) and b.allclose(expected)
    columns = rushlight.vmap(lambda t: derivative(function, rows[0], t))(rushlight.eye(3))
    leaf = rows[0].clone().requires_grad_()
    assert columns.allclose(rushlight.autograd.grad(function(leaf), leaf)[0])


def test_a_flush_inside_of_a_batch():
    """Samples in memory, views of them and writes to them."""
    weight, rows = rushlight.randn(4, 3, requires_grad=True), rushlight.randn(5, 3)

    def function(row, flush):
        a = (weight @ row).tanh()
        flush()
        b = a[1:] * 2 + row.sum()
        flush()
        c = b[1:].clone()
        c[0] = row[0]
        flush()
        c.add_(1)
        return rushlight.cat([c, a.detach(), b]).sum()

    from rushlight.trace.trace import flush

    found = []
    for each in (flush, lambda: None):
        out = rushlight.vmap(function, in_dims=(0, None))(rows, each)
        each()
        found.append((out.tolist(), rushlight.autograd.grad(out.sum(), weight)[0]))
    assert found[0][0] == found[1][0]
    assert found[0][1].allclose(found[1][1], rtol=1e-5)


def test_calls_record_the_path_of_the_first():
    from rushlight.trace.trace import local

    net, rows = _net(), rushlight.randn(6, 3)
    optimizer = rushlight.optim.SGD(net.parameters(), lr=0.1)
    edges = []
    for _ in range(5):
        optimizer.zero_grad()
        rushlight.vmap(net)(rows).square().mean().backward()
        optimizer.step()
        edges.append(local.trace.edges)
    assert edges[-1] == edges[-2] == edges[-3]


# -- writes


def test_writes_into_samples(x):
    def function(row):
        made = rushlight.zeros_like(row)
        made[0] = row[1] * 2
        made[1:].add_(row[0])
        return made.mul_(row)

    together = rushlight.vmap(function)(x)
    assert together.tolist() == [function(row).tolist() for row in x]
    leaf = x.clone().requires_grad_()
    rushlight.vmap(function)(leaf).square().sum().backward()
    other = x.clone().requires_grad_()
    rushlight.stack([function(row) for row in other]).square().sum().backward()
    assert leaf.grad.tolist() == other.grad.tolist()


def test_an_equal_value_written_into_samples_leaves_them_samples(x):
    def function(row):
        row = row.clone()
        row.fill_(1.0)
        row[0] = row.new_full((), 7.0)
        return row.add_(row)

    assert rushlight.vmap(function)(x).tolist() == [[14.0, 2.0, 2.0]] * 2


@pytest.mark.parametrize(
    "make", ["new_zeros", "new_full", "new_empty", "zeros_like", "ones_like"]
)
def test_tensors_made_like_a_sample_can_be_written(make, x):
    def function(row):
        given = {"new_full": ((3,), 2.0), "new_zeros": (3,), "new_empty": (3,)}.get(make, ())
        own = getattr(row, make, None)
        made = own(*given) if own is not None else getattr(rushlight, make)(row)
        return made.copy_(row)

    assert rushlight.vmap(function)(x).tolist() == x.tolist()


def test_writes_into_an_argument_are_seen_outside(x):
    kept = x.clone()
    rushlight.vmap(lambda row: row.add_(1), in_dims=1)(x)
    assert x.tolist() == (kept + 1).tolist()
    with pytest.raises(RuntimeError, match="leaf"):
        rushlight.vmap(lambda row: row.add_(1))(x.clone().requires_grad_())


# -- what no batch can do


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda r: rushlight.zeros(3).add_(r), "inplace"),
        (lambda r: rushlight.zeros(3).__setitem__(0, r[0]), "inplace"),
        (lambda r: rushlight.zeros(4)[1:].copy_(r), "inplace"),
        (lambda r: r[0].item(), r"\.item\(\)"),
        (lambda r: float(r[0]), r"\.item\(\)"),
        (lambda r: r if r.sum() > 0 else -r, "control flow"),
        (lambda r: r.nonzero(), "nonzero"),
        (lambda r: r[r > 0], "mask"),
        (lambda r: r.unique(), "unique"),
        (lambda r: r.masked_select(r > 0), "masked_select"),
        (lambda r: r.long().bincount(), "bincount"),
        (lambda r: r.repeat_interleave(r.long()), "repeat_interleave"),
        (lambda r: r.tolist(), "read"),
        (lambda r: r.numpy(), "read"),
        (lambda r: r + rushlight.rand(3), "random"),
        (lambda r: rushlight.nn.functional.dropout(r), "random"),
        (lambda r: rushlight.nn.BatchNorm1d(2)(r.expand(4, 3)[:, :2]), "inplace"),
    ],
)
def test_what_would_differ_between_samples_raises(function, message, x):
    with pytest.raises(RuntimeError, match=f"vmap.*{message}"):
        rushlight.vmap(function)(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda v, lib, x: v(lambda r: 3)(x),
        lambda v, lib, x: v(lambda r: (r, None))(x),
        lambda v, lib, x: v(lambda r: r, in_dims=None)(x),
        lambda v, lib, x: v(lambda r: r, in_dims="a")(x),
        lambda v, lib, x: v(lambda r: r, in_dims=2)(x),
        lambda v, lib, x: v(lambda r: r, in_dims=(0, 0))(x),
        lambda v, lib, x: v(lambda r: r, in_dims=(1.5,))(x),
        lambda v, lib, x: v(lambda r: r, in_dims=(None,))(x),
        lambda v, lib, x: v(lambda: x)(),
        lambda v, lib, x: v(lambda r, s: r)(x, x.t()),
        lambda v, lib, x: v(lambda r, s: r)(x, 3),
        lambda v, lib, x: v(lambda r: r)(x.sum()),
        lambda v, lib, x: v(lambda r: r, out_dims=3)(x),
        lambda v, lib, x: v(lambda r: r, out_dims=(0, 0))(x),
        lambda v, lib, x: v(lambda r: r, out_dims="a")(x),
        lambda v, lib, x: v(lambda r: r, out_dims=None)(x),
        lambda v, lib, x: v(lambda r: r, randomness="some"),
        lambda v, lib, x: v(lambda r: r, chunk_size=0),
        lambda v, lib, x: v(lambda r: x[0][r.long()])(x),
    ],
)
def test_wrong_calls_raise_what_pytorch_raises(call):
    kinds = []
    for lib in (torch, rushlight):
        with pytest.raises(Exception) as caught:
            made = call(lib.func.vmap, lib, lib.arange(6.0).reshape(2, 3))
            made.sum().item()
        kinds.append(type(caught.value))
    assert issubclass(kinds[1], kinds[0])


def test_an_error_leaves_no_batch_behind(x):
    for _ in range(2):
        with pytest.raises(RuntimeError, match="item"):
            rushlight.vmap(lambda r: r[0].item())(x)
    assert rushlight.vmap(lambda r: r + rushlight.ones(3))(x).tolist() == (x + 1).tolist()
    assert rushlight.rand(2).shape == (2,)


# -- random numbers


@pytest.mark.parametrize(
    "draw",
    [
        lambda r: rushlight.randn(3),
        lambda r: rushlight.rand_like(r),
        lambda r: rushlight.randperm(9),
        lambda r: rushlight.randint(0, 1000, (5,)),
        lambda r: rushlight.nn.functional.dropout(rushlight.ones(40)),
        lambda r: rushlight.bernoulli(rushlight.full((40,), 0.5)),
        lambda r: rushlight.zeros_like(r).normal_(),
    ],
)
def test_random_numbers_of_samples(draw, x):
    rushlight.manual_seed(5)
    first, second = rushlight.vmap(draw, randomness="different")(x)
    assert first.tolist() != second.tolist()
    rushlight.manual_seed(5)
    again = rushlight.vmap(draw, randomness="different")(x)
    assert again[0].tolist() == first.tolist() and again[1].tolist() == second.tolist()
    first, second = rushlight.vmap(draw, randomness="same")(x)
    assert first.tolist() == second.tolist()


def test_samples_draw_one_after_the_other(x):
    """The numbers of a batch are those of as many draws outside of it."""
    rushlight.manual_seed(1)
    together = rushlight.vmap(lambda r: rushlight.rand(4), randomness="different")(x)
    rushlight.manual_seed(1)
    assert together.tolist() == [rushlight.rand(4).tolist() for _ in range(2)]
    after = rushlight.rand(1)
    rushlight.manual_seed(1)
    rushlight.rand(8)
    assert rushlight.rand(1).tolist() == after.tolist()


def test_batches_in_batches_draw_by_their_own_rules(x):
    def rows(outer, inner):
        draw = rushlight.vmap(lambda r: rushlight.rand(()), randomness=inner)
        return rushlight.vmap(lambda r: draw(x), randomness=outer)(x)

    assert len(set(rows("different", "different").reshape(-1).tolist())) == 4
    assert len(set(rows("same", "different").reshape(-1).tolist())) == 2
    assert len(set(rows("different", "same").reshape(-1).tolist())) == 2


# -- custom Functions


class Doubled(rushlight.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x  # not the true derivative, so that a test can tell


class Scaled(rushlight.autograd.Function):
    calls: list = []

    @staticmethod
    def forward(x, factor):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor * 10, None

    @staticmethod
    def vmap(info, in_dims, x, factor):
        Scaled.calls.append((info.batch_size, info.randomness, in_dims, tuple(x.shape)))
        return Scaled.apply(x, factor), in_dims[0]


def test_a_generated_rule_runs_forward_for_samples(x):
    leaf = x.clone().requires_grad_()
    made = rushlight.vmap(Doubled.apply)(leaf)
    made.sum().backward()
    assert made.tolist() == (x * 2).tolist() and leaf.grad.tolist() == x.tolist()


def test_a_rule_of_its_own_gets_whole_batches(x):
    Scaled.calls.clear()
    leaf = x.clone().requires_grad_()
    made = rushlight.vmap(Scaled.apply, in_dims=(1, None))(leaf, 3.0)
    made.sum().backward()
    assert Scaled.calls == [(3, "error", (0, None), (3, 2))]
    assert made.tolist() == (x * 3).t().tolist() and leaf.grad.tolist() == [[30.0] * 3] * 2
    Scaled.calls.clear()
    rushlight.vmap(rushlight.vmap(lambda a: Scaled.apply(a, 2.0)))(x)
    assert [c[0] for c in Scaled.calls] == [3, 2]


def test_what_the_library_has_of_functions_passes_samples():
    """Hooks on a module's gradients, and both kinds of checkpoints."""
    from rushlight.utils.checkpoint import checkpoint

    net, rows, seen = _net(), rushlight.randn(6, 3), []
    net[0].register_full_backward_hook(lambda m, inner, outer: seen.append(outer[0].shape))
    found = []
    for call in (
        net,
        lambda r: checkpoint(net, r, use_reentrant=True),
        lambda r: checkpoint(net, r, use_reentrant=False),
    ):
        leaf = rows.clone().requires_grad_()
        net.zero_grad()
        rushlight.vmap(call)(leaf).square().sum().backward()
        found.append((leaf.grad.tolist(), [p.grad.tolist() for p in net.parameters()]))
    assert found[0] == found[1] == found[2] and seen == [(4,)] * 3


def test_functions_without_a_rule_raise(x):
    class Plain(Doubled):
        generate_vmap_rule = False

    class Both(Scaled):
        generate_vmap_rule = True

    class Old(rushlight.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

    class Wrong(Doubled):
        generate_vmap_rule = False

        @staticmethod
        def vmap(info, in_dims, x):
            return x

    for kind, message in (
        (Plain, "vmap support"), (Old, "setup_context"), (Wrong, "two returns"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            rushlight.vmap(kind.apply)(x)
    with pytest.raises(RuntimeError, match="both"):
        rushlight.vmap(lambda r: Both.apply(r, 2.0))(x)


# -- what has no rule


def test_what_reads_its_operands_is_called_for_each_sample(x):
    with pytest.warns(UserWarning, match="performance drop because histc"):
        made = rushlight.vmap(lambda r: rushlight.histc(r, 3))(x)
    assert made.tolist() == [rushlight.histc(r, 3).tolist() for r in x]


def test_a_recurrence_shares_or_has_its_own_weights():
    rushlight.manual_seed(2)
    net = rushlight.nn.LSTM(3, 4)
    rows = rushlight.randn(5, 6, 2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # shared weights: more rows of one recurrence
        together = rushlight.vmap(lambda r: net(r)[0])(rows)
    alone = rushlight.stack([net(r)[0] for r in rows])
    assert together.tolist() == alone.tolist()
    weights = {n: rushlight.randn(5, *p.shape) for n, p in net.named_parameters()}
    call = rushlight.nn.utils.stateless.functional_call
    with pytest.warns(UserWarning, match="performance drop because lstm"):
        own = rushlight.vmap(lambda w, r: call(net, w, (r,))[0])(weights, rows)
        own = own.tolist()
    alone = [call(net, {n: w[i] for n, w in weights.items()}, (rows[i],))[0] for i in range(5)]
    assert own == [a.tolist() for a in alone]
