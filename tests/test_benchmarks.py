"""The benchmarks' own claims: how much work a step is, and that libraries start alike."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import operation_table
from benchmarks.operations import FAMILIES, OPERATIONS, REASONS
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


def test_the_table_of_operations_compares_what_is_the_same():
    ops = operation_table.chosen("^(x [+] y|topk, dim 1)$")
    rows = operation_table.measure(
        ("rushlight", "torch"), 1, ops, (64, 100), seconds=0.0, most=1
    )
    assert [(row.op.name, row.size) for row in rows] == [
        (name, size) for size in (64, 100) for name in ("x + y", "topk, dim 1")
    ]
    assert all(row.apart < 1e-6 and row.ours > 0 and row.theirs > 0 for row in rows)
    assert rows[0].bytes == 3 * 64 * 4
    text = operation_table.text(rows)
    assert "2 operations on 64 elements: geometric mean" in text
    assert set(operation_table.report(rows)["100"]["operations"]) == {"x + y", "topk, dim 1"}


def test_operations_are_a_hundred_at_least_and_named_once():
    assert len(OPERATIONS) == sum(map(len, FAMILIES.values())) >= 100
    assert all(name in OPERATIONS for names in REASONS.values() for name in names)
