"""What masked positions hold does not matter to attention: not forward, not backward."""

from __future__ import annotations

import math

import pytest

import rushlight as torch
from rushlight.nn import functional as F

HIDDEN = 2  # the key, counted from the last, that no query sees


def _mask(kind: str, length: int):
    mask = torch.rand(2, 3, length, length) > 0.3
    mask[..., 0] = True
    mask[..., -HIDDEN] = False
    mask[0, 0, 1] = False  # a query that sees nothing
    if kind == "one for all queries":
        return mask[:1, :1, :1]
    return mask if kind == "bool" else torch.where(mask, 0.5, -math.inf)


def _gradients(q, k, v, mask, **named):
    tensors = [x.clone().requires_grad_() for x in (q, k, v)]
    out = F.scaled_dot_product_attention(*tensors, attn_mask=mask, **named)
    (out * (torch.arange(out.numel()).reshape(out.shape) % 7.0)).sum().backward()
    return [out.detach(), *(x.grad for x in tensors)]


def _spoiled(x, value: float):
    x = x.clone()
    x[:, :, -HIDDEN] = value
    return x


@pytest.mark.parametrize("kind", ["bool", "float", "one for all queries"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(("length", "width"), [(5, 4), (70, 20)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_masked_key_does_not_matter(kind, value, length, width, dtype):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, length, width, dtype=dtype) for _ in range(3))
    mask = _mask(kind, length)
    mask = mask if mask.dtype == torch.bool else mask.to(dtype)
    good = _gradients(q, k, v, mask)
    bad = _gradients(q, _spoiled(k, value), _spoiled(v, value), mask)
    for a, b in zip(good, bad, strict=True):
        assert torch.equal(a, b)
    assert bad[2][:, :, -HIDDEN].abs().sum() == 0  # the key's own gradient


@pytest.mark.parametrize("length", [5, 40, 130])
def test_later_keys_do_not_matter_to_earlier_queries(length):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, length, 8) for _ in range(3))
    good = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    k, v = _spoiled(k, math.nan), _spoiled(v, math.nan)
    bad = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.equal(good[:, :, :-HIDDEN], bad[:, :, :-HIDDEN])
    assert bad[:, :, -HIDDEN:].isnan().all()


def test_a_query_that_sees_nothing_may_hold_anything():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, 4, 8) for _ in range(3))
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2] = False
    good = _gradients(q, k, v, mask)
    q[0, 0, 2] = math.nan
    for a, b in zip(good, _gradients(q, k, v, mask), strict=True):
        assert torch.equal(a, b)


def test_a_number_that_is_seen_is_not_hidden():
    q = k = v = torch.ones(1, 1, 3, 4)
    v = v.clone()
    v[0, 0, 1, 0] = math.inf
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)[0, 0]
    assert out[:, 0].tolist() == [1.0, math.inf, math.inf]
    assert out[:, 1].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("named", [{}, {"dropout_p": 1e-9}])
def test_second_derivatives_and_dropout_ignore_masked_keys(named):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 4) for _ in range(3))
    mask = _mask("bool", 5)

    def run(k, v):
        x = q.clone().requires_grad_()
        out = F.scaled_dot_product_attention(x, k, v, attn_mask=mask, **named)
        (first,) = torch.autograd.grad((out**2).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((first**2).sum(), x)
        return [out, first, second]

    for a, b in zip(run(k, v), run(_spoiled(k, math.nan), _spoiled(v, math.nan)), strict=True):
        assert torch.equal(a, b)


def test_asking_for_weights_changes_nothing_for_a_query_that_sees_nothing():
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.randn(1, 3, 4)
    mask = torch.tensor([[False] * 3, [True] * 3, [False, True, True]])
    plain, _ = layer(x, x, x, attn_mask=mask, need_weights=False)
    out, weights = layer(x, x, x, attn_mask=mask, need_weights=True)
    assert torch.allclose(plain, out, atol=1e-6)
    assert weights[0, 1].tolist() == [0.0, 0.0, 0.0]
    assert weights[0, 2].tolist() == [1.0, 0.0, 0.0]


def _both(lib, mask, **named):
    """Attention of fixed numbers, with gradients, under a mask and is_causal."""
    q, k, v = (
        (lib.arange(96.0).reshape(1, 2, 6, 8) * step).sin().requires_grad_()
        for step in (0.7, 1.3, 2.1)
    )
    given = lib.tensor(mask)
    out = lib.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=given, is_causal=True, **named
    )
    (out * out.detach().cos()).sum().backward()
    return [x.tolist() for x in (out, q.grad, k.grad, v.grad)]


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_mask_and_is_causal_leave_what_both_do(kind: str) -> None:
    other = pytest.importorskip("torch")
    mask = [[(3 * i + 2 * j) % 5 != 1 or j == 0 for j in range(6)] for i in range(6)]
    if kind == "float":
        mask = [
            [0.25 * j if allowed else -math.inf for j, allowed in enumerate(m)] for m in mask
        ]
    for mine, known in zip(_both(torch, mask), _both(other, mask), strict=True):
        assert other.allclose(other.tensor(mine), other.tensor(known), atol=1e-5)


def test_a_mask_and_is_causal_where_pytorch_has_no_kernel_for_both() -> None:
    other = pytest.importorskip("torch")
    for lib in (torch, other):
        q, mask = lib.ones(1, 2, 4, 8), lib.zeros(4, 4)
        for query, value, given, named in (
            (q[0], q[0], mask, {}),
            (q, q, mask, {"dropout_p": 0.5}),
            (q, q[..., :4].contiguous(), mask, {}),
            (q, q, mask.clone().requires_grad_(), {}),
            (q, q, lib.zeros(2, 4, 4), {}),
        ):
            with pytest.raises(RuntimeError, match="attn_mask should not be set"):
                lib.nn.functional.scaled_dot_product_attention(
                    query, query, value, attn_mask=given, is_causal=True, **named
                )
