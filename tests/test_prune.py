"""Pruned parameters: their masks, values and names, as in PyTorch."""

import pytest

import rushlight
from rushlight import nn
from rushlight.nn.utils import prune


def layers(kind="Linear", *sizes):
    """The same layer in both libraries, with the functions that prune it."""
    torch = pytest.importorskip("torch")
    from torch.nn.utils import prune as theirs

    torch.manual_seed(1)
    sizes = sizes or (4, 6)
    other = getattr(torch.nn, kind)(*sizes)
    ours = getattr(nn, kind)(*sizes)
    for name, value in other.named_parameters():
        getattr(ours, name).data = rushlight.tensor(value.tolist())
    return (ours, prune), (other, theirs)


CALLS = [
    lambda m, p, t: p.l1_unstructured(m, "weight", 0.3),
    lambda m, p, t: p.l1_unstructured(m, "weight", 5),
    lambda m, p, t: p.l1_unstructured(m, "bias", amount=0),
    lambda m, p, t: p.l1_unstructured(
        m, "weight", 5, importance_scores=t.arange(24.0).reshape(6, 4)
    ),
    lambda m, p, t: p.ln_structured(m, "weight", amount=2, n=2, dim=0),
    lambda m, p, t: p.ln_structured(m, "weight", amount=0.5, n=1, dim=-1),
    lambda m, p, t: p.ln_structured(m, "weight", amount=1, n=float("inf"), dim=1),
    lambda m, p, t: p.identity(m, "weight"),
    lambda m, p, t: p.custom_from_mask(m, "bias", t.tensor([1, 0, 1, 0, 0, 1])),
    lambda m, p, t: [p.l1_unstructured(m, "weight", 0.5) for _ in range(2)][0],
    lambda m, p, t: [
        p.ln_structured(m, "weight", 2, n=2, dim=0), p.l1_unstructured(m, "weight", 0.25),
    ][0],
    lambda m, p, t: [
        p.l1_unstructured(m, "weight", 0.25), p.ln_structured(m, "weight", 2, n=2, dim=0),
        p.ln_structured(m, "weight", 0.5, n=1, dim=1),
    ][0],
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_masks_and_values_are_those_of_pytorch(call):
    found = []
    for (module, functions), t in zip(
        layers(), (rushlight, pytest.importorskip("torch")), strict=True
    ):
        assert call(module, functions, t) is module
        state = {name: value.tolist() for name, value in module.state_dict().items()}
        out = module(t.ones(1, 4))
        out.sum().backward()
        grads = {n: p.grad.flatten().tolist() for n, p in module.named_parameters()}
        found.append((state, module.weight.tolist(), out.flatten().tolist(), grads))
    ours, theirs = found
    assert ours[0] == theirs[0]
    assert ours[1] == theirs[1]
    assert ours[2] == pytest.approx(theirs[2])
    for name in theirs[3]:
        assert ours[3][name] == pytest.approx(theirs[3][name])


def test_convolutions_lose_whole_channels():
    (module, functions), (other, theirs) = layers("Conv2d", 3, 4, 2)
    functions.ln_structured(module, "weight", amount=0.5, n=2, dim=0)
    theirs.ln_structured(other, "weight", amount=0.5, n=2, dim=0)
    assert module.weight_mask.tolist() == other.weight_mask.tolist()


def test_several_parameters_are_pruned_as_one():
    pairs = []
    for module, functions in layers():
        functions.l1_unstructured(module, "bias", 1)
        chosen = [(module, "weight"), (module, "bias")]
        functions.global_unstructured(chosen, functions.L1Unstructured, amount=0.4)
        pairs.append((module.weight_mask.tolist(), module.bias_mask.tolist()))
    assert pairs[0] == pairs[1]
    with pytest.raises(TypeError, match='Only "unstructured"'):
        prune.global_unstructured(
            [(nn.Linear(1, 1), "weight")], prune.LnStructured, amount=1, n=2
        )


def test_chance_prunes_as_many_as_asked():
    module = nn.Linear(10, 10)
    prune.random_unstructured(module, "weight", 0.3)
    assert int(module.weight_mask.sum()) == 70
    prune.random_unstructured(module, "weight", 0.5)
    assert int(module.weight_mask.sum()) == 35
    other = prune.random_structured(nn.Linear(10, 10), "weight", 3, dim=1)
    assert sorted(other.weight_mask.sum(0).tolist()) == [0.0] * 3 + [10.0] * 7


def test_removing_leaves_the_zeros():
    module = prune.l1_unstructured(nn.Linear(4, 6), "weight", 0.5)
    wanted = module.weight.tolist()
    assert prune.is_pruned(nn.Sequential(module))
    prune.remove(module, "weight")
    assert not prune.is_pruned(module)
    assert module.weight.tolist() == wanted
    assert sorted(module.state_dict()) == ["bias", "weight"]
    assert isinstance(module.weight, nn.Parameter)
    with pytest.raises(ValueError, match="has to be pruned"):
        prune.remove(module, "weight")


def test_a_pruned_parameter_learns_only_what_is_left():
    module = prune.l1_unstructured(nn.Linear(4, 1), "weight", 2)
    step = rushlight.optim.SGD(module.parameters(), lr=0.1)
    mask = module.weight_mask.clone()
    for _ in range(3):
        step.zero_grad()
        module(rushlight.ones(2, 4)).sum().backward()
        step.step()
    assert module.weight_orig.grad[mask == 0].tolist() == [0.0, 0.0]
    module(rushlight.ones(1, 4))
    assert (module.weight == 0).equal(mask == 0)


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda p, m: p.l1_unstructured(m, "weight", -1), ValueError),
        (lambda p, m: p.l1_unstructured(m, "weight", 1.5), ValueError),
        (lambda p, m: p.l1_unstructured(m, "weight", "all"), TypeError),
        (lambda p, m: p.l1_unstructured(m, "weight", 100), ValueError),
        (lambda p, m: p.ln_structured(m, "bias", 1, 2, 0), ValueError),
        (lambda p, m: p.ln_structured(m, "weight", 1, 2, 5), IndexError),
        (lambda p, m: p.PruningContainer(p.Identity()), AttributeError),
    ],
)
def test_mistakes_raise_what_pytorch_raises(call, error):
    for module, functions in layers():
        with pytest.raises(error):
            call(functions, module)


def test_a_method_of_ones_own():
    class Even(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    module = nn.Linear(2, 2)
    Even.apply(module, "weight")
    assert module.weight_mask.tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert Even().prune(rushlight.ones(3)).tolist() == [0.0, 1.0, 0.0]
