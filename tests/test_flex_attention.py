"""Attention with a formula for each score, its masks, and the choice of a kernel."""

import importlib

import pytest

import rushlight
from rushlight.nn import attention
from rushlight.nn.attention import flex_attention as flex

pytestmark = [
    pytest.mark.filterwarnings("ignore:flex_attention called without"),
    pytest.mark.filterwarnings("ignore:Lower right causal bias"),
    pytest.mark.filterwarnings("ignore:return_lse is deprecated"),
]
B, H, Q, K, E = 2, 4, 6, 7, 8


@pytest.fixture
def theirs():
    return pytest.importorskip("torch")


def problem(heads=H, dtype="float64"):
    """The same query, key and value for both libraries."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    shapes = [(B, H, Q, E), (B, heads, K, E), (B, heads, K, E)]
    given = [torch.randn(s, dtype=torch.float64).to(getattr(torch, dtype)) for s in shapes]
    ours = [rushlight.tensor(x.tolist(), dtype=getattr(rushlight, dtype)) for x in given]
    return ours, given


def room(t):
    return importlib.import_module(f"{t.__name__}.nn.attention.flex_attention")


def close(ours, theirs, tolerance=1e-10):
    torch = pytest.importorskip("torch")
    found = torch.tensor(ours.tolist(), dtype=theirs.dtype)
    torch.testing.assert_close(found, theirs.detach(), rtol=tolerance, atol=tolerance)


def score_mods(t):
    slopes = t.tensor([0.5, 0.25, 0.125, 0.0625], dtype=t.float64)
    documents = t.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 2, 2, 2]])
    return {
        "alibi": lambda s, b, h, q, k: s + slopes[h] * (k - q),
        "capped": lambda s, b, h, q, k: 5 * t.tanh(s / 5),
        "causal": lambda s, b, h, q, k: t.where(q >= k, s, -float("inf")),
        "documents": lambda s, b, h, q, k: t.where(documents[b, q] == documents[b, k], s, -9.0),
        "blind": lambda s, b, h, q, k: t.where(q > k, s, -float("inf")),
    }


def written_out(t, query, key, value, mod):
    """Attention and the logarithm of its rows' sums, as the formula says: it has derivatives
    in PyTorch too, whose `flex_attention` has none on the CPU.
    """
    places = [t.arange(n).reshape(-1, *[1] * i) for n, i in zip((B, H, Q, K), (3, 2, 1, 0))]
    scores = mod(query @ key.transpose(-2, -1) / E**0.5, *places)
    sums = scores.exp().sum(-1)
    weights = scores.exp() / t.where(sums > 0, sums, 1.0).unsqueeze(-1)
    return weights @ value, sums.log()


@pytest.mark.parametrize("name", ["alibi", "capped", "causal", "documents", "blind"])
def test_scores_and_gradients_are_those_of_pytorch(name, theirs):
    ours, other = problem()
    direct = room(theirs).flex_attention(*other, score_mods(theirs)[name], return_lse=True)
    found = []
    for t, given in ((rushlight, ours), (theirs, other)):
        leaves = [x.requires_grad_() for x in given]
        mod = score_mods(t)[name]
        if t is rushlight:
            out, lse = flex.flex_attention(*leaves, mod, return_lse=True)
        else:
            out, lse = written_out(t, *leaves, mod)
        (out.square().sum() + t.where(lse > -99, lse, 0.0).sum()).backward()
        found.append([out, lse, *(leaf.grad for leaf in leaves)])
    for mine, wanted in zip(found[0], [*direct, *found[1][2:]], strict=True):
        close(mine, wanted)


@pytest.mark.parametrize("kind", ["prefix", "window", "heads"])
def test_masks_are_those_of_pytorch(kind, theirs):
    def of(t):
        masks = {
            "prefix": room(t).or_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: k < 3),
            "window": room(t).and_masks(
                lambda b, h, q, k: q >= k, lambda b, h, q, k: q - k < 3
            ),
            "heads": lambda b, h, q, k: (h % 2 == 0) | (q == k),
        }
        heads = H if kind == "heads" else None
        return room(t).create_block_mask(
            masks[kind], None, heads, Q, K, device="cpu", BLOCK_SIZE=2
        )

    masks = [of(rushlight), of(theirs)]
    for name in ("kv_num_blocks", "full_kv_num_blocks", "q_num_blocks", "full_q_num_blocks"):
        assert getattr(masks[0], name).tolist() == getattr(masks[1], name).tolist(), name
    assert masks[0].to_dense().tolist() == masks[1].to_dense().tolist()
    assert masks[0].shape == masks[1].shape
    assert masks[0].sparsity() == pytest.approx(masks[1].sparsity())
    given, other = problem()
    ours = flex.flex_attention(*given, block_mask=masks[0])
    close(ours, room(theirs).flex_attention(*other, block_mask=masks[1]))
    both = flex.flex_attention(*given, score_mods(rushlight)["alibi"], masks[0])
    close(both, room(theirs).flex_attention(*other, score_mods(theirs)["alibi"], masks[1]))


def test_heads_of_keys_are_shared(theirs):
    ours, given = problem(heads=2)
    mod = score_mods(rushlight)["alibi"]
    out = flex.flex_attention(*ours, mod, enable_gqa=True, scale=0.3)
    other = room(theirs).flex_attention(
        *given, score_mods(theirs)["alibi"], enable_gqa=True, scale=0.3
    )
    close(out, other)
    with pytest.raises(ValueError, match="enable_gqa=True"):
        flex.flex_attention(*ours)


def test_half_precision_is_computed_in_single(theirs):
    ours, given = problem(dtype="bfloat16")

    def mod(score, b, h, q, k):
        return score * 1.5

    out = flex.flex_attention(*ours, mod)
    assert out.dtype == rushlight.bfloat16
    close(out, room(theirs).flex_attention(*given, mod), tolerance=2e-2)


def test_a_learned_bias_has_its_gradient(theirs):
    found = []
    for t, given in zip((rushlight, theirs), problem(), strict=True):
        table = t.linspace(-1, 1, 13, dtype=t.float64).requires_grad_()

        def mod(s, b, h, q, k, table=table):
            return s + table[q - k + 6]

        if t is rushlight:
            out = flex.flex_attention(*given, mod)
        else:
            out = written_out(t, *given, mod)[0]
        out.square().sum().backward()
        found.append(table.grad)
    close(*found)


def test_blocks_made_by_hand_leave_the_others_out():
    counts = rushlight.tensor([[[1, 2]]], dtype=rushlight.int32)
    indices = rushlight.tensor([[[[1, 0], [0, 1]]]], dtype=rushlight.int32)
    mask = flex.BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=2)
    assert mask.shape == (1, 1, 4, 4)
    assert mask.to_dense().tolist() == [[[[0, 1], [1, 1]]]]
    assert mask.q_num_blocks.tolist() == [[[1, 2]]]
    allowed = mask.pairs(1, 1)[0, 0].int().tolist()
    assert allowed == [[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]
    assert mask[:, :, 0].shape == (1, 1, 2, 4)
    assert mask._adjust(2, 4).to_dense().tolist() == [[[[0, 1]]]]
    assert mask.sparsity() == 25.0
    assert "shape=(1, 1, 4, 4), sparsity=25.00%" in str(mask)


def test_a_mask_of_other_lengths_is_refused():
    mask = flex.create_block_mask(lambda b, h, q, k: q >= k, None, None, 5, K)
    given, _ = problem()
    with pytest.raises(ValueError, match=r"block_mask \(1, 1, 5, 7\) does not fit"):
        flex.flex_attention(*given, block_mask=mask)
    with pytest.raises(NotImplementedError, match="4 dimensions"):
        flex.flex_attention(given[0][0], given[1], given[2])
    with pytest.raises(ValueError, match="one dtype"):
        flex.flex_attention(given[0].float(), given[1], given[2])


def test_further_results():
    given, _ = problem()
    out, aux = flex.flex_attention(*given, return_aux=flex.AuxRequest(max_scores=True))
    scores = given[0] @ given[1].transpose(-2, -1) / E**0.5
    assert out.shape == (B, H, Q, E)
    assert aux.lse is None
    assert rushlight.allclose(aux.max_scores, scores.amax(-1))


def test_a_mask_as_a_tensor(theirs):
    def causal(b, h, q, k):
        return q >= k

    ours = flex.create_mask(causal, 2, None, 3, 4)
    assert ours.tolist() == room(theirs).create_mask(causal, 2, None, 3, 4, "cpu").tolist()
    assert ours.shape == (2, 1, 3, 4)


def test_a_choice_of_kernels_is_kept_inside_its_block():
    cuda = rushlight.backends.cuda
    q = rushlight.ones(1, 2, 4)
    plain = rushlight.nn.functional.scaled_dot_product_attention(q, q, q)
    with attention.sdpa_kernel([attention.SDPBackend.MATH], set_priority=True):
        assert cuda.math_sdp_enabled()
        assert not cuda.flash_sdp_enabled()
        same = rushlight.nn.functional.scaled_dot_product_attention(q, q, q)
    assert cuda.flash_sdp_enabled()
    assert same.equal(plain)
    with (
        pytest.raises(ValueError, match="expected a SDPBackend"),
        attention.sdpa_kernel("math"),
    ):
        pass


@pytest.mark.parametrize("rows, columns", [(3, 3), (2, 4), (4, 2)])
def test_causal_masks_start_from_either_corner(rows, columns, theirs):
    bias, other = (
        importlib.import_module(f"{t.__name__}.nn.attention.bias") for t in (rushlight, theirs)
    )
    q, kv = rushlight.randn(1, 1, rows, 4), rushlight.randn(1, 1, columns, 4)
    for name in ("causal_upper_left", "causal_lower_right"):
        mask = getattr(bias, name)(rows, columns)
        assert isinstance(mask, bias.CausalBias)
        wanted = getattr(other, name)(rows, columns)._materialize("cpu")
        assert mask.tolist() == wanted.tolist()
        out = rushlight.nn.functional.scaled_dot_product_attention(q, kv, kv, attn_mask=mask)
        plain = rushlight.nn.functional.scaled_dot_product_attention(
            q, kv, kv, attn_mask=rushlight.tensor(wanted.tolist())
        )
        assert type(out) is rushlight.Tensor
        assert out.equal(plain)
