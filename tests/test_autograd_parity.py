"""The manners of autograd, each case run in PyTorch and here: what is returned, kept, refused.

A case takes a library and returns plain data; `attempt` stands for an error by its class.
"""

import functools
import gc

import pytest

import rushlight

CASES = []


def case(function):
    CASES.append(function)
    return function


def attempt(function):
    """What a call returns, or the name of the class of its error."""
    try:
        found = function()
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError) as error:
        return type(error).__name__
    return found.tolist() if hasattr(found, "tolist") else found


def ones(t, needs=True):
    return t.ones(2, requires_grad=needs)


def custom(t, forward, backward, **more):
    rules = {"forward": staticmethod(forward), "backward": staticmethod(backward), **more}
    return type("F", (t.autograd.Function,), rules)


# ---- backward twice


def _kinds(t):
    return [
        lambda x: (x + 1).sum(),
        lambda x: x.view(6)[1:].sum(),
        lambda x: x.t().reshape(6).mean(),
        lambda x: t.cat([x, x]).sum(),
        lambda x: x.expand(4, 2, 3).sum(),
        lambda x: -x.clone().sum(0).sum(),
        lambda x: x.flip(0).cumsum(0).sum(),
        lambda x: x.double().diagonal().sum(),
        lambda x: (x * 2).sum(),
        lambda x: x.relu().sum(),
        lambda x: x.exp().sum(),
        lambda x: (x @ x.t()).sum(),
        lambda x: x.softmax(-1).sum(),
        lambda x: x[x > 0].sum(),
    ]


@case
def only_what_was_saved_needs_retain_graph(t):
    found = []
    for kind in _kinds(t):
        y = kind(t.ones(2, 3, requires_grad=True))
        y.backward()
        found.append(attempt(y.backward))
    return found


@case
def a_part_that_another_backward_freed(t):
    found = []
    for keep in (True, False, True, False):  # the same path, remembered or not
        w = ones(t)
        shared = w * w
        first, second = (shared * 2).sum(), (shared * 3).sum()
        first.backward(retain_graph=keep)
        found += [attempt(second.backward), w.grad.tolist()]
    return found


@case
def the_graph_keeps_its_structure(t):
    x = ones(t)
    y = x * 2
    z = y.sum()
    z.backward()
    ((node, place), *_) = z.grad_fn.next_functions
    leaf = node.next_functions[0][0]
    names = [node.name(), leaf.name(), type(leaf).__name__]
    return [node is y.grad_fn, place, leaf.variable is x, *names]


# ---- the gradient and its object


@case
def the_gradient_object(t):
    x = ones(t)
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    found = [x.grad is first, first.tolist()]
    (x * x).sum().backward(create_graph=True)
    found += [x.grad is first, x.grad.requires_grad, x.grad.tolist()]
    del x.grad
    return [*found, x.grad]


@case
def assigned_gradients(t):
    x = ones(t)

    def assign(value):
        x.grad = value

    given = [t.ones(3), t.ones(2, dtype=t.float64), 1.0, "a", x, t.ones(1, 2), t.ones(2), None]
    return [attempt(functools.partial(assign, value)) for value in given]


@case
def who_may_require_gradients(t):
    x = ones(t)
    y = x * 2
    return [
        attempt(lambda: t.ones(2, dtype=t.int64).requires_grad_()),
        attempt(lambda: y.requires_grad_(False)),
        attempt(lambda: y.requires_grad_() is y),
        attempt(lambda: t.tensor([1], requires_grad=True)),
        attempt(lambda: x.add_(1)),
        attempt(lambda: y[:1].detach_()),
        attempt(lambda: y.detach_().requires_grad),
        y.is_leaf,
        y.grad_fn,
    ]


@case
def leaves_that_no_longer_want_a_gradient(t):
    def grads(*wanted):
        a, b = ones(t), ones(t)
        for both in wanted:
            loss = (a * b * 3).sum()
            b.requires_grad_(False)
            b.requires_grad_(both)
            loss.backward()
            b.requires_grad_()
        return [g if g is None else g.tolist() for g in (a.grad, b.grad)]

    ran = []
    late = ones(t)
    loss = (late * 3).sum()
    late.register_hook(lambda g: ran.append(g.tolist()))
    late.register_post_accumulate_grad_hook(lambda p: ran.append(p.grad))
    late.requires_grad_(False)
    loss.backward()
    orders = [(False, False), (True, False), (False, True), (True, False), (False, False)]
    return [grads(*wanted) for wanted in orders], ran, late.grad


