"""Rows of this process, played by a collection and awaited here."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

from ..faults import InvalidBatchRequest
from ..plain import compact, plain
from ..stack import LOOK_S
from .fields import overrides
from .program import Program

Key = Tuple[int, int]
Ended = Tuple[Dict[str, Any], Dict[str, Any]]

BEGUN = "Collecting rollouts: "
"""The command says it (``gym/collection/results/finish.ts``) when the files are those of these rows."""


class RowFailed(RuntimeError):
    """A row has no result.

    row: as it was given
    failure: its line of the failures file, with ``_ng_failure_class`` and ``error``; None: there is none
    """

    def __init__(self, row: Dict[str, Any], failure: Optional[Dict[str, Any]]) -> None:
        error = (failure or {}).get("error") or {}
        why = error.get("message") if isinstance(error, dict) else None
        kind = (failure or {}).get("_ng_failure_class") or "no result"
        super().__init__(f"{kind}: {why}" if why else str(kind))
        self.row = row
        self.failure = failure


def played(
    rows: List[Dict[str, Any]], args: List[str], *, output: Optional[Path], show: bool
) -> Iterator["asyncio.Future[Ended]"]:
    """``args``: of the command, without those of its files. Leaving it early interrupts the command."""
    if not rows:
        return
    playing = _Playing(rows, show=show)
    threading.Thread(target=playing.play, args=(args, output), name="run_examples", daemon=True).start()
    try:
        yield from playing.futures
    except GeneratorExit:
        playing.program.interrupt()
        raise


class _Playing:
    """``futures``: the n-th has what ended as the n-th."""

    def __init__(self, rows: List[Dict[str, Any]], *, show: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._texts = [compact(plain(row, of=f"examples[{at}]", fault=InvalidBatchRequest)) for at, row in enumerate(rows)]
        self._open = dict(zip(keys_of(rows, self._texts), rows))
        self.futures: List["asyncio.Future[Ended]"] = [self._loop.create_future() for _ in rows]
        self._next = iter(self.futures)
        self._begun = threading.Event()
        self._error: Optional[Exception] = None
        self.program = Program(show=show, heard=self._hear)

    def _hear(self, line: str) -> None:
        if line.startswith(BEGUN):
            self._begun.set()

    def play(self, args: List[str], output: Optional[Path]) -> None:
        """The work of a thread."""
        try:
            if output is not None:
                self._play(args, output.absolute())
                return
            with tempfile.TemporaryDirectory(prefix="run_examples-") as folder:
                own = [] if "--config" in args or "--folder" in args else ["--folder", f"{folder}/stack"]
                self._play([*args, *own], Path(folder, "rollouts.jsonl"))
        except Exception as error:
            self._end_all(error)

    def _play(self, args: List[str], output: Path) -> None:
        output.parent.mkdir(parents=True, exist_ok=True)
        given = output.with_name(f"{output.stem}_examples.jsonl")
        given.write_bytes(b"".join(text + b"\n" for text in self._texts))
        failures = output.with_name(f"{output.stem}_failures.jsonl")
        results, failed = _Grown(output, 0), _Grown(failures, failures.stat().st_size if failures.exists() else 0)
        files = {"input_jsonl_fpath": given, "output_jsonl_fpath": output}
        ours = {"resume_from_cache": "true", "disable_aggregation": "true", "route_failures_to_sidecar": "true", "upload_rollouts": "false"}
        whole = [*args, *overrides("run_examples", files, files), *(f"+{name}={value}" for name, value in ours.items())]
        command = threading.Thread(target=self._run, args=(whole,), name="run_examples command", daemon=True)
        command.start()
        while command.is_alive():
            command.join(LOOK_S)
            if self._begun.is_set():
                self._look(results, failed)
        # Without an error the files are those of these rows also where all had been played before.
        if self._begun.is_set() or self._error is None:
            self._look(results, failed)
        self._end_all(self._error)

    def _run(self, args: List[str]) -> None:
        try:
            self.program.run(args)
        except Exception as error:
            self._error = error

    def _look(self, results: "_Grown", failed: "_Grown") -> None:
        for key, result in results.lines():
            row = self._open.pop(key, None)
            if row is not None:
                self._end((row, result))
        for key, failure in failed.lines():
            row = self._open.pop(key, None)
            if row is not None:
                self._end(RowFailed(row, failure))

    def _end_all(self, error: Optional[Exception]) -> None:
        while self._open:
            _, row = self._open.popitem()
            self._end(error or RowFailed(row, None))

    def _end(self, ended: Union[Ended, Exception]) -> None:
        future = next(self._next)
        try:
            self._loop.call_soon_threadsafe(_settle, future, ended)
        except RuntimeError:  # The loop is closed: nobody waits any more.
            self.program.interrupt()


def _settle(future: "asyncio.Future[Ended]", ended: Union[Ended, Exception]) -> None:
    if future.done():
        return
    if isinstance(ended, tuple):
        future.set_result(ended)
        return
    future.set_exception(ended)
    # A caller that leaves early needs no warning of it.
    future.exception()


def keys_of(rows: List[Dict[str, Any]], texts: List[bytes]) -> Iterator[Key]:
    """Task and rollout of each row, as a collection counts them: equal lines are one task."""
    tasks: Dict[bytes, int] = {}
    rollouts: Dict[int, int] = {}
    for row, text in zip(rows, texts):
        own = row.get("_ng_task_index")
        task = tasks.setdefault(text, len(tasks)) if own is None else int(own)
        rollouts[task] = rollouts.get(task, -1) + 1
        yield task, rollouts[task]


class _Grown:
    """Lines that a file gets behind a place, once they are whole."""

    def __init__(self, path: Path, at: int) -> None:
        self._path = path
        self._at = at

    def lines(self) -> Iterator[Tuple[Key, Dict[str, Any]]]:
        try:
            with open(self._path, "rb") as file:
                # It was made anew.
                self._at = self._at if self._at <= file.seek(0, 2) else 0
                file.seek(self._at)
                new = file.read()
        except FileNotFoundError:
            return
        *whole, _ = new.split(b"\n")
        for line in whole:
            self._at += len(line) + 1
            try:
                found = json.loads(line)
                yield (found["_ng_task_index"], found["_ng_rollout_index"]), found
            except (ValueError, KeyError, TypeError):
                continue  # Torn, or of something else.
