"""Agreement with PyTorch, measured by PyTorch's own operation database.

The measuring harness is a folder `conformance` that is not part of this repository. It is
looked for in the folder that RUSHLIGHT_CONFORMANCE names, and in `shared` beside the checkout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLACES = [os.environ.get("RUSHLIGHT_CONFORMANCE", ""), ROOT.parent / "shared"]
PARENTS = [Path(place) for place in PLACES if place and (Path(place) / "conformance").is_dir()]

pytestmark = pytest.mark.skipif(
    not PARENTS, reason="no `conformance` folder: set RUSHLIGHT_CONFORMANCE to its parent"
)

# A few of every family, so that a minute tells whether something broke.
SAMPLE = """
    abs add atan2 clamp div erf exp floor_divide pow remainder round rsqrt sigmoid sub where
    amax argmax cumsum mean prod std sum var_mean bmm matmul tensordot
    __getitem__ index_add index_select masked_fill scatter topk unique
    broadcast_to chunk expand flip permute squeeze triu unbind
    F.conv1d F.cross_entropy F.embedding F.layer_norm F.scaled_dot_product_attention softmax
    zeros_like
"""

# The families that exist so far: regular expressions for PyTorch's names.
FAMILIES = {
    "creation": """arange empty empty_like full full_like linspace logspace new_empty
        new_full new_ones new_zeros ones ones_like scalar_tensor zeros zeros_like eye clone""",
    "elementwise": """__r(add|div|mod|mul|or|pow|sub|xor|and)__ abs acos acosh add addcdiv
        addcmul asin asinh atan atan2 atanh bitwise_.* ceil clamp clamp_max clamp_min
        copysign cos cosh deg2rad rad2deg div digamma eq erf erfc erfinv exp exp2 expm1 fill
        float_power floor floor_divide fmax fmin fmod frac ge gt heaviside hypot isclose
        isfinite isinf isnan ldexp le lerp lgamma log log10 log1p log2 logaddexp logaddexp2
        logical_.* logit lt maximum minimum mul nan_to_num ne neg positive pow reciprocal
        remainder round rsqrt rsub sgn sigmoid sign signbit sin sinc sinh sqrt square sub tan
        tanh true_divide trunc where""",
    "casts": "bool byte char double float half bfloat16 int long short to type_as",
    "reductions": """all amax amin any aminmax argmax argmin count_nonzero cummax cummin
        cumprod cumsum logcumsumexp logsumexp max mean min nanmean nansum norm prod std
        std_mean sum var var_mean""",
    "products": """addbmm addmm addmv addr baddbmm bmm dot einsum inner matmul mm mv outer
        tensordot vdot __rmatmul__ kron""",
    "movement": """T H mT mH atleast_.* broadcast_.* cat chunk column_stack contiguous diag
        diagonal diag_embed diagflat dsplit dstack expand expand_as flatten flip fliplr
        flipud hsplit hstack meshgrid movedim narrow permute ravel repeat repeat_interleave
        reshape reshape_as roll rot90 split split_with_sizes squeeze stack swapaxes t tile
        transpose tril tril_indices triu triu_indices unbind unflatten unfold unsafe_chunk
        unsafe_split unsqueeze view view_as vsplit vstack constant_pad_nd as_strided""",
    "indexing": """__getitem__ gather index_add index_copy index_fill index_put index_select
        masked_fill masked_scatter masked_select nonzero put scatter scatter_add
        scatter_reduce select take take_along_dim argwhere""",
    "order": """argsort sort topk unique unique_consecutive msort kthvalue isin searchsorted
        bucketize""",
    "random": "bernoulli multinomial normal rand.* uniform",
    "nn": """softmax log_softmax F.relu F.relu6 F.leaky_relu F.elu F.celu F.selu F.gelu
        F.silu F.mish F.softplus F.softsign F.tanhshrink F.softshrink F.hardshrink F.hardtanh
        F.hardsigmoid F.hardswish F.logsigmoid F.glu F.prelu F.threshold F.softmin F.dropout
        F.layer_norm F.batch_norm F.group_norm F.instance_norm F.rms_norm F.normalize
        F.embedding F.one_hot F.linear F.bilinear F.conv1d F.conv2d F.conv3d
        F.conv_transpose[123]d F.max_pool[123]d F.avg_pool[123]d F.adaptive_avg_pool[123]d
        F.adaptive_max_pool[123]d F.pad F.pixel_shuffle F.pixel_unshuffle F.unfold F.fold
        F.scaled_dot_product_attention F.upsample_nearest F.upsample_bilinear F.interpolate""",
    "losses": """F.cross_entropy F.nll_loss F.mse_loss F.l1_loss F.smooth_l1_loss
        F.huber_loss F.binary_cross_entropy F.binary_cross_entropy_with_logits F.kl_div
        F.poisson_nll_loss F.gaussian_nll_loss F.margin_ranking_loss F.hinge_embedding_loss
        F.soft_margin_loss F.cosine_embedding_loss F.cosine_similarity F.triplet_margin_loss
        F.multi_margin_loss F.multilabel_margin_loss F.multilabel_soft_margin_loss
        F.pairwise_distance""",
}


def pattern(names: str) -> str:
    """One regular expression for whole names; `F.` stands for `nn.functional.`."""
    names = names.replace("F.", r"nn\.functional\.")
    return rf"\A({'|'.join(names.split())})\Z"


def measure(ops: str, report: Path, *, limit: int, seconds: float) -> dict:
    command = [sys.executable, "-m", "conformance.opdb", "--target", "rushlight", "--ops", ops]
    command += ["--dtypes", "float32,float64,int64,bool", "--limit", str(limit)]
    command += ["--jobs", "2", "--out", str(report)]
    path = os.pathsep.join([str(ROOT / "src"), *map(str, PARENTS[:1])])
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    return json.loads(report.read_text())["results"]


def shares(results: dict) -> dict[str, float]:
    """The share of checks that pass: of error inputs, and of everything else."""
    passed, counted = Counter(), Counter()
    for result in results.values():
        for kind, counts in result["counts"].items():
            group = "error inputs" if kind == "error" else "samples"
            passed[group] += counts.get("passed", 0)
            counted[group] += sum(counts.values())
    return {group: passed[group] / counted[group] for group in counted}


def not_whole(results: dict) -> str:
    """The items that fail a check, each with its first failure."""
    failures = [
        f"{name}: {result['first_failure']['check']}: {result['first_failure']['why']}"
        for name, result in results.items()
        if result["first_failure"]
    ]
    return "\n".join(failures[:60])


def check(results: dict) -> None:
    found = shares(results)
    print(found)
    assert found["samples"] >= 0.97, not_whole(results)
    assert found.get("error inputs", 1.0) >= 0.90, not_whole(results)


@pytest.mark.timeout(600)
def test_a_sample_of_operations_agrees_with_pytorch(tmp_path):
    check(measure(pattern(SAMPLE), tmp_path / "sample.json", limit=3, seconds=580))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_agrees_with_pytorch(family, tmp_path):
    report = tmp_path / f"{family}.json"
    check(measure(pattern(FAMILIES[family]), report, limit=6, seconds=3500))
