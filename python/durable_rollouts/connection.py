"""Calls to a Temporal server that may be unavailable for a while; batches and streams continue meanwhile."""

from __future__ import annotations

import asyncio
import atexit
import logging
import re
import time
from pathlib import Path
from typing import Any, Awaitable, Callable, Dict, Mapping, Optional, Tuple, Type, TypeVar

from temporalio.client import (
    Client as TemporalClient,
    RPCTimeoutOrCancelledError,
    WithStartWorkflowOperation,
    WorkflowContinuedAsNewError,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import RawValue, WorkflowIDConflictPolicy
from temporalio.envconfig import ClientConfigProfile
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode, ServiceClient

from .certificates import Renewed, check_files, look, refused_certificate
from .faults import NotFound, PolicyUpdateFailed, RolloutFault, UpdateRefused, fault_of
from .kinds import check_type
from .plain import plain, raw_json
from .stack import Stack, running

log = logging.getLogger("durable_rollouts")

T = TypeVar("T")
Handle = WorkflowHandle[Any, Any]

AWAY = {
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.RESOURCE_EXHAUSTED,
    RPCStatusCode.ABORTED,
}
"""The server may answer the same call later."""
TOO_LARGE = "larger than max"
"""What gRPC says of a message that no server takes."""


def is_away(error: RPCError) -> bool:
    """Whether the server may answer the same call later. A connection that breaks when the server is killed has no
    status of its own; a message that is too large has that of a server under load.
    """
    if TOO_LARGE in error.message:
        return False
    return error.status in AWAY or (error.status == RPCStatusCode.UNKNOWN and "transport error" in error.message)


FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0
EXIT_S = 0.25
MOST_BYTES = 2**20
"""Limit of the arguments of a workflow or an update."""
QUERY_S = 10.0
"""How long a query waits for a worker."""


class Gone(Exception):
    """The requested run has ended, or does not have it; the caller decides what follows."""


class Paused(RolloutFault):
    """An operator has paused the workflow, which is open."""

    def __init__(self, id: str) -> None:
        super().__init__(f"{id} is paused; temporal workflow unpause --workflow-id {id} ends the pause", "Paused")


def stack_here(address: Optional[str], profile: Optional[str]) -> Optional[Stack]:
    """The stack that runs in the current folder; None: there is none, or something names another server."""
    return None if address or ClientConfigProfile.load(profile).address else running(Path.cwd())


async def connect(
    address: Optional[str], namespace: Optional[str], profile: Optional[str]
) -> Tuple[TemporalClient, Optional[Stack]]:
    """Address and namespace: as given, else ``TEMPORAL_*`` variables and temporal.toml, else those of the stack, else the
    default. Files of certificates and keys are read again when the server is away. Returns the stack that it found, too.
    """
    stack = stack_here(address, profile)

    def read() -> Dict[str, Any]:
        return _settings(address, namespace, profile, stack)

    async def again(settings: Mapping[str, Any]) -> ServiceClient:
        return (await _connected({**settings, "target_host": found["target_host"]})).service_client

    found = read()
    client = await _connected(found)
    config = client.config()
    config["service_client"] = Renewed(client.service_client, found, read=read, connect=again, is_away=is_away)
    return TemporalClient(**config), stack


def _settings(
    address: Optional[str], namespace: Optional[str], profile: Optional[str], stack: Optional[Stack]
) -> Dict[str, Any]:
    given = ClientConfigProfile.load(profile)
    if given.tls is not None:
        check_files(given.tls)
    found: Dict[str, Any] = {**given.to_client_connect_config()}
    found["target_host"] = address or found.get("target_host") or (stack.address if stack else "127.0.0.1:7233")
    found["namespace"] = namespace or found.get("namespace") or (stack.namespace if stack else "default")
    return found


async def connect_to(address: str, namespace: str) -> TemporalClient:
    """To this server alone: variables and temporal.toml may be for another one."""
    return await _connected({"target_host": address, "namespace": namespace})


REFUSED_KEY = re.compile("Unauthenticated|PermissionDenied|authentication credentials|not have permission")
"""What the SDK says where a server, or what is before it, does not accept a key."""


async def _connected(found: Dict[str, Any]) -> TemporalClient:
    # Otherwise a thread of the SDK that still returns from a call may meet an interpreter that is gone, and crash it.
    atexit.unregister(_wait_at_exit)
    atexit.register(_wait_at_exit)
    try:
        return await TemporalClient.connect(**found)
    except RuntimeError as error:
        host, said = found["target_host"], str(error)
        # The SDK's text has its own structures around the operating system's.
        [why, *_] = re.findall(r'message: "([^"]+)"', said) or [said]
        if REFUSED_KEY.search(said):
            remedy = "name a key that it accepts in TEMPORAL_API_KEY, or in temporal.toml"
            raise ConnectionError(f"no connection to the Temporal server at {host}: {why}; {remedy}") from None
        tls = found.get("tls", found.get("api_key") is not None)
        seen = await asyncio.to_thread(look, host, tls) or refused_certificate(said)
        if seen is not None:
            raise ConnectionError(
                f"no connection to the Temporal server at {host}: {seen.what}; {seen.remedy}"
            ) from None
        raise ConnectionError(
            f"no Temporal server at {host}; start one (temporal-rollout up), or name it in TEMPORAL_ADDRESS: {why}"
        ) from None


def _wait_at_exit() -> None:
    time.sleep(EXIT_S)


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """The call's answer, requested again while the server is unavailable. Only for calls that may be repeated."""
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return await call()
        except RPCTimeoutOrCancelledError as error:
            # The SDK also turns the cancellation of this very task into this.
            if isinstance(error.__cause__, asyncio.CancelledError):
                raise asyncio.CancelledError from error
            problem: Exception = error
        except RPCError as error:
            if not is_away(error):
                raise
            problem = error
        log.warning("the Temporal server does not answer, asking again: %s", problem)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


async def within(timeout: Optional[float], work: Awaitable[T], what: str) -> T:
    """Raises ``TimeoutError`` after that many seconds; None: never."""
    try:
        return await asyncio.wait_for(work, timeout)
    except asyncio.TimeoutError:
        raise TimeoutError(f"{what}: not within {timeout} s; it continues, and the call may be repeated") from None


async def check_size(client: TemporalClient, request: RawValue, *, of: str, fault: Type[RolloutFault]) -> None:
    """Above two megabytes a workflow cannot even refuse an update: its refusal would repeat the arguments. Above four
    the server takes no message.
    """
    size = sum(payload.ByteSize() for payload in await client.data_converter.encode([request]))
    if size > MOST_BYTES:
        raise fault(f"{of}: expected at most {MOST_BYTES} bytes of arguments, got {size}")


async def ask(handle: Handle, update: str, request: Mapping[str, Any]) -> Any:
    """The answer of an update that may be repeated. Raises its fault, and ``Gone`` if no run is left to answer."""
    raw = raw_json(plain(request, fault=UpdateRefused))
    while True:
        try:
            return await patiently(lambda: handle.execute_update(update, raw))
        except WorkflowUpdateFailedError as error:
            if _is_cut_off(error):
                raise Gone from error
            if not _is_unprocessed(error):
                raise fault_of(error) from None
            await asyncio.sleep(FIRST_PAUSE_S)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise Gone from error
            if not _says_paused(error):
                raise
            await _described(handle)


async def ask_or_start(
    client: TemporalClient,
    workflow: Tuple[str, Mapping[str, Any]],
    *,
    id: str,
    task_queue: str,
    update: str,
    request: Mapping[str, Any],
) -> Any:
    """The same for a workflow that the first update starts."""
    name, given = workflow
    raw = raw_json(plain(request, fault=PolicyUpdateFailed))
    await check_size(client, raw, of=update, fault=PolicyUpdateFailed)

    async def attempt() -> Any:
        start: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            name, given, id=id, task_queue=task_queue, id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING
        )
        try:
            return await client.execute_update_with_start_workflow(update, raw, start_workflow_operation=start)
        except WorkflowUpdateFailedError as error:
            # A workflow that failed by itself would fail again, each time that it is started.
            if _is_cut_off(error):
                await _raise_fault_of(await start.workflow_handle())
            raise

    while True:
        try:
            return await patiently(attempt)
        except WorkflowUpdateFailedError as error:
            if not (_is_cut_off(error) or _is_unprocessed(error)):
                raise fault_of(error) from None
            await asyncio.sleep(FIRST_PAUSE_S)
        except RPCError as error:
            if not _says_paused(error):
                raise
            await _described(client.get_workflow_handle(id))


