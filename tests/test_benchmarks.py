"""The benchmarks' own claims: how much work a step is, and that libraries start alike."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.tables import figure, ratio, table
from benchmarks.turns import Contender, ContenderFailed, Player, compare, start_difference
from benchmarks.workloads import WORKLOADS, training_step


@pytest.mark.parametrize("name", ["mlp_tiny", "mlp_mnist", "cnn_small", "resnet18_cifar"])
def test_flops_of_a_step_are_what_pytorch_counts(name):
    step = training_step(torch, name, compiled=False, autocast=False)
    with FlopCounterMode(display=False) as counter:
        step()
    assert WORKLOADS[name].flops == counter.get_total_flops()


def test_two_libraries_take_turns_from_the_same_start():
    contenders = [Contender("ours", "rushlight"), Contender("peer", "torch")]
    ours, peer = compare(contenders, "mlp_tiny", 1, seconds=0.0, on_failure=fail)
    assert start_difference(ours, peer) < 1e-5
    assert len(ours.block_seconds) == len(peer.block_seconds) == 5
    assert ours.peak_mib > 0


def fail(contender: Contender, failure: ContenderFailed) -> None:
    raise failure


def test_a_contender_that_cannot_start_says_why():
    with pytest.raises(ContenderFailed, match="no_such_library"):
        Player(Contender("lost", "no_such_library"), "mlp_tiny", 1, {})


def test_a_table_aligns_its_columns():
    rows = [["a", figure(0.12345), ratio(2)], ["long", figure(1234.5), ratio(None)]]
    assert table(["name", "ms", "r"], rows).splitlines() == [
        "name     ms      r",
        "----  -----  -----",
        "a     0.123  2.00x",
        "long   1234      -",
    ]


def test_a_contender_that_fails_in_play_is_dropped_and_the_others_go_on(monkeypatch):
    lost: list[str] = []
    play = Player.play

    def report(contender: Contender, failure: ContenderFailed) -> None:
        lost.append(contender.label)

    def killed_first(self: Player) -> float:
        if self.contender.label == "lost":
            self.process.kill()
            self.process.wait()
        return play(self)

    monkeypatch.setattr(Player, "play", killed_first)
    contenders = [Contender("lost", "torch"), Contender("stays", "torch")]

    results = compare(contenders, "mlp_tiny", 1, seconds=0.0, on_failure=report)
    assert lost == ["lost"]
    assert [result.label for result in results] == ["stays"]
