# Made by tools/python-sources from durable_rollouts.aio: changes of this file are lost.
"""The synchronous form of ``durable_rollouts.aio``: the same objects, on an event loop in a separate thread."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Literal, Mapping, Optional, Sequence, Type, Union
from typing_extensions import Unpack
from . import aio
from .aio.transfer import CALL_S, WeightSyncClient
from .answers import BatchProgress, BatchResult, Failures, HeldEngine, Limits, PolicySleep, PolicyState, PolicyStatus, PublishResult, StreamProgress
from .arrow import Sequences
from .collective import Init
from .listing import Listed
from .loop import each, run
from .report import Report
from .requests import Adapter, BatchRequest, Checkpoint, JoinRequest, Probe, RolloutSettings, StreamRequest
from .results import Group, Row, Step


class Client:
    """Batches, streams and policies of one Temporal namespace. ``Client.connect()`` makes one.

        client = Client.connect()
    """

    def __init__(self, inner: aio.Client) -> None:
        self._aio = inner

    @classmethod
    def connect(
        cls,
        address: Optional[str] = None,
        namespace: Optional[str] = None,
        task_queue: Optional[str] = None,
        *,
        profile: Optional[str] = None,
    ) -> "Client":
        """Connects to a Temporal server.

        address: host and port. None: from ``TEMPORAL_*`` variables and temporal.toml, as all Temporal tools read them,
          else that of the stack that runs in the current folder (``npm start``, ``local()``), else ``127.0.0.1:7233``
        namespace: None: from the same places, else ``default``
        task_queue: ``temporal.task_queue`` of the worker's temporal.yaml. None: that of the stack, else ``rollouts``
        profile: a profile of temporal.toml

        Returns the client. Raises ``ConnectionError``, also for a namespace that the server does not have.

            client = Client.connect("10.0.0.1:7233")

        docs/deployment.md lists the variables.
        """
        return cls(run(aio.Client.connect(address, namespace, task_queue, profile=profile)))

    def start_batch(
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
        return Batch(run(self._aio.start_batch(request, id, columns=columns, task_name=task_name, restart=restart)))

    def fork(
        self,
        rollout_id: str,
        at: str,
        id: str,
        *,
        n: int = 1,
        train_prefix: bool = False,
        **settings: Unpack[RolloutSettings],
    ) -> "Batch":
        """Starts a batch whose rollouts continue one of another batch: a turn or a token of it is sampled anew.

        rollout_id: that rollout, as rows have it
        at: ``turn:3``: turns 0 to 2 stay; of an agent, its calls. ``token:1250``: so many sampled tokens stay
        id: up to 120 letters, digits and ``._:-``
        n: rollouts, at most 300
        train_prefix: whether what stays trains, too; the same weights must serve
        settings: what changes of the request of its batch: ``help(durable_rollouts.RolloutSettings)``

        Returns the batch at once. Raises what ``start_batch`` raises.

            batch = client.fork("step-17/3-1", "turn:3", "step-17-fork", n=8, generation={"temperature": 1.2})

        docs/batches.md has the rules.
        """
        return Batch(run(self._aio.fork(rollout_id, at, id, n=n, train_prefix=train_prefix, **settings)))

    def rerun(self, like: str, id: str, **settings: Unpack[RolloutSettings]) -> "Batch":
        """Starts a batch with the request and the samples of another one.

        like: that batch, or a stream
        id: up to 120 letters, digits and ``._:-``
        settings: what changes of its request: ``help(durable_rollouts.RolloutSettings)``

        Returns the batch at once. Raises what ``start_batch`` raises.

            batch = client.rerun("step-17", "step-17-cold", generation={"temperature": 0.7})
        """
        return Batch(run(self._aio.rerun(like, id, **settings)))

    def rollout(
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
        return run(self._aio.rollout(sample, id, columns=columns, task_name=task_name, **settings))

    def group(
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
        return run(self._aio.group(sample, n, id, columns=columns, task_name=task_name, **settings))

    def batch(self, id: str) -> "Batch":
        """A batch that was started before.

        id: the one it was started with

        Returns the batch, without a call. Raises nothing here; calls of the batch raise ``NotFound`` for an id that is
        unknown or none of a batch.

            rows = client.batch("step-17").rows()
        """
        return Batch(self._aio.batch(id))

    def batches(self) -> List[Listed]:
        """All batches that the server has, the newest first.

        Older ones may be in the store alone: ``temporal-rollout list`` has these, too, and counts and rewards of all.

        Returns a ``Listed`` for each. Raises ``temporalio.service.RPCError`` if the server does not answer.

            running = [one.id for one in client.batches() if one.state == "running"]
        """
        return run(self._aio.batches())

    def streams(self) -> List[Listed]:
        """All streams that the server has, the newest first.

        Returns a ``Listed`` for each. Raises ``temporalio.service.RPCError`` if the server does not answer.
        """
        return run(self._aio.streams())

    def stream(
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
        return Stream(run(self._aio.stream(id, request, columns=columns, task_name=task_name)))

    def policy(self, service: str = "default") -> "Policy":
        """The policy of a generation service: its weights and their versions.

        service: a key of ``generation`` in temporal.yaml

        Returns the policy, without a call. Raises nothing here.

            client.policy().publish(4, "/shared/checkpoints/4")
        """
        return Policy(self._aio.policy(service))

    def __repr__(self) -> str:
        return repr(self._aio)


class Batch:
    """A batch on the server. It continues without this object, and without this process.

    id: as it was started

        result = client.start_batch(request, "step-17").wait(show=True)
    """

    def __init__(self, inner: aio.Batch) -> None:
        self._aio = inner

    @property
    def id(self) -> str:
        """As it was started."""
        return self._aio.id

    def wait(self, timeout: Optional[float] = None, *, show: bool = False) -> BatchResult:
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
        return run(self._aio.wait(timeout, show=show))

    def progress(self) -> BatchProgress:
        """Its counts now, or its last ones.

        Returns ``help(durable_rollouts.BatchProgress)``. Raises ``NotFound``, ``TimeoutError`` if no worker answers,
        and the fault of a batch that ended without its files (``Terminated``, ``InvalidBatchRequest``, …).
        """
        return run(self._aio.progress())

    def groups(self, *, show: bool = False) -> Iterator[Group]:
        """All groups, each once: as they end, and at last those that end with the batch.

        A batch that runs as slices reports groups only a few times per slice. Rows are read from the store, so this
        needs access to its disk.

        show: as in ``wait``

        Returns an iterator of ``Group``. Raises what ``wait`` raises, and ``OSError`` without that disk.

            for group in batch.groups():
                print(group.row, group.rewards)
        """
        return each(self._aio.groups(show=show))

    def rows(self) -> List[Row]:
        """Its valid rollouts, once it has ended.

        Returns the rows of ``rollouts.jsonl``, in input order: ``help(durable_rollouts.RowColumns)`` has the columns
        beside the sample's own. Raises what ``wait`` raises, and ``OSError`` without the store's disk.

            arrays = to_arrays(batch.rows())
        """
        return run(self._aio.rows())

    def failures(self) -> List[Row]:
        """The other rollouts, once it has ended.

        Returns the rows of ``failures.jsonl``, each with ``failure`` and what it has so far, also after ``TooFewValid``.
        Raises what ``wait`` raises else, and ``OSError`` without the store's disk.

            why = Counter(row["failure"]["type"] for row in batch.failures())
        """
        return run(self._aio.failures())

    def sequences(self) -> Sequences:
        """Its valid rollouts from ``rollouts.arrow``, once it has ended; it is much faster to read than rows.

        Returns their sequences, in input order. Raises what ``wait`` raises, ``NotFound`` where the store writes no Arrow
        (``formats`` in temporal.yaml), ``StoreFault`` for a part of the file, ``ImportError`` without pyarrow, and
        ``OSError`` without the store's disk.

            arrays = to_arrays(batch.sequences())
        """
        return run(self._aio.sequences())

    def stop(self) -> None:
        """Ends what runs and keeps the results so far; ``wait`` then has a result. Does nothing for an ended batch.

        Raises ``NotFound``. An unavailable server is waited for.
        """
        run(self._aio.stop())

    def cancel(self) -> None:
        """The same as ``stop``, but ``wait`` raises ``Cancelled``.

        Raises ``NotFound``. An unavailable server is waited for.
        """
        run(self._aio.cancel())

    def set_max_in_flight(self, max_in_flight: int) -> None:
        """Changes how many of its rollouts run at once. Rollouts of a batch and groups of a stream that run stay.

        max_in_flight: rollouts

        Raises ``UpdateRefused``, also by a batch that has ended, and what ``next_step`` raises by a stream that has
        ended.
        """
        run(self._aio.set_max_in_flight(max_in_flight))

    def set_limits(
        self,
        *,
        max_rollout_turns: Optional[int] = None,
        max_new_tokens: Optional[int] = None,
        max_seq_len: Optional[int] = None,
        rollout_timeout: Optional[str] = None,
    ) -> Limits:
        """Changes limits of rollouts that run and of later ones.

        max_rollout_turns: turns; None: it stays, and so for the others
        max_new_tokens: tokens of one turn
        max_seq_len: tokens of the whole log
        rollout_timeout: such as ``"30m"``

        Returns what is in force. Raises like ``set_max_in_flight``.

            batch.set_limits(rollout_timeout="2h")
        """
        return run(self._aio.set_limits(max_rollout_turns=max_rollout_turns, max_new_tokens=max_new_tokens, max_seq_len=max_seq_len, rollout_timeout=rollout_timeout))

    def show(self, file: Optional[Union[str, Path]] = None, *, config: Optional[Union[str, Path]] = None) -> Report:
        """Its rollouts so far as a page, which a notebook draws: what ``temporal-rollout report`` writes. ``wait(show=True)``
        shows progress instead.

        file: where; None: a file of its own in the system's folder for such
        config: a temporal.yaml that names the store; None: that of the stack of ``local()``, or of this folder

        Returns a ``Report``. Raises ``LocalError``, which says what to run, where the project's programs or its store are
        not on this machine.

            batch.show()
        """
        return run(self._aio.show(file, config=config))

    def __repr__(self) -> str:
        return repr(self._aio)


class Stream:
    """A batch without end, whose steps are facts: a step always has the same rows.

    id: as it was started

        step = stream.next_step(0, version=0)
    """

    def __init__(self, inner: aio.Stream) -> None:
        self._aio = inner

    @property
    def id(self) -> str:
        """As it was started."""
        return self._aio.id

    def next_step(
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
        return run(self._aio.next_step(step, version, timeout, on_wait=on_wait))

    def forget(self, through: int) -> None:
        """Deletes delivered steps. No trainer may go back to them.

        through: the last of them

        Raises ``UpdateRefused``, and what ``next_step`` raises by a stream that has ended.

            stream.forget(step - 2)
        """
        run(self._aio.forget(through))

    def failures(self) -> Dict[str, Failures]:
        """Why rollouts failed in groups that have ended since the last step.

        ``Step.failures`` has the rollouts of a step.

        Returns by the type of their failure: how many, the first message, and the rollout that has it
        (``temporal-rollout show`` takes its id). Raises like ``Batch.progress``.
        """
        return run(self._aio.failures())

    def progress(self) -> StreamProgress:
        """What it does now, or did last.

        Returns ``help(durable_rollouts.StreamProgress)``. Raises like ``Batch.progress``.

            print(stream.progress()["why"])
        """
        return run(self._aio.progress())

    def delivered(self) -> int:
        """How many steps the stream has delivered: the number of the next one. Waits while the stream reads its store.

        A trainer that goes back to a checkpoint gets the steps below this number again, and publishes nothing for them.

        Returns it. Raises like ``Batch.progress``.

            steps = stream.delivered()
        """
        return run(self._aio.delivered())

    def stop(self) -> None:
        """Ends what runs, and returns when it has ended; ``client.stream`` then continues it. Delivered steps stay.

        Raises ``NotFound``. An unavailable server is waited for.
        """
        run(self._aio.stop())

    def set_max_in_flight(self, max_in_flight: int) -> None:
        """Changes how many of its rollouts run at once. Rollouts of a batch and groups of a stream that run stay.

        max_in_flight: rollouts

        Raises ``UpdateRefused``, also by a batch that has ended, and what ``next_step`` raises by a stream that has
        ended.
        """
        run(self._aio.set_max_in_flight(max_in_flight))

    def set_limits(
        self,
        *,
        max_rollout_turns: Optional[int] = None,
        max_new_tokens: Optional[int] = None,
        max_seq_len: Optional[int] = None,
        rollout_timeout: Optional[str] = None,
    ) -> Limits:
        """Changes limits of rollouts that run and of later ones.

        max_rollout_turns: turns; None: it stays, and so for the others
        max_new_tokens: tokens of one turn
        max_seq_len: tokens of the whole log
        rollout_timeout: such as ``"30m"``

        Returns what is in force. Raises like ``set_max_in_flight``.

            batch.set_limits(rollout_timeout="2h")
        """
        return run(self._aio.set_limits(max_rollout_turns=max_rollout_turns, max_new_tokens=max_new_tokens, max_seq_len=max_seq_len, rollout_timeout=rollout_timeout))

    def show(self, file: Optional[Union[str, Path]] = None, *, config: Optional[Union[str, Path]] = None) -> Report:
        """Its rollouts so far as a page, which a notebook draws: what ``temporal-rollout report`` writes. ``wait(show=True)``
        shows progress instead.

        file: where; None: a file of its own in the system's folder for such
        config: a temporal.yaml that names the store; None: that of the stack of ``local()``, or of this folder

        Returns a ``Report``. Raises ``LocalError``, which says what to run, where the project's programs or its store are
        not on this machine.

            batch.show()
        """
        return run(self._aio.show(file, config=config))

    def __repr__(self) -> str:
        return repr(self._aio)


class Policy:
    """What a generation service serves: weights under a version that only grows.

    service: a key of ``generation`` in temporal.yaml

        client.policy().publish(4, "/shared/checkpoints/4")
    """

    def __init__(self, inner: aio.Policy) -> None:
        self._aio = inner

    @property
    def service(self) -> str:
        """A key of ``generation`` in temporal.yaml."""
        return self._aio.service

    def publish(
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
        return run(self._aio.publish(version, weights, mode=mode, cache=cache, order=order, max_unavailable=max_unavailable, quorum=quorum, probe=probe, pause_limit=pause_limit, drain_limit=drain_limit, keep_adapters=keep_adapters, holder=holder, take_over=take_over))

    def release(self, holder: str) -> PolicyState:
        """Lets others bring weights: at the end of a training, or for a trainer that is gone.

        holder: who holds the service

        Returns ``help(durable_rollouts.PolicyState)``; where nobody holds it, it changes nothing. Raises
        ``PolicyUpdateFailed`` where another name holds it, or a later process of this one. An unavailable server is waited
        for.

            client.policy().release("math-3")
        """
        return run(self._aio.release(holder))

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

        docs/transfers.md has the rules.
        """
        return Transfer(self._aio.transfer(version, holder=holder, take_over=take_over, checkpoint=checkpoint, only=only, base=base, mode=mode, cache=cache, groups=groups, quorum=quorum, probe=probe, tolerance=tolerance, same=same, pause_limit=pause_limit, stall_limit=stall_limit, code=code, own_label=own_label))

    def sleep(self, *, holder: str, level: Literal[1, 2] = 1, until: str = "10m") -> PolicySleep:
        """Puts the engines to sleep, so that this process may have their memory. Rollouts wait, and lose no token.

        holder: names the training, as in ``publish``; each process is an incarnation of it
        level: 1: the weights wait in the memory of the host; 2: they are dropped, and loaded again from files, or sent
        until: they are woken then, whatever has become of this process

        Returns ``help(durable_rollouts.PolicySleep)``, once all of them sleep. Raises ``PolicyUpdateFailed`` where somebody
        else has put them to sleep or sends weights, and where one cannot sleep: then all are woken. An unavailable server
        is waited for.

            client.policy().sleep(holder="math-3", level=2)
        """
        return run(self._aio.sleep(holder=holder, level=level, until=until))

    def wake(self, tags: Optional[List[Literal["weights", "kv_cache", "scheduling"]]] = None) -> PolicyState:
        """Ends a sleep: each engine has its weights again, and tells what it computes, before it serves.

        tags: ``["weights"]``: memory for weights alone, and they sleep on; None: all

        Returns ``help(durable_rollouts.PolicyState)``; again, or where none sleeps, it changes nothing. Raises
        ``PolicyUpdateFailed`` where no engine could be woken; each is tried again. An unavailable server is waited for.

            client.policy().wake()
        """
        return run(self._aio.wake(tags))

    def attach(self, version: int, checkpoint: str) -> PolicyState:
        """Names files of weights that a trainer has sent: engines that are late or lost are loaded from there.

        version: whose weights the files have
        checkpoint: a path that each engine reads itself

        Returns ``help(durable_rollouts.PolicyState)``. Raises ``PolicyUpdateFailed`` for another version than the
        record's. An unavailable server is waited for.
        """
        return run(self._aio.attach(version, checkpoint))

    def engines(
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
        return run(self._aio.engines(owner, urls, replace=replace, force=force))

    def join(
        self, url: str, *, control_url: Optional[str] = None, instance: Optional[str] = None
    ) -> PolicyState:
        """An engine joins: it is examined, gets the weights, and serves.

        url: its base URL, which ends in ``/v1``
        control_url: where its weights are changed; None: its base URL without ``/v1``
        instance: names its process; None: nobody does

        Returns ``help(durable_rollouts.PolicyState)``, as soon as the record has it. Raises ``PolicyUpdateFailed`` for
        an URL that temporal.yaml does not allow.
        """
        return run(self._aio.join(url, control_url=control_url, instance=instance))

    def drain(self, url: str, *, drain_limit: str = "1m", force: bool = False) -> PolicyState:
        """An engine gets no new request, and leaves when its running ones have had their time.

        url: its base URL
        drain_limit: what still runs is cut then, and goes on elsewhere
        force: also if it is the last one

        Returns ``help(durable_rollouts.PolicyState)``. Raises ``PolicyUpdateFailed`` for the last engine.
        """
        return run(self._aio.drain(url, drain_limit=drain_limit, force=force))

    def leave(self, url: str, *, force: bool = False) -> PolicyState:
        """An engine leaves at once: what it runs goes on elsewhere.

        url: its base URL
        force: also if it is the last one

        Returns ``help(durable_rollouts.PolicyState)``. Raises ``PolicyUpdateFailed`` for the last engine.
        """
        return run(self._aio.leave(url, force=force))

    def status(self) -> PolicyStatus:
        """The record (version, target, replicas) and the last ten updates.

        If Temporal's database was lost, the record in the store stays in force, and the next update has it.

        Returns ``help(durable_rollouts.PolicyStatus)``. Raises ``NotFound`` before the first update, and after such a
        loss; ``TimeoutError`` if no worker answers.
        """
        return run(self._aio.status())

    def next_version(self) -> int:
        """The version for the next ``publish``: one above all that were published or tried, and 1 where none was.

        Returns it. Raises ``TimeoutError`` if no worker answers.

            policy.publish(policy.next_version(), "/shared/checkpoints/4")
        """
        return run(self._aio.next_version())

    def __repr__(self) -> str:
        return repr(self._aio)


class Transfer:
    """A block in which this process holds the engines: ``with policy.transfer(holder=…) as engines``.

    An exception in it gives the transfer up as if every engine had got something.
    """

    def __init__(self, inner: aio.Transfer) -> None:
        self._aio = inner

    def __enter__(self) -> Engines:
        return Engines(run(self._aio.__aenter__()))

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        run(self._aio.__aexit__(kind, error, trace))

    def __repr__(self) -> str:
        return repr(self._aio)


class Engines:
    """The engines that a transfer holds: paused, and nobody else's, until its block ends.

    ticket: what names this transfer
    version: that the weights get
    engines: each with ``control_url``, ``group``, ``rank_offset`` and ``world_size``
    fleet: names engines, places and groups; a collective that was made for another fleet is not for this one
    init: whether the collectives have to be made anew
    result: what the transfer came to, once its block has ended

        with client.policy().transfer(holder="math-3") as engines:
            engines.send(model.named_parameters())
    """

    def __init__(self, inner: aio.Engines) -> None:
        self._aio = inner

    @property
    def ticket(self) -> str:
        """What names this transfer."""
        return self._aio.ticket

    @property
    def version(self) -> int:
        """That the weights get."""
        return self._aio.version

    @property
    def engines(self) -> List[HeldEngine]:
        """Each with ``control_url``, ``group``, ``rank_offset`` and ``world_size``."""
        return self._aio.engines

    @property
    def fleet(self) -> str:
        """Names engines, places and groups; a collective that was made for another fleet is not for this one."""
        return self._aio.fleet

    @property
    def init(self) -> bool:
        """Whether the collectives have to be made anew."""
        return self._aio.init

    @property
    def result(self) -> Optional[PublishResult]:
        """What the transfer came to, once its block has ended."""
        return self._aio.result

    @property
    def groups(self) -> List[int]:
        """Each is a collective of its own."""
        return self._aio.groups

    def sent(self, groups: Sequence[int]) -> None:
        """Says which groups have all weights, where not all have.

        groups: the others are half loaded, and serve nothing until they are loaded whole

        Raises ``ValueError`` for a group that the transfer does not have.
        """
        self._aio.sent(groups)

    def alive(self, done: float) -> None:
        """Says that weights arrive: silence for ``stall_limit`` may end a transfer. ``client()`` does it by itself.

        done: tensors or bytes so far

        Raises nothing that a repetition would solve: an unavailable server is waited for.
        """
        run(self._aio.alive(done))

    def check(self) -> None:
        """Whether the engines are still this transfer's. ``client()`` asks before each call that moves weights.

        Raises ``PolicyUpdateFailed`` where they are not: another process has them, or the transfer took too long.
        """
        run(self._aio.check())

    def client(
        self, *, group: Optional[int] = None, timeout: float = CALL_S, headers: Optional[Mapping[str, str]] = None
    ) -> "WeightSyncClient":
        """What vLLM's own trainer code takes as its ``client``: its calls go to each engine at once.

        group: only to engines of this group; None: to all
        timeout: of each call, in seconds
        headers: for the engines' control routes, such as a key

        Returns a ``WeightSyncClient``, for threads other than the event loop's. Raises nothing here.
        """
        return self._aio.client(group=group, timeout=timeout, headers=headers)

    def send(
        self,
        weights: Any,
        init: Optional[Init] = None,
        *,
        group: Optional[int] = None,
        timeout: float = CALL_S,
        headers: Optional[Mapping[str, str]] = None,
    ) -> None:
        """Sends all weights by vLLM's own trainer code, one group after the other. Its collectives are kept for next time.

        weights: named tensors, a module, or one of vLLM's ``WeightSource``
        init: from a collective's number of ranks to one of vLLM's ``TrainerInitInfo``; None: NCCL on a free port
        group: only to engines of this group; None: to all
        timeout: of each call and each wait for the collective, in seconds
        headers: for the engines' control routes, such as a key

        Raises ``PolicyUpdateFailed`` for what failed at an engine, at once, though the collective still waits for it;
        then this process has to be restarted before its next transfer. ``ImportError`` without vLLM.

            engines.send(model.named_parameters())
        """
        self._aio._send(weights, init, group=group, timeout=timeout, headers=headers)

    def __repr__(self) -> str:
        return repr(self._aio)