def _says_paused(error: RPCError) -> bool:
    """The server takes no update for a paused workflow."""
    return error.status is RPCStatusCode.FAILED_PRECONDITION and "is paused" in error.message


async def signal_or_start(
    client: TemporalClient,
    workflow: Tuple[str, Mapping[str, Any]],
    *,
    id: str,
    task_queue: str,
    signal: str,
    request: Mapping[str, Any],
) -> None:
    """A signal that starts its workflow if it does not run."""
    name, given = workflow
    await patiently(
        lambda: client.start_workflow(
            name,
            given,
            id=id,
            task_queue=task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal=signal,
            start_signal_args=[dict(request)],
        )
    )


async def _raise_fault_of(run: Handle) -> None:
    """Raises the fault that a run has ended by. One that was terminated, cancelled or continued may be asked again."""
    try:
        await patiently(lambda: run.result(follow_runs=False))
    except WorkflowContinuedAsNewError:
        return
    except WorkflowFailureError as error:
        if isinstance(error.cause, ApplicationError):
            raise fault_of(error) from None


def _is_cut_off(error: WorkflowUpdateFailedError) -> bool:
    """The run ended, or continued in a new one, before it had answered."""
    return _type_of(error) == "AcceptedUpdateCompletedWorkflow"


def _is_unprocessed(error: WorkflowUpdateFailedError) -> bool:
    """A worker returned the task without a word of the update; the server refuses it in its place."""
    return _type_of(error) == "UnprocessedUpdate"


