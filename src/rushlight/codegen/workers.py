"""Compiling several modules at once, in processes of their own.

LLVM takes one lock in a process, so threads would wait for each other. A worker is a bare
interpreter that loads `llvm.py` alone (60 ms), compiles one module and leaves; the calling
process compiles a module meanwhile. A worker that cannot be started or fails costs nothing but
time: its module is compiled here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from rushlight.codegen import llvm
from rushlight.codegen.target import Target

_MAXIMUM_WORKERS = 8
_LINES_A_WORKER = (
    5000  # a quarter of a second of compiling: below that, starting a worker costs as much
)
_SCRIPT = """
import importlib.util, json, sys
sys.path[:] = json.loads(sys.argv[1])
spec = importlib.util.spec_from_file_location("llvm", sys.argv[2])
llvm = importlib.util.module_from_spec(spec)
spec.loader.exec_module(llvm)
target = type("Target", (), json.loads(sys.argv[3]))
image = llvm.compile_object(sys.stdin.buffer.read().decode(), target)
sys.stdout.buffer.write(b"OBJECT" + len(image).to_bytes(8, "little") + image)
"""


def worker_count(lines: int) -> int:
    """How many processes, this one included, should compile this many lines of text."""
    wish = os.environ.get("RUSHLIGHT_COMPILE_WORKERS", "")
    most = int(wish) if wish.isdigit() else min(_processors(), _MAXIMUM_WORKERS)
    if not sys.executable or getattr(sys, "frozen", False):
        most = 1  # no interpreter to start
    return max(1, min(most, lines // _LINES_A_WORKER))


def compile_objects(texts: list[str], target: Target) -> list[bytes]:
    """Compile modules side by side: the first here, each other one in a worker."""
    workers = [_Worker(text, target) for text in texts[1:]]
    try:
        first = llvm.compile_object(texts[0], target)
        return [first, *(worker.result() for worker in workers)]
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """One process, and the thread that feeds it."""

    def __init__(self, text: str, target: Target) -> None:
        self._text, self._target = text, target
        self._answer = b""
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._converse, daemon=True)
        try:
            self._process = subprocess.Popen(
                _command(target),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            return  # no memory or no processes left: `result` compiles here
        self._thread.start()

    def result(self) -> bytes:
        """The object, from the worker or else compiled here."""
        if self._process is not None:
            self._thread.join()
        head, size, image = self._answer[:6], self._answer[6:14], self._answer[14:]
        if head == b"OBJECT" and int.from_bytes(size, "little") == len(image):
            return image
        return llvm.compile_object(self._text, self._target)

    def stop(self) -> None:
        """Leave no process behind, after an interrupt either."""
        if self._process is not None:
            self._process.kill()
            self._thread.join()

    def _converse(self) -> None:
        assert self._process is not None
        try:
            self._answer, _ = self._process.communicate(self._text.encode())
        except OSError:
            pass  # it died while it was being told: `result` compiles here


def _command(target: Target) -> list[str]:
    path = [entry or os.getcwd() for entry in sys.path]
    source = str(Path(llvm.__file__).resolve())
    facts = json.dumps(asdict(target))
    return [sys.executable, "-I", "-S", "-c", _SCRIPT, json.dumps(path), source, facts]


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
