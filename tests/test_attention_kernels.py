"""Attention kernels against a float64 reference and PyTorch, and the promise that bits depend
on inputs and sizes only.
"""

from __future__ import annotations

import numpy as np
import pytest
from attention_driver import Problem, aligned, host_has_avx512, run

from rushlight.loops.attention_weights import emit_weight
from rushlight.loops.kernel import BufferRef, KernelSource, Launch
from rushlight.loops.writer import LANES, Writer, arithmetic_of

TOLERANCE = {"float32": 4e-6, "float64": 1e-14, "float16": 4e-3, "bfloat16": 3e-2}


def to_bfloat16(x: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(x: np.ndarray) -> np.ndarray:
    return (np.ascontiguousarray(x).astype(np.uint32) << 16).view(np.float32)


def store(x: np.ndarray, dtype: str) -> np.ndarray:
    return to_bfloat16(x) if dtype == "bfloat16" else x.astype(dtype)


def wide(x: np.ndarray, dtype: str) -> np.ndarray:
    return (from_bfloat16(x) if dtype == "bfloat16" else x).astype(np.float64)


def sample(shape: tuple[int, ...], seed: int, dtype: str = "float32") -> np.ndarray:
    return store(np.random.default_rng(seed).standard_normal(shape), dtype)


def reference(q, k, v, dout, *, mask=None, causal=False, scale=None):
    """Output, log-sum-exp and gradients in float64, by the formula."""
    group, scale = q.shape[1] // k.shape[1], scale or 1 / np.sqrt(q.shape[-1])
    kk, vv = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scores = scale * np.einsum("bhtd,bhsd->bhts", q, kk)
    if mask is not None:
        scores = scores + (np.where(mask, 0, -np.inf) if mask.dtype == bool else mask)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    peak = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isinf(peak), 0, peak))
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    out = weights @ vv
    slopes = dout @ vv.swapaxes(-1, -2)
    slopes = weights * (slopes - (dout * out).sum(-1, keepdims=True))

    def fold(x: np.ndarray) -> np.ndarray:
        return x.reshape(x.shape[0], k.shape[1], group, *x.shape[2:]).sum(2)

    dk = fold(scale * slopes.swapaxes(-1, -2) @ q)
    with np.errstate(divide="ignore"):
        lse = (peak + np.log(total))[..., 0]
    return out, lse, scale * slopes @ kk, dk, fold(weights.swapaxes(-1, -2) @ dout)


def check(q, k, v, dout, dtype: str = "float32", **options) -> None:
    problem = Problem(q, k, v, dtype, **options)
    out, lse = problem.forward()
    grads = problem.backward(dout)
    options.pop("target", None)
    want = reference(*(wide(x, dtype) for x in (q, k, v, dout)), **options)
    np.testing.assert_allclose(lse, want[1], rtol=2 * TOLERANCE[dtype], atol=TOLERANCE[dtype])
    for got, expected in zip((out, *grads), (want[0], *want[2:]), strict=True):
        bound = TOLERANCE[dtype] * max(1.0, np.abs(expected).max(initial=0.0))
        assert np.abs(wide(got, dtype) - expected).max(initial=0.0) <= bound


def problem_arrays(b, h, hk, t, s, d, dv, dtype="float32"):
    shapes = ((b, h, t, d), (b, hk, s, d), (b, hk, s, dv), (b, h, t, dv))
    return [sample(shape, seed, dtype) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "t, s", [(1, 1), (1, 65), (7, 7), (65, 64), (64, 130), (130, 65), (257, 257)]
)
@pytest.mark.parametrize("d, dv", [(8, 8), (20, 64), (64, 20), (80, 32)])
def test_sizes(t, s, d, dv, causal):
    check(*problem_arrays(2, 2, 2, t, s, d, dv), causal=causal)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("causal", [False, True])
def test_dtypes(dtype, causal):
    check(*problem_arrays(2, 4, 2, 70, 90, 20, 36, dtype), dtype, causal=causal)


@pytest.mark.parametrize("heads, key_heads", [(4, 1), (6, 2), (3, 3)])
def test_query_heads_share_key_heads(heads, key_heads):
    check(*problem_arrays(2, heads, key_heads, 33, 70, 24, 16), causal=True)


@pytest.mark.parametrize(
    "shape", [(40, 70), (1, 70), (40, 1), (2, 1, 40, 70), (2, 1, 1, 70), (1, 3, 40, 70)]
)
@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("causal", [False, True])
def test_masks_of_every_broadcast(shape, kind, causal):
    rng = np.random.default_rng(5)
    mask = (
        rng.random(shape) < 0.6
        if kind == "bool"
        else rng.standard_normal(shape).astype(np.float32)
    )
    check(*problem_arrays(2, 3, 3, 40, 70, 16, 16), mask=mask, causal=causal)


