"""A stream: its steps, and how it ends."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Dict, Optional, cast

from temporalio.client import Client as TemporalClient

from .. import connection
from ..answers import Failures, StepResult, StreamProgress
from ..connection import Gone, Handle
from ..faults import RolloutFault, Stopped
from ..results import Step, read_step
from ..waits import Sight, Waits, told
from .steering import LONGEST_WAIT, LONGEST_WAIT_S, Steered

FIRST_WAIT_S = 4.0
"""Duration of the first poll of a caller with ``on_wait``."""
BREATH_S = 1.0
"""Pause between two polls if the first one was answered at once with nothing."""


class Stream(Steered):
    """A batch without end, whose steps are facts: a step always has the same rows.

    id: as it was started

        step = stream.next_step(0, version=0)
    """

    def __init__(self, temporal: TemporalClient, id: str, *, home: Optional[Path] = None) -> None:
        self._temporal = temporal
        self._home = home
        self._handle: Handle = temporal.get_workflow_handle(id)
        self._is_stream = False
        self.id: str = id

    async def _check(self) -> None:
        """Once: an id may be that of a batch."""
        if not self._is_stream:
            self._is_stream = await connection.check_id(self._handle, "rolloutStream")

    async def next_step(
        self,
        step: int,
        version: Optional[int] = None,
        timeout: Optional[float] = None,
        *,
        on_wait: Optional[Callable[[str], None]] = None,
    ) -> Step:
        """A step, once it can be delivered.

        step: counts from 0: the next one, or one that is kept, also of a stream that has ended
        version: that of the weights that will train on it; None: the last one published. A request with a higher
          version replaces one that waits
        timeout: seconds; then ``TimeoutError``, and the step may be requested again
        on_wait: called with what the step waits for, each time that the stream reports it (first after four seconds),
          where no worker or no server answers, and with the ``notes`` of its result: groups that faster versions
          overtook

        Returns the step. Raises ``StreamEnded`` if the epochs are used up, ``Stopped`` if the stream was stopped
        (``client.stream`` continues it), the fault of a stream that ended otherwise (``Cancelled``, ``Terminated``, …),
        ``StepOutOfOrder``, ``StreamStarved``, ``NotFound``. An unavailable server is waited for.

            rows = stream.next_step(17, version=17, on_wait=print).rows()

        docs/stream.md says which groups a step has.
        """
        request: Dict[str, Any] = {"step": step}
        if version is not None:
            request["version"] = version
        asked = self._ask_for(request, timeout, on_wait)
        return Step(step, await connection.within(timeout, asked, f"step {step} of {self.id}"))

    async def _ask_for(
        self, request: Dict[str, Any], timeout: Optional[float], on_wait: Optional[Callable[[str], None]]
    ) -> StepResult:
        loop = asyncio.get_running_loop()
        until = math.inf if timeout is None else loop.time() + timeout
        # Someone who wants to know what is waited for learns of it soon, and then ever more rarely.
        poll_s = LONGEST_WAIT_S if on_wait is None else FIRST_WAIT_S
        waits = Waits(Sight(self._temporal, self.id, "rolloutStream").trouble, on_wait or told(self.id))
        while True:
            asked_at = loop.time()
            asked = self._ask("next_step", {**request, "wait": _wait(min(until - asked_at, poll_s))})
            answer: Dict[str, Any] = await waits.during(asked)
            if "why" not in answer:
                result = cast(StepResult, answer)
                for note in result.get("notes", []):
                    connection.log.warning("%s (%s)", note, self.id)
                    if on_wait is not None:
                        on_wait(note)
                return result
            connection.log.info("step %s of %s waits: %s", request["step"], self.id, answer["why"])
            if on_wait is not None:
                on_wait(answer["why"])
            poll_s = min(2 * poll_s, LONGEST_WAIT_S)
            await asyncio.sleep(max(0.0, asked_at + BREATH_S - loop.time()))

    async def _ask(self, update: str, request: Dict[str, Any]) -> Any:
        """Asks the run that is currently open."""
        await self._check()
        while True:
            try:
                return await connection.ask(self._handle, update, request)
            except Gone:
                run, is_running = await connection.latest_run(self._handle)
                if not is_running:
                    kept = await self._kept(run, request["step"]) if update == "next_step" else None
                    if kept is not None:
                        return kept
                    raise await self._end(run) from None
                await asyncio.sleep(BREATH_S)

    async def _kept(self, run: str, step: int) -> Optional[StepResult]:
        """The answer for a step that an ended stream has delivered and not forgotten. None: it has no such step here."""
        handle: Handle = self._temporal.get_workflow_handle(self.id, run_id=run)
        try:
            progress = await connection.query(handle, "progress")
        except (TimeoutError, RolloutFault) as error:
            connection.log.info("the steps of %s are not known: %s", self.id, error)
            return None
        folder = progress.get("steps_dir")
        if folder is None or not progress["kept_from"] <= step < progress["step"]:
            return None
        return await asyncio.to_thread(read_step, folder, step)

    async def _end(self, run: str) -> Exception:
        """The error to raise for an ended stream: its own fault, or that it was stopped."""
        # Started again meanwhile, the id has another run, which may never end.
        await connection.result_of(self._temporal.get_workflow_handle(self.id, run_id=run))
        return Stopped(f"stream {self.id} was stopped; client.stream(id, request) continues it from its store")

    async def forget(self, through: int) -> None:
        """Deletes delivered steps. No trainer may go back to them.

        through: the last of them

        Raises ``UpdateRefused``, and what ``next_step`` raises by a stream that has ended.

            stream.forget(step - 2)
        """
        await self._ask("forget", {"through": through})

    async def failures(self) -> Dict[str, Failures]:
        """Why rollouts failed in groups that have ended since the last step.

        ``Step.failures`` has the rollouts of a step.

        Returns by the type of their failure: how many, the first message, and the rollout that has it
        (``temporal-rollout show`` takes its id). Raises like ``Batch.progress``.
        """
        return (await self.progress()).get("failures", {})

    async def progress(self) -> StreamProgress:
        """What it does now, or did last.

        Returns ``help(durable_rollouts.StreamProgress)``. Raises like ``Batch.progress``.

            print(stream.progress()["why"])
        """
        progress: StreamProgress = await connection.progress_of(self._temporal, self.id, "rolloutStream")
        return progress

    async def delivered(self) -> int:
        """How many steps the stream has delivered: the number of the next one. Waits while the stream reads its store.

        A trainer that goes back to a checkpoint gets the steps below this number again, and publishes nothing for them.

        Returns it. Raises like ``Batch.progress``.

            steps = stream.delivered()
        """
        while (progress := await self.progress())["phase"] == "planning":
            await asyncio.sleep(BREATH_S)
        return progress["step"]

    async def stop(self) -> None:
        """Ends what runs, and returns when it has ended; ``client.stream`` then continues it. Delivered steps stay.

        Raises ``NotFound``. An unavailable server is waited for.
        """
        await self._check()
        await connection.send(lambda: self._handle.signal("stop"), self.id)
        with suppress(RolloutFault):
            await connection.result_of(self._handle)

    def __repr__(self) -> str:
        return f"Stream({self.id!r})"


def _wait(left_s: float) -> str:
    """Duration of a long poll whose caller has that much time left. A poll that nobody waits for would still count as
    one of the few that a workflow answers at once.
    """
    return LONGEST_WAIT if left_s >= LONGEST_WAIT_S else f"{max(1, math.ceil(left_s * 1000))}ms"
