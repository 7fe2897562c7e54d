"""What a call waits for: said within five seconds, and again when it is something else."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any, Awaitable, Callable, Coroutine, NamedTuple, Optional, TypeVar

from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client as TemporalClient
from temporalio.service import RPCError, RPCStatusCode

from .connection import describe, log, progress_of
from .faults import RolloutFault
from .presence import no_worker, pollers_of

T = TypeVar("T")
Why = Callable[[], Awaitable[Optional[str]]]
Say = Callable[[str], None]

FIRST_LOOK_S = 0.5
LONGEST_PAUSE_S = 60.0
"""Pauses between looks double up to this."""
BRIEF_S = 1.0
"""Workers and servers answer within this time, unless they are busy."""
SILENT_S = 2.5
"""A worker that has not answered for so long is named, and so is a plan that takes so long. Where none runs, that is
certain earlier.
"""
PLAN = "waits for its plan: a worker checks the request, and asks the engine and the environments"


class Waits:
    """why: what is waited for now; None: nothing, or nobody knows. say: called with each new answer."""

    def __init__(self, why: Why, say: Say) -> None:
        self._why = why
        self._say = say
        self._last: Optional[str] = None

    async def during(self, work: Awaitable[T]) -> T:
        """The result of the work. Raises what it raises, and what ``say`` raises."""
        working = asyncio.ensure_future(work)
        watching = asyncio.ensure_future(self.watch())
        try:
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                watching.result()
            return await working
        finally:
            working.cancel()
            watching.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)

    async def watch(self) -> None:
        """Until it is cancelled. Raises what ``say`` raises."""
        pause_s = FIRST_LOOK_S
        while True:
            await asyncio.sleep(pause_s)
            why = await self._why()
            if why is not None and why != self._last:
                self._say(why)
            self._last = why
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class Seen(NamedTuple):
    """progress: None: no answer. trouble: why there is none, as far as that is known."""

    progress: Optional[Any]
    trouble: Optional[str]


class Sight:
    """What a batch or a stream does. Asks one question at a time: the server keeps few for a workflow."""

    def __init__(self, client: TemporalClient, id: str, type: str) -> None:
        self._client = client
        self._id = id
        self._type = type
        self._asked: Optional["asyncio.Future[Any]"] = None
        self._began_at = self._answered_at = time.monotonic()

    async def why(self) -> Optional[str]:
        """What it waits for, or why that is not known."""
        progress, trouble = await self.look()
        if progress is None:
            return trouble
        waits = progress.get("waiting")
        if waits is not None:
            service, message = waits["service"], waits["message"]
            return f"waits for {message if message.startswith(service) else f'{service}: {message}'}"
        # A plan takes a second or so where nothing is away.
        is_late = time.monotonic() - self._began_at >= SILENT_S
        return PLAN if progress.get("phase") == "planning" and is_late else None

    async def trouble(self) -> Optional[str]:
        """Why nobody answers; for a call whose answer says the rest."""
        return (await self.look()).trouble

    async def look(self) -> Seen:
        """Answers within a few seconds, even if server or worker is away."""
        if self._asked is None:
            self._asked = _quietly(progress_of(self._client, self._id, self._type))
        await asyncio.wait({self._asked}, timeout=BRIEF_S)
        if not self._asked.done():
            return Seen(None, await self._silence())
        asked, self._asked = self._asked, None
        try:
            progress = asked.result()
            self._answered_at = time.monotonic()
            return Seen(progress, None)
        except RolloutFault as fault:
            return Seen(None, str(fault) if fault.type in ("Paused", "WorkflowTaskFails") else None)
        except (RPCError, TimeoutError, asyncio.TimeoutError):
            return Seen(None, await self._silence())

    async def _silence(self) -> Optional[str]:
        """A worker that is only busy is not called away."""
        try:
            described = await _within(BRIEF_S, describe(self._client.get_workflow_handle(self._id)))
        except RolloutFault as paused:
            return str(paused)
        except RPCError as error:
            return None if error.status is RPCStatusCode.NOT_FOUND else await _no_server(self._client)
        except asyncio.TimeoutError:
            return await _no_server(self._client)
        return await why_silent(self._client, described.task_queue, since=self._answered_at)


async def why_silent(client: TemporalClient, task_queue: str, *, since: float, what: str = "it") -> Optional[str]:
    """Why a queue's workers do not answer for ``what``. since: as ``time.monotonic`` has it."""
    pollers = await pollers_of(client, task_queue)
    if pollers is None:
        return await _no_server(client)
    if not pollers:
        return no_worker(client, task_queue, what)
    silent_s = time.monotonic() - since
    if silent_s < SILENT_S:
        return None
    ago_s = max(0.0, time.time() - max(poller.last_access_time.seconds for poller in pollers))
    return f"no answer from the workers of task queue {task_queue} for {silent_s:.0f} s, last seen {ago_s:.0f} s ago: they are busy or gone"


async def _no_server(client: TemporalClient) -> str:
    """With the reason, for which a single call is sent: other calls hide it, because the SDK tries them again."""
    why = f"no answer within {BRIEF_S:.0f} s"
    try:
        await _within(2 * BRIEF_S, client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=timedelta(seconds=BRIEF_S)))
        why = "it answered late"
    except RPCError as error:
        why = error.message
    except asyncio.TimeoutError:
        pass
    return f"waiting for the Temporal server at {client.service_client.config.target_host}: {why}"


def told(id: str) -> Say:
    """In the log, for callers without a place of their own."""

    def say(text: str) -> None:
        log.warning("%s: %s", id, text)

    return say


async def _within(seconds: float, call: Coroutine[Any, Any, T]) -> T:
    """Raises ``TimeoutError`` in time, even if a call of the SDK swallows its cancellation."""
    asked = _quietly(call)
    try:
        done, _ = await asyncio.wait({asked}, timeout=seconds)
    finally:
        asked.cancel()
    if not done:
        raise asyncio.TimeoutError
    return asked.result()


def _quietly(call: Coroutine[Any, Any, T]) -> "asyncio.Future[T]":
    """A task that may be left without complaint."""
    asked = asyncio.ensure_future(call)
    asked.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return asked
