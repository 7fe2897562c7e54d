"""Whose workflow an id is. Ids are their users' own, so one may be that of another deployment in the namespace."""

from __future__ import annotations

import re
import time
from typing import Any, Awaitable, Callable, Dict, List, Optional

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest
from temporalio.client import (
    CancelWorkflowInput,
    Client as TemporalClient,
    DescribeWorkflowInput,
    FetchWorkflowHistoryEventsInput,
    Interceptor,
    OutboundInterceptor,
    QueryWorkflowInput,
    SignalWorkflowInput,
    StartWorkflowInput,
    StartWorkflowUpdateInput,
    StartWorkflowUpdateWithStartInput,
    WorkflowExecutionDescription,
    WorkflowHandle,
    WorkflowHistoryEventAsyncIterator,
    WorkflowUpdateHandle,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from .faults import OtherDeployment
from .presence import pollers_of

STORE_MEMO = "store_id"
"""The fact of a batch's or stream's memo that names the store of its deployment."""
TASKS_MEMO = "tasks"
"""The one that names the environments of its samples."""
OWN_S = 5.0
"""How long a workflow that was found to be this deployment's own is not asked about again."""
STORE = re.compile(r"/store=([0-9a-f]+)(?=/|$)")
"""In the identity of a worker: the id of its store."""


def of_one_deployment(client: TemporalClient, task_queue: str) -> TemporalClient:
    """A client that reaches this deployment's workflows alone. Its calls raise ``OtherDeployment``."""
    config = client.config()
    config["interceptors"] = [_OneDeployment(client, task_queue), *config["interceptors"]]
    return TemporalClient(**config)


def on_queue(client: TemporalClient) -> str:
    """The end of a search, for the workflows of the client's deployment."""
    queues = [one.task_queue for one in client.config()["interceptors"] if isinstance(one, _OneDeployment)]
    return "".join(" AND TaskQueue = '%s'" % name.replace("'", "''") for name in queues)


class _OneDeployment(Interceptor):
    def __init__(self, client: TemporalClient, task_queue: str) -> None:
        self._client = client
        self.task_queue = task_queue

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _Asking(next, self._client, self.task_queue)


class _Asking(OutboundInterceptor):
    """Before a workflow is asked, steered, joined or read, this asks whose it is. An ended one of another deployment keeps
    nobody from starting the id.
    """

    def __init__(self, next: OutboundInterceptor, client: TemporalClient, task_queue: str) -> None:
        super().__init__(next)
        self._client = client
        self._task_queue = task_queue
        self._seen: Dict[str, float] = {}

    async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:
        # Without this policy, a conflict raises, and is asked about then.
        if input.id_conflict_policy is WorkflowIDConflictPolicy.USE_EXISTING:
            await self._ask(input.id, also_ended=False)
        return await super().start_workflow(input)

    async def cancel_workflow(self, input: CancelWorkflowInput) -> None:
        await self._ask(input.id)
        await super().cancel_workflow(input)

    async def describe_workflow(self, input: DescribeWorkflowInput) -> WorkflowExecutionDescription:
        await self._ask(input.id)
        return await super().describe_workflow(input)

    def fetch_workflow_history_events(self, input: FetchWorkflowHistoryEventsInput) -> WorkflowHistoryEventAsyncIterator:
        return _AskedFirst(super().fetch_workflow_history_events(input), lambda: self._ask(input.id))

    async def query_workflow(self, input: QueryWorkflowInput) -> Any:
        await self._ask(input.id)
        return await super().query_workflow(input)

    async def signal_workflow(self, input: SignalWorkflowInput) -> None:
        await self._ask(input.id)
        await super().signal_workflow(input)

    async def start_workflow_update(self, input: StartWorkflowUpdateInput) -> WorkflowUpdateHandle[Any]:
        await self._ask(input.id)
        return await super().start_workflow_update(input)

    async def start_update_with_start_workflow(
        self, input: StartWorkflowUpdateWithStartInput
    ) -> WorkflowUpdateHandle[Any]:
        await self._ask(input.start_workflow_input.id, also_ended=False)
        return await super().start_update_with_start_workflow(input)

    async def _ask(self, id: str, *, also_ended: bool = True) -> None:
        if time.monotonic() - self._seen.get(id, -OWN_S) < OWN_S:
            return
        request = DescribeWorkflowExecutionRequest(
            namespace=self._client.namespace, execution=WorkflowExecution(workflow_id=id)
        )
        try:
            found = await self._client.workflow_service.describe_workflow_execution(request, retry=True)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return
        info = found.workflow_execution_info
        other = await self._difference_of(info)
        if other is None:
            self._seen[id] = time.monotonic()
        elif also_ended or not info.HasField("close_time"):
            raise OtherDeployment(f"{id} is another deployment's: {other}")

    async def _difference_of(self, info: Any) -> Optional[str]:
        """How its deployment differs from this one. None: it does not."""
        remedy = (
            "give this deployment a namespace or a service name of its own, or end that policy if its deployment is gone"
            if info.type.name == "policy"
            else "use another id, or task_queue= of that deployment"
        )
        if info.task_queue and info.task_queue != self._task_queue:
            return f"its task queue is {info.task_queue}, this one's is {self._task_queue} (task_queue=); {remedy}"
        if STORE_MEMO not in info.memo.fields:
            return None
        store = info.memo.fields[STORE_MEMO].data.decode().strip('"')
        ours = await self._stores()
        if not ours or store in ours:
            return None
        return (
            f"its store is {store}, that of the workers of task queue {self._task_queue} is {', '.join(ours)} "
            f"(store in temporal.yaml); {remedy}"
        )

    async def _stores(self) -> List[str]:
        """The ids of this deployment's stores. Empty: no worker runs, or the server does not say."""
        pollers = await pollers_of(self._client, self._task_queue) or []
        return sorted({id for poller in pollers for id in STORE.findall(poller.identity)})


class _AskedFirst(WorkflowHistoryEventAsyncIterator):
    """The events of a history, once it is known whose it is."""

    def __init__(self, events: WorkflowHistoryEventAsyncIterator, ask: Callable[[], Awaitable[None]]) -> None:
        self._events = events
        self._ask: Optional[Callable[[], Awaitable[None]]] = ask

    async def __anext__(self) -> Any:
        if self._ask is not None:
            await self._ask()
            self._ask = None
        return await self._events.__anext__()
