"""Every example runs to its end in its quick form; what it is made of does what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from examples import reinforce_cartpole, stdlib_gpt, vae

ROOT = Path(__file__).parent.parent
EXAMPLES = ["digits_resnet", "stdlib_gpt", "lstm", "vae", "reinforce_cartpole"]


def run(name: str, *arguments: str) -> str:
    """The output of an example, in a process of its own with warnings as errors."""
    command = [sys.executable, "-W", "error", "-m", f"examples.{name}", *arguments]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name):
    assert run(name, "--quick")


def test_demo_draws_its_picture_and_says_what_it_reached(tmp_path):
    said = run("demo", "--quick", "--picture", str(tmp_path / "demo.png"))
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "held-out digits read right" in said
    assert "trigram" in said


@pytest.mark.long
@pytest.mark.timeout(1800)  # it trains
def test_digits_are_read_at_98_5_percent():
    assert float(run("digits_resnet").split("%")[-2].split()[-1]) >= 98.5


@pytest.mark.long
@pytest.mark.timeout(1800)  # it trains
def test_cartpole_learns_to_stand():
    assert reinforce_cartpole.train()[-1] > 400


@pytest.mark.long
@pytest.mark.timeout(1800)  # it trains
def test_lstm_learns_to_add():
    from examples import lstm  # trains only here

    assert lstm.train()[-1] < lstm.GUESSING / 20


@pytest.mark.long
@pytest.mark.timeout(1800)  # it trains
def test_gpt_learns_more_than_a_trigram_model_knows():
    result = stdlib_gpt.train()
    assert result.gpt < result.trigram < result.unigram


def test_grams_are_numbers_made_of_bytes():
    text = np.frombuffer(b"\x01\x02\x03", np.uint8)
    assert stdlib_gpt.grams(text, 2).tolist() == [0x0102, 0x0203]


def test_trigram_model_knows_a_text_that_repeats():
    text = np.frombuffer(b"abcd" * 1000, np.uint8)
    window = np.frombuffer(b"abcdabcdabcd", np.uint8).astype(np.int64)[None]
    assert stdlib_gpt.trigram_loss(text, window) < 0.01
    assert abs(stdlib_gpt.unigram_loss(text, window) - np.log(4)) < 0.1


def test_a_pole_that_leans_falls_further_and_the_cart_moves_when_pushed():
    state = np.array([[0.0, 0.0, 0.1, 0.0]])
    later = reinforce_cartpole.moved(reinforce_cartpole.moved(state, np.zeros(1)), np.zeros(1))
    assert later[0, 2] > 0.1
    pushed = reinforce_cartpole.moved(state, np.array([10.0]))
    assert pushed[0, 1] > 0


def test_images_are_drawn_side_by_side():
    assert len(vae.draw(np.zeros((2, 64))).splitlines()) == 8
