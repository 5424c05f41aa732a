"""Templates of statements for random programs, one a line (`\\n` begins a new line of a
statement): {x} is a floating or complex tensor, {x2} one of at least two dimensions, {real} a
floating one, {any} a tensor of any dtype, {grown} one with a history, {leaf} one that gradients
are collected for, {y} one that broadcasts with the first, {same} one of its shape, {d} and {e}
dimensions of it, {n} its size along {d}, {body} a pure expression of `a`, {new} a new name.
"""

from __future__ import annotations


def templates(text: str) -> list[str]:
    return [line.replace(r"\n", "\n") for line in text.strip().splitlines()]


BOUNDED = templates(r"""
{x}.sin()
{x}.tanh()
({x}.sigmoid() + 0.1)
({x}.cos() * 0.4 + 0.5)
({x}.abs() + 0.5)
{x}.clamp(-1, 1)
""")

POINTWISE = templates(r"""
{new} = {x}.sin()
{new} = {x} * {y}
{new} = {x} + {y}
{new} = {x} - {y} * {c}
{new} = {x} / ({y}.abs() + 1)
{new} = {x} * {c}
{new} = {c} - {x}
{new} = {real}.tanh() * {real}.sigmoid()
{new} = torch.where({real} > 0.3, {real}, {y})
{new} = ({real} * 0.5).exp()
{new} = ({real}.abs() + 0.1).log()
{new} = torch.maximum({real}, {same})
{new} = {real}.clamp({c}, 1.2)
{new} = torch.addcmul({x}, {same}, {y}, value={c})
{new} = {x}.lerp({same}, 0.3)
{new} = {real}.pow({i})
{new} = ({x}.abs() + 0.2).sqrt()
{new} = {x}.square()
{new} = {any} == {any}
{new} = {real} > {y}
{new} = -{x}
{new} = {x}.reciprocal()
{new} = torch.nn.functional.gelu({real})
{new} = torch.nn.functional.softplus({real})
{new} = {real}.floor() + {real}.frac()
{new} = {real}.erf()
{new} = {real} // 0.7
{new} = {real} % 0.7
{new} = torch.atan2({real}, {same})
{new} = {x}.abs()
{new} = {any} + {i}
{new} = {any} & 3
{new} = torch.hypot({real}, {same})
{new} = torch.complex({real}, {same})
{new} = torch.polar({real}, {same})
""")

REDUCING = templates(r"""
{new} = {x}.sum({d})
{new} = {x1}.mean({d}, keepdim=True)
{new} = {x}.sum()
{new} = {real}.amax({d})
{new} = {real}.max({d}).values
{new} = {real}.softmax({d})
{new} = {real}.log_softmax({d})
{new} = {real}.logsumexp({d})
{new} = {x}.cumsum({d})
{new} = {x}.prod({d})
{new} = {real}.std({d})
{new} = {real}.var({d}, correction=0)
{new} = {x}.norm()
{new} = torch.linalg.vector_norm({x}, 2, {d})
{new} = {real}.min()
{new} = {real}.argmax({d})
{new} = {real}.median({d}).values
{new} = {any}.any({d})
{new} = {real}.sort({d}, stable=True)
{new} = {real}.cummax({d})
{new} = torch.searchsorted({real}.detach().sort(-1, stable=True).values, {same}.detach() * 1)
{new} = torch.bucketize({real}, {real}.detach().flatten().sort(stable=True).values, right=True)
{new} = {any}.sum()
{new} = {real}.aminmax()
{new} = {any}.count_nonzero()
{new} = {x}.cumprod({d})
{new} = {real}.logcumsumexp({d})
{new} = {x1}.sum({d}, keepdim=True).expand({shape})
{new} = ({real} - {real}.mean({d}, keepdim=True)) / ({real}.std({d}, keepdim=True) + 0.1)
{new} = {x2}.sum((0, 1))
{new} = {x2}.mean(-1).sum(0)
{new} = {any}.all({d})
""")