def _type_of(error: WorkflowUpdateFailedError) -> Optional[str]:
    return error.cause.type if isinstance(error.cause, ApplicationError) else None


async def query(handle: Handle, name: str) -> Any:
    """A query's answer. Raises ``NotFound``, and ``TimeoutError`` if no worker answers."""
    try:
        return await _now(handle, handle.query(name))
    except (WorkflowQueryFailedError, WorkflowQueryRejectedError) as error:
        raise RolloutFault(str(error), "QueryFailed") from None


async def progress_of(client: TemporalClient, id: str, type: str) -> Any:
    """The answer of query ``progress``. A workflow that has ended without being done raises its fault, because its last
    state looks alive.
    """
    latest: Handle = client.get_workflow_handle(id)
    described = await _now(latest, describe(latest))
    check_type(described, id, type)
    await _check_task(client, described)
    # Started again meanwhile, the id has another run.
    run: Handle = client.get_workflow_handle(id, run_id=described.run_id)
    progress = await query(run, "progress")
    if described.status is not WorkflowExecutionStatus.RUNNING and progress.get("phase", progress.get("state")) != "done":
        await result_of(run)
    return progress


async def describe(handle: Handle) -> WorkflowExecutionDescription:
    """Raises ``Paused``: the SDK has no name for this status."""
    try:
        return await handle.describe()
    except ValueError as error:
        if f"{PAUSED} is not a valid" not in str(error):
            raise
        raise Paused(handle.id) from None


PAUSED = 8
"""temporal.api.enums.v1.WorkflowExecutionStatus, whose name came after the SDK's own list."""
LEAST_ATTEMPTS = 3
"""Attempts at a workflow task that fails; fewer may be a worker that died."""


async def _check_task(client: TemporalClient, described: WorkflowExecutionDescription) -> None:
    """Raises why the workflow task fails again and again: then nothing reaches the workflow, a query neither."""
    attempts = described.raw_description.pending_workflow_task.attempt
    if attempts < LEAST_ATTEMPTS:
        return
    handle: Handle = client.get_workflow_handle(described.id, run_id=described.run_id)
    why = "no worker completes it in time"
    async for event in handle.fetch_history_events():
        if event.HasField("workflow_task_failed_event_attributes"):
            why = event.workflow_task_failed_event_attributes.failure.message
    raise RolloutFault(
        f"the workflow task of {described.id} fails ({attempts} tries): {why}. A repaired worker continues it. Or end it "
        "(temporal workflow terminate) and start its id again, which continues from the store",
        "WorkflowTaskFails",
    )


async def _now(handle: Handle, call: Awaitable[T]) -> T:
    """The answer of a call that does not wait for an unavailable server."""
    try:
        return await asyncio.wait_for(call, QUERY_S)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise NotFound(f"Temporal does not know {handle.id}") from None
        raise TimeoutError(f"no worker answers for {handle.id} now: {error.message}") from None
    except asyncio.TimeoutError:
        raise TimeoutError(f"no worker answers for {handle.id} within {QUERY_S} s; it continues when one is back") from None


async def result_of(handle: Handle) -> Any:
    """The result of the latest run, once it has ended; raises its fault."""
    try:
        return await patiently(handle.result)
    except WorkflowFailureError as error:
        raise fault_of(error) from None
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise NotFound(f"Temporal does not know {handle.id}") from None
        raise


async def send(call: Callable[[], Awaitable[None]], id: str) -> None:
    """A signal or a cancellation; does nothing for an ended workflow."""
    try:
        await patiently(call)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        if "already completed" not in error.message:
            raise NotFound(f"Temporal does not know {id}") from None


async def check_id(handle: Handle, type: str) -> bool:
    """Raises ``NotFound`` for an id that is unknown, or that of a workflow of another type. False: a paused workflow does
    not say its type here.
    """
    try:
        check_type(await _described_now(handle), handle.id, type)
    except Paused as paused:
        log.warning("%s", paused)
        return False
    return True


async def running_run(handle: Handle) -> Optional[str]:
    """The id of the open run; None: it has ended."""
    run, is_running = await latest_run(handle)
    return run if is_running else None


async def latest_run(handle: Handle) -> Tuple[str, bool]:
    """The id of the latest run, and whether it is open."""
    description = await _described(handle)
    return description.run_id, description.status is WorkflowExecutionStatus.RUNNING


async def _described(handle: Handle) -> WorkflowExecutionDescription:
    """Waits while it is paused: until then it goes neither on nor away."""
    is_said = False
    while True:
        try:
            return await _described_now(handle)
        except Paused as paused:
            if not is_said:
                log.warning("%s", paused)
            is_said = True
            await asyncio.sleep(LONGEST_PAUSE_S)


async def _described_now(handle: Handle) -> WorkflowExecutionDescription:
    try:
        return await patiently(lambda: describe(handle))
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise NotFound(f"Temporal does not know {handle.id}") from None
        raise
