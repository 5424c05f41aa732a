"""Parameters under all names that PyTorch, its documentation and NumPy have for them."""

import inspect

import pytest

import rushlight


def both():
    return rushlight, pytest.importorskip("torch")


def grid(t):
    return t.arange(6.0).reshape(2, 3)


NUMPY = [
    lambda t: t.softmax(grid(t), axis=0),
    lambda t: t.cat([grid(t), grid(t)], axis=1),
    lambda t: t.stack([grid(t), grid(t)], axis=1),
    lambda t: t.cumsum(grid(t), axis=1),
    lambda t: t.sort(grid(t), axis=0, descending=True).values,
    lambda t: t.median(grid(t), axis=0).values,
    lambda t: t.add(x1=grid(t), x2=3),
    lambda t: t.exp(x=grid(t)),
    lambda t: t.exp(a=grid(t)),
    lambda t: t.maximum(x1=grid(t), x2=-grid(t)),
    lambda t: t.linalg.norm(x=grid(t)),
    lambda t: t.concatenate([grid(t)], axis=0),
    lambda t: t.cumsum(grid(t), axis=1, out=t.empty(2, 3)),
    lambda t: t.argsort(-grid(t), axis=1),
    lambda t: t.argsort(a=-grid(t), axis=1),
    lambda t: t.repeat_interleave(grid(t), 2, axis=0),
    lambda t: t.squeeze(grid(t)[None], axis=0),
    lambda t: t.squeeze(x=grid(t)[None]),
    lambda t: t.unsqueeze(x=grid(t), axis=1),
    lambda t: t.chunk(grid(t), 2, axis=0)[1],
    lambda t: t.unbind(grid(t), axis=1)[1],
    lambda t: t.quantile(grid(t), 0.5, axis=0, keepdims=True),
    lambda t: t.zeros_like(x=grid(t)),
    lambda t: t.flatten(x=grid(t)),
    lambda t: grid(t).sort(axis=0, descending=True).values,
    lambda t: grid(t).argsort(axis=0, descending=True),
    lambda t: grid(t)[None].squeeze(axis=0),
    lambda t: grid(t)[None].squeeze_(axis=0),
    lambda t: grid(t).unsqueeze(axis=1),
    lambda t: grid(t).unsqueeze_(axis=1),
    lambda t: grid(t).repeat_interleave(2, axis=1),
    lambda t: grid(t).softmax(axis=0),
    lambda t: grid(t).log_softmax(axis=0),
    lambda t: grid(t).cumsum(axis=0),
    lambda t: grid(t).cummax(axis=0).values,
    lambda t: grid(t).topk(1, axis=0).values,
    lambda t: grid(t).diff(axis=0),
    lambda t: grid(t).median(axis=0, keepdims=True).values,
    lambda t: grid(t).quantile(0.5, axis=0, keepdims=True),
    lambda t: grid(t).prod(axis=0, keepdims=True),
    lambda t: grid(t).sum(axis=(0, 1)),
    lambda t: grid(t).mean(axis=0, keepdims=True),
    lambda t: grid(t).tensor_split(2, axis=0)[0],
]


@pytest.mark.parametrize("call", NUMPY)
def test_names_of_numpy_are_taken(call):
    ours, theirs = both()
    mine, known = call(ours), call(theirs)
    assert mine.shape == known.shape
    assert mine.flatten().tolist() == pytest.approx(known.flatten().tolist())


# (method, keywords by PyTorch's documentation, the same call by position)
DOCUMENTED = [
    ("mul", {"value": 3}, (3,)),
    ("mul_", {"value": 3}, (3,)),
    ("multiply", {"value": 3}, (3,)),
    ("div", {"value": 2, "rounding_mode": "floor"}, None),
    ("divide_", {"value": 2}, (2,)),
    ("true_divide", {"value": 2}, (2,)),
    ("floor_divide_", {"value": 2}, (2,)),
    ("fmod", {"divisor": 2}, (2,)),
    ("remainder_", {"divisor": 2}, (2,)),
    ("narrow", {"dimension": 1, "start": 0, "length": 2}, (1, 0, 2)),
    ("broadcast_to", {"shape": (2, 2, 3)}, ((2, 2, 3),)),
    ("flip", {"dims": (0,)}, (0,)),
    ("tile", {"dims": (2,)}, (2,)),
    ("new_zeros", {"size": (2,)}, (2,)),
]


@pytest.mark.parametrize(("name", "named", "placed"), DOCUMENTED)
def test_documented_names_of_methods_are_taken(name, named, placed):
    x = grid(rushlight)
    wanted = x.clone().floor_divide(2) if placed is None else getattr(x.clone(), name)(*placed)
    assert getattr(x.clone(), name)(**named).tolist() == wanted.tolist()
    known = inspect.signature(getattr(rushlight.Tensor, name)).parameters
    assert set(named) <= set(known)