def test_half_precision_masks():
    mask = sample((40, 70), 9, "bfloat16")
    q, k, v, dout = problem_arrays(1, 2, 2, 40, 70, 16, 16, "bfloat16")
    problem = Problem(q, k, v, "bfloat16", mask=mask)
    out, _ = problem.forward()
    want = reference(
        *(wide(x, "bfloat16") for x in (q, k, v, dout)), mask=wide(mask, "bfloat16")
    )[0]
    assert np.abs(wide(out, "bfloat16") - want).max() < 2e-2


def test_a_row_with_every_key_blocked_is_zero_and_passes_no_gradient():
    mask = np.ones((40, 130), bool)
    mask[3] = mask[21] = False
    mask[5, :64] = mask[6, 64:] = False  # whole tiles of keys, before and after the others
    q, k, v, dout = problem_arrays(1, 2, 2, 40, 130, 16, 16)
    check(q, k, v, dout, mask=mask)
    problem = Problem(q, k, v, "float32", mask=mask)
    out, lse = problem.forward()
    dq, _, _ = problem.backward(dout)
    assert not out[:, :, [3, 21]].any() and not dq[:, :, [3, 21]].any()
    assert np.all(lse[:, :, [3, 21]] == -np.inf)


def test_strided_operands():
    rng = np.random.default_rng(3)
    packed = rng.standard_normal((2, 50, 3, 4, 24)).astype(np.float32)  # (B, T, 3, H, D)
    q, k, v = (packed[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    backwards = rng.standard_normal((2, 4, 24, 50)).astype(np.float32).swapaxes(2, 3)
    check(q, k, v, backwards, causal=True)
    check(backwards, k[..., ::-1], v[:, :, ::-1], q)
    expanded = np.broadcast_to(k[:, :1], k.shape)
    check(q, expanded, v[..., ::2], q[..., ::2], causal=True)


def test_scale_is_a_run_time_number():
    q, k, v, dout = problem_arrays(1, 2, 2, 40, 70, 16, 16)
    check(q, k, v, dout, scale=0.7)
    check(q, k, v, dout, scale=-0.01)


def test_scores_far_apart():
    q, k, v, dout = problem_arrays(1, 2, 2, 40, 200, 16, 16)
    problem = Problem(q * 60, k, v, "float32")
    out, _ = problem.forward()
    want = reference(*(x.astype(np.float64) for x in (q * 60, k, v, dout)))[0]
    assert np.abs(out - want).max() < 2e-4 and np.isfinite(problem.backward(dout)[0]).all()


@pytest.mark.parametrize("t, s", [(0, 5), (5, 0), (0, 0)])
def test_empty(t, s):
    q, k, v, dout = problem_arrays(2, 2, 2, t, s, 16, 16)
    problem = Problem(q, k, v, "float32")
    for grad in (problem.dq, problem.dk, problem.dv):
        grad[...] = 7
    out, lse = problem.forward()
    assert not out.any() and np.all(lse == -np.inf)
    assert not any(grad.any() for grad in problem.backward(dout))
    assert not Problem(q[:0], k[:0], v[:0], "float32").forward_plan


def test_one_kernel_serves_every_size_of_a_structure():
    plans = [
        Problem(*problem_arrays(b, 4, hk, t, s, d, dv)[:3], "float32", causal=True)
        .forward_plan[0]
        .source
        for b, hk, t, s, d, dv in [(1, 4, 64, 64, 32, 32), (3, 2, 128, 70, 80, 16)]
    ]
    assert plans[0] == plans[1]


def test_weights_are_accurate_where_they_count():
    """Within 1.5 units in the last place, plus what rounding log 2 costs far from zero."""
    for dtype, lowest in (("float32", -87.0), ("float64", -708.0)):
        w = Writer(arithmetic_of(dtype))
        address = w.let("load ptr, ptr %args, align 8")
        with w.loop("%end", start="%begin", step=LANES) as place:
            at = w.at(address, place.index)
            w.store(emit_weight(w, w.load(at)), at)
        header = f"define void @weights_{dtype}(ptr %args, i64 %begin, i64 %end, ptr %scratch)"
        source = KernelSource(
            f"weights_{dtype}", w.function(header), frozenset({w.arithmetic.fma})
        )
        x = np.random.default_rng(0).uniform(lowest, 1, 16 * 4096).astype(dtype)
        x[:3], x[3:6] = (-np.inf, lowest * 2, -1e30), (0, -0.0, np.nan)
        out = aligned(x.nbytes).view(dtype)[: len(x)]
        out[:] = x
        run([Launch(source, len(x), (BufferRef(0),))], [out])
        assert out[:5].tolist() == [0, 0, 0, 1, 1] and np.isnan(out[5])
        exact = np.exp(x.astype(np.longdouble))[6:]
        error = np.abs(out[6:] - exact) / np.spacing(exact.astype(dtype))
        assert np.max(error - np.abs(x[6:]) / 16) < 1.5


# Bits.


def bits_of(problem: Problem, dout: np.ndarray, cut: int | None = None) -> list[bytes]:
    results = (*problem.forward(cut), *problem.backward(dout, cut))
    return [np.ascontiguousarray(x).tobytes() for x in results]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_the_same_bits_however_the_chunks_are_cut(dtype):
    q, k, v, dout = problem_arrays(2, 4, 2, 150, 140, 24, 24, dtype)
    whole = bits_of(Problem(q, k, v, dtype, causal=True), dout)
    for cut in (1, 3):
        assert bits_of(Problem(q, k, v, dtype, causal=True), dout, cut) == whole


@pytest.mark.skipif(not host_has_avx512(), reason="the host has only one width of vectors")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("causal", [False, True])
def test_the_same_bits_with_avx2_and_avx512(dtype, causal):
    q, k, v, dout = problem_arrays(1, 4, 2, 90, 140, 24, 40, dtype)
    mask = np.random.default_rng(1).random((90, 140)) < 0.9
    narrow, wider = (
        bits_of(Problem(q, k, v, dtype, causal=causal, mask=mask, target=target), dout)
        for target in ("avx2", "avx512")
    )
    assert narrow == wider


def test_the_same_bits_alone_and_in_a_batch():
    q, k, v, dout = problem_arrays(3, 4, 2, 70, 140, 24, 24)
    together = Problem(q, k, v, "float32", causal=True)
    alone = Problem(q[1:2, 2:], k[1:2, 1:], v[1:2, 1:], "float32", causal=True)
    for a, b in zip(together.forward(), alone.forward(), strict=True):
        assert np.array_equal(a[1:2, 2:], b)
    for a, b, part in zip(
        together.backward(dout), alone.backward(dout[1:2, 2:]), (2, 1, 1), strict=True
    ):
        assert np.array_equal(a[1:2, part:], b)


@pytest.mark.parametrize("row", [0, 17, 63, 64, 149])
def test_a_query_alone_has_the_bits_it_has_among_others(row):
    q, k, v, _ = problem_arrays(2, 2, 2, 150, 140, 24, 24)
    among, among_lse = Problem(q, k, v, "float32").forward()
    alone, alone_lse = Problem(q[:, :, row : row + 1], k, v, "float32").forward()
    assert np.array_equal(among[:, :, row : row + 1], alone)
    assert np.array_equal(among_lse[:, :, row : row + 1], alone_lse)


def test_a_causal_row_has_the_bits_of_its_keys_alone():
    q, k, v, _ = problem_arrays(1, 2, 2, 150, 150, 24, 24)
    among, _ = Problem(q, k, v, "float32", causal=True).forward()
    for row in (0, 63, 64, 100, 149):
        keys = slice(0, row + 1)
        alone, _ = Problem(
            q[:, :, row : row + 1], k[:, :, keys], v[:, :, keys], "float32"
        ).forward()
        assert np.array_equal(among[:, :, row : row + 1], alone)


# PyTorch.


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [None, "bool", "float"])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2)])
def test_agrees_with_pytorch(causal, masked, heads):
    torch = pytest.importorskip("torch")
    if causal and masked:
        pytest.skip("PyTorch refuses both")
    q, k, v, dout = problem_arrays(2, *heads, 77, 90, 32, 32)
    mask = None
    if masked:
        mask = sample((77, 90), 8) > -1 if masked == "bool" else sample((77, 90), 8)
        mask[4] = False if masked == "bool" else -np.inf
    theirs = [torch.from_numpy(x.copy()).requires_grad_() for x in (q, k, v)]
    out = torch.nn.functional.scaled_dot_product_attention(
        *theirs,
        attn_mask=None if mask is None else torch.from_numpy(mask),
        is_causal=causal,
        enable_gqa=heads[0] != heads[1],
    )
    out.backward(torch.from_numpy(dout))
    problem = Problem(q, k, v, "float32", mask=mask, causal=causal)
    mine = (problem.forward()[0], *problem.backward(dout))
    for a, b in zip(mine, (out.detach(), *(x.grad for x in theirs)), strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=2e-5, atol=2e-5)
