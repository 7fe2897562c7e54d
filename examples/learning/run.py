"""The files of a training run, from which the next process continues wherever the last one died.

    weights/<version>.npz      the weights of a version: put once, and published by path
    checkpoints/<step>.npz     weights, optimizer and version after that many steps
    metrics.jsonl              a line for each trained step, and for each evaluation
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

import numpy as np

from grpo import Optimizer
from model import Weights


@dataclass
class State:
    """A trainer between two steps."""

    weights: Weights
    optimizer: Optimizer
    step: int
    """The next step."""
    version: int
    """The version of the weights."""


class Run:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("weights", "checkpoints"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def weights_file(self, version: int) -> Path:
        return self.folder / "weights" / f"{version}.npz"

    def weights(self, version: int) -> Weights:
        """Only the weights of the file."""
        return {name: array for name, array in read(self.weights_file(version)).items() if array.ndim > 0}

    def versions(self) -> Dict[int, int]:
        """By version, the step after which it was put."""
        return {version: int(read(self.weights_file(version), "step")["step"]) for version in _numbers(self.folder / "weights")}

    def version_of(self, state: State) -> Optional[int]:
        """The version of these weights after this step; None: they have none."""
        for version, step in self.versions().items():
            there = read(self.weights_file(version)) if step == state.step else {}
            if there and all(np.array_equal(there[name], array) for name, array in state.weights.items()):
                return version
        return None

    def put_weights(self, state: State) -> int:
        """Their version on disk; a new one if they have none."""
        known = self.version_of(state)
        if known is not None:
            return known
        version = max(self.versions(), default=-1) + 1
        put(self.weights_file(version), {**state.weights, "version": np.array(version), "step": np.array(state.step)})
        return version

    def forget_unsaved(self) -> None:
        """Versions after the last checkpoint, for a trainer that starts over from there."""
        steps = _numbers(self.folder / "checkpoints")
        for version, step in self.versions().items():
            if step > max(steps, default=0):
                self.weights_file(version).unlink()

    def save(self, state: State) -> None:
        parts = {"weights": state.weights, "first": state.optimizer.first, "second": state.optimizer.second}
        arrays = {f"{part}/{name}": array for part, given in parts.items() for name, array in given.items()}
        numbers = {"step": state.step, "version": state.version, "updates": state.optimizer.updates}
        put(self.folder / "checkpoints" / f"{state.step}.npz", {**arrays, **{name: np.array(n) for name, n in numbers.items()}})

    def load(self) -> Optional[State]:
        """The last checkpoint; None: there is none."""
        steps = _numbers(self.folder / "checkpoints")
        if not steps:
            return None
        arrays = read(self.folder / "checkpoints" / f"{max(steps)}.npz")

        def part(name: str) -> Weights:
            return {key[len(name) + 1 :]: array for key, array in arrays.items() if key.startswith(f"{name}/")}

        optimizer = Optimizer(part("first"), part("second"), int(arrays["updates"]))
        return State(part("weights"), optimizer, int(arrays["step"]), int(arrays["version"]))

    def note(self, kind: str, **fields: Any) -> None:
        append(self.folder / "metrics.jsonl", {"kind": kind, "at": time.time(), **fields})

    def noted(self, kind: str) -> Iterator[Dict[str, Any]]:
        return (line for line in lines_of(self.folder / "metrics.jsonl") if line["kind"] == kind)


def end_with_parent() -> None:
    """If a parent holds the other end of stdin, this process ends when the parent does, in any way."""

    def follow() -> None:
        # Not through sys.stdin: a thread that waits there would block the interpreter's own end.
        while os.read(0, 4096):
            pass
        os._exit(1)

    if os.environ.get("ROLLOUT_LIFELINE") == "1":
        threading.Thread(target=follow, daemon=True).start()


def _numbers(folder: Path) -> list[int]:
    return [int(file.stem) for file in folder.glob("*.npz")]


def read(path: Path, *names: str) -> Dict[str, np.ndarray]:
    """All arrays of a file, or those of some names: no others are read then."""
    with np.load(path) as arrays:
        return {name: arrays[name] for name in names or arrays}


def put(path: Path, arrays: Dict[str, Any]) -> None:
    """Complete or not at all, even if the process is killed; raises ``FileExistsError`` if the file exists."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    os.link(temporary, path)
    temporary.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def append(path: Path, line: Dict[str, Any]) -> None:
    """One write: a killed process leaves a line or none. A full disk may tear only that line."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{json.dumps(line)}\n".encode())
    finally:
        os.close(descriptor)


def lines_of(path: Path) -> Iterator[Dict[str, Any]]:
    """Lines of a JSONL file, without torn ones; none if the file does not exist."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                continue
