"""Modules, optimizers and steps of training for random programs.

A module is drawn for an input of the program and called at once; later statements find it, its
parameters and its call again. {m} is a module, {call} an expression that calls it, {o} an
optimizer of its parameters, {new} a new name, {x} the input of the call.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import torch
from program_tables import templates

# What programs find beside `torch`: parameters that are the same numbers in either library.
PRELUDE = """\
def fixed(module):
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            numbers = torch.arange(p.numel(), dtype=torch.float64) * 0.7 + i
            p.copy_(numbers.sin().reshape(p.shape) * 0.5)
    return module
"""

# For inputs of at least two dimensions, {f} the last size, {k} the second; and how to call them.
LAYERS = templates("""
torch.nn.Linear({f}, 3, dtype={t})
torch.nn.Linear({f}, {f}, bias=False, dtype={t})
torch.nn.Sequential(torch.nn.Linear({f}, 4, dtype={t}), torch.nn.Tanh(), torch.nn.Linear(4, 2, dtype={t}))
torch.nn.Sequential(torch.nn.Linear({f}, 5, dtype={t}), torch.nn.LayerNorm(5, dtype={t}), torch.nn.GELU(), torch.nn.Linear(5, {f}, dtype={t}))
torch.nn.LayerNorm({f}, dtype={t})
torch.nn.RMSNorm({f}, eps=1e-3, dtype={t})
torch.nn.GroupNorm(1, {k}, dtype={t})
torch.nn.BatchNorm1d({k}, dtype={t})
torch.nn.Sequential(torch.nn.BatchNorm1d({k}, momentum=0.5, dtype={t}), torch.nn.ReLU())
torch.nn.InstanceNorm1d({k}, affine=True, dtype={t})
torch.nn.PReLU(dtype={t})
torch.nn.Conv1d({k}, 2, 2, padding=1, dtype={t})
torch.nn.Sequential(torch.nn.Conv1d({k}, 4, 3, padding=1, dtype={t}), torch.nn.SiLU(), torch.nn.MaxPool1d(2), torch.nn.Flatten())
torch.nn.ConvTranspose1d({k}, 2, 2, stride=2, dtype={t})
torch.nn.Sequential(torch.nn.Unflatten(-1, (1, -1)), torch.nn.Conv2d({k}, 2, (1, 2), bias=False, dtype={t}), torch.nn.AdaptiveAvgPool2d(1))
torch.nn.GRU({f}, 3, batch_first=True, dtype={t})
torch.nn.LSTM({f}, 2, num_layers=2, dtype={t})
torch.nn.RNN({f}, 3, bidirectional=True, dtype={t})
torch.nn.GRUCell({f}, 2, dtype={t})
torch.nn.MultiheadAttention({f}, 1, batch_first=True, dtype={t})
torch.nn.TransformerEncoderLayer({f}, 1, 6, dropout=0.0, batch_first=True, dtype={t})
torch.nn.TransformerEncoderLayer({f}, 1, 4, dropout=0.0, norm_first=True, activation='gelu', dtype={t})
torch.nn.Bilinear({f}, {f}, 2, dtype={t})
torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear({f}, 2, dtype={t}))
torch.nn.Sequential(torch.nn.Dropout(0.0), torch.nn.Linear({f}, {f}, dtype={t}), torch.nn.Softmax(-1))
torch.nn.Embedding({f}, 3, dtype={t})
""")
CALLS = {
    "MultiheadAttention": "{m}({x}, {x}, {x})[0]",
    "Bilinear": "{m}({x}, {x})",
    "GRU(": "{m}({x})[0]",
    "LSTM": "{m}({x})[0]",
    "RNN(": "{m}({x})[0]",
    "Embedding": "{m}({x}.detach().real.abs().long().clamp(max=0))",
}

OPTIMIZERS = templates("""
torch.optim.SGD({m}.parameters(), lr=0.1)
torch.optim.SGD({m}.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)
torch.optim.Adam({m}.parameters(), lr=0.05)
torch.optim.Adam({m}.parameters(), lr=0.05, amsgrad=True, weight_decay=0.1)
torch.optim.AdamW({m}.parameters(), lr=0.05, betas=(0.5, 0.9))
torch.optim.RMSprop({m}.parameters(), lr=0.05, centered=True, momentum=0.5)
torch.optim.Adagrad({m}.parameters(), lr=0.1)
torch.optim.Adadelta({m}.parameters())
torch.optim.Adamax({m}.parameters(), lr=0.05)
torch.optim.NAdam({m}.parameters(), lr=0.05)
torch.optim.RAdam({m}.parameters(), lr=0.05)
torch.optim.Rprop({m}.parameters(), lr=0.05)
torch.optim.ASGD({m}.parameters(), lr=0.05)
torch.optim.Adafactor({m}.parameters(), lr=0.05)
torch.optim.LBFGS({m}.parameters(), lr=0.1, max_iter=3)
torch.optim.SGD([{{'params': [p]}} for p in {m}.parameters()], lr=0.1, maximize=True)
""")

USES = templates(r"""
{new} = {call}
({call}).abs().square().mean().backward()
({call}).abs().square().mean().backward(retain_graph=True)
{new} = {call}\n{new}.abs().sum().backward()
{m}.eval()
{m}.train()
{m}.zero_grad()
{m}.requires_grad_(False)
{m}.requires_grad_(True)
{m}.to(torch.float32)
{m}.load_state_dict({{k: v * 0.5 for k, v in {m}.state_dict().items()}})
with torch.no_grad():\n    for p in {m}.parameters():\n        p.lerp_(torch.ones_like(p), 0.1)
with torch.no_grad():\n    for p in {m}.parameters():\n        if p.grad is not None:\n            p -= 0.1 * p.grad
{m}.register_forward_hook(lambda module, inputs, out: out * 2)
{m}.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 0.5,))
{new} = torch.nn.utils.clip_grad_norm_({m}.parameters(), 0.1)
torch.nn.utils.clip_grad_value_({m}.parameters(), 0.01)
{new} = torch.nn.utils.parameters_to_vector({m}.parameters())
{new} = __import__('copy').deepcopy({m})
{new} = [p.detach().clone() for p in {m}.parameters()]
{new} = list({m}.state_dict().values())
{new} = torch.func.functional_call({m}, {{k: v * 2 for k, v in {m}.named_parameters()}}, ({x},))
{new} = torch.func.grad(lambda p: torch.func.functional_call({m}, p, ({x},)).abs().sum())(dict({m}.named_parameters()))
{new} = torch.func.vmap(torch.func.grad(lambda p, a: torch.func.functional_call({m}, p, (a[None],)).abs().square().sum()), (None, 0))(dict({m}.named_parameters()), {x})
{new} = torch.func.jacrev(lambda p: torch.func.functional_call({m}, p, ({x},)))(dict({m}.named_parameters()))
{new} = torch.utils.checkpoint.checkpoint(lambda a: {m}(a), {x}, use_reentrant=False)
{new} = torch.utils.checkpoint.checkpoint(lambda: {call}, use_reentrant=False)
f = torch.compile(lambda a: {m}(a), mode='reduce-overhead')\n{new} = [f({x}) for _ in range(3)]
f = torch.compile({m}, mode='reduce-overhead')\n{new} = [f({x}) for _ in range(3)]
with torch.no_grad():\n    f = torch.compile(lambda: {call}, mode='reduce-overhead')\n    {new} = [f() for _ in range(3)]
{new} = torch.autograd.grad(({call}).abs().sum(), list({m}.parameters()), create_graph=True, allow_unused=True)
g = torch.autograd.grad(({call}).square().abs().sum(), list({m}.parameters()), create_graph=True)\n{new} = sum(t.square().abs().sum() for t in g)\n{new}.backward()
g = torch.autograd.grad(({call}).square().abs().sum(), list({m}.parameters()), create_graph=True)\n{new} = torch.autograd.grad(sum(t.abs().square().sum() for t in g), list({m}.parameters()), allow_unused=True)
with torch.no_grad():\n    {new} = {call}
if ({call}).abs().sum().item() > 2:\n    {m}.zero_grad()\nelse:\n    ({call}).abs().sum().backward()
{new} = torch.optim.swa_utils.AveragedModel({m})\n{new}.update_parameters({m})
""")

TRAINING = templates(r"""
{o}.step()
{o}.zero_grad()
{o}.zero_grad(set_to_none=False)
({call}).abs().square().mean().backward()\n{o}.step()
for _ in range({i}):\n    {o}.zero_grad()\n    ({call}).abs().square().mean().backward()\n    {o}.step()
for _ in range(4):\n    {o}.zero_grad(set_to_none=False)\n    {new} = ({call}).abs().square().mean()\n    {new}.backward()\n    {o}.step()
{new} = []\nfor _ in range(3):\n    {o}.zero_grad()\n    loss = ({call}).abs().square().sum()\n    {new}.append(loss.item())\n    loss.backward()\n    {o}.step()
for _ in range(2):\n    {o}.zero_grad()\n    for _ in range(2):\n        (({call}).abs().mean() * 0.5).backward()\n    torch.nn.utils.clip_grad_norm_({m}.parameters(), 0.5)\n    {o}.step()
def closure():\n    {o}.zero_grad()\n    loss = ({call}).abs().square().sum()\n    loss.backward()\n    return loss\n{new} = {o}.step(closure)
for _ in range(3):\n    {o}.zero_grad()\n    ({call}).abs().square().mean().backward()\n    {o}.step()\n    for g in {o}.param_groups:\n        g['lr'] = g['lr'] * 0.5
s = torch.optim.lr_scheduler.CosineAnnealingLR({o}, 3)\nfor _ in range(3):\n    {o}.zero_grad()\n    ({call}).abs().mean().backward()\n    {o}.step()\n    s.step()
def train():\n    {o}.zero_grad()\n    loss = ({call}).abs().square().mean()\n    loss.backward()\n    {o}.step()\n    return loss.detach()\nf = torch.compile(train, mode='reduce-overhead')\n{new} = [f() for _ in range(4)]
def train(a):\n    {o}.zero_grad()\n    loss = {m}(a).abs().square().mean()\n    loss.backward()\n    {o}.step()\n    return loss.detach()\nf = torch.compile(train, mode='reduce-overhead')\n{new} = [f({x}), f({x} * 0.5), f({x}), f({x})]
if ({call}).abs().sum().item() > 1:\n    ({call}).abs().sum().backward()\n    {o}.step()
{o}.load_state_dict({o}.state_dict())
""")


class Model(NamedTuple):
    """A module of a program, an input it takes, and the expression that calls it."""

    name: str
    source: str
    call: str


def layer(rng: random.Random, x: torch.Tensor) -> str:
    """The expression of a new module that takes `x`, of at least two dimensions."""
    text = rng.choice(LAYERS).format(f=x.shape[-1], k=x.shape[1], t=x.dtype)
    return f"fixed({text})"


def call(made: str, name: str, x: str) -> str:
    """How the module `name` that `made` makes is called."""
    form = next((form for kind, form in CALLS.items() if kind in made), "{m}({x})")
    return form.format(m=name, x=x)


def tensors_of(value: Any, expression: str) -> list[tuple[str, Any]]:
    """The parameters and buffers of a module, with the expression of each."""
    if not isinstance(value, torch.nn.Module):
        return []
    return [
        *((f"{expression}.get_parameter('{n}')", p) for n, p in value.named_parameters()),
        *((f"{expression}.get_buffer('{n}')", b) for n, b in value.named_buffers()),
    ]