# ---- backward and grad


@case
def backward_of_several(t):
    x = ones(t)
    one = t.ones(())
    found = [
        attempt(lambda: t.autograd.backward([x * 2, x * 3], [t.ones(2), t.ones(2)])),
        attempt(lambda: t.autograd.backward([x * 1, x * 2], [t.ones(2)])),
        attempt(lambda: t.autograd.backward([x * 1])),
        attempt(lambda: t.autograd.backward([])),
        attempt(lambda: t.autograd.backward([(x * 2).sum(), one])),
        attempt(lambda: t.autograd.backward([x * 2], [t.ones(3)])),
        attempt(lambda: t.autograd.backward((x * 2).sum(), inputs=[])),
        attempt(lambda: t.autograd.backward((x * 2).sum(), inputs=x)),
        attempt(lambda: t.autograd.backward((x * 2).sum(), one, grad_variables=one)),
        attempt(lambda: t.autograd.backward(x * 2, t.ones(2, dtype=t.int64))),
        attempt(lambda: t.autograd.backward(x * 2, t.ones(2, dtype=t.complex64))),
        attempt(lambda: (x * 2).backward(1.0)),
        attempt(lambda: one.backward()),
    ]
    return [*found, x.grad.tolist()]


@case
def grad_of_several(t):
    x, z = ones(t), ones(t)
    grad = t.autograd.grad
    eye = t.eye(2)

    def lists(**options):
        def run():
            found = grad(options.pop("of", (x * x).sum()), options.pop("by", [x, z]), **options)
            return [None if g is None else g.tolist() for g in found]

        return attempt(run)

    return [
        lists(allow_unused=True),
        lists(),
        lists(materialize_grads=True),
        lists(materialize_grads=True, allow_unused=False),
        lists(by=[]),
        lists(by=t.ones(2)),
        lists(of=x * x),
        lists(of=x * x, by=x, grad_outputs=eye, is_grads_batched=True),
        lists(of=x * x, by=x, grad_outputs=t.eye(3), is_grads_batched=True),
        lists(of=x * x, grad_outputs=eye, is_grads_batched=True, materialize_grads=True),
    ]


@case
def gradient_edges(t):
    edge = t.autograd.graph.get_gradient_edge
    x = ones(t)
    y = x * 2
    return [
        edge(y).output_nr,
        edge(y).node is y.grad_fn,
        attempt(lambda: t.autograd.grad((y * 3).sum(), edge(y))[0]),
        attempt(lambda: t.autograd.grad(edge(y), x, t.ones(2))[0]),
        attempt(lambda: t.autograd.backward(edge(x * 2), t.ones(2))),
        x.grad.tolist(),
        attempt(lambda: edge(t.ones(2))),
    ]


# ---- hooks


@case
def the_order_of_hooks(t):
    found = []
    x = ones(t)
    y = x * 2
    y.register_hook(lambda g: found.append("first"))
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    y.grad_fn.register_prehook(lambda gs: found.append("before"))
    y.grad_fn.register_hook(lambda gi, go: found.append([gi[0].tolist(), go[0].tolist()]))
    x.register_hook(lambda g: found.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda p: found.append(p.grad.tolist()))
    leaf = t.autograd.graph.get_gradient_edge(x).node
    leaf.register_prehook(lambda gs: found.append(len(gs)))
    leaf.register_hook(lambda gi, go: found.append([len(gi), len(go)]))
    y.sum().backward()
    return [*found, y.grad.tolist(), x.grad.tolist()]


@case
def hooks_of_grad_and_of_inputs(t):
    found = []
    x = ones(t)
    x.register_hook(lambda g: g * 2)
    x.register_post_accumulate_grad_hook(lambda p: found.append("after"))
    found.append(t.autograd.grad((x * 2).sum(), x)[0].tolist())
    (x * 2).sum().backward(inputs=[x])
    return [*found, x.grad.tolist()]


@case
def what_hooks_may_return(t):
    x = ones(t)
    found = []
    for result in (lambda g: t.ones(3), lambda g: "a", lambda g: g.double(), lambda g: g * 2):
        y = x * 2
        y.register_hook(result)
        found.append(attempt(y.sum().backward))
    return [*found, x.grad.tolist()]


# ---- modes


@case
def modes_around_generators(t):
    found = []

    @t.no_grad()
    def steps():
        sent = yield t.is_grad_enabled()
        try:
            yield sent, t.is_grad_enabled()
        except ValueError:
            yield "caught", t.is_grad_enabled()
        finally:
            found.append(t.is_grad_enabled())

    running = steps()
    found += [next(running), t.is_grad_enabled(), running.send(5), running.throw(ValueError)]
    running.close()
    return [*found, t.is_grad_enabled()]