VIEWS = templates(r"""
{new} = {any}[{index}]
{new} = {any}[{index}]
{new} = {any}[{index}]
{new} = {any}.permute({order})
{new} = {any}.mT
{new} = {any}.transpose({d}, {e})
{new} = {any}.unsqueeze({d})
{new} = {any}.squeeze()
{new} = {any}.flatten()
{new} = {any}.reshape(-1)
{new} = {any}.view(-1)
{new} = {any}.expand(2, *{shape})
{new} = {any}.unfold({d}, 2, 1)
{new} = {any}.diagonal()
{new} = {any}.chunk(2, {d})
{new} = {any}.as_strided((2, 2), (1, 1), 1)
{new} = {any}.as_strided((3,), (2,))
{new} = {any}.movedim({d}, {e})
{new} = {any}.narrow({d}, 0, 1)
{new} = {any}.unbind({d})
{new} = torch.view_as_real({x})
{new} = {x}.real
{new} = {x}.imag
{new} = {x}.conj()
{new} = torch.view_as_complex({real}[..., :2])
{new} = {any}.select({d}, -1)
{new} = {any}.split(2, {d})
{new} = {any}.detach()
{new} = {any}.view_as({any})
{new} = {any}.swapaxes({d}, {e})
{new} = {any}.contiguous()
{new} = {any}.clone()
{new} = {any}.flip({d})
{new} = {any}.roll(1, {d})
{new} = torch.cat([{any}, {any}], {d})
{new} = torch.stack([{x}, {same}], {e})
{new} = {any}.repeat(2, *{shape})[:2]
{new} = {any}.tile(2)
{new} = torch.broadcast_to({any}, (3, *{shape}))
{new} = {any}.t()
{new} = {any}.to(torch.float64)
{new} = {any}.to(torch.float32)
{new} = {x}.to(torch.bfloat16)
{new} = {real}.long()
{new} = {any}.unflatten({d}, (1, -1))
{new} = torch.nn.functional.pad({x}, (1, 2))
{new} = {any}.view(torch.uint8)
{new} = {any}.rot90()
{new} = {any}.diag_embed()
{new} = {any}.flatten()[1:]
{new} = {any}.as_strided((3, 2), (1, 1))
{new} = {any}.unfold({d}, 3, 1)
{new} = {any}.view(-1).unfold(0, 3, 2)
{new} = {any}.tril()
""")

WRITES = templates(r"""
{x}.mul_({y})
{x}.add_({y}, alpha={c})
{x}[{index}] = {c}
{any}[{index}] = {i}
{x}[{index}] *= {c}
{x}[{index}].add_({c})
{x}.copy_({y})
{any}.copy_({any})
{any}.fill_({i})
{any}.zero_()
{x}[{index}].zero_()
{x}.mul_({c}).add_({c})
{x}[{index}] = {x}[{index}] * {c}
{real}[{real} > 0.2] = {c}
{real}.clamp_(-1, {c})
{real}.masked_fill_({real} < 0, {c})
{x}.sin_()
{x}.tanh_()
{real}.relu_()
{real}.exp_()
{x}.addcmul_({same}, {y}, value={c})
{x}.lerp_({same}, 0.3)
{x}.index_add_({d}, torch.tensor([0]), {x}.narrow({d}, 0, 1))
{x}.index_fill_({d}, torch.tensor([0, -1]), {c})
{any}.transpose_({d}, {e})
{x}.index_copy_({d}, torch.tensor([0]), {same}.narrow({d}, 0, 1))
{x}.scatter_add_({d}, torch.zeros({shape}, dtype=torch.int64), {same})
{x}.diagonal().add_({c})
{x}.mT.mul_({c})
{x}.view(-1)[::2].mul_({c})
{x}.real.mul_({c})
torch.view_as_real({x})[..., 0] = {c}
{x}.unfold({d}, 1, 1).mul_(2)
{x}.flatten()[1:].neg_()
{x}.expand({shape}).add_(1)
{x}.data.mul_({c})
{x}.detach().add_({c})
with torch.no_grad():\n    {x}.mul_({y})
with torch.no_grad():\n    {x}[{index}] = {c}
torch.add({x}, {same}, out={new})
torch.mul({any}, {any}, out={any})
{new} = torch.empty(0, dtype={x}.dtype)\nwith torch.no_grad():\n    torch.sum({x}, {d}, out={new})
{x}.cumsum_({d})
{any}.unsqueeze_({d})
{any}.squeeze_()
{any}.t_()
{x}.div_({y}.abs() + 1)
{x}.put_(torch.tensor([0, -1]), {x}.view(-1)[:2])
{x}.tril_()
{any}.fill_diagonal_({i})
{x}[{index}], {new} = {x}[{index}] * 2, {x}[{index}] + 1
{any} ^= 1
{x} **= 2
{any}.as_strided((2,), (1,)).fill_({i})
{x}.index_put_((torch.tensor([0, 0]),), {x}[0] * 1, accumulate=True)
{real}.masked_scatter_({real} > 0, {same} * 1)
{new} = {any}.clone(memory_format=torch.contiguous_format)\nif {new}.numel() > 3:\n    {new}.resize_(2, 2)
{any}.set_({any})
{x}.swapaxes(0, -1)[0] = {c}
{x1}[1:] = {x1}[:-1] * {c}
{x1}[:-1].add_({x1}[1:].clone())
{x1}.flip({d})[:1].zero_()
{x2}.mT.copy_({x2} * {c})
{x1}.narrow({d}, 0, 1).add_({x1}.select({d}, -1).unsqueeze({d}), alpha={c})
{x1}.select({d}, 0).mul_({x1}.select({d}, -1).exp())
for row in {x1}.unbind(0):\n    row.mul_({c})
with torch.no_grad():\n    {any}.view(-1)[1:].copy_({any}.view(-1)[:-1].clone())
torch._foreach_mul_([{x}, {same}.clone()], {c})
""")

