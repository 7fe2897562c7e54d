"""Steps that a training replays: their rows are those of an earlier course, whatever its settings are now. It says so aloud."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Dict, List, Optional, Tuple

import numpy as np
from temporalio.service import RPCError

from ..aio import Client
from ..connection import log
from ..faults import StepOutOfOrder, StoreFault
from ..loop import run as _run
from ..results import Row
from ..sync import Client as SyncClient, Stream
from ..trajectories import trajectories

MOST = 20_000
"""Rollouts that are looked at, the newest first."""


def _say(first: int, last: int, versions: Optional[Tuple[int, int]], *, run: str, anew: str) -> None:
    """first, last: steps. versions: the lowest and the highest; None: nobody knows. anew: what plays them anew."""
    labels = "" if versions is None else f", version {versions[0]}" if versions[0] == versions[1] else f", versions {versions[0]} to {versions[1]}"
    log.warning(
        "%s: %s replayed: rows of an earlier course%s. They train as they are, whatever this trainer's settings are; to play them anew, %s",
        run, _are(first, last), labels, anew,
    )


def _are(first: int, last: int) -> str:
    return f"step {first} is" if first == last else f"steps {first} to {last} are"


def say_ended(client: SyncClient, run: str, step: int, *, anew: str) -> None:
    """Says which steps from this one on have ended, of a training whose rollouts are named ``<run>:<step>.…``. Raises
    ``StoreFault`` where their rows cannot be read: they cannot be replayed, either.
    """
    ended = _run(_ended(client._aio, run, step))
    if not ended:
        return
    first, last = min(ended), max(ended)
    try:
        rows = [_run(client._aio._single.row_of(ended[one])) for one in {first, last}]
    except OSError as error:
        raise StoreFault(
            f"{run}: {_are(first, last)} replayed, and rows of them cannot be read: {error}; put the files back, or, to play "
            f"them anew, {anew}"
        ) from None
    _say(first, last, _versions_of([row for row in rows if row is not None]), run=run, anew=anew)


async def _ended(client: Client, run: str, step: int) -> Dict[int, str]:
    """By step, one of its rollouts. Empty: there is none, or the server does not list them."""
    ended: Dict[int, str] = {}
    named = re.compile(re.escape(run) + r":(\d+)\.")
    try:
        query = f"WorkflowType = 'rollout' AND ExecutionStatus = 'Completed' AND WorkflowId STARTS_WITH '{run}:'"
        async for one in client._temporal.list_workflows(query, limit=MOST):
            found = named.match(one.id)
            if found is not None and int(found[1]) >= step:
                ended.setdefault(int(found[1]), one.id)
    except RPCError as error:
        log.warning("%s: the server does not list its rollouts, so nobody knows which steps are replayed: %s", run, error)
        return {}
    return ended


def _versions_of(rows: List[Row]) -> Optional[Tuple[int, int]]:
    """The lowest and the highest label; None: there is none."""
    known = np.concatenate([one.versions[one.versions >= 0] for one in trajectories(rows)]) if rows else np.empty(0)
    return (int(known.min()), int(known.max())) if len(known) > 0 else None


def say_steps(stream: Stream, first: int, first_new: int, *, counts_from: int, anew: str) -> None:
    """Says the same of a stream's steps from ``first`` on. counts_from: the trainer's number of the stream's step 0."""
    if first >= first_new:
        return
    known: List[int] = []
    with suppress(StepOutOfOrder):  # The step is forgotten.
        said = [stream.next_step(one).result["version"] for one in {first, first_new - 1}]
        known = [one for one in said if one is not None]
    versions = (min(known), max(known)) if known else None
    _say(first + counts_from, first_new - 1 + counts_from, versions, run=stream.id, anew=anew)
