"""The same for programs that run an event loop: ``from durable_rollouts.aio import Client``.

Names, arguments and errors are those of ``durable_rollouts``; every call that is a coroutine here is awaited, and
``Batch.groups`` is iterated with ``async for``.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, List, Literal, Mapping, Optional, Sequence, Set, TypeVar, Union, cast

from temporalio.client import Client as TemporalClient
from typing_extensions import Unpack

from . import bar, connection, holding, presence, starting
from .connection import Gone, Handle
from .faults import NotFound, PolicyUpdateFailed, RolloutFault, Stopped, TooFewValid, UpdateRefused
from .listing import Listed, listed
from .one_deployment import of_one_deployment
from .arrow import Sequences, SequencesFile
from .requests import (
    BATCH_DEFAULTS,
    STREAM_DEFAULTS,
    Adapter,
    BatchRequest,
    BeginRequest,
    Checkpoint,
    DrainRequest,
    Holder,
    JoinRequest,
    LeaveRequest,
    Probe,
    PublishRequest,
    ReleaseRequest,
    RolloutSettings,
    SleepRequest,
    StreamRequest,
    WakeRequest,
)
from .results import (
    BatchProgress,
    BatchResult,
    Failures,
    Group,
    PolicySleep,
    PolicyState,
    PolicyStatus,
    PublishResult,
    Row,
    Step,
    StepResult,
    StreamProgress,
    groups_of,
    read_counted,
    read_rows,
    read_step,
    result_groups,
    sequences_of,
)
from .shapes import Shape
from .single import Single
from .steering import Steered
from .transfer import Engines as Engines
from .transfer import Transfer as Transfer
from .transfer import WeightSyncClient as WeightSyncClient
from .transfer import incarnation
from .waits import Sight, Waits, told

T = TypeVar("T")

LONGEST_WAIT, LONGEST_WAIT_S = "10m", 600.0
"""Duration of one long poll; each poll costs some events of a history."""
FIRST_WAIT_S = 4.0
"""Duration of the first poll of a caller with ``on_wait``."""
BREATH_S = 1.0
"""Pause between two polls if the first one was answered at once with nothing."""


class Client:
    """Batches, streams and policies of one Temporal namespace. ``await Client.connect()`` makes one.

        client = await Client.connect()
    """

    def __init__(self, temporal: TemporalClient, task_queue: str = "rollouts") -> None:
        self._temporal = temporal
        self._task_queue = task_queue
        self._single = Single(temporal, task_queue)

    @classmethod
    async def connect(
        cls,
        address: Optional[str] = None,
        namespace: Optional[str] = None,
        task_queue: str = "rollouts",
        *,
        profile: Optional[str] = None,
    ) -> "Client":
        """Connects to a Temporal server.

        address: host and port. None: from ``TEMPORAL_*`` variables and temporal.toml, as all Temporal tools read them,
          else ``127.0.0.1:7233``
        namespace: None: from the same places, else ``default``
        task_queue: ``temporal.task_queue`` of the worker's temporal.yaml
        profile: a profile of temporal.toml

        Returns the client. Raises ``ConnectionError``, also for a namespace that the server does not have.

            client = Client.connect("10.0.0.1:7233")

        docs/deployment.md lists the variables.
        """
        client = await connection.connect(address, namespace, profile)
        await presence.check_namespace(client)
        return cls(of_one_deployment(client, task_queue), task_queue)

    async def start_batch(
        self,
        request: BatchRequest,
        id: str,
        *,
        columns: Optional[Mapping[str, str]] = None,
        task_name: Optional[str] = None,
        restart: bool = False,
    ) -> "Batch":
        """Starts a batch; its id names this request permanently.

        A running batch is joined, and an ended one is continued: valid rows stay, and the others continue from their
        journals; the log says how many are there. So a crashed trainer just calls this again.

        request: ``help(durable_rollouts.BatchRequest)`` has the fields. ``samples`` may be any iterable of rows, such
          as a generator or a data set, of any length: more than 256 kB are put into a file below the workers'
          ``inputs_dir``, once, which has to be a disk of this process, too, or a bucket. Scalars and arrays of numpy, tuples,
          generators and paths are taken as values
        id: up to 120 letters, digits and ``._:-``
        columns: what columns of the rows become: ``prompt`` (text, or a list of messages), ``extra_env_info.NAME`` (for
          the environment), or a column of samples
        task_name: that of rows without one; rows may then be texts, too
        restart: plays a batch again that has ended. The worker removes what its rollouts have played (their journals),
          the groups that were handed out, and ``metrics.json``; request and samples stay, and so do the rows until new
          ones take their place at the end

        Returns the batch at once; ``Batch.wait`` waits for its end. Raises ``InvalidBatchRequest`` for an invalid id,
        if the batch has another request, if JSON cannot hold a value of it (the message names the field), and for
        ``restart`` of one that runs. ``Batch.wait`` raises other errors of a request. An unavailable server is waited
        for.

            batch = client.start_batch({"samples": rows, "num_repeats": 8}, "step-17", columns={"question": "prompt"}, task_name="math")

        docs/batches.md has the rules.
        """
        await starting.start_once(
            self._temporal,
            "rolloutBatch",
            request,
            id=id,
            task_queue=self._task_queue,
            defaults=BATCH_DEFAULTS,
            shape=Shape(columns, task_name),
            restart=restart,
        )
        return Batch(self._temporal, id, is_own=True)

    async def rollout(
        self,
        sample: Any,
        id: str,
        *,
        columns: Optional[Mapping[str, str]] = None,
        task_name: Optional[str] = None,
        **settings: Unpack[RolloutSettings],
    ) -> Row:
        """Plays one rollout, and waits for its row. Of ``durable_rollouts.aio``, thousands may wait at once.

        An id names one rollout permanently: if it runs it is joined, if it has ended its row is returned again, and if
        it failed or was cut it continues from its journal. So a crashed trainer just asks again. Who stops waiting
        leaves it running.

        sample: one row of a batch's ``samples``
        id: up to 120 letters, digits and ``._:-``
        columns, task_name: as in ``start_batch``
        settings: fields of a batch: ``help(durable_rollouts.RolloutSettings)``

        Returns its row, as ``Batch.rows``. Raises its failure by name (``EnvironmentFailed``, ``TimedOut``, ``Stopped``,
        …), ``InvalidBatchRequest``, which names the first field that differs if the id has another sample or other
        settings, and ``OSError`` without the store's disk. An unavailable server is waited for.

            row = client.rollout({"prompt": "6 times 7?"}, "step-17:0", task_name="math", max_seq_len=2048)
        """
        return await self._single.rollout(sample, settings, id=id, shape=Shape(columns, task_name))

    async def group(
        self,
        sample: Any,
        n: int,
        id: str,
        *,
        columns: Optional[Mapping[str, str]] = None,
        task_name: Optional[str] = None,
        **settings: Unpack[RolloutSettings],
    ) -> Group:
        """Plays one sample several times: a batch of one group. The rest is as in ``rollout``.

        sample: one row of a batch's ``samples``
        n: rollouts of it, at most 300
        id: up to 120 letters, digits and ``._:-``
        columns, task_name: as in ``start_batch``
        settings: fields of a batch: ``help(durable_rollouts.RolloutSettings)``

        Returns the group; ``Group.failures`` has the members that failed. Raises what ``rollout`` raises, but for the
        failures of members.

            group = client.group({"prompt": "6 times 7?"}, 8, "step-17:0", task_name="math")
        """
        return await self._single.group(sample, n, settings, id=id, shape=Shape(columns, task_name))

    def batch(self, id: str) -> "Batch":
        """A batch that was started before.

        id: the one it was started with

        Returns the batch, without a call. Raises nothing here; calls of the batch raise ``NotFound`` for an id that is
        unknown or none of a batch.

            rows = client.batch("step-17").rows()
        """
        return Batch(self._temporal, id)

    async def batches(self) -> List[Listed]:
        """All batches that the server has, the newest first.

        Older ones may be in the store alone: ``temporal-rollout list`` has these, too, and counts and rewards of all.

        Returns a ``Listed`` for each. Raises ``temporalio.service.RPCError`` if the server does not answer.

            running = [one.id for one in client.batches() if one.state == "running"]
        """
        return await listed(self._temporal, "rolloutBatch")

    async def streams(self) -> List[Listed]:
        """All streams that the server has, the newest first.

        Returns a ``Listed`` for each. Raises ``temporalio.service.RPCError`` if the server does not answer.
        """
        return await listed(self._temporal, "rolloutStream")

    async def stream(
        self,
        id: str,
        request: Optional[StreamRequest] = None,
        *,
        columns: Optional[Mapping[str, str]] = None,
        task_name: Optional[str] = None,
    ) -> "Stream":
        """A stream: started with ``request``, joined if it runs, continued from its store if it has ended.

        id: up to 120 letters, digits and ``._:-``
        request: ``help(durable_rollouts.StreamRequest)`` has the fields; None: it runs already
        columns, task_name: as in ``start_batch``, and so may its samples be any iterable

        Returns the stream at once. Raises ``InvalidBatchRequest`` for an invalid id, and if it has another request. An
        unavailable server is waited for.

            stream = client.stream("run-3", {"samples": {"path": "train.jsonl"}, "num_repeats": 8, "groups_per_step": 32})

        docs/stream.md has the rules.
        """
        if request is not None:
            await starting.start_once(
                self._temporal,
                "rolloutStream",
                request,
                id=id,
                task_queue=self._task_queue,
                defaults=STREAM_DEFAULTS,
                shape=Shape(columns, task_name),
            )
        return Stream(self._temporal, id)

    def policy(self, service: str = "default") -> "Policy":
        """The policy of a generation service: its weights and their versions.

        service: a key of ``generation`` in temporal.yaml

        Returns the policy, without a call. Raises nothing here.

            client.policy().publish(4, "/shared/checkpoints/4")
        """
        return Policy(self._temporal, service, self._task_queue)

    def __repr__(self) -> str:
        address = self._temporal.service_client.config.target_host
        return f"Client({address}, namespace {self._temporal.namespace!r}, task queue {self._task_queue!r})"


class Batch(Steered):
    """A batch on the server. It continues without this object, and without this process.

    id: as it was started

        result = client.start_batch(request, "step-17").wait(show=True)
    """

    def __init__(self, temporal: TemporalClient, id: str, *, is_own: bool = False) -> None:
        self._temporal = temporal
        self._handle: Handle = temporal.get_workflow_handle(id)
        self._is_own = is_own
        self._is_batch = is_own
        self._is_noted = False
        self.id: str = id

    async def _check(self) -> None:
        """Once: an id may be that of a stream."""
        if not self._is_batch:
            self._is_batch = await connection.check_id(self._handle, "rolloutBatch")

    async def wait(self, timeout: Optional[float] = None, *, show: bool = False) -> BatchResult:
        """Waits for its end.

        timeout: seconds; then ``TimeoutError``, and the batch continues
        show: progress on standard error, as a bar with ``tqdm``, else a line every ten seconds, and what it waits for;
          otherwise the log has that

        Returns its result: ``help(durable_rollouts.BatchResult)``; the log has its ``notes``. If only the newest start of
        ``client.batch(id)`` was refused, it logs that and returns the result before it. Raises the fault that failed the
        batch (``InvalidBatchRequest``, ``TooFewValid``, …), ``Cancelled`` (its files are written), ``Terminated``,
        ``NotFound``. An unavailable server is waited for.

            counts = batch.wait(timeout=3600)["counts"]
        """
        what = f"the end of batch {self.id}"
        result: BatchResult
        if not show:
            result = await connection.within(timeout, self._waits().during(self._result()), what)
        else:
            async with bar.shown(self._sight().look, self.id):
                result = await connection.within(timeout, self._result(), what)
        if not self._is_noted:
            self._is_noted = True
            for note in result.get("notes", []):
                connection.log.warning("%s (%s)", note, self.id)
        return result

    def _sight(self) -> Sight:
        return Sight(self._temporal, self.id, "rolloutBatch")

    def _waits(self) -> Waits:
        return Waits(self._sight().why, told(self.id))

    async def _result(self) -> Any:
        await self._check()
        return await starting.batch_result(self._temporal, self.id, is_own=self._is_own)

    async def progress(self) -> BatchProgress:
        """Its counts now, or its last ones.

        Returns ``help(durable_rollouts.BatchProgress)``. Raises ``NotFound``, ``TimeoutError`` if no worker answers,
        and the fault of a batch that ended without its files (``Terminated``, ``InvalidBatchRequest``, …).
        """
        progress: BatchProgress = await connection.progress_of(self._temporal, self.id, "rolloutBatch")
        return progress

    async def groups(self, *, show: bool = False) -> AsyncIterator[Group]:
        """All groups, each once: as they end, and at last those that end with the batch.

        A batch that runs as slices reports groups only a few times per slice. Rows are read from the store, so this
        needs access to its disk.

        show: as in ``wait``

        Returns an iterator of ``Group``. Raises what ``wait`` raises, and ``OSError`` without that disk.

            for group in batch.groups():
                print(group.row, group.rewards)
        """
        if not show:
            async for group in self._groups(self._waits()):
                yield group
            return
        async with bar.shown(self._sight().look, self.id):
            async for group in self._groups(None):
                yield group

    async def _groups(self, waits: Optional[Waits]) -> AsyncIterator[Group]:
        """waits: says what they wait for; None: it is shown."""
        await _during(waits, self._check())
        seen: Set[int] = set()
        while (run := await connection.running_run(self._handle)) is not None:
            async for group in self._groups_of_run(run, seen, waits):
                yield group
            if await self._has_ended_or_closes(run):
                break
        result = await _during(waits, self._result())
        for group in await asyncio.to_thread(result_groups, result, seen):
            yield group

    async def _groups_of_run(self, run: str, seen: Set[int], waits: Optional[Waits]) -> AsyncIterator[Group]:
        handle: Handle = self._temporal.get_workflow_handle(self.id, run_id=run)
        after = 0
        while True:
            try:
                asked = connection.ask(handle, "groups", {"after": after, "wait": LONGEST_WAIT})
                answer = await _during(waits, asked)
                groups = await asyncio.to_thread(_groups_in, answer, seen)
            except (Gone, UpdateRefused, FileNotFoundError):
                return
            for group in groups:
                yield group
            after = answer["to"]
            if answer["done"]:
                return

    async def _has_ended_or_closes(self, run: str) -> bool:
        """False if another run has replaced this one."""
        return await connection.running_run(self._handle) in (None, run)

    async def rows(self) -> List[Row]:
        """Its valid rollouts, once it has ended.

        Returns the rows of ``rollouts.jsonl``, in input order: ``help(durable_rollouts.RowColumns)`` has the columns
        beside the sample's own. Raises what ``wait`` raises, and ``OSError`` without the store's disk.

            arrays = to_arrays(batch.rows())
        """
        return await self._read("rollouts")

    async def failures(self) -> List[Row]:
        """The other rollouts, once it has ended.

        Returns the rows of ``failures.jsonl``, each with ``failure`` and what it has so far, also after ``TooFewValid``.
        Raises what ``wait`` raises else, and ``OSError`` without the store's disk.

            why = Counter(row["failure"]["type"] for row in batch.failures())
        """
        return await self._read("failures")

    async def _read(self, file: Literal["rollouts", "failures"]) -> List[Row]:
        try:
            result = await self.wait()
        except TooFewValid as few:
            if file == "rollouts" or few.result is None:
                raise
            result = few.result
        return await asyncio.to_thread(lambda: read_counted(result, file))

    async def sequences(self) -> Sequences:
        """Its valid rollouts from ``rollouts.arrow``, once it has ended; it is much faster to read than rows.

        Returns their sequences, in input order. Raises what ``wait`` raises, ``NotFound`` where the store writes no Arrow
        (``formats`` in temporal.yaml), ``StoreFault`` for a part of the file, ``ImportError`` without pyarrow, and
        ``OSError`` without the store's disk.

            arrays = to_arrays(batch.sequences())
        """
        result = await self.wait()
        return await asyncio.to_thread(lambda: sequences_of(result))

    async def _ask(self, update: str, request: Dict[str, Any]) -> Any:
        await self._check()
        try:
            return await connection.ask(self._handle, update, request)
        except Gone:
            raise UpdateRefused(f"batch {self.id} has ended: it takes no {update}") from None

    async def stop(self) -> None:
        """Ends what runs and keeps the results so far; ``wait`` then has a result. Does nothing for an ended batch.

        Raises ``NotFound``. An unavailable server is waited for.
        """
        await self._check()
        await connection.send(lambda: self._handle.signal("stop"), self.id)

    async def cancel(self) -> None:
        """The same as ``stop``, but ``wait`` raises ``Cancelled``.

        Raises ``NotFound``. An unavailable server is waited for.
        """
        await self._check()
        await connection.send(self._handle.cancel, self.id)

    def __repr__(self) -> str:
        return f"Batch({self.id!r})"


class Stream(Steered):
    """A batch without end, whose steps are facts: a step always has the same rows.

    id: as it was started

        step = stream.next_step(0, version=0)
    """

    def __init__(self, temporal: TemporalClient, id: str) -> None:
        self._temporal = temporal
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


class Policy:
    """What a generation service serves: weights under a version that only grows.

    service: a key of ``generation`` in temporal.yaml

        client.policy().publish(4, "/shared/checkpoints/4")
    """

    def __init__(self, temporal: TemporalClient, service: str, task_queue: str) -> None:
        self._temporal = temporal
        self._task_queue = task_queue
        self.service: str = service

    @property
    def _id(self) -> str:
        return f"policy/{self.service}"

    async def publish(
        self,
        version: int,
        weights: Union[str, Checkpoint, Adapter],
        *,
        mode: Literal["keep", "abort", "wait"] = "keep",
        cache: Literal["reset", "keep"] = "reset",
        order: Literal["all", "rolling"] = "all",
        max_unavailable: int = 1,
        quorum: Optional[int] = None,
        probe: Optional[Probe] = None,
        pause_limit: str = "10m",
        drain_limit: str = "1m",
        keep_adapters: int = 2,
        holder: Optional[str] = None,
        take_over: bool = False,
    ) -> PublishResult:
        """Brings weights to every replica of the service, and waits until enough of them serve these.

        version: above all earlier ones. The same version with the same weights again completes what is missing, or
          returns the result, so a crashed trainer just calls this again
        weights: a path that each engine reads itself, or ``{"kind": "checkpoint", "path": …}``; an adapter for the
          weights that are there is ``{"kind": "lora", "path": …}``, and pauses nothing
        mode: what happens to running generations: frozen (``keep``), cut (``abort``; they continue after their tokens),
          or drained for ``drain_limit`` (``wait``)
        cache: the prefix cache: emptied, or kept
        order: all replicas at once, or ``rolling``: at most ``max_unavailable`` at a time
        max_unavailable: replicas
        quorum: how many replicas must have it; None: all that are not away
        probe: the trainer's own logprobs of a prompt, in nats; a replica with other ones does not serve
        pause_limit: how long a pause may take, such as ``"30s"``
        drain_limit: likewise, of mode ``wait``
        keep_adapters: how many of the last versions generations may go on under, if it is an adapter
        holder: names the training, the same after it was restarted: from now on others are refused, until ``release`` or
          five minutes after this process and its event loop have ended. None: refused while somebody holds the service
        take_over: takes the service from another holder

        Returns ``help(durable_rollouts.PublishResult)``. Raises ``PolicyUpdateFailed``, and ``InvalidBatchRequest``
        (also for a service that no worker has). An unavailable server is waited for.

            paused_s = client.policy().publish(4, "/shared/checkpoints/4", order="rolling")["paused_s"]

        docs/weights.md has the rules.
        """
        await presence.check_service(self._temporal, self._task_queue, self.service)
        request: PublishRequest = {
            "version": version,
            "weights": {"kind": "checkpoint", "path": weights} if isinstance(weights, str) else weights,
            "mode": mode,
            "cache": cache,
            "order": order,
            "max_unavailable": max_unavailable,
            "quorum": quorum,
            "probe": probe,
            "pause_limit": pause_limit,
            "drain_limit": drain_limit,
            "keep_adapters": keep_adapters,
            "holder": None if holder is None else _holder(holder),
            "take_over": take_over,
        }
        result: PublishResult = await self._update("publish", request)
        return result

    async def _update(self, update: str, request: Mapping[str, Any]) -> Any:
        holder = request.get("holder") if update in BRING else None
        if holder is not None:
            self._hold(holder["name"])
        try:
            return await connection.ask_or_start(
                self._temporal,
                ("policy", {"service": self.service}),
                id=self._id,
                task_queue=self._task_queue,
                update=update,
                request=request,
            )
        except PolicyUpdateFailed as error:
            if holder is not None and holding.is_refused(error):
                holding.let_go(self._temporal, self._id, holder["name"])
            raise

    def _hold(self, name: str) -> None:
        """Gives signs of life from now on."""
        holding.hold(self._temporal, self._id, name, lambda: self._says_holding(name))

    async def _begins(self, name: str) -> None:
        await presence.check_service(self._temporal, self._task_queue, self.service)
        self._hold(name)

    async def _says_holding(self, name: str) -> None:
        await connection.signal_or_start(
            self._temporal,
            ("policy", {"service": self.service}),
            id=self._id,
            task_queue=self._task_queue,
            signal="holding",
            request={"holder": _holder(name)},
        )

    async def release(self, holder: str) -> PolicyState:
        """Lets others bring weights: at the end of a training, or for a trainer that is gone.

        holder: who holds the service

        Returns ``help(durable_rollouts.PolicyState)``; where nobody holds it, it changes nothing. Raises
        ``PolicyUpdateFailed`` where another name holds it, or a later process of this one. An unavailable server is waited
        for.

            client.policy().release("math-3")
        """
        own = holding.let_go(self._temporal, self._id, holder)
        named: ReleaseRequest = {"holder": {"name": holder, "incarnation": incarnation() if own else None}}
        state: PolicyState = await self._update("release", named)
        return state

    def transfer(
        self,
        version: Optional[int] = None,
        *,
        holder: str,
        take_over: bool = False,
        checkpoint: Optional[str] = None,
        only: Optional[List[str]] = None,
        base: Optional[int] = None,
        mode: Literal["keep", "abort"] = "keep",
        cache: Literal["reset", "keep"] = "reset",
        groups: Optional[int] = None,
        quorum: Optional[int] = None,
        probe: Union[Literal["agree"], Probe, None] = "agree",
        tolerance: float = 0.05,
        same: bool = False,
        pause_limit: str = "10m",
        stall_limit: str = "2m",
        code: Literal["ours", "trainer"] = "ours",
        own_label: Optional[str] = None,
    ) -> "Transfer":
        """Holds the engines for weights that this process sends itself: ``with policy.transfer(holder=…) as engines``.

        At the end of the block they serve them. An exception in it, ``KeyboardInterrupt`` too, gives the transfer up.

        version: above all that an engine has served; None: the next one, as ``engines.version`` says
        holder: names the training, as in ``publish``; each process is an incarnation of it
        take_over: takes the service from another holder
        checkpoint: files with the same weights, which each engine can read: what repairs an engine
        only: URLs of some engines; None: all of them
        base: the weights are a difference to this version: engines with another one are left out
        mode: running generations are frozen (``keep``) or cut
        cache: the prefix cache: emptied, or kept
        groups: how many collectives the engines form; None: one each
        quorum: how many groups must have it; None: all that are not away
        probe: ``agree``: what engines compute changes, and is the same on all; or the trainer's own logprobs; None: none
        tolerance: of probe ``agree``, for each logprob
        same: the weights may be those that an engine already has
        pause_limit: the longest pause, whatever is said
        stall_limit: the longest silence, before a repair may begin
        code: who calls the engines' routes for weights: this package, or the trainer's own code
        own_label: the label that the trainer's code gives the engines; None: none

        Returns the block. Raises nothing here: entering it raises ``PolicyUpdateFailed`` where another trainer has the
        engines, and leaving it where too few of them have the weights.

            with client.policy().transfer(holder="math-3", groups=1) as engines:
                trainer_engine(client=engines.client()).send_weights()

        docs/weights.md has the rules.
        """
        request: BeginRequest = {
            "version": version,
            "holder": _holder(holder),
            "take_over": take_over,
            "checkpoint": checkpoint,
            "only": only,
            "base": base,
            "mode": mode,
            "cache": cache,
            "groups": groups,
            "quorum": quorum,
            "probe": probe,
            "tolerance": tolerance,
            "same": same,
            "pause_limit": pause_limit,
            "stall_limit": stall_limit,
            "code": code,
            "own_label": own_label,
        }
        return Transfer(self, request)

    async def sleep(self, *, holder: str, level: Literal[1, 2] = 1, until: str = "10m") -> PolicySleep:
        """Puts the engines to sleep, so that this process may have their memory. Rollouts wait, and lose no token.

        holder: names the training, as in ``publish``; each process is an incarnation of it
        level: 1: the weights wait in the memory of the host; 2: they are dropped, and loaded again from files, or sent
        until: they are woken then, whatever has become of this process

        Returns ``help(durable_rollouts.PolicySleep)``, once all of them sleep. Raises ``PolicyUpdateFailed`` where somebody
        else has put them to sleep or sends weights, and where one cannot sleep: then all are woken. An unavailable server
        is waited for.

            client.policy().sleep(holder="math-3", level=2)
        """
        request: SleepRequest = {"level": level, "until": until, "holder": _holder(holder)}
        answer: PolicySleep = await self._update("sleep", request)
        return answer

    async def wake(self, tags: Optional[List[Literal["weights", "kv_cache", "scheduling"]]] = None) -> PolicyState:
        """Ends a sleep: each engine has its weights again, and tells what it computes, before it serves.

        tags: ``["weights"]``: memory for weights alone, and they sleep on; None: all

        Returns ``help(durable_rollouts.PolicyState)``; again, or where none sleeps, it changes nothing. Raises
        ``PolicyUpdateFailed`` where no engine could be woken; each is tried again. An unavailable server is waited for.

            client.policy().wake()
        """
        request: WakeRequest = {"tags": tags}
        state: PolicyState = await self._update("wake", request)
        return state

    async def attach(self, version: int, checkpoint: str) -> PolicyState:
        """Names files of weights that a trainer has sent: engines that are late or lost are loaded from there.

        version: whose weights the files have
        checkpoint: a path that each engine reads itself

        Returns ``help(durable_rollouts.PolicyState)``. Raises ``PolicyUpdateFailed`` for another version than the
        record's. An unavailable server is waited for.
        """
        state: PolicyState = await self._update("attach", {"version": version, "checkpoint": checkpoint})
        return state

    async def engines(
        self,
        owner: str,
        urls: Sequence[Union[str, JoinRequest]],
        *,
        replace: bool = True,
        force: bool = False,
    ) -> PolicyState:
        """Says which engines a job has: new ones join, and its earlier ones that are not among these leave.

        owner: whose engines these are, such as the name of a training job
        urls: base URLs, or dictionaries as ``join`` takes its arguments
        replace: the owner's other engines leave
        force: an empty list: all of its engines leave

        Returns ``help(durable_rollouts.PolicyState)``, as soon as the record has them; each is examined, and gets the
        weights, before it serves. Raises ``PolicyUpdateFailed`` for an URL that temporal.yaml does not allow, or that
        another owner has.

            client.policy().engines("grpo", ["http://10.1.0.4:8000/v1", "http://10.1.0.5:8000/v1"])

        docs/engines.md has the rules.
        """
        request = {"owner": owner, "urls": list(urls), "replace": replace, "force": force}
        state: PolicyState = await self._update("engines", request)
        return state

    async def join(
        self, url: str, *, control_url: Optional[str] = None, instance: Optional[str] = None
    ) -> PolicyState:
        """An engine joins: it is examined, gets the weights, and serves.

        url: its base URL, which ends in ``/v1``
        control_url: where its weights are changed; None: its base URL without ``/v1``
        instance: names its process; None: nobody does

        Returns ``help(durable_rollouts.PolicyState)``, as soon as the record has it. Raises ``PolicyUpdateFailed`` for
        an URL that temporal.yaml does not allow.
        """
        request: JoinRequest = {"url": url, "control_url": control_url, "instance": instance}
        state: PolicyState = await self._update("join", request)
        return state

    async def drain(self, url: str, *, drain_limit: str = "1m", force: bool = False) -> PolicyState:
        """An engine gets no new request, and leaves when its running ones have had their time.

        url: its base URL
        drain_limit: what still runs is cut then, and goes on elsewhere
        force: also if it is the last one

        Returns ``help(durable_rollouts.PolicyState)``. Raises ``PolicyUpdateFailed`` for the last engine.
        """
        request: DrainRequest = {"url": url, "drain_limit": drain_limit, "force": force}
        state: PolicyState = await self._update("drain", request)
        return state

    async def leave(self, url: str, *, force: bool = False) -> PolicyState:
        """An engine leaves at once: what it runs goes on elsewhere.

        url: its base URL
        force: also if it is the last one

        Returns ``help(durable_rollouts.PolicyState)``. Raises ``PolicyUpdateFailed`` for the last engine.
        """
        request: LeaveRequest = {"url": url, "force": force}
        state: PolicyState = await self._update("leave", request)
        return state

    async def status(self) -> PolicyStatus:
        """The record (version, target, replicas) and the last ten updates.

        If Temporal's database was lost, the record in the store stays in force, and the next update has it.

        Returns ``help(durable_rollouts.PolicyStatus)``. Raises ``NotFound`` before the first update, and after such a
        loss; ``TimeoutError`` if no worker answers.
        """
        try:
            status: PolicyStatus = await connection.query(self._temporal.get_workflow_handle(self._id), "status")
        except NotFound:
            raise NotFound(
                f"{self.service}: no policy workflow runs on this server: nothing has been published, or Temporal's "
                "database was lost (the record in the store stays in force)"
            ) from None
        return status

    def __repr__(self) -> str:
        return f"Policy({self.service!r})"


BRING = ("publish", "begin")


def _holder(name: str) -> Holder:
    return {"name": name, "incarnation": incarnation()}


async def _during(waits: Optional[Waits], work: Awaitable[T]) -> T:
    return await work if waits is None else await waits.during(work)


def _wait(left_s: float) -> str:
    """Duration of a long poll whose caller has that much time left. A poll that nobody waits for would still count as
    one of the few that a workflow answers at once.
    """
    return LONGEST_WAIT if left_s >= LONGEST_WAIT_S else f"{max(1, math.ceil(left_s * 1000))}ms"


def _groups_in(answer: Mapping[str, Any], seen: Set[int]) -> List[Group]:
    """The new ones of an answer; they count as seen afterwards."""
    if answer["file"] is None:
        return []
    file = answer.get("sequences")
    rows = (row for row in read_rows(answer["file"]) if row["row"] not in seen)
    groups = groups_of(rows, file and SequencesFile(file, answer["completed"]))
    seen.update(row["row"] for group in groups for row in [*group.rows, *group.failures])
    return groups
