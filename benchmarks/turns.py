"""Libraries taking turns: blocks of steps alternate between processes, medians are compared."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

BLOCK = 10  # steps; the loss is read once a block


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a contender's process. Bytecode is kept, as it is for installed
    packages: otherwise an import would mostly measure Python's compiler.
    """
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **(changes or {})}


@dataclass(frozen=True)
class Contender:
    """A library and the way it is used, as `benchmarks.contender` takes them."""

    label: str
    library: str
    flags: tuple[str, ...] = ()


@dataclass
class Result:
    """What one contender did on one workload."""

    label: str
    import_s: float
    first_step_s: float
    losses: list[float]
    block_seconds: list[float] = field(default_factory=list)
    peak_mib: float = 0.0

    @property
    def step_ms(self) -> float:
        return statistics.median(self.block_seconds) / BLOCK * 1e3

    def summary(self) -> dict[str, Any]:
        return {
            "step_ms": self.step_ms,
            "fastest_ms": min(self.block_seconds) / BLOCK * 1e3,
            "blocks": len(self.block_seconds),
            "first_step_s": self.first_step_s,
            "import_s": self.import_s,
            "peak_mib": self.peak_mib,
            "losses": self.losses,
        }


class ContenderFailed(RuntimeError):
    """A contender's process ended before it answered; its own words are the message."""


class Conversation:
    """A process of this folder that answers each line on its stdin with a line of JSON."""

    def __init__(self, command: list[str], env: Mapping[str, str]) -> None:
        # A file, for a pipe could fill and block; `close` closes it.
        self.complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            text=True,
            env=environment(env),
        )

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            if line.startswith("{"):
                return json.loads(line)
        self.complaints.seek(0)
        raise ContenderFailed("\n".join(self.complaints.read().splitlines()[-4:]))

    def ask(self, question: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `answer` will say why it has ended
            self.process.stdin.write(f"{question}\n")
            self.process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        """End the process, if it has not ended by itself, and let go of its files."""
        for stream in (self.process.stdin, self.process.stdout, self.complaints):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):  # a question that nobody will read
                stream.close()
        self.process.wait()


class Player(Conversation):
    """A contender's process, which trains one workload."""

    def __init__(
        self, contender: Contender, workload: str, threads: int, env: Mapping[str, str]
    ) -> None:
        self.contender = contender
        command = ["benchmarks.contender", contender.library, workload]
        super().__init__([*command, "--threads", str(threads), *contender.flags], env)
        try:
            self.result = Result(contender.label, **self.answer())
        except ContenderFailed:
            self.close()
            raise

    def play(self) -> float:
        """One block of steps; returns its seconds."""
        self.result.block_seconds.append(self.ask(str(BLOCK))["seconds"])
        return self.result.block_seconds[-1]

    def finish(self) -> Result:
        """Close the process and take its memory figure."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.result.peak_mib = self.answer()["peak_mib"]
        self.close()
        return self.result


def compare(
    contenders: list[Contender],
    workload: str,
    threads: int,
    *,
    seconds: float = 8.0,
    env: Mapping[str, str] | None = None,
    on_failure: Callable[[Contender, ContenderFailed], None],
) -> list[Result]:
    """Let the contenders take turns for about `seconds` each (at least five blocks each)."""
    players: list[Player] = []
    with contextlib.ExitStack() as stack:
        for contender in contenders:
            try:
                players.append(Player(contender, workload, threads, env or {}))
                stack.callback(players[-1].close)
            except ContenderFailed as failure:
                on_failure(contender, failure)
        end = time.perf_counter() + seconds * len(players)
        rounds = 0
        while players and (rounds < 5 or time.perf_counter() < end):
            # The order turns around each time, so that nobody always follows one neighbour.
            for player in players[:] if rounds % 2 else players[::-1]:
                try:
                    player.play()
                except ContenderFailed as failure:
                    players.remove(player)
                    on_failure(player.contender, failure)
            rounds += 1
        return [player.finish() for player in players]


def start_difference(ours: Result, theirs: Result) -> float:
    """Largest relative difference of two runs' first losses (the same weights and data)."""
    pairs = zip(ours.losses, theirs.losses)
    return max(abs(a - b) / max(abs(b), 1e-12) for a, b in pairs)
