"""JAX on the workloads it is compared on: a jitted, donating step over lists of arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.workloads import MNIST, TINY, WORKLOADS, initial

Parameters = list[tuple[Any, Any]]

PERCEPTRONS = {"mlp_tiny": (TINY, jnp.tanh), "mlp_mnist": (MNIST, jax.nn.relu)}


def parameters(widths: tuple[int, ...], rng: np.random.Generator) -> Parameters:
    """The numbers that the other libraries start from, drawn in the same order."""
    layers = []
    for before, after in zip(widths, widths[1:]):
        weight = initial((after, before), "weight", rng)
        layers.append((jnp.asarray(weight), jnp.zeros(after)))
    return layers


def adamw(p: Any, g: Any, m: Any, v: Any, count: Any) -> tuple[Any, Any, Any]:
    """PyTorch's AdamW with its defaults and lr 1e-3, for one parameter."""
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    mean, square = m / (1 - 0.9**count), v / (1 - 0.999**count)
    return p * (1 - 1e-5) - 1e-3 * mean / (jnp.sqrt(square) + 1e-8), m, v


class Step:
    """Calls the jitted step and keeps the state between calls; returns the unread loss."""

    def __init__(self, name: str) -> None:
        widths, activation = PERCEPTRONS[name]
        rng = np.random.default_rng(0)
        start = parameters(widths, rng)
        self.x, self.y = (jnp.asarray(a) for a in WORKLOADS[name].batch(rng))
        zeros = jax.tree.map(jnp.zeros_like, start)
        self.state = (start, zeros, jax.tree.map(jnp.zeros_like, start), 1.0)

        def loss_of(p: Parameters, x: Any, y: Any) -> Any:
            for weight, bias in p[:-1]:
                x = activation(x @ weight.T + bias)
            logits = x @ p[-1][0].T + p[-1][1]
            picked = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=-1)
            return -picked.mean()

        def step(state: Any, x: Any, y: Any) -> tuple[Any, Any]:
            p, m, v, count = state
            loss, g = jax.value_and_grad(loss_of)(p, x, y)
            leaves, tree = jax.tree.flatten(p)
            rest = (tree.flatten_up_to(other) for other in (g, m, v))
            new = [adamw(*four, count) for four in zip(leaves, *rest)]
            p, m, v = (tree.unflatten(column) for column in zip(*new))
            return (p, m, v, count + 1), loss

        self.jitted = jax.jit(step, donate_argnums=0)

    def __call__(self) -> Any:
        self.state, loss = self.jitted(self.state, self.x, self.y)
        jax.block_until_ready(self.state)  # the step ends with its weights
        return loss


def training_step(name: str) -> Step:
    return Step(name)