LAYERS = templates(r"""
{new} = {x2} @ {x2}.mT
{new} = {x2}.mT @ {x2}
{new} = torch.einsum('...i,...j->...ij', {x1}, {x1})
{new} = torch.nn.functional.linear({x1}, torch.ones(3, {n}, dtype={x1}.dtype).cumsum(0) * 0.1)
{new} = torch.nn.functional.layer_norm({real}, {real}.shape[-1:])
{new} = torch.nn.functional.conv1d({x3}, {x3}[:, :, :1])
{new} = torch.nn.functional.conv2d({x3}[None], {x3}[None, :, :1, :1] * 0.3, padding=1)
{new} = torch.nn.functional.conv_transpose1d({x3}, {x3}.transpose(0, 1)[..., :2].contiguous())
{new} = torch.nn.functional.max_pool1d({x3}, 2)
{new} = torch.nn.functional.avg_pool1d({x3}, 2, 1)
{new} = torch.nn.functional.scaled_dot_product_attention({x3}, {x3}, {x3} * 0.5)
{new} = torch.nn.functional.scaled_dot_product_attention({x3}, {x3}.sin(), {x3}, is_causal=True)
{new} = torch.nn.functional.cross_entropy({x2}, torch.zeros({x2}.shape[0], dtype=torch.int64))
{new} = torch.nn.functional.mse_loss({real}, {same})
{new} = torch.nn.functional.normalize({x2}, dim={d})
{new} = torch.nn.functional.embedding(torch.tensor([[0, 1], [1, 0]]), {x2}[:2])
{new} = torch.nn.functional.batch_norm({x2}, None, None, training=True)
{new} = torch.nn.functional.group_norm({x3}, 1)
{new} = torch.nn.functional.glu({x1}, {d})
{new} = torch.nn.functional.interpolate({x3}, scale_factor=2, mode='nearest')
{new} = torch.nn.functional.interpolate({x3}, size=5, mode='linear')
{new} = torch.cdist({x2}, {x2} + 0.5)
{new} = torch.nn.functional.huber_loss({real}, {same}, delta=0.5)
{new} = torch.baddbmm({x3}, {x3}, torch.ones({x3}.shape[0], {x3}.shape[-1], {x3}.shape[-1], dtype={x3}.dtype))
{new} = torch.linalg.solve({x2} @ {x2}.mT + 3 * torch.eye({x2}.shape[-2], dtype={x2}.dtype), {x2})
{new} = torch.linalg.det({x2} @ {x2}.mT + torch.eye({x2}.shape[-2], dtype={x2}.dtype))
{new} = torch.fft.fft({x})
{new} = torch.fft.rfft({real}).real
{new} = torch.tensordot({x1}, {x1}, {i})
{new} = torch.gather({x1}, {d}, torch.zeros({shape}, dtype=torch.int64))
{new} = torch.take_along_dim({real}, {real}.argsort({d}, stable=True), {d})
{new} = {x1}.index_select({d}, torch.tensor([0, 0, -1 + {n}]))
with torch.autocast('cpu', dtype=torch.bfloat16):\n    {new} = {x2} @ {x2}.mT
with torch.autocast('cpu', dtype=torch.bfloat16):\n    {new} = ({x2} @ {x2}.mT.sin()).softmax({e}) + {c}
""")

