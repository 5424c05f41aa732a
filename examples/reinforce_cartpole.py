"""REINFORCE: a policy learns to balance a pole, from nothing but how long it stayed up.

    python -m examples.reinforce_cartpole [--quick]

Sixteen carts are tried at once. Each step the policy sees where the cart and the pole are and
how fast they move, and pushes the cart left or right. When all poles have fallen, or 500 steps
have passed, every push is made likelier or less likely by how long its pole then stayed up,
compared with the others at that time (Williams, 1992). The physics is that of Barto, Sutton and
Anderson (1983).
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.progress import track

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F

CARTS, STEPS = 16, 500
GRAVITY, CART_MASS, POLE_MASS, HALF_POLE = 9.8, 1.0, 0.1, 0.5  # m/s^2, kg, kg, m
PUSH, SECONDS = 10.0, 0.02  # newtons, and the time between two looks
FALLEN, GONE = np.radians(12), 2.4  # a pole's angle and a cart's place where a try ends
DISCOUNT = 0.99


# ------------------------------------------------------------------------------ the physics
def moved(state: np.ndarray, push: np.ndarray) -> np.ndarray:
    """The carts' (place, speed, angle, turning speed) after one time step, (CARTS, 4)."""
    place, speed, angle, turning = state.T
    mass, moment = CART_MASS + POLE_MASS, POLE_MASS * HALF_POLE
    pull = (push + moment * turning**2 * np.sin(angle)) / mass
    lever = HALF_POLE * (4 / 3 - POLE_MASS * np.cos(angle) ** 2 / mass)
    turning_faster = (GRAVITY * np.sin(angle) - np.cos(angle) * pull) / lever
    faster = pull - moment * turning_faster * np.cos(angle) / mass
    change = np.stack([speed, faster, turning, turning_faster], axis=1)
    return state + SECONDS * change


def standing(state: np.ndarray) -> np.ndarray:
    return (np.abs(state[:, 0]) < GONE) & (np.abs(state[:, 2]) < FALLEN)


# ------------------------------------------------------------------------------- the policy
def policy() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))


def play(
    model: nn.Module, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One try of each: states (T, CARTS, 4), pushes (T, CARTS), and 1.0 while it stood."""
    states = np.zeros((STEPS, CARTS, 4), np.float32)
    pushes = np.zeros((STEPS, CARTS), np.int64)
    stood = np.zeros((STEPS, CARTS), np.float32)
    state = rng.uniform(-0.05, 0.05, (CARTS, 4))
    up = np.ones(CARTS, bool)
    with torch.no_grad():
        for t in range(STEPS):
            states[t], stood[t] = state, up
            chances = F.softmax(model(torch.from_numpy(states[t])), dim=-1)  # (CARTS, 2)
            pushes[t] = torch.multinomial(chances, 1).squeeze(1).numpy()
            state = np.where(up[:, None], moved(state, PUSH * (2 * pushes[t] - 1)), state)
            up = up & standing(state)
            if not up.any():
                break
    return states, pushes, stood


def advantages(stood: np.ndarray) -> np.ndarray:
    """How much longer than the others each pole stood from each moment on, (T, CARTS)."""
    later, returns = np.zeros(CARTS, np.float32), np.zeros_like(stood)
    for t in reversed(range(STEPS)):
        later = stood[t] + DISCOUNT * later * stood[t]
        returns[t] = later
    count = np.maximum(stood.sum(axis=1, keepdims=True), 1)
    apart = (returns - returns.sum(axis=1, keepdims=True) / count) * stood
    return apart / (np.sqrt((apart**2).sum() / stood.sum()) + 1e-6)


# ----------------------------------------------------------------------------- the training
def train(*, quick: bool = False, seed: int = 0) -> list[float]:
    """The mean length of the sixteen tries in each round."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = policy()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    lengths: list[float] = []
    for round_ in track(range(2 if quick else 60), description="cartpole"):
        states, pushes, stood = play(model, rng)
        # Always all STEPS rows, zeros where a pole had fallen: every round is the same program.
        chosen = F.log_softmax(model(torch.from_numpy(states)), dim=-1)  # (T, CARTS, 2)
        chosen = chosen.gather(-1, torch.from_numpy(pushes).unsqueeze(-1)).squeeze(-1)
        loss = -(chosen * torch.from_numpy(advantages(stood))).sum() / float(stood.sum())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lengths.append(float(stood.sum() / CARTS))
        if round_ % 10 == 9:
            print(f"round {round_ + 1}: the pole stays up for {lengths[-1]:.0f} steps")
    return lengths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two rounds, to see that it runs")
    lengths = train(quick=parser.parse_args().quick)
    print(f"first round {lengths[0]:.0f} steps of {STEPS}, last {lengths[-1]:.0f}")


if __name__ == "__main__":
    main()
