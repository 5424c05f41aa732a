"""In-place operations on views, on views of views and on memory that overlaps, under autograd.

Everything that an operation reads is read before it writes, and what a gradient needs cannot be
overwritten. So where PyTorch raises, or reads what it has just written, the right answer is the
one that PyTorch gives on copies: there `own` copies, here it does not.
"""

import pytest

import rushlight

CASES = {
    "row *=": lambda t, x, own: x[0].mul_(3),
    "row add tensor": lambda t, x, own: x[1].add_(x[0]),
    "self overlap add": lambda t, x, own: x[1:].add_(own(x[:-1])),
    "self overlap copy": lambda t, x, own: x[1:].copy_(own(x[:-1])),
    "col set": lambda t, x, own: x.__setitem__((slice(None), 1), x[:, 0] * 2),
    "view of view": lambda t, x, own: x.view(-1)[2:8].view(2, 3)[1].mul_(5),
    "t view": lambda t, x, own: x.t()[0].mul_(2),
    "transpose add": lambda t, x, own: x[:, :3].add_(own(x[:, :3].t())),
    "expand read": lambda t, x, own: x.add_(own(x[0]).expand(3, 4)),
    "unfold write": lambda t, x, own: x.view(-1).unfold(0, 4, 4)[1].mul_(3),
    "as_strided overlap write": lambda t, x, own: x.as_strided((3,), (2,), 1).mul_(2),
    "diag": lambda t, x, own: x[:, :3].diagonal().mul_(7),
    "squeeze": lambda t, x, own: x[0:1].squeeze(0).exp_(),
    "select neg": lambda t, x, own: x.select(1, -1).zero_(),
    "narrow": lambda t, x, own: x.narrow(1, 1, 2).pow_(2),
    "detach write": lambda t, x, own: x[0].detach().mul_(2),
    "masked": lambda t, x, own: x[1:].masked_fill_(x[1:] > 6, 0.0),
    "index_put": lambda t, x, own: x.index_put_((t.tensor([0, 2]),), x[1] * 2),
    "setitem self": lambda t, x, own: x.__setitem__(slice(0, 2), own(x[1:3])),
    "setitem broadcast": lambda t, x, own: x.__setitem__(slice(None), x[0]),
    "fill": lambda t, x, own: x[1].fill_(3.0),
    "fill tensor": lambda t, x, own: x[1].fill_(x[0, 0]),
    "two views": lambda t, x, own: (x[0].mul_(2), x[:, 0].add_(x[0, 1])),
    "older view used": lambda t, x, own: (lambda v: (x[0].mul_(2), x.mul_(v.sum())))(x[0]),
    "older view written": lambda t, x, own: (lambda v: (x.mul_(2), v.add_(x[2])))(x[1]),
    "view of view older": lambda t, x, own: (
        lambda v: (lambda w: (v.mul_(2), w.add_(1), x.add_(w.sum())))(v[1:])
    )(x[1]),
    "permute write": lambda t, x, own: x.view(3, 2, 2).permute(2, 0, 1)[1].mul_(own(x[0, 0])),
    "flatten alias": lambda t, x, own: x.flatten()[3:5].mul_(0.5),
    "reshape copy": lambda t, x, own: x.t().reshape(-1)[0:2].mul_(9),
    "swap rows": lambda t, x, own: (lambda a: (x[0].copy_(x[1]), x[1].copy_(a)))(x[0].clone()),
    "add_ alpha view": lambda t, x, own: x[:, 1].add_(x[:, 2], alpha=3),
    "cumsum_": lambda t, x, own: x[1].cumsum_(0),
    "clamp_": lambda t, x, own: x[1:].clamp_(5, 8),
    "sigmoid_": lambda t, x, own: x[0].sigmoid_(),
    "movedim": lambda t, x, own: x.movedim(0, 1)[2].mul_(own(x[1, 1])),
    "real view": lambda t, x, own: x.unsqueeze(-1)[..., 0].mul_(2),
    "view_as": lambda t, x, own: x.view_as(t.empty(3, 4)).mul_(2),
    "expand_as read": lambda t, x, own: x.mul_(own(x[:, 0:1]).expand_as(x)),
    "addcmul": lambda t, x, own: x[0].addcmul_(own(x[1]), own(x[2])),
    "where self": lambda t, x, own: x[0].copy_(t.where(x[0] > x[1], x[0], x[1])),
    "sort copy": lambda t, x, own: x[0].copy_(x[0].flip(0)),
    "resized": lambda t, x, own: x.view(4, 3)[1].mul_(own(x.view(2, 6)[1, :3])),
    "lerp": lambda t, x, own: x[0].lerp_(x[1], 0.25),
    "div view by view": lambda t, x, own: x[:, 1:].div_(x[:, :-1] + 1),
    "index_add": lambda t, x, own: x.index_add_(0, t.tensor([0, 0]), own(x[1:])),
    "scatter": lambda t, x, own: x.scatter_(1, t.tensor([[0], [1], [2]]), x[:, :1] * 2),
}

