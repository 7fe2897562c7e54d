"""Batches and streams from a store's folder, without a server and a worker: ``durable_rollouts.open(folder)``.

It reads files alone, so a copy of the folder will do, also of a batch that runs. With a store in PostgreSQL, the folder
is ``store.outputs.root``: it has results, and no requests, samples and journals.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union, cast

from .answers import BatchResult, Files, StepResult
from .faults import NotFound
from .arrow import Sequences
from .report import Report, report_of
from .results import Group, Row, Step, read_counted, read_rows, result_groups, sequences_of


class Store:
    """A store's folder: ``store.root`` of temporal.yaml, by default ``.rollouts/trajectories`` beside it.

    folder: its path

    ``durable_rollouts.open(folder)`` makes one.
    """

    def __init__(self, folder: Union[str, "os.PathLike[str]"]) -> None:
        self.folder: Path = Path(folder)
        if not self.folder.is_dir():
            raise FileNotFoundError(f"{self.folder}: expected the folder of a store (store.root of temporal.yaml), and there is none")
        inside = self.folder / "trajectories"
        if not self.batches() and inside.is_dir():
            raise NotFound(f"{self.folder} has no batch; did you mean {inside}?")

    def batches(self) -> List["StoredBatch"]:
        """All batches and streams, the newest first.

        Returns a ``StoredBatch`` for each. Raises ``OSError`` for a folder that cannot be read.
        """
        found = [StoredBatch(folder) for folder in self.folder.iterdir() if any((folder / name).is_file() for name in ("batch.json", "metrics.json"))]
        return sorted(found, key=lambda batch: batch.created, reverse=True)

    def batch(self, id: str) -> "StoredBatch":
        """A batch or stream.

        id: the one it was started with

        Returns it. Raises ``NotFound``, with the id that was probably meant.

            store.batch("step-17").result
        """
        found = {batch.id: batch for batch in self.batches()}
        if id in found:
            return found[id]
        near = difflib.get_close_matches(id, found, 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise NotFound(f"no batch {id} in {self.folder}{meant}")

    def __repr__(self) -> str:
        return f"Store({str(self.folder)!r})"


class StoredBatch:
    """A batch or a stream in a folder. Everything is read when it is asked for.

    folder: its path
    id: the one it was started with
    """

    def __init__(self, folder: Path) -> None:
        self.folder: Path = folder
        self.id: str = _id_of(folder.name)

    @property
    def created(self) -> datetime:
        """When it was first started, in UTC."""
        made = next(file for file in (self.folder / "batch.json", self.folder / "metrics.json") if file.is_file())
        return datetime.fromtimestamp(made.stat().st_mtime, timezone.utc)

    @property
    def request(self) -> Dict[str, Any]:
        """The request as it was planned, with defaults. Raises ``NotFound`` for one whose journals are in PostgreSQL."""
        return self._json("batch.json")

    @property
    def is_stream(self) -> bool:
        """Whether it is a stream. Raises like ``request``."""
        return "groups_per_step" in self.request

    @property
    def result(self) -> Optional[BatchResult]:
        """What ``Batch.wait`` returned. None: it runs, or was never closed; then starting its id again continues it."""
        file = self.folder / "metrics.json"
        result: Optional[BatchResult] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
        return result

    def rows(self) -> List[Row]:
        """The valid rollouts: ``help(durable_rollouts.RowColumns)`` has the columns beside the sample's own.

        Returns them in input order. Raises ``NotFound`` while it has no result.
        """
        return read_counted(self._result(), "rollouts")

    def failures(self) -> List[Row]:
        """The other rollouts, each with ``failure``.

        Returns them in input order. Raises ``NotFound`` while it has no result.
        """
        return read_counted(self._result(), "failures")

    def sequences(self) -> Sequences:
        """The valid rollouts from ``rollouts.arrow``, which is much faster to read than rows.

        Returns their sequences in input order. Raises ``NotFound`` while it has no result, or where the store writes no
        Arrow; ``StoreFault`` for a part of the file; ``ImportError`` without pyarrow.
        """
        return sequences_of(self._result())

    def groups(self) -> List[Group]:
        """Rows and failures by sample.

        Returns a ``Group`` for each, in input order. Raises ``NotFound`` while it has no result.
        """
        return result_groups(self._result())

    def samples(self) -> List[Dict[str, Any]]:
        """The samples.

        Returns them in order: sample i is row i. Raises ``NotFound`` for one whose journals are in PostgreSQL.
        """
        return list(self._rows("samples.jsonl"))

    def steps(self) -> List[int]:
        """Steps of a stream that were delivered and are kept.

        Returns their numbers; none for a batch. Raises nothing of its own.
        """
        folder = self.folder / "steps"
        places = folder.iterdir() if folder.is_dir() else ()
        return sorted(int(place.name) for place in places if place.name.isdigit() and (place / "metrics.json").is_file())

    def step(self, step: int) -> Step:
        """A kept step of a stream.

        step: its number, from 0

        Returns it as ``Stream.next_step`` did. Raises ``NotFound``, with the steps that are there.
        """
        folder = self.folder / "steps" / str(step)
        if not (folder / "metrics.json").is_file():
            raise NotFound(f"stream {self.id} has no step {step} here; it has {_listed(self.steps())}")
        result: StepResult = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        return Step(step, {**result, "files": _files_in(folder, result)})

    def rollouts(self) -> List[Tuple[int, int]]:
        """The rollouts that have a journal.

        Returns row and repeat of each. Raises nothing of its own.
        """
        names = (re.fullmatch(r"(\d+)-(\d+)\.jsonl", file.name) for file in (self.folder / "journals").glob("*.jsonl"))
        return sorted((int(name[1]), int(name[2])) for name in names if name)

    def journal(self, row: int, repeat: int) -> List[Dict[str, Any]]:
        """The lines of a rollout's journal that count.

        row: the sample's place, from 0
        repeat: the rollout's place in its group, from 0

        Returns them in order: ``claim``, ``start``, ``chunk`` (tokens as they came), ``generation`` (a turn's tokens
        are complete), ``observation``, ``fault``, ``end``. Each has ``kind``, and ``at``, in seconds since 1970. Lines
        of a writer that had lost the journal are left out, as is a line that a crash has torn. Raises ``NotFound`` if
        there is none.

            kinds = [line["kind"] for line in batch.journal(0, 0)]

        ``temporal-rollout show ID/ROW-REPEAT`` reads the same as a conversation.
        """
        file = self.folder / "journals" / f"{row}-{repeat}.jsonl"
        if not file.is_file():
            raise NotFound(f"batch {self.id} has no journal of rollout {row}-{repeat}: it has not started, or its journals are in PostgreSQL")
        return list(_lines_that_count(file))

    def show(self, file: Optional[Union[str, Path]] = None) -> Report:
        """Its rollouts as a page, which a notebook draws: what ``temporal-rollout report`` writes.

        file: where; None: a file of its own in the system's folder for such

        Returns a ``Report``. Raises ``LocalError``, which says what to run, also where the journals are in PostgreSQL.
        """
        return report_of(self.id, file, store=self.folder.parent)

    def _result(self) -> BatchResult:
        result = self.result
        if result is None:
            raise NotFound(f"batch {self.id} has no result yet: it runs, or starting its id again continues it. rollouts() and journal() have what there is")
        return {**result, "files": _files_in(self.folder, result)}

    def _json(self, name: str) -> Dict[str, Any]:
        file = self.folder / name
        if not file.is_file():
            raise NotFound(f"{file} is not there")
        value: Dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return value

    def _rows(self, name: str) -> Iterator[Row]:
        file = self.folder / name
        if file.is_file():
            return read_rows(str(file))
        raise NotFound(f"{file} is not there")

    def __repr__(self) -> str:
        return f"StoredBatch({self.id!r})"


def open(folder: Union[str, "os.PathLike[str]"]) -> Store:
    """Opens a store's folder to read: batches, rows and journals, without a server.

    folder: ``store.root`` of temporal.yaml, by default ``.rollouts/trajectories`` beside it; with PostgreSQL
      ``store.outputs.root``

    Returns the store. Raises ``FileNotFoundError``, and ``NotFound`` for a folder that has the store's below it.

        worst = sorted(durable_rollouts.open(".rollouts/trajectories").batches()[0].rows(), key=lambda row: row["total_reward"])[:20]
    """
    return Store(folder)


def _id_of(name: str) -> str:
    """Folders are named so that every system takes them (``src/trajectories/places.ts``)."""
    return name.replace("+", "").replace("=", ":")


def _files_in(folder: Path, result: BatchResult) -> Files:
    """Paths in a result are those of the worker's host."""
    named = result.get("files", {"rollouts": "rollouts.jsonl", "failures": "failures.jsonl"})
    return cast(Files, {kind: str(folder / Path(str(file)).name) for kind, file in named.items()})


def _lines_that_count(file: Path) -> Iterator[Dict[str, Any]]:
    """The latest claim names the writer; lines of others are ignored (``src/model/journal/trajectory.ts``)."""
    writer = None
    for text in file.read_bytes().split(b"\n"):
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if not isinstance(line, dict):
            continue
        if line.get("kind") == "claim":
            writer = line.get("writer")
        if line.get("writer") == writer:
            yield line


def _listed(numbers: List[int]) -> str:
    return ", ".join(map(str, numbers)) if numbers else "none"