def test_documented_names_of_tensors_are_taken():
    x, y = grid(rushlight), grid(rushlight).t()
    assert x.matmul(tensor2=y).tolist() == (x @ y).tolist()
    assert x[None].bmm(batch2=y[None]).tolist() == [(x @ y).tolist()]
    assert x[0].dot(other=x[1]).item() == 14
    assert x.take(indices=rushlight.tensor([5])).tolist() == [5.0]
    assert [p.shape[1] for p in x.split(split_size=2, dim=1)] == [2, 1]
    assert [p.shape[1] for p in x.split(split_size_or_sections=[1, 2], dim=1)] == [1, 2]
    at = rushlight.tensor([1])
    assert x.index_copy(1, at, tensor2=x[:, :1]).tolist() == [[0, 0, 2], [3, 3, 5]]
    assert x.clone().index_copy_(1, at, tensor=x[:, :1]).tolist() == [[0, 0, 2], [3, 3, 5]]
    assert x.where(condition=x > 2, y=-x).tolist() == [[0, -1, -2], [3, 4, 5]]
    assert rushlight.true_divide(dividend=x, divisor=2).tolist() == (x / 2).tolist()
    assert rushlight.dropout(x, p=0.0, train=True).tolist() == x.tolist()
    assert rushlight.linalg.vector_norm(x=x).item() == pytest.approx(55**0.5)


def test_usual_names_go_on_to_work_beside_documented_ones():
    x = grid(rushlight)
    assert x.mul(other=2).tolist() == x.multiply(value=2).tolist() == (x * 2).tolist()
    assert x.narrow(dim=1, start=0, length=1).shape == (2, 1)
    assert rushlight.norm(input=x).item() == pytest.approx(55**0.5)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.exp(grid(t), foo=1),
        lambda t: grid(t).mul(),
        lambda t: grid(t).uniform_(foo=1),
        lambda t: grid(t).narrow(dimension=1, dim=1, start=0, length=1, foo=1),
        lambda t: t.squeeze(grid(t), out=grid(t)),
        lambda t: grid(t).exp(out=grid(t)),
        lambda t: t.sort(grid(t), out=grid(t)),
        lambda t: t.max(grid(t), 0, out=grid(t)),
        lambda t: t.exp(1.0),
        lambda t: t.relu(2),
        lambda t: t.special.erf(1.0),
        lambda t: t.zeros_like(1.0),
        lambda t: t.nn.functional.gelu(1.0),
        lambda t: t.logit(0.5),
        lambda t: t.clone(1),
        lambda t: grid(t).sum(dim=0, axis=0),
        lambda t: grid(t).softmax(),
        lambda t: grid(t).unsqueeze(),
        lambda t: grid(t).flip(0, foo=1),
        lambda t: grid(t).tile(2, foo=1),
        lambda t: grid(t).new_zeros(2, foo=1),
        lambda t: grid(t).repeat(2, 1, foo=1),
        lambda t: grid(t).expand(2, 3, foo=1),
        lambda t: grid(t).permute(1, 0, foo=1),
        lambda t: t.randint(3, (2,), foo=1),
        lambda t: t.randint_like(grid(t), 3, foo=1),
        lambda t: grid(t).random_(foo=1),
        lambda t: t.zeros(),
        lambda t: t.randn(),
        lambda t: grid(t).new_ones(),
        lambda t: t.randint(),
        lambda t: t.repeat_interleave(grid(t), [1, 2], 0),
        lambda t: t.searchsorted([1.0], grid(t)),
        lambda t: t.bucketize(grid(t), [1.0]),
        lambda t: t.isin(grid(t), [1.0]),
        lambda t: t.lstm(),
    ],
)
def test_calls_that_no_function_takes_raise_type_error(call):
    ours, theirs = both()
    for t in (theirs, ours):
        with pytest.raises(TypeError):
            call(t)


def test_tensors_of_pytorch_are_refused_by_factories():
    ours, theirs = both()
    for name in ("zeros_like", "ones_like", "rand_like"):
        with pytest.raises(TypeError, match="of another library"):
            getattr(ours, name)(theirs.ones(2))


def test_out_has_the_place_that_pytorch_gives_it():
    names = list(inspect.signature(rushlight.zeros).parameters)
    assert names.index("out") < names.index("dtype")
    names = list(inspect.signature(rushlight.cumsum).parameters)
    assert names.index("out") > names.index("dtype")


def test_indices_are_only_written_to_int64():
    x = grid(rushlight)
    with pytest.raises(RuntimeError, match="indices must be of dtype torch.int64"):
        rushlight.kthvalue(x, 1, out=(rushlight.empty(2), rushlight.empty(2)))


def test_operators_called_by_name_take_out():
    x, out = grid(rushlight), rushlight.empty(2, 3, dtype=rushlight.bool)
    assert x.__gt__(2, out=out) is out and out.tolist() == [[False] * 3, [True] * 3]
    assert x.__div__(2, rounding_mode="floor").tolist() == [[0, 0, 1], [1, 2, 2]]
    assert (5 & rushlight.tensor(3)).item() == 1
