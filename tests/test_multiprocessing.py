"""Processes started together end together, and tensors reach them by value."""

import os
import signal
import sys

import pytest

import rushlight as torch

mp = torch.multiprocessing
ENOUGH = 120  # seconds for a process to start on a busy machine


def _double(rank, queue, x):
    queue.put((rank, (x * 2 + rank).tolist()))


def _fail(rank):
    if rank == 1:
        raise ValueError("rank one is unlucky")


def _end(rank, how):
    if how == "exit":
        sys.exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


def test_every_rank_gets_the_arguments():
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(_double, (queue, torch.tensor([1.0, 2.0])), nprocs=2)
    assert sorted(queue.get() for _ in range(2)) == [(0, [2.0, 4.0]), (1, [3.0, 5.0])]


def test_an_exception_in_one_process_is_raised_with_its_traceback():
    with pytest.raises(mp.ProcessRaisedException, match="rank one is unlucky") as caught:
        mp.spawn(_fail, nprocs=2)
    assert caught.value.error_index == 1


@pytest.mark.parametrize("how, name", [("exit", None), ("kill", "SIGKILL")])
def test_processes_that_end_early_are_named(how, name):
    context = mp.spawn(_end, (how,), join=False)
    assert len(context.pids()) == 1
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with") as caught:
        context.join(ENOUGH)
    assert caught.value.signal_name == name


def test_pythons_names_are_there_and_strategies_are_kept():
    assert mp.cpu_count() >= 1
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy("file_descriptor")
    with pytest.raises(AssertionError, match="invalid sharing strategy"):
        mp.set_sharing_strategy("telepathy")