@case
def modes_around_classes_and_functions(t):
    class Model:
        def __init__(self):
            self.seen = t.is_grad_enabled()

    made = t.no_grad()(Model)()
    plain = t.no_grad(lambda: t.is_grad_enabled())
    return [made.seen, plain(), t.set_grad_enabled(False)(t.is_grad_enabled)()]


@case
def inference_tensors(t):
    normal = ones(t, False)
    with t.inference_mode():
        made = t.ones(3)
        results = [made, made * 2, normal * 1, normal.clone(), made[:1]]
        others = [normal, normal[:1], normal.detach(), normal.add_(1)]
        with t.inference_mode(False):
            others.append(t.ones(2))
            others.append(others[-1].requires_grad_() * 2)
    later = [made.clone(), made + 1, made[:1], made.detach()]
    return [x.is_inference() for x in (*results, *others, *later)]


@case
def inference_tensors_that_are_computed_inside(t):
    with t.inference_mode():
        x = t.ones(3) * 2
        y = x + 1
        y.tolist()
        with t.inference_mode(False):
            z = t.ones(3) * 3
        y.tolist()
    return [v.is_inference() for v in (x, y, z)], attempt(lambda: y.add_(1))


@case
def what_inference_tensors_may_not(t):
    with t.inference_mode():
        x = t.ones(2)
        y = x * 2
        y.add_(1)
    w = ones(t)
    custom_square = custom(
        t,
        lambda ctx, a, b: (ctx.save_for_backward(b), a * b)[1],
        lambda ctx, g: (g, None),
    )
    return [
        attempt(lambda: x * w),
        attempt(lambda: y * w),
        attempt(lambda: x + w),
        attempt(lambda: x.clone() * w),
        attempt(lambda: x.add_(1)),
        attempt(lambda: x[:1].add_(1)),
        attempt(lambda: x.requires_grad_()),
        attempt(lambda: x._version),
        attempt(lambda: custom_square.apply(w, x)),
    ]


# ---- custom Functions


@case
def a_ctx_is_its_node(t):
    seen = []

    def backward(ctx, g):
        seen.extend([ctx.name(), type(ctx).__name__, list(ctx.needs_input_grad)])
        return g * ctx.scale, None

    def forward(ctx, x, scale):
        ctx.scale = scale
        ctx.save_for_backward(x)
        return x * scale

    x = ones(t)
    y = custom(t, forward, backward).apply(x, 3)
    node = y.grad_fn
    seen += [type(node).__name__, node.scale, node.saved_tensors[0].tolist(), node.metadata]
    y.sum().backward()
    return [*seen, x.grad.tolist(), attempt(lambda: node.saved_tensors), node.scale]


@case
def what_backward_may_return(t):
    results = [
        lambda g: (g, g),
        lambda g: (g, None),
        lambda g: None,
        lambda g: g.double(),
        lambda g: t.ones(3),
        lambda g: t.ones(1),
        lambda g: t.ones(1, 2),
        lambda g: 2.0,
        lambda g: [g],
        lambda g: g.sum(),
        lambda g: g.to(t.complex64),
    ]
    found = []
    for result in results:
        x = ones(t)
        f = custom(t, lambda ctx, x: x * 2, lambda ctx, g, result=result: result(g))
        found.append(attempt(f.apply(x).sum().backward))
        found.append(None if x.grad is None else x.grad.tolist())
    return found


