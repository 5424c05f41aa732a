"""Random programs against the reference evaluator and PyTorch: a few always, many in the second
tier; and programs that once found a fault.
"""

from __future__ import annotations

import collections
import io

import pytest

pytest.importorskip("torch")
import fuzz_programs


@pytest.mark.parametrize("first", range(0, 12, 3))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + 3):
        found = fuzz_programs.check(seed, False, collections.Counter(), io.StringIO())
        assert not found, found


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_random_programs_over_all_functions() -> None:
    assert fuzz_programs.main(["100000", "1000000", "--minutes", "30"]) == 0


COMPLEX = "v0 = torch.tensor([[1 + 2j, 2 - 1j], [0.1 - 2j, 3 + 0.5j]], dtype=torch.complex128)"
FOUND = {
    "asarray keeps a history": """
v0 = torch.tensor([1.0, 2.0], requires_grad=True)
v1 = torch.asarray(v0 * 2)
v2 = torch.asarray(v0 * 2, copy=True)
(v1 * v2).sum().backward()""",
    "nothing overlaps in an empty tensor": """
v0 = torch.ones(1, 0, 3).sum(2, keepdim=True).expand(1, 0, 3)
v0.mul_(2)""",
    "a single pair may have any stride": """
v0 = torch.tensor([[[1.0, 2.0, 3.0, 4.0, 5.0]]])
v1 = torch.view_as_complex(v0[..., :2])
v1.mul_(1j)""",
    "numbers are their own transposes": """
v0 = torch.tensor(1.5 - 2j)
v1, v2, v3, v4 = v0.mT, v0.mH * 1, v0.H * 1, v0.adjoint() * 1
v1.mul_(2)""",
    "logsumexp of complex numbers": f"""
{COMPLEX}.requires_grad_()
v1 = [v0.logsumexp(0), v0.logsumexp((0, 1), True), v0[:0].logsumexp(0)]
(v1[0].abs().sum() + v1[1].real.sum()).backward()""",
    "rms_norm of complex numbers": f"""
{COMPLEX}.requires_grad_()
v1 = torch.nn.functional.rms_norm(v0, (2,), v0[0].detach(), eps=0.5)
v1.abs().sum().backward()""",
    "norms of complex parts are real": f"""
{COMPLEX}
v1 = torch.norm_except_dim(v0, 2, 0)""",
    "statistics of bfloat16": """
v0 = torch.tensor([[[1.5, 2.0], [0.25, -1.0]]], dtype=torch.bfloat16)
v1, v2 = torch.tensor([1.0, 2.0], dtype=torch.bfloat16), torch.tensor([1.0, 2.0])
v3 = torch.native_layer_norm(v0, (2,), v1, None, 0.5)
v4 = torch.native_layer_norm(v0, (2,), None, v2, 0.5)
v5 = torch.native_group_norm(v0, None, None, 1, 2, 2, 1, 0.5)
v6 = torch.native_group_norm(v0, v2, None, 1, 2, 2, 2, 0.5)""",
    "softmax of a number that is none": """
v0 = torch.tensor([nan, inf, 2.0], dtype=torch.bfloat16)
v1 = [x.softmax(-1) for x in v0]
v2 = [x.log_softmax(0) for x in v0.double()]""",
    "masked logsumexp of complex numbers": f"""
{COMPLEX}
v1 = torch.tensor([[True, False], [True, True]])
v2 = [torch.masked.logsumexp(v0, d, mask=v1) for d in (0, 1)]""",
    "coordinates are int64": """
v0 = torch.unravel_index(torch.tensor([3, 5], dtype=torch.int32), (2, 3))
v1 = torch.unravel_index(torch.tensor(200, dtype=torch.uint8), (4, 2**31))""",
    "gradient of samples without a distance": """
v0 = torch.gradient(torch.tensor([1.0, 2.0, 4.0, 8.0]), spacing=None)""",
    "no element is filled at any index": """
v0 = torch.empty(0, 5, 0)
v0.index_fill_(2, torch.tensor([0, -1]), 0.5)""",
    "torch.lu resizes its outputs": """
v0, v1 = torch.empty(0), torch.empty(0, dtype=torch.int32)
torch.lu(torch.eye(2), out=(v0, v1))""",
    "rates of random numbers have zero gradients": """
v0 = torch.tensor([0.25, 0.75], requires_grad=True)
v1 = torch.poisson(v0)
v1.sum().backward()""",
    "functions that are derived take what inference mode made": """
v0 = torch.tensor([0.5, -1.0])
v1 = torch.inference_mode()(torch.cos)(v0)
v2 = torch.func.grad(lambda a: (a.sin() * v1).sum())(v1)
v3 = torch.func.hessian(lambda a: (a * a.detach() * a).sum())(v1)
v4 = torch.func.vjp(lambda a: a.clone().mul_(a), v1)[1](v0)""",
    "one value may be written to repeated elements": """
v0 = torch.tensor([[1.0], [2.0], [3.0]])
v1 = v0.expand(3, 4)
v1[1:].zero_()
v2 = v1.sum(1)
v3 = torch.meshgrid([v2, v0.sum()], indexing='ij')
v3[1].fill_(2)""",
    "degrees of polynomials that are no numbers": """
v0 = torch.tensor([1.5, 0.5, 2.0], dtype=torch.float64)
v1 = torch.special.hermite_polynomial_he(v0, torch.tensor([nan, inf, 3.0]))
v2 = torch.special.legendre_polynomial_p(v0, torch.tensor([-inf, -1.0, 2.0]))""",
    "hyperbolic tangents of complex infinities": """
v0 = torch.tensor([[8.9 - 5.3j], [-8.1 - 4.4j]], dtype=torch.complex64)
v1 = torch.func.functionalize(lambda a: a.exp().cos().tanh())(v0)""",
    "each result of a call has a history": """
v0 = torch.tensor([[1.0], [2.0]], requires_grad=True)
v1 = torch.triangular_solve(v0, torch.tensor([[2.0, 1.0], [0.0, 3.0]]))
v1[1].register_hook(lambda g: g * 2)
(v1[0].sum() + v1[1].sum()).backward()
v3 = v0.detach().requires_grad_()
v4 = torch.native_group_norm(torch.ones(1, 2, 3), v3[:, 0], None, 1, 2, 3, 1, 0.5)
v4[1].register_hook(lambda g: g * 2)
v5 = [v.requires_grad for v in v4]""",
}


@pytest.mark.parametrize("program", FOUND.values(), ids=FOUND)
def test_programs_that_once_failed(program: str) -> None:
    assert fuzz_programs.trial(program.strip().splitlines()) == ("", "")


def test_rounding_does_not_explain_a_wrong_value() -> None:
    program = [
        "v0 = torch.tensor([0.1, 0.7, -1.3], dtype=torch.float32)",
        "v1 = torch.func.grad(lambda a: a.softmax(-1).square().sum().exp())(v0)",
    ]
    want = fuzz_programs.expected(program)
    got = fuzz_programs.run(fuzz_programs.rushlight, program)
    assert not fuzz_programs.against(want, got)
    got[1].value[2] *= 1.01
    assert fuzz_programs.against(want, got).startswith("v1 (float32 (3,)) at (np.int64(2),)")
