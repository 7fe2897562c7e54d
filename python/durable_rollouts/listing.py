"""What a Temporal server has of batches and streams."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Dict, List, Literal, Optional

from temporalio.client import Client as TemporalClient

from .one_deployment import on_queue

State = Literal["running", "ended", "failed", "cancelled", "terminated", "timed out"]

STATES: Dict[str, State] = {
    "COMPLETED": "ended",
    "FAILED": "failed",
    "CANCELED": "cancelled",
    "TERMINATED": "terminated",
    "TIMED_OUT": "timed out",
}

MOST_RUNS = 10_000
"""Runs that are read at most. A stream has one for each of its continuations."""


@dataclass(frozen=True)
class Listed:
    """A batch or stream in a list.

    id: for ``client.batch(id)`` or ``client.stream(id)``
    state: of its newest run; ``running`` also while it is paused
    started: of that run, in UTC
    ended: likewise; None while it runs
    """

    id: str
    state: State
    started: datetime
    ended: Optional[datetime]


async def listed(temporal: TemporalClient, workflow_type: str) -> List[Listed]:
    """Each of this deployment once, the newest first."""
    newest: Dict[str, Listed] = {}
    query = f"WorkflowType = '{workflow_type}'{on_queue(temporal)}"
    async for run in temporal.list_workflows(query, limit=MOST_RUNS):
        known = newest.get(run.id)
        if known is None or known.started < run.start_time:
            name = "" if run.status is None else run.status.name
            # An unknown status, of a newer server, counts as running.
            newest[run.id] = Listed(run.id, STATES.get(name, "running"), run.start_time, run.close_time)
    return sorted(newest.values(), key=lambda one: one.started, reverse=True)
