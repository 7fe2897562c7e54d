"""The workflow of a service's policy, as updates, signals and queries reach it, and who this process is to it."""

from __future__ import annotations

import os
import time
import uuid
from typing import Any, Mapping

from temporalio.client import Client as TemporalClient

from .. import connection, holding, presence
from ..answers import PolicyStatus
from ..faults import NotFound, PolicyUpdateFailed
from ..requests import Holder

BRING = ("publish", "begin")
"""Updates that bring weights."""

_process = ("", -1)


def incarnation() -> str:
    """The incarnation of this process, made at its first transfer: a child of it is another one."""
    global _process
    if _process[1] != os.getpid():
        _process = (f"{uuid.uuid4().hex[:12]}-{int(time.time())}", os.getpid())
    return _process[0]


def own(name: str) -> Holder:
    """This process as the holder of that name."""
    return {"name": name, "incarnation": incarnation()}


class Service:
    """A generation service, whose policy is one workflow: it is started by whoever asks first."""

    def __init__(self, temporal: TemporalClient, name: str, task_queue: str) -> None:
        self._temporal = temporal
        self._task_queue = task_queue
        self._id = f"policy/{name}"
        self.name = name

    async def check(self) -> None:
        """Raises ``InvalidBatchRequest`` for a service that no worker has."""
        await presence.check_service(self._temporal, self._task_queue, self.name)

    async def update(self, update: str, request: Mapping[str, Any]) -> Any:
        """The answer. A holder that brings weights gives signs of life from now on, unless it is refused."""
        holder = request.get("holder") if update in BRING else None
        if holder is not None:
            self.hold(holder["name"])
        try:
            return await connection.ask_or_start(
                self._temporal,
                ("policy", {"service": self.name}),
                id=self._id,
                task_queue=self._task_queue,
                update=update,
                request=request,
            )
        except PolicyUpdateFailed as error:
            if holder is not None and holding.is_refused(error):
                self.let_go(holder["name"])
            raise

    async def say(self, signal: str, request: Mapping[str, Any]) -> None:
        """An unavailable server is waited for."""
        await connection.signal_or_start(
            self._temporal,
            ("policy", {"service": self.name}),
            id=self._id,
            task_queue=self._task_queue,
            signal=signal,
            request=request,
        )

    def hold(self, name: str) -> None:
        """Gives signs of life from now on."""
        holding.hold(self._temporal, self._id, name, lambda: self.say("holding", {"holder": own(name)}))

    def let_go(self, holder: str) -> bool:
        """Gives no more signs of life. Returns whether it gave some."""
        return holding.let_go(self._temporal, self._id, holder)

    async def status(self) -> PolicyStatus:
        """Raises ``NotFound`` where the workflow does not run, and ``TimeoutError`` if no worker answers."""
        try:
            status: PolicyStatus = await connection.query(self._temporal.get_workflow_handle(self._id), "status")
        except NotFound:
            raise NotFound(
                f"{self.name}: no policy workflow runs on this server. Nothing was published, or Temporal's "
                "database was lost: then the record in the store stays in force"
            ) from None
        return status