# PyTorch crashes where a view that was written to without gradients gets a hook before anybody
# has looked at its `grad_fn`.
GRADIENTS = templates(r"""
{grown}.abs().sum().backward(retain_graph=True)
{grown}.abs().square().sum().backward()
{grown}.sum().abs().backward(create_graph=True)
{new} = torch.autograd.grad({grown}.abs().sum(), [{leaf2}], allow_unused=True, create_graph=True)
{new} = torch.autograd.grad(({grown} * {grown}.sin()).abs().sum(), [{leaf2}], retain_graph=True)
{new} = torch.autograd.grad([{grown}], [{leaf2}], [torch.ones_like({grown})], allow_unused=True, create_graph=True)
if {grown}.grad_fn is not None:\n    {grown}.register_hook(lambda g: g * 2)
{leaf}.register_hook(lambda g: g + 1)
{grown}.retain_grad()
{leaf}.grad = None
{new} = {leaf}.grad
{new} = {leaf}.grad * 2
{leaf}.grad.mul_(0.5)
with torch.no_grad():\n    {leaf}.sub_({leaf}.grad, alpha=0.1)
{x}.requires_grad_()
{new} = {x}.detach().requires_grad_()
torch.optim.SGD([{leaf}], lr=0.1, momentum=0.9).step()
torch.optim.Adam([{leaf}], lr=0.05).step()
for _ in range(2):\n    {new} = ({leaf} * {leaf}).abs().sum()\n    {new}.backward()\n    with torch.no_grad():\n        {leaf}.sub_({leaf}.grad * 0.1)\n    {leaf}.grad = None
{new} = torch.utils.checkpoint.checkpoint(lambda a: {body}, {x}, use_reentrant=False)
with torch.enable_grad():\n    {new} = {x} * 2
with torch.no_grad():\n    {new} = {x}.sin() + {y}
with torch.inference_mode():\n    {new} = {real}.cos()
class Twice(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, a):\n        ctx.save_for_backward(a)\n        return a.sin() * 2\n    @staticmethod\n    def backward(ctx, g):\n        a, = ctx.saved_tensors\n        return g * a.cos() * 2\n{new} = Twice.apply({x})
{new} = torch.autograd.functional.jacobian(lambda a: {body}, {real})
{new} = torch.autograd.functional.hvp(lambda a: ({body}).sum(), {real}, {same})
""")

CONTROL = templates(r"""
if {real}.sum().item() > 0.1:\n    {new} = {real} * 2\nelse:\n    {new} = {real}.sin()
if {any}.any():\n    {new} = {x} + 1\nelse:\n    {new} = {x} - 1
for _ in range({i}):\n    {x}.mul_(0.5)
{new} = 0\nfor row in {x1}:\n    {new} = {new} + row.sin()
{new} = {real}\nwhile 3 < {new}.abs().sum() < inf:\n    {new} = {new} * 0.4
{new} = {any}.tolist()
{new} = {any}.sum().item()
{new} = {any}.nonzero()
{new} = {real}[{real} > 0]
{new} = [t * {i} for t in {x1}.unbind({d})]
{new} = {any}.shape
{new} = str({any}.dtype)
{new} = bool(({any} == {any}).all())
{new} = {any}.unique()
{any}.tolist()
{new} = {x}\nfor _ in range(3):\n    {new} = {new} * 0.5 + {y}
{new} = len({x1})
{new} = torch.equal({any}, {any})
{new} = torch.allclose({x}, {same})
{new} = {any}.numel()
""")

BODIES = templates(r"""
{x}.sin()
({x} * {a})
{x}.abs().sum()
({x} + {a} * 0.5)
{x}.exp().cos()
{x}.mean()
{x}.square()
({x} - {x}.mean())
torch.stack([{x}, {x} * 2])
{x}.flatten()[:1]
{x}.cumsum(-1)
{x}.tanh()
{x}.softmax(-1)
torch.where({x} > 0, {x}, {x} * 0.1)
{x}.unsqueeze(0)
{x}.sum(-1)
{x}.clone().mul_(2)
({x}.unsqueeze(-1) @ {a}.unsqueeze(-2))
{x}.flip(-1)
{x}.amax(-1)
torch.nn.functional.layer_norm({x}, {x}.shape[-1:])
{x}.sigmoid().log()
torch.cat([{x}, {x}.cos()], -1)
""")