@case
def dirty_inputs(t):
    def write(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    def forget(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2) * 1

    x = ones(t)
    y = x * 1
    z = custom(t, write, lambda ctx, g: g * 2).apply(y)
    z.sum().backward()
    return [
        z is y,
        x.grad.tolist(),
        attempt(lambda: custom(t, write, lambda ctx, g: g).apply(x)),
        attempt(lambda: custom(t, forget, lambda ctx, g: g).apply(x * 1)),
    ]


@case
def saved_tensors_that_are_cleared(t):
    seen = []

    def backward(ctx, g):
        seen.extend([attempt(lambda: ctx.saved_tensors[0]) for _ in range(2)])
        return g

    f = custom(
        t,
        lambda ctx, x: (ctx.save_for_backward(x), x * 2)[1],
        backward,
        clear_saved_tensors_on_access=True,
    )
    f.apply(ones(t)).sum().backward()
    return seen


@case
def gradients_in_one_list(t):
    f = custom(
        t,
        lambda ctx, x: (x * 2, x * 3),
        lambda ctx, gs: gs.pop() * 3 + gs.pop() * 2,
        boxed_grads_call=True,
    )
    x = ones(t)
    a, b = f.apply(x)
    (a.sum() + b.sum() * 10).backward()
    return x.grad.tolist()


# ---- what was saved


@case
def saved_tensors_by_name(t):
    x = t.tensor([2.0, 3.0], requires_grad=True)
    y = x.exp()
    found = [
        (x * x).grad_fn._saved_self.tolist(),
        (x / x).grad_fn._saved_other.tolist(),
        [round(v, 4) for v in y.grad_fn._saved_result.tolist()],
        x.softmax(0).grad_fn._saved_dim,
        attempt(lambda: x.log().grad_fn._saved_other),
    ]
    y.sum().backward()
    return [*found, attempt(lambda: y.grad_fn._saved_result)]


@case
def hooks_on_one_saved_tensor(t):
    x = t.tensor([2.0, 3.0], requires_grad=True)
    y = x * x
    raw = y.grad_fn._raw_saved_self
    raw.register_hooks(lambda saved: saved * 10, lambda saved: saved)
    twice = attempt(lambda: y.grad_fn._raw_saved_self.register_hooks(abs, abs))
    y.sum().backward()
    return [x.grad.tolist(), twice]


@case
def pack_hooks_do_not_write(t):
    x = ones(t)

    def record():
        with t.autograd.graph.saved_tensors_hooks(lambda s: s.mul_(2), lambda s: s):
            (x * 1).exp()

    return attempt(record)


@case
def nodes_can_be_called(t):
    x = t.tensor([2.0, 3.0], requires_grad=True)
    found = [g.tolist() for g in (x * x).grad_fn(t.ones(2))]
    return [*found, (x + 1).grad_fn.requires_grad, (x + 1).sum().grad_fn._sequence_nr() > 0]


# ---- the rest


@case
def unique_has_no_derivative(t):
    x = t.tensor([3.0, 1.0, 3.0], requires_grad=True)
    found = [t.unique(x), *x.unique(return_counts=True), t.unique_consecutive(x)]
    flags = [part.requires_grad for part in found]
    return [*flags, attempt(lambda: t.unique(x).sum().backward())]


@case
def anomaly_mode(t):
    found = []
    for options in ({}, {"check_nan": False}):
        with t.autograd.detect_anomaly(**options):
            found += [t.is_anomaly_enabled(), t.is_anomaly_check_nan_enabled()]
    t.autograd.set_detect_anomaly(True)
    found.append(t.is_anomaly_enabled())
    t.autograd.set_detect_anomaly(False)
    return [*found, t.is_anomaly_enabled(), t.is_anomaly_check_nan_enabled()]


@pytest.mark.filterwarnings("ignore")  # PyTorch warns of anomaly mode, create_graph and others
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_it_is_as_in_pytorch(function):
    torch = pytest.importorskip("torch")
    gc.collect()
    assert function(rushlight) == function(torch)


def test_a_running_sum_of_losses_keeps_no_graph():
    import weakref  # for this test only

    w = rushlight.ones(2, requires_grad=True)
    total, nodes = 0, []
    for _ in range(3):
        loss = (w * w).sum()
        loss.backward()
        nodes.append(weakref.ref(loss.grad_fn.next_functions[0][0]))
        total = total + loss
        del loss
    gc.collect()
    assert [node() for node in nodes] == [None] * 3
    with pytest.raises(RuntimeError, match="second time"):
        total.backward()


def test_the_gradient_of_a_mean_may_be_written_to():
    for lib in (rushlight, pytest.importorskip("torch")):
        x = lib.ones(2, 4, requires_grad=True)
        for result, value in ((lambda x: x.mean(), 0.125), (lambda x: x.mean(1).sum(), 0.25)):
            (gradient,) = lib.autograd.grad(result(x), x)
            assert gradient.mul_(-1).tolist() == [[-value] * 4] * 2
        assert lib.func.grad(lambda x: x.mean())(lib.ones(2)).neg_().tolist() == [-0.5, -0.5]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own
def test_a_hessian_may_be_written_to():
    for lib in (rushlight, pytest.importorskip("torch")):
        found = lib.func.hessian(lambda x: (x**3).sum())(lib.tensor([1.0, 2.0]))
        assert found.mul_(2).tolist() == [[12.0, 0.0], [0.0, 24.0]]