REFUSED = {
    "write to an expanded view": lambda x: x[0].expand(3, 4).add_(1),
    "write to an output of chunk": lambda x: x.chunk(2, 1)[0].mul_(2),
    "write to an output of split": lambda x: x.split(1)[1].mul_(2),
    "write to an output of unbind": lambda x: x.unbind(0)[1].mul_(2),
}


def _outcome(lib, case, own):
    leaf = lib.arange(12.0, dtype=lib.float64).reshape(3, 4).requires_grad_()
    x = leaf * 1.5
    case(lib, x, own)
    weights = lib.arange(1.0, 13.0, dtype=lib.float64).reshape(3, 4)
    (x * weights).sum().backward()
    return x.detach().reshape(-1).tolist(), leaf.grad.reshape(-1).tolist()


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_pytorch_on_copies(name):
    torch = pytest.importorskip("torch")
    expected = _outcome(torch, CASES[name], lambda t: t.clone())
    found = _outcome(rushlight, CASES[name], lambda t: t)
    for got, want in zip(found, expected, strict=True):
        assert got == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name):
    for lib in (rushlight, pytest.importorskip("torch")):
        x = lib.arange(12.0).reshape(3, 4).requires_grad_() * 1.5
        with pytest.raises(RuntimeError):
            REFUSED[name](x)


def test_leaves_and_their_views_are_not_written_under_gradients():
    for lib in (rushlight, pytest.importorskip("torch")):
        leaf = lib.ones(2, 2, requires_grad=True)
        for target in (leaf, leaf[0]):
            with pytest.raises(RuntimeError, match="leaf"):
                target.mul_(2)
        with lib.no_grad():
            leaf[0].mul_(2)
        assert leaf.tolist() == [[2.0, 2.0], [1.0, 1.0]]


def test_elements_that_meet_in_memory_are_read_before_any_is_written():
    for lib in (rushlight, pytest.importorskip("torch")):
        x = lib.tensor([0.0, 1, 1, 1, 0, 1, 1, 0])
        view = x.as_strided((2, 2, 2), (1, 1, 1))
        view.copy_(view == 0)
        assert x.tolist() == [1, 0, 0, 0, 0, 1, 1, 0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
def test_of_elements_that_meet_in_memory_the_last_stays(dtype):
    """In order of position, also where threads share the work."""
    rows, columns = 700, 500
    source = rushlight.arange(rows * columns).to(getattr(rushlight, dtype))
    x = rushlight.zeros(rows + columns, dtype=source.dtype)
    x.as_strided((rows, columns), (1, 1)).copy_(source.reshape(rows, columns))
    rows_begin = source.reshape(rows, columns)[:, 0]
    assert x[: rows - 1].equal(rows_begin[: rows - 1])
    assert x[rows - 1 : -1].equal(source[-columns:])
    assert x[-1] == 0
