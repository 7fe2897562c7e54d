"""Starting batches and streams. An id names one request permanently."""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional

from temporalio.client import Client as TemporalClient, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from .defaults import first_difference, with_defaults
from .connection import Handle, check_size, is_away, log, patiently, result_of
from .faults import InvalidBatchRequest
from .kinds import kind_of
from .one_deployment import on_queue
from .plain import plain, raw_json
from .presence import described, place_of, say_who_waits
from .samples import placed
from .shapes import Shape

RESTART = {"restart": True}
"""The second input of a batch."""
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,119}")


async def start_once(
    client: TemporalClient,
    workflow: str,
    request: Mapping[str, Any],
    *,
    id: str,
    task_queue: str,
    defaults: Mapping[str, Any],
    shape: Shape = Shape(),
    restart: bool = False,
) -> None:
    """Starts a workflow, or joins it if it runs with the same request, and logs which. Another request than the id has
    is ``InvalidBatchRequest``: worker and store refuse it, too, but that refusal would be the newest run of the id, and
    hide the result of the run before it. ``restart``: what an ended batch has played is removed.
    """
    check_id(id)
    sent = await _sent(client, request, shape=shape, task_queue=task_queue)
    raw = raw_json(sent)
    given = [raw, raw_json(RESTART)] if restart else [raw]
    await check_size(client, raw, of=workflow, fault=InvalidBatchRequest)
    place = place_of(client)

    async def start() -> None:
        before = await described(client, id)
        if before is not None and before.status is WorkflowExecutionStatus.COMPLETED and before.workflow_type == workflow:
            # A search finds a run only a moment after it has ended.
            earlier: Optional[Handle] = client.get_workflow_handle(id, run_id=before.run_id)
        else:
            earlier = await completed_run(client, workflow, id)
        if earlier is not None:
            await check_same(client, earlier, sent, defaults=defaults)
        check_workflow(before, workflow, id=id)
        try:
            await client.start_workflow(
                workflow, args=given, id=id, task_queue=task_queue, id_conflict_policy=WorkflowIDConflictPolicy.FAIL
            )
        except WorkflowAlreadyStartedError:
            if restart:
                raise InvalidBatchRequest(
                    f"{id} runs: restart plays a batch again that has ended; end it first, with client.batch({id!r}).stop()"
                ) from None
            await check_same(client, client.get_workflow_handle(id), sent, defaults=defaults)
            log.info("joined %s %s, which runs on %s", workflow, id, place)
            return
        did = "started" if before is None else "restarted" if restart else "continued"
        log.info("%s %s %s on %s, task queue %s", did, workflow, id, place, task_queue)
        if earlier is not None and workflow == "rolloutBatch" and not restart:
            await _say_what_is_there(earlier, id)
        await say_who_waits(client, task_queue, id)

    await patiently(start)


async def _sent(
    client: TemporalClient, request: Mapping[str, Any], *, shape: Shape, task_queue: str
) -> Mapping[str, Any]:
    """The request as JSON. Its samples may be as many as the worker takes, and are never here at once."""
    has_samples = isinstance(request, Mapping) and "samples" in request
    sent = plain({**request, "samples": None} if has_samples else request, fault=InvalidBatchRequest)
    if not isinstance(sent, dict):
        raise InvalidBatchRequest(f"(input): expected a dictionary, got {request!r:.80}")
    if has_samples:
        samples = await placed(client, request["samples"], shape=shape, task_queue=task_queue)
        sent["samples"] = plain(samples, of="samples", fault=InvalidBatchRequest) if isinstance(samples, Mapping) else samples
    return sent


async def _say_what_is_there(earlier: Handle, id: str) -> None:
    """Somebody who has changed an environment would take the old rows for new ones."""
    counts = (await result_of(earlier)).get("counts")
    if counts:
        log.warning(
            "%s continues: its last result has %s of %s rows; those that the store still has are not played again. "
            "If the code of the reward has changed: another id, or restart=True",
            id,
            counts["completed"],
            counts["requested"],
        )


def check_workflow(before: Optional[WorkflowExecutionDescription], workflow: str, *, id: str) -> None:
    """An id may be that of something else."""
    if before is not None and before.workflow_type != workflow:
        raise InvalidBatchRequest(f"{id} is {kind_of(before.workflow_type, id)}; use another id")


def check_id(id: str) -> None:
    """A worker would refuse it, too, but where nobody looks."""
    if not isinstance(id, str) or ID.fullmatch(id) is None or id == "policy":
        raise InvalidBatchRequest(
            "id: expected letters, digits and ._:- (at most 120, beginning with a letter or digit), "
            f'and not "policy", got {id!r}'
        )


async def completed_run(client: TemporalClient, workflow: str, id: str) -> Optional[Handle]:
    """The newest run of this id that has a result. None: Temporal has none, or cannot search; then only the store knows
    the id.
    """
    query = f"WorkflowId = '{id}' AND WorkflowType = '{workflow}' AND ExecutionStatus = 'Completed'{on_queue(client)}"
    try:
        runs = [run async for run in client.list_workflows(query)] if ID.fullmatch(id) else []
    except RPCError as error:
        if is_away(error):
            raise
        return None
    if not runs:
        return None
    return client.get_workflow_handle(id, run_id=max(runs, key=lambda run: run.start_time).run_id)


async def check_same(
    client: TemporalClient, handle: Handle, ours: Mapping[str, Any], *, defaults: Mapping[str, Any]
) -> None:
    """The handle of an ended run has a ``run_id``."""
    async for event in handle.fetch_history_events(page_size=1):
        started = event.workflow_execution_started_event_attributes
        names = "runs with" if handle.run_id is None else "has"
        try:
            # Further arguments come from an earlier run.
            [theirs, *_] = await client.data_converter.decode(started.input.payloads)
            difference = first_difference(with_defaults(theirs, defaults), with_defaults(ours, defaults))
        except Exception as error:  # Another client sent it, in an encoding of its own.
            difference = f"one that cannot be read here ({error})"
        if difference is not None:
            raise InvalidBatchRequest(f"{handle.id} {names} another request: {difference}; use another id") from None
        return


async def batch_result(client: TemporalClient, id: str, *, is_own: bool) -> Any:
    """The result of a batch, once it has ended; raises its fault. A refused start changes nothing of a batch, whose result
    is that of the run before it. ``is_own``: this process has started it, so that an earlier result is not the one that
    it waits for.
    """
    try:
        return await result_of(client.get_workflow_handle(id))
    except InvalidBatchRequest as refusal:
        earlier = None if is_own else await patiently(lambda: completed_run(client, "rolloutBatch", id))
        if earlier is None:
            raise
        log.warning("the newest start of batch %s was refused: %s. This is its result before that", id, refusal)
        return await result_of(earlier)