TRANSFORMS = templates(r"""
{new} = torch.func.vmap(lambda a: {body})({x1}).clone()
{new} = torch.func.vmap(lambda a: {body}, in_dims={e}, out_dims=-1)({x1}).clone()
{new} = torch.func.vmap(torch.func.vmap(lambda a: {body}))({x2}).clone()
{new} = torch.func.grad(lambda a: ({body}).sum())({real})
{new} = torch.func.grad(torch.func.grad(lambda a: ({body}).sum()))({real}.sum())
{new} = torch.func.vmap(torch.func.grad(lambda a: ({body}).sum()))({x1}).clone()
{new} = torch.func.jvp(lambda a: {body}, ({real},), ({same},))
{new} = torch.func.vjp(lambda a: {body}, {real})[1](torch.func.vjp(lambda a: {body}, {real})[0])
{new} = torch.func.jacrev(lambda a: {body})({real})
{new} = torch.func.jacfwd(lambda a: {body})({real})
{new} = torch.func.hessian(lambda a: ({body}).sum())({real})
{new} = torch.func.grad_and_value(lambda a: ({body}).sum())({real})
{new} = torch.func.functionalize(lambda a: {body})({x})
{new} = torch.func.linearize(lambda a: {body}, {real})[1]({same})
{new} = torch.compile(lambda a: {body}, mode='reduce-overhead')({x})
f = torch.compile(lambda a: {body}, mode='reduce-overhead')\n{new} = [f({x}) for _ in range(3)]
f = torch.compile(lambda a: {body}, mode='reduce-overhead')\n{new} = [f({x}), f({same}), f({x} * 2), f({x})]
""")

# Functions of {f}, a function of a tensor.
COMPOSED = templates(r"""
torch.func.vmap({f})
torch.func.vmap({f}, in_dims=-1, out_dims=-1)
torch.func.grad(lambda a: ({f})(a).abs().sum())
(lambda a: torch.func.jvp({f}, (a,), (a.cos(),))[1])
(lambda a: (lambda out, pull: pull(out)[0])(*torch.func.vjp({f}, a)))
torch.func.jacrev({f})
torch.func.jacfwd({f})
torch.func.hessian(lambda a: ({f})(a).sum())
(lambda a: torch.utils.checkpoint.checkpoint({f}, a, use_reentrant=False))
torch.compile({f}, mode='reduce-overhead')
(lambda a: ({f})(a.flip(0)) + ({f})(a) * 2)
(lambda a: ({f})(a.clone().mul_(0.5)))
(lambda a: torch.stack([({f})(row) for row in a]))
""")

# What a function that is transformed adds to its result: a tensor that it captures.
CAPTURED = templates(r"""
 * {real}.sum()
 + {real}.tanh().mean()
 - ({real} * {real}).mean()
""")

COMPILED = templates(r"""
def f(a):\n    if a.sum() > 0:\n        return {body}\n    return a.sin()\nf = torch.compile(f, mode='reduce-overhead')\n{new} = [f({real}), f(-{real}), f({real})]
with torch.no_grad():\n    f = torch.compile(lambda a: {x}.mul_(0.5).add_(a), mode='reduce-overhead')\n    {new} = [f({same}).clone() for _ in range(3)]
f = torch.compile(lambda a: (a[..., :1], {body}, a.mT), mode='reduce-overhead')\n{new} = [f({x2}) for _ in range(3)]
n = [0]\ndef f(a):\n    n[0] += 1\n    return a * n[0]\nf = torch.compile(f, mode='reduce-overhead')\n{new} = [f({x}) for _ in range(3)]
f = torch.compile(lambda a, k: a * k + {c}, mode='reduce-overhead')\n{new} = [f({x}, k) for k in (1, 2, 2.5, True)]
f = torch.compile(lambda a: {body}, mode='reduce-overhead')\n{new} = [f({x1}), f({x1}[:1]), f({x1}), f({x1}.to(torch.float32))]
f = torch.compile(lambda a: torch.autograd.grad(({body}).abs().sum(), a)[0], mode='reduce-overhead')\n{new} = [f({leaf}) for _ in range(3)]
def f(a):\n    a.grad = None\n    ({body}).abs().sum().backward()\n    with torch.no_grad():\n        a -= 0.1 * a.grad\nf = torch.compile(f, mode='reduce-overhead')\nfor _ in range(3):\n    f({leaf})
f = torch.compile(torch.func.grad(lambda a: ({body}).sum()), mode='reduce-overhead')\n{new} = [f({real}), f({real} * 0.5), f({real})]
f = torch.compile(lambda a: [a.sum().item(), {body}], mode='reduce-overhead')\n{new} = [f({real}) for _ in range(3)]
f = torch.compile(lambda a, b: torch.where(a > b, a, b * 2), mode='reduce-overhead')\n{new} = [f({real}, {same}), f({same}, {real}), f({real}, {real})]
""")

