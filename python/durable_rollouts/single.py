"""One rollout or one group at a time, by thousands from one event loop.

An id names one rollout permanently: who asks for it again gets the same one, whatever has died meanwhile.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import Any, AsyncIterator, Dict, List, Mapping, Optional

from temporalio.client import Client as TemporalClient, WorkflowExecutionStatus
from temporalio.common import RawValue, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from .answers import BatchResult
from .columns import failure_of
from .connection import Handle, check_size, log, patiently, result_of
from .faults import InvalidBatchRequest, fault_named
from .plain import plain, raw_json
from .presence import described
from .requests import BATCH_DEFAULTS, ROLLOUT_DEFAULTS
from .results import Group, Row, counted, result_groups
from .shapes import Shape
from .starting import check_id, check_same, check_workflow
from .waits import Sight, Waits

MOST_POLLS = 200
"""Results that are waited for at once. The server holds some 1,200 polls of a namespace, for all of its clients."""
MOST_STARTS = 50
"""Starts that are on their way at once: a server refuses what comes faster than its rate."""
TURN_S = 1.0
"""How long a poll may keep its place while others wait for one."""


class Single:
    """Rollouts and groups that programs of one client wait for. They take turns at the polls."""

    def __init__(self, client: TemporalClient, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue
        self._starts = asyncio.Semaphore(MOST_STARTS)
        self._polls = asyncio.Semaphore(MOST_POLLS)
        self._queueing = 0
        self._waiting: Dict[str, Sight] = {}
        self._watch: Optional["asyncio.Future[None]"] = None

    async def rollout(self, sample: Any, settings: Mapping[str, Any], *, id: str, shape: Shape) -> Row:
        """Its row. Raises its failure."""
        result = await self._asked("rollout", {"sample": _sample(sample, shape), **settings}, id, ROLLOUT_DEFAULTS)
        rows = await asyncio.to_thread(_rows, result)
        if len(rows) != 1:
            raise fault_named("StoreFault", f"{id}: expected one row in {result['files']['rollouts']} or failures.jsonl, got {len(rows)}")
        failure = rows[0].get("failure") or {}
        if failure_of(rows[0]) is not None:
            raise fault_named(failure.get("type", "RolloutFault"), f"{id}: {failure.get('message', 'it has no valid end')}")
        return rows[0]

    async def group(self, sample: Any, n: int, settings: Mapping[str, Any], *, id: str, shape: Shape) -> Group:
        """All its members, valid or not."""
        request = {"samples": [_sample(sample, shape)], "num_repeats": n, "min_valid": 0, **settings}
        result = await self._asked("rolloutBatch", request, id, BATCH_DEFAULTS)
        groups = await asyncio.to_thread(result_groups, result)
        if len(groups) != 1:
            raise fault_named("StoreFault", f"{id}: expected the rows of one group, got those of {len(groups)}")
        return groups[0]

    async def has_ended(self, id: str) -> bool:
        """Whether a rollout has its row, so that asking for it plays nothing. False where Temporal has forgotten it."""
        async with self._starts:
            newest = await patiently(lambda: described(self._client, id))
        return newest is not None and newest.status is WorkflowExecutionStatus.COMPLETED

    async def row_of(self, id: str) -> Optional[Row]:
        """The row of a rollout that has ended; None: it has failed."""
        rows = await asyncio.to_thread(_rows, await result_of(self._client.get_workflow_handle(id)))
        return rows[0] if len(rows) == 1 and failure_of(rows[0]) is None else None

    async def _asked(self, workflow: str, request: Mapping[str, Any], id: str, defaults: Mapping[str, Any]) -> BatchResult:
        check_id(id)
        sent = plain(request, fault=InvalidBatchRequest)
        raw = raw_json(sent)
        await check_size(self._client, raw, of=workflow, fault=InvalidBatchRequest)
        async with self._watched(workflow, id):
            async with self._starts:
                handle = await self._started(workflow, sent, raw, id=id, defaults=defaults)
            result: BatchResult = await self._result(handle)
        return result

    async def _started(
        self, workflow: str, sent: Mapping[str, Any], raw: RawValue, *, id: str, defaults: Mapping[str, Any]
    ) -> Handle:
        """Joins a rollout that runs, continues one that failed or was cut, and plays none again that has a result."""
        client = self._client

        async def start() -> Handle:
            try:
                return await client.start_workflow(
                    workflow,
                    raw,
                    id=id,
                    task_queue=self._task_queue,
                    id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                    id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                )
            except WorkflowAlreadyStartedError:
                before = await described(client, id)
                check_workflow(before, workflow, id=id)
                has_ended = before is not None and before.status is not WorkflowExecutionStatus.RUNNING
                run: Handle = client.get_workflow_handle(id, run_id=before.run_id if before and has_ended else None)
                await check_same(client, run, sent, defaults=defaults)
                return client.get_workflow_handle(id)

        return await patiently(start)

    async def _result(self, handle: Handle) -> Any:
        while True:
            self._queueing += 1
            try:
                await self._polls.acquire()
            finally:
                self._queueing -= 1
            try:
                polled = await self._poll(handle)
            finally:
                self._polls.release()
            if polled is not None:
                return polled.result()

    async def _poll(self, handle: Handle) -> Optional["asyncio.Future[Any]"]:
        """None: its turn is over, and others wait for theirs."""
        polling = asyncio.ensure_future(result_of(handle))
        try:
            while not polling.done():
                await asyncio.wait({polling}, timeout=TURN_S)
                if not polling.done() and self._queueing > 0:
                    return None
            return polling
        finally:
            polling.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(polling, return_exceptions=True)

    @asynccontextmanager
    async def _watched(self, workflow: str, id: str) -> AsyncIterator[None]:
        """The log says what the oldest of them waits for, and how many wait."""
        key = f"{workflow} {id}"
        sight = self._waiting.setdefault(key, Sight(self._client, id, workflow))
        if self._watch is None:
            self._watch = asyncio.ensure_future(Waits(self._why, _say).watch())
        try:
            yield
        finally:
            if self._waiting.get(key) is sight:
                del self._waiting[key]
            if not self._waiting and self._watch is not None:
                self._watch.cancel()
                self._watch = None

    async def _why(self) -> Optional[str]:
        for key, sight in self._waiting.items():
            why = await sight.why()
            others = len(self._waiting) - 1
            return why and f"{key}{f' and {others} others' if others > 0 else ''}: {why}"
        return None


def _say(text: str) -> None:
    log.warning("%s", text)


def _sample(sample: Any, shape: Shape) -> Any:
    [one] = shape.samples([sample])
    return one


def _rows(result: BatchResult) -> List[Row]:
    return [*counted(result, "rollouts"), *counted(result, "failures")]
