"""Who is there: namespaces, workers and what these serve. So a wrong name is answered at once, and starts nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, List, Optional
from urllib.parse import unquote

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import Client as TemporalClient, WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

from .connection import Paused, describe, is_away, log
from .faults import InvalidBatchRequest

ANSWER = timedelta(seconds=2)
"""For questions that the server answers at once. Without an answer the call that asks goes on."""
SERVES = "/generation="
"""What follows it in the identity of a worker: its generation services, quoted as in URLs and separated by commas."""


def place_of(client: TemporalClient) -> str:
    """For messages."""
    return f"{client.service_client.config.target_host}, namespace {client.namespace}"


async def check_namespace(client: TemporalClient) -> None:
    """With a wrong one, every id would be unknown."""
    try:
        request = DescribeNamespaceRequest(namespace=client.namespace)
        await client.workflow_service.describe_namespace(request, timeout=ANSWER)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise ConnectionError(
                f"the Temporal server at {client.service_client.config.target_host} has no namespace "
                f"{client.namespace!r}; name another one with namespace= or TEMPORAL_NAMESPACE, or register it: "
                "temporal operator namespace create"
            ) from None


def no_worker(client: TemporalClient, task_queue: str, what: str) -> str:
    """The line that ``what`` waits for a worker."""
    return f"no worker polls task queue {task_queue} on {place_of(client)}: {what} waits for one"


async def pollers_of(client: TemporalClient, task_queue: str) -> Optional[List[Any]]:
    """The workers that play workflows of this queue. None: the server does not say."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    try:
        answer = await client.workflow_service.describe_task_queue(request, timeout=ANSWER)
    except RPCError:
        return None
    return list(answer.pollers)


async def workers_of(client: TemporalClient, task_queue: str) -> Optional[List[str]]:
    """Their identities."""
    pollers = await pollers_of(client, task_queue)
    return None if pollers is None else [poller.identity for poller in pollers]


async def say_who_waits(client: TemporalClient, task_queue: str, what: str) -> None:
    """Logs that no worker is there to do it."""
    if await workers_of(client, task_queue) == []:
        log.warning("%s", no_worker(client, task_queue, what))


async def check_service(client: TemporalClient, task_queue: str, service: str) -> None:
    """Raises ``InvalidBatchRequest`` for a generation service that no worker has."""
    if not isinstance(service, str) or not service:
        raise InvalidBatchRequest(f"policy: expected the name of a generation service, got {service!r}")
    workers = await workers_of(client, task_queue)
    if workers == []:
        log.warning("%s", no_worker(client, task_queue, "publish"))
    served = [identity.partition(SERVES)[2] for identity in workers or [] if SERVES in identity]
    names = sorted({unquote(name) for names in served for name in names.split(",") if name})
    # A worker that does not say what it serves may have it.
    if workers and len(served) == len(workers) and service not in names:
        expected = f"one of {', '.join(names)}" if names else "one, but no worker has any"
        raise InvalidBatchRequest(
            f"policy: expected a generation service of temporal.yaml ({expected}), got {service!r}; nothing was started"
        )


async def described(client: TemporalClient, id: str) -> Optional[WorkflowExecutionDescription]:
    """The newest run of this id. None: Temporal has none, or does not say."""
    try:
        return await describe(client.get_workflow_handle(id))
    except Paused:  # A start joins it.
        return None
    except RPCError as error:
        if is_away(error):
            raise
        return None
