"""A batch: its end, its groups as they end, and its rows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, AsyncIterator, Awaitable, Dict, List, Literal, Mapping, Optional, Set, TypeVar

from temporalio.client import Client as TemporalClient

from .. import bar, connection, starting
from ..answers import BatchProgress, BatchResult
from ..arrow import Sequences, SequencesFile
from ..connection import Gone, Handle
from ..faults import TooFewValid, UpdateRefused
from ..results import Group, Row, groups_of, read_counted, read_rows, result_groups, sequences_of
from ..waits import Sight, Waits, told
from .steering import LONGEST_WAIT, Steered

T = TypeVar("T")


class Batch(Steered):
    """A batch on the server. It continues without this object, and without this process.

    id: as it was started

        result = client.start_batch(request, "step-17").wait(show=True)
    """

    def __init__(self, temporal: TemporalClient, id: str, *, is_own: bool = False, home: Optional[Path] = None) -> None:
        self._temporal = temporal
        self._handle: Handle = temporal.get_workflow_handle(id)
        self._is_own = is_own
        self._home = home
        self._is_batch = is_own
        self._is_noted = False
        self.id: str = id

    async def _check(self) -> None:
        """Once: an id may be that of a stream."""
        if not self._is_batch:
            self._is_batch = await connection.check_id(self._handle, "rolloutBatch")

    async def wait(self, timeout: Optional[float] = None, *, show: bool = False) -> BatchResult:
        """Waits for its end.

        timeout: seconds; then ``TimeoutError``, and the batch continues
        show: progress on standard error, as a bar with ``tqdm``, else a line every ten seconds, and what it waits for;
          otherwise the log has that

        Returns its result: ``help(durable_rollouts.BatchResult)``; the log has its ``notes``. If only the newest start of
        ``client.batch(id)`` was refused, it logs that and returns the result before it. Raises the fault that failed the
        batch (``InvalidBatchRequest``, ``TooFewValid``, …), ``Cancelled`` (its files are written), ``Terminated``,
        ``NotFound``. An unavailable server is waited for.

            counts = batch.wait(timeout=3600)["counts"]
        """
        what = f"the end of batch {self.id}"
        result: BatchResult
        if not show:
            result = await connection.within(timeout, self._waits().during(self._result()), what)
        else:
            async with bar.shown(self._sight().look, self.id):
                result = await connection.within(timeout, self._result(), what)
        if not self._is_noted:
            self._is_noted = True
            for note in result.get("notes", []):
                connection.log.warning("%s (%s)", note, self.id)
        return result

    def _sight(self) -> Sight:
        return Sight(self._temporal, self.id, "rolloutBatch")

    def _waits(self) -> Waits:
        return Waits(self._sight().why, told(self.id))

    async def _result(self) -> Any:
        await self._check()
        return await starting.batch_result(self._temporal, self.id, is_own=self._is_own)

    async def progress(self) -> BatchProgress:
        """Its counts now, or its last ones.

        Returns ``help(durable_rollouts.BatchProgress)``. Raises ``NotFound``, ``TimeoutError`` if no worker answers,
        and the fault of a batch that ended without its files (``Terminated``, ``InvalidBatchRequest``, …).
        """
        progress: BatchProgress = await connection.progress_of(self._temporal, self.id, "rolloutBatch")
        return progress

    async def groups(self, *, show: bool = False) -> AsyncIterator[Group]:
        """All groups, each once: as they end, and at last those that end with the batch.

        A batch that runs as slices reports groups only a few times per slice. Rows are read from the store, so this
        needs access to its disk.

        show: as in ``wait``

        Returns an iterator of ``Group``. Raises what ``wait`` raises, and ``OSError`` without that disk.

            for group in batch.groups():
                print(group.row, group.rewards)
        """
        if not show:
            async for group in self._groups(self._waits()):
                yield group
            return
        async with bar.shown(self._sight().look, self.id):
            async for group in self._groups(None):
                yield group

    async def _groups(self, waits: Optional[Waits]) -> AsyncIterator[Group]:
        """waits: says what they wait for; None: it is shown."""
        await _during(waits, self._check())
        seen: Set[int] = set()
        while (run := await connection.running_run(self._handle)) is not None:
            async for group in self._groups_of_run(run, seen, waits):
                yield group
            if await self._has_ended_or_closes(run):
                break
        result = await _during(waits, self._result())
        for group in await asyncio.to_thread(result_groups, result, seen):
            yield group

    async def _groups_of_run(self, run: str, seen: Set[int], waits: Optional[Waits]) -> AsyncIterator[Group]:
        handle: Handle = self._temporal.get_workflow_handle(self.id, run_id=run)
        after = 0
        while True:
            try:
                asked = connection.ask(handle, "groups", {"after": after, "wait": LONGEST_WAIT})
                answer = await _during(waits, asked)
                groups = await asyncio.to_thread(_groups_in, answer, seen)
            except (Gone, UpdateRefused, FileNotFoundError):
                return
            for group in groups:
                yield group
            after = answer["to"]
            if answer["done"]:
                return

    async def _has_ended_or_closes(self, run: str) -> bool:
        """False if another run has replaced this one."""
        return await connection.running_run(self._handle) in (None, run)

    async def rows(self) -> List[Row]:
        """Its valid rollouts, once it has ended.

        Returns the rows of ``rollouts.jsonl``, in input order: ``help(durable_rollouts.RowColumns)`` has the columns
        beside the sample's own. Raises what ``wait`` raises, and ``OSError`` without the store's disk.

            arrays = to_arrays(batch.rows())
        """
        return await self._read("rollouts")

    async def failures(self) -> List[Row]:
        """The other rollouts, once it has ended.

        Returns the rows of ``failures.jsonl``, each with ``failure`` and what it has so far, also after ``TooFewValid``.
        Raises what ``wait`` raises else, and ``OSError`` without the store's disk.

            why = Counter(row["failure"]["type"] for row in batch.failures())
        """
        return await self._read("failures")

    async def _read(self, file: Literal["rollouts", "failures"]) -> List[Row]:
        try:
            result = await self.wait()
        except TooFewValid as few:
            if file == "rollouts" or few.result is None:
                raise
            result = few.result
        return await asyncio.to_thread(lambda: read_counted(result, file))

    async def sequences(self) -> Sequences:
        """Its valid rollouts from ``rollouts.arrow``, once it has ended; it is much faster to read than rows.

        Returns their sequences, in input order. Raises what ``wait`` raises, ``NotFound`` where the store writes no Arrow
        (``formats`` in temporal.yaml), ``StoreFault`` for a part of the file, ``ImportError`` without pyarrow, and
        ``OSError`` without the store's disk.

            arrays = to_arrays(batch.sequences())
        """
        result = await self.wait()
        return await asyncio.to_thread(lambda: sequences_of(result))

    async def _ask(self, update: str, request: Dict[str, Any]) -> Any:
        await self._check()
        try:
            return await connection.ask(self._handle, update, request)
        except Gone:
            raise UpdateRefused(f"batch {self.id} has ended: it takes no {update}") from None

    async def stop(self) -> None:
        """Ends what runs and keeps the results so far; ``wait`` then has a result. Does nothing for an ended batch.

        Raises ``NotFound``. An unavailable server is waited for.
        """
        await self._check()
        await connection.send(lambda: self._handle.signal("stop"), self.id)

    async def cancel(self) -> None:
        """The same as ``stop``, but ``wait`` raises ``Cancelled``.

        Raises ``NotFound``. An unavailable server is waited for.
        """
        await self._check()
        await connection.send(self._handle.cancel, self.id)

    def __repr__(self) -> str:
        return f"Batch({self.id!r})"


async def _during(waits: Optional[Waits], work: Awaitable[T]) -> T:
    return await work if waits is None else await waits.during(work)


def _groups_in(answer: Mapping[str, Any], seen: Set[int]) -> List[Group]:
    """The new ones of an answer; they count as seen afterwards."""
    if answer["file"] is None:
        return []
    file = answer.get("sequences")
    rows = (row for row in read_rows(answer["file"]) if row["row"] not in seen)
    groups = groups_of(rows, file and SequencesFile(file, answer["completed"]))
    seen.update(row["row"] for group in groups for row in [*group.rows, *group.failures])
    return groups
