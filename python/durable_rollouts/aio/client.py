"""The client: it starts batches and streams, and finds them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Mapping, Optional

from temporalio.client import Client as TemporalClient
from typing_extensions import Unpack

from .. import connection, presence, starting
from ..listing import Listed, listed
from ..one_deployment import of_one_deployment
from ..requests import BATCH_DEFAULTS, STREAM_DEFAULTS, BatchRequest, RolloutSettings, StreamRequest
from ..results import Group, Row
from ..shapes import Shape
from ..single import Single
from .batch import Batch
from .policy import Policy
from .stream import Stream


class Client:
    """Batches, streams and policies of one Temporal namespace. ``await Client.connect()`` makes one.

        client = await Client.connect()
    """

    def __init__(self, temporal: TemporalClient, task_queue: str = "rollouts", *, home: Optional[Path] = None) -> None:
        self._temporal = temporal
        self._home = home
        self._task_queue = task_queue
        self._single = Single(temporal, task_queue)

    @classmethod
    async def connect(
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
        client, stack = await connection.connect(address, namespace, profile)
        await presence.check_namespace(client)
        queue = task_queue or (stack.task_queue if stack else "rollouts")
        return cls(of_one_deployment(client, queue), queue)

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
        return Batch(self._temporal, id, is_own=True, home=self._home)

    async def fork(
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
        fork = {"rollout_id": rollout_id, "at": at, **({"train_prefix": True} if train_prefix else {})}
        return await self._start({"fork": fork, "num_repeats": n, **settings}, id)

    async def rerun(self, like: str, id: str, **settings: Unpack[RolloutSettings]) -> "Batch":
        """Starts a batch with the request and the samples of another one.

        like: that batch, or a stream
        id: up to 120 letters, digits and ``._:-``
        settings: what changes of its request: ``help(durable_rollouts.RolloutSettings)``

        Returns the batch at once. Raises what ``start_batch`` raises.

            batch = client.rerun("step-17", "step-17-cold", generation={"temperature": 0.7})
        """
        return await self._start({"like": like, **settings}, id)

    async def _start(self, changes: Mapping[str, Any], id: str) -> "Batch":
        # Fields that they do not name are those of the other batch, not defaults.
        await starting.start_once(self._temporal, "rolloutBatch", changes, id=id, task_queue=self._task_queue, defaults={})
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
        return Batch(self._temporal, id, home=self._home)

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
        return Stream(self._temporal, id, home=self._home)

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