# What PyTorch's samples do not call.
OTHERS = templates(r"""
{new} = {any}.new_tensor([1, 2])
{new} = torch.range(0, 3)
{new} = torch.as_tensor({any})
{new} = torch.asarray({any})
{new} = torch.frombuffer(bytearray(range(8)), dtype=torch.int16)
{new} = {any}.is_conj()
{new} = {any}.is_neg()
{new} = torch.chain_matmul({x2}, {x2}.mT, {x2})
{new} = {any}.unsafe_split_with_sizes([1, {n} - 1], {d})
{new} = {any}.type_as({any})
{new} = {any}.type(torch.float32)
{new} = {any}.cpu()
{new} = {any}.is_set_to({any})
{new} = torch.is_same_size({any}, {any})
{new} = torch.is_tensor({any})
{new} = torch.numel({any})
{new} = torch.is_floating_point({any})
{new} = torch.is_complex({any})
{new} = torch.is_inference({any})
{new} = torch.is_nonzero({any}.sum())
{new} = torch.detach({any})
{new} = str(torch.result_type({any}, {any}))
{new} = torch.get_device({any})
{new} = {any}.dim_order()
{new} = {any}.is_coalesced()
{new} = torch.is_signed({any})
{new} = {any}.is_distributed()
{new} = {any} * 1\n{new}.detach_()
{new} = {any}.type()
{new} = torch.rand(2, 3)
{new} = torch.randperm(5)
{new} = torch.poisson({real}.abs())
{new} = torch.binomial({real}.detach().abs().ceil(), {real}.detach().sigmoid())
{any}.random_(5)
{new} = torch.hann_window(5)
{new} = torch.blackman_window(6, dtype=torch.float64)
{new} = torch.bartlett_window(5, False)
{new} = torch.hamming_window(7, dtype=torch.float64)
{new} = torch.kaiser_window(6, dtype=torch.float64)
{any}.__setitem__({i}, {i})
{new} = torch.segment_reduce({real}, 'sum', lengths=torch.tensor([{n}]), axis=0)
{new} = torch.select_copy({any}, {d}, 0)
{new} = torch.detach_copy({any})
{new} = torch.slice_copy({any}, {d}, 0, 1)
{new} = torch.split_copy({any}, 2, {d})
{new} = torch.view_as_real_copy({x})
{new} = torch.view_as_complex_copy({real}[..., :2])
{new} = torch.fft.fftfreq(5, 0.5)
{new} = torch.fft.rfftfreq(6)
{new} = torch.nn.functional.dropout1d({x2})
{new} = torch.nn.functional.fold(torch.nn.functional.unfold({x3}[None], 2), {x3}.shape[1:], 2)
{new} = torch.conv_tbc({x3}, {x3}[:1].mT, {x3}[0, 0, :1].expand({x3}.shape[1])).contiguous()
{new} = torch.nn.functional.lp_pool1d({x3}, 2, 2)
{new} = torch.nn.functional.lp_pool2d({x3}, 3.0, 2)
{new} = torch.nn.functional.lp_pool3d({x3}[None], 2.0, 1)
{new} = torch.max_pool1d_with_indices({x2}, 2)
{new} = torch.nn.functional.max_pool2d_with_indices({x3}, 2)
{new} = torch.nn.functional.max_pool3d_with_indices({x3}[None], 2)
{new} = torch.nn.functional.adaptive_max_pool1d_with_indices({x2}, 2)
{new} = torch.nn.functional.adaptive_max_pool2d_with_indices({x3}, 2)
{new} = torch.nn.functional.adaptive_max_pool3d_with_indices({x3}[None], 2)
{new} = torch.nn.functional.fractional_max_pool2d_with_indices({x3}, 2, 2)
{new} = torch.nn.functional.fractional_max_pool3d_with_indices({x3}[None], 1, 2)
{new} = torch.nn.functional.upsample({x3}, scale_factor=2)
{new} = torch.nn.functional.affine_grid({x3}[:, :2, :3], (1, 1, 3, 2), align_corners=False)
{new} = torch.affine_grid_generator({x3}[:, :2, :3], (1, 1, 3, 2), False)
{new} = torch.grid_sampler({x3}[None], {x3}[None, :, :, :2].tanh(), 0, 0, True)
{new} = torch.nn.functional.gumbel_softmax({real})
{new} = torch.norm_except_dim({x2}, 2, 0)
{new} = torch.frobenius_norm({x2}, [0, 1])
{new} = torch.nuclear_norm({x2})
{new} = torch.convolution({x3}, {x3}[:, :, :1], None, [1], [0], [1], False, [0], 1)
{new} = torch.native_channel_shuffle({x3}, 1)
{new} = torch.native_dropout({real}, 0.5, True)
{new} = torch.feature_dropout({x2}, 0.5, True)
torch.feature_dropout_({x2}, 0.5, True)
torch.embedding_renorm_({x2}, torch.tensor([0]), 1.0, 2.0)
{new} = torch.nn.functional.elu_({real} * 1)
{new} = torch.nn.functional.celu_({real} * 1)
{new} = torch.nn.functional.selu_({real} * 1)
{new} = torch.nn.functional.leaky_relu_({real} * 1)
{new} = torch.nn.functional.hardtanh_({real} * 1)
{new} = torch.nn.functional.threshold_({real} * 1, 0.1, {c})
{new} = torch.nn.functional.rrelu_({real} * 1)
{new} = torch.nn.functional.alpha_dropout({real}, inplace=False)
{new} = torch.alpha_dropout_({real} * 1, 0.5, True)
{new} = torch.feature_alpha_dropout_({x2} * 1, 0.5, True)
{new} = torch.dropout_({real} * 1, 0.5, True)
{new} = {real}.detach().clone()\n{new}.apply_(lambda a: a * 2)
{new} = {real}.detach().clone()\n{new}.map_({same}.detach(), lambda a, b: a * 2 + b)
{new} = torch.empty_like({any}).fill_({i})
{new} = torch.empty_permuted((2, 3), (1, 0)).zero_()
{new} = torch.empty_strided((2, 3), (1, 2)).zero_()
{new} = {any}.new_empty(2).fill_({i})
{new} = {any}.new_empty_strided((2,), (1,)).zero_()
{any}.resize_as_({any})
{new} = {any}.untyped_storage().nbytes()
{new} = torch.is_storage({any})
{new} = {any}.to_dense()
{new} = torch._neg_view({x}) * 1
{new} = {real}.detach().clone()\n{new}.map2_({same}.detach(), {same}.detach(), lambda a, b, c: a * b + c)
{new} = {any}.storage().nbytes()
{new} = torch._standard_gamma({real}.detach().abs() + 0.1)
""")

# Samples that are not drawn: private operators, sparse ones, those of CUDA or without elements.
NOT_SAMPLED = (
    r"(^|\.)_(?!_)|^torch\.|^sparse\.|^to_sparse|jiterator|triton|empty|resize|^slice$|"
    r"_backward|hash_tensor|chalf|^item$"
)
# Programs that are not run with other sizes: windows may overlap, and PyTorch does not see that
# pivots or statistics are too few, and writes elsewhere; longer limits are in no order; outputs
# of another size take the views of their memory along.
UNCHECKED = r"out=|unfold|as_strided|lu_unpack|native_batch_norm|bucketize|searchsorted"
# Views where the order of elements in memory permits, or of that order; what tells of it.
BY_LAYOUT = r"reshape|[^n]flatten|ravel|contiguous|as_strided|resize|view\(|dim_order|nbytes"
# Operators whose operands are in order.
OF_SORTED = ("searchsorted", "bucketize")
# Programs that solve equations: how far their results may be off depends on equal numbers too.
SOLVING = r"linalg|inv|solve|det\(|chol|lu\(|lu_|cdist|cond|cov|corrcoef"
# Statements that take derivatives.
DERIVES = r"backward\(|\bgrad\(|grad_and|jac|hess|hvp|vhp|vjp|jvp|linearize|step\("
# Those that do it forwards.
FORWARD = r"jvp|jacfwd|hessian|linearize"
