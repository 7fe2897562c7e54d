"""Results, progress, groups and steps."""

import errno
import json
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Callable, ClassVar, Container, Dict, Iterable, Iterator, List, Literal, Mapping, Optional, TypeVar, cast

from typing_extensions import NotRequired, TypedDict

from .columns import failure_of
from .arrow import Sequences, SequencesFile, read_sequences
from .faults import NotFound, StepOutOfOrder, StoreFault
from .objects import content_of, folder_of, is_there, lines_of, path_of
from .requests import Holder

T = TypeVar("T")
Row = Dict[str, Any]
"""One rollout: a line of ``rollouts.jsonl``, with the sample's own columns and those of ``RowColumns``."""


class Counts(TypedDict):
    """How many rollouts ended how; the last five add up to the first.

    requested: all, including replacements and rollouts that never started
    completed: valid rollouts: the rows of rollouts.jsonl
    failed: rows of failures.jsonl that failed
    timed_out: those whose ``rollout_timeout`` passed
    stopped: those that were stopped
    cancelled: those that were cancelled or never started
    """

    requested: int
    completed: int
    failed: int
    timed_out: int
    stopped: int
    cancelled: int


class Files(TypedDict):
    """Absolute paths on the worker's host; on S3 addresses, whose part behind # names a member of ``objects``.

    rollouts: path of rollouts.jsonl, the valid rollouts
    failures: path of failures.jsonl, the others
    groups: path of groups.jsonl, a line for each group
    metrics: path of metrics.json, which has this result
    sequences: path of rollouts.arrow, the sequences of the valid rollouts, where temporal.yaml asks for it
    """

    rollouts: str
    failures: str
    groups: str
    metrics: str
    sequences: NotRequired[str]


class ResultObject(TypedDict):
    """A part of the results on S3.

    key: below the folder of metrics.json
    rows: how many it has
    bytes: its size
    sha256: of its content
    """

    key: str
    rows: int
    bytes: int
    sha256: str


class ResultObjects(TypedDict):
    """What results on S3 consist of.

    epoch: changes when the batch is started again
    rollouts: of the valid rollouts, in order
    failures: of the others, in order
    groups: of the table of groups, in order
    sequences: of the sequences of the valid rollouts, in order
    """

    epoch: str
    rollouts: List[ResultObject]
    failures: List[ResultObject]
    groups: List[ResultObject]
    sequences: NotRequired[List[ResultObject]]


class BatchResult(TypedDict):
    """The result of a batch, and the content of its ``metrics.json``.

    schema_version: the version of this format
    batch_id: the id of the batch or stream
    counts: how many rollouts ended how: ``requested``, ``completed``, ``failed``, ``timed_out``, ``stopped``,
      ``cancelled``
    metrics: numbers by name (docs/metrics.md)
    files: absolute paths on the worker's host: ``rollouts``, ``failures``, ``groups``, ``metrics``
    objects: in metrics.json on S3 alone: what its results consist of
    metadata: the request's
    notes: what is true of all its valid rollouts and rarely meant, in words: truncated, reward 0, one text
    """

    schema_version: Literal[1]
    batch_id: str
    counts: Counts
    metrics: Dict[str, float]
    files: Files
    objects: NotRequired[ResultObjects]
    metadata: Dict[str, Any]
    notes: NotRequired[List[str]]


class StepResult(BatchResult):
    """The answer of a stream for a delivered step, and the content of the step's ``metrics.json``.

    schema_version, batch_id, counts, metrics, files, objects, metadata: as in ``BatchResult``, of this step
    step: its number, from 0
    version: the version of the weights that train on it; None: none was ever given or served
    final: the stream's epochs are used up; this step may be short
    notes: what the trainer should know of it, in words: groups that faster versions overtook, what is true of all its
      rollouts
    """

    step: int
    version: Optional[int]
    final: bool


class Waiting(TypedDict):
    """What is waited for.

    service: a URL, or who has to act
    message: the last answer, or why there is none
    holds: time limits do not run meanwhile
    call: who is asked, by name
    tries: how often
    since: since when, as text
    rollouts: of a batch: how many wait for it
    """

    service: str
    message: str
    holds: NotRequired[bool]
    call: NotRequired[str]
    tries: NotRequired[int]
    since: NotRequired[str]
    rollouts: NotRequired[int]


class Failures(TypedDict):
    """Rollouts that failed for one reason.

    rollouts: how many
    message: of the first one
    example: that rollout, for ``temporal-rollout show``
    """

    rollouts: int
    message: str
    example: NotRequired[str]


class BatchProgress(TypedDict):
    """The state of a batch's rollouts.

    phase: ``planning``, ``running``, ``closing`` or ``done``
    requested, done, running, valid, failed: rollouts
    turns, tokens: of rollouts that have ended, and of those that run as far as the batch has looked
    reward_sum: of valid rollouts
    waiting: the service that rollouts wait for, with its message; None: none
    elapsed_s: seconds since its start, up to its last event
    turns_per_s, tokens_per_s: over that time
    priority, share: of the request
    continued: it was started again
    replacements: rollouts that replace failed ones (``refill``)
    failures: by type: how many, the first message, and a rollout that has it
    """

    phase: Literal["planning", "running", "closing", "done"]
    requested: int
    done: int
    running: int
    valid: int
    failed: int
    turns: int
    tokens: int
    reward_sum: float
    waiting: Optional[Waiting]
    elapsed_s: float
    turns_per_s: float
    tokens_per_s: float
    priority: NotRequired[int]
    share: NotRequired[float]
    continued: NotRequired[bool]
    replacements: NotRequired[int]
    failures: NotRequired[Dict[str, Failures]]


class GroupsOut(TypedDict):
    """Groups of a stream by how they left it.

    filtered: they teach nothing
    dropped: too old
    failed: no rows
    untrained: no token of them trains; absent: none
    delivered: in a step
    """

    filtered: int
    dropped: int
    failed: int
    untrained: NotRequired[int]
    delivered: int


class StreamProgress(TypedDict):
    """What a stream does.

    phase: ``planning``, ``running``, ``stopping`` or ``done`` (it was stopped)
    step: the next one; ``next_step`` still returns those from ``kept_from`` on
    kept_from: earlier steps are forgotten
    version: of the previous step; None: unknown
    served: the lowest version that is served; None: unknown
    in_flight, banked, admitted: groups that run, that wait for a step, and all so far
    out: those that are neither, by why
    failures: of rollouts in groups that have ended since the last step, by type
    lag: how many versions the oldest open group would be behind if it were delivered now; None: unknown
    max_in_flight: rollouts
    priority, share: of the request
    why: what the next step waits for, in words
    waiting: what all of it waits for; None: nothing outside
    steps_dir: folder of the steps on the worker's host
    """

    phase: Literal["planning", "running", "stopping", "done"]
    step: int
    kept_from: int
    version: Optional[int]
    served: Optional[int]
    in_flight: int
    banked: int
    admitted: int
    out: GroupsOut
    failures: NotRequired[Dict[str, Failures]]
    lag: Optional[int]
    max_in_flight: int
    priority: NotRequired[int]
    share: NotRequired[float]
    why: str
    waiting: Optional[Waiting]
    steps_dir: NotRequired[str]


ReplicaState = Literal["current", "updating", "asleep", "unknown", "away"]
ReplicaNeeds = Literal["load", "restart"]


class Replica(TypedDict):
    """The result of an update for one replica.

    state: ``current``: it serves its version; ``updating``; ``asleep``: its memory is somebody else's for a while;
      ``unknown``: it serves nothing until it has weights again; ``away``: it does not answer
    needs: ``load``: it is half loaded, and stays paused until it gets whole weights; ``restart``: only a new process
      helps; absent: nothing
    fault: why it lacks the weights
    """

    state: ReplicaState
    needs: NotRequired[ReplicaNeeds]
    fault: NotRequired[str]


class ReplicaRecord(TypedDict):
    """What the record has of a replica.

    state: as in ``Replica``
    version: of its weights; None: unknown
    epoch: changes whenever its weights may
    paused_until: milliseconds since 1970; None: it is not paused
    fault: its last one; None: none
    needs: as in ``Replica``
    slept: the level at which it sleeps, or has yet to be woken; absent: it is awake
    """

    state: ReplicaState
    version: Optional[int]
    epoch: int
    paused_until: Optional[float]
    fault: Optional[str]
    needs: NotRequired[ReplicaNeeds]
    slept: NotRequired[Literal[1, 2]]


class TicketRecord(TypedDict):
    """An open transfer of weights.

    nonce: of its ticket
    version: that the weights get
    holder: who sends them
    paused_until: milliseconds since 1970, at most
    stall_ms: how long its holder may be silent
    engines: URLs
    """

    nonce: str
    version: int
    holder: Holder
    paused_until: float
    stall_ms: int
    engines: List[str]


class SleepRecord(TypedDict):
    """Engines sleep.

    nonce: of the update
    holder: who needs their memory
    level: 1: the weights wait in the memory of the host; 2: they are dropped
    until: milliseconds since 1970: they are woken then
    """

    nonce: str
    holder: Holder
    level: Literal[1, 2]
    until: float


class HeldEngine(TypedDict):
    """An engine that a transfer holds.

    url: its base URL
    control_url: where its weights are changed
    instance: of its process; None: nobody says it
    world_size: how many ranks it has
    rank_offset: its first rank in the collective of its group; the trainer is rank 0
    group: engines of one group fail together
    backend: of its transfers; None: the engine does not say it
    """

    url: str
    control_url: str
    instance: Optional[str]
    world_size: int
    rank_offset: int
    group: int
    backend: Optional[str]


class KnownWeights(TypedDict):
    """Weights of a version.

    kind: ``checkpoint``: files; ``transfer``: only a trainer has them
    path: of files
    """

    kind: Literal["checkpoint", "transfer"]
    path: NotRequired[str]


class HoldRecord(TypedDict):
    """Who brings weights to a service.

    name: of the training
    incarnation: of its process
    since: when this name began, in milliseconds since 1970
    at: likewise, its last update
    took_from: whose hold it has ended by ``take_over``; absent: nobody's
    """

    name: str
    incarnation: str
    since: float
    at: float
    took_from: NotRequired[str]


class CourseRecord(TypedDict):
    """Versions that one training has brought, up to the next one's first.

    name: of the training; None: it did not say
    first: its first version
    found: what was served when it began; None: nothing that was published
    """

    name: Optional[str]
    first: int
    found: Optional[int]


class PolicyRecord(TypedDict):
    """The record of a service's weights.

    epoch: counts its changes
    version: that enough replicas have; None: none yet
    target: the one that is being brought, or the last one; None: none yet
    weights: of ``version`` and ``target``, by version
    replicas: by URL
    ticket: of the transfer that is open; absent: none is
    sleep: who has put the engines to sleep; absent: nobody
    hold: who brings weights; absent: nobody has said who it is, or it was released
    courses: who has brought which versions, oldest first; absent: nobody knows
    """

    epoch: int
    version: Optional[int]
    target: Optional[int]
    weights: Dict[str, KnownWeights]
    replicas: Dict[str, ReplicaRecord]
    ticket: NotRequired[TicketRecord]
    sleep: NotRequired[SleepRecord]
    hold: NotRequired[HoldRecord]
    courses: NotRequired[List[CourseRecord]]


class PolicyUpdate(TypedDict):
    """One of the last updates.

    version: that was brought
    at: milliseconds since 1970
    paused_s, total_s: seconds
    fault: None: it succeeded
    """

    version: Optional[int]
    at: int
    paused_s: float
    total_s: float
    fault: Optional[str]


class TransferNews(TypedDict):
    """What the holder of an open transfer has said.

    done: tensors or bytes; None: nothing
    silent_s: since it last said more, in seconds
    is_stale: whether that is longer than ``stall_limit``
    """

    done: Optional[float]
    silent_s: float
    is_stale: bool


class PolicyStatus(TypedDict):
    """The state of a service's weights.

    service: its name
    record: versions and replicas; None: nothing was ever published
    phases: of replicas that are slow: ``pause``, ``load``, …
    updates: the last ten, oldest first
    transfer: what the holder of an open transfer has said; absent: none is open
    heard_at: when the holder was heard last, in milliseconds since 1970; absent: nobody holds the service
    """

    service: str
    record: Optional[PolicyRecord]
    phases: Dict[str, str]
    updates: List[PolicyUpdate]
    transfer: NotRequired[TransferNews]
    heard_at: NotRequired[float]


class PolicyState(TypedDict):
    """What a service serves after a change.

    version: that enough replicas have; None: none
    replicas: by URL, as in ``PublishResult``
    """

    version: Optional[int]
    replicas: Dict[str, Replica]


class PolicySleep(PolicyState):
    """Engines that sleep.

    version: that enough replicas have; None: none
    replicas: by URL, as in ``PublishResult``
    level: 1: the weights wait in the memory of the host; 2: they are dropped
    until: milliseconds since 1970: they are woken then
    """

    level: Literal[1, 2]
    until: float


class PublishResult(TypedDict):
    """The result of an update of weights.

    version: that was published
    replicas: by URL: its ``state``, and its ``fault``
    paused_s: the longest pause of a replica, in seconds
    total_s: the whole update, in seconds
    notes: guarantees that are weaker than expected, in words
    may_delete: paths of earlier adapters that no engine needs any more
    """

    version: int
    replicas: Dict[str, Replica]
    paused_s: float
    total_s: float
    notes: NotRequired[List[str]]
    may_delete: NotRequired[List[str]]


@dataclass(frozen=True)
class Group:
    """The rollouts of one sample, which share a baseline.

    row: the sample's place in the batch, from 0
    rows: valid rollouts, by repeat
    failures: the others, each with ``failure``

        advantages = [reward - mean(group.rewards) for reward in group.rewards]
    """

    row: int
    rows: List[Row] = field(repr=False)
    failures: List[Row] = field(repr=False)
    _sequences: ClassVar[Optional[SequencesFile]] = None
    """Those of its file, where there is one: an attribute of the group, and no part of what it is compared by."""

    def sequences(self) -> Sequences:
        """``rows`` from the Arrow file beside them, which ``to_arrays`` takes many times as fast.

        Returns their sequences, in the order of ``rows``. Raises ``NotFound`` where the store writes no Arrow (``formats``
        in temporal.yaml), ``StoreFault`` for a part of the file, ``ImportError`` without pyarrow, and ``OSError`` without
        the store's disk.

            arrays = to_arrays(group.sequences())
        """
        if self._sequences is None:
            raise NotFound(f"the rows of group {self.row} have no Arrow file beside them: {HOW_ARROW}")
        return self._sequences.read()._of({row["rollout_id"] for row in self.rows})

    @property
    def rewards(self) -> List[float]:
        """``total_reward`` of each valid rollout, in the order of ``rows``."""
        return [row["total_reward"] for row in self.rows]

    def __repr__(self) -> str:
        rewards = self.rewards
        mean = f", mean reward {sum(rewards) / len(rewards):.3f}" if rewards else ""
        return f"Group(row={self.row}: {len(self.rows)} valid, {len(self.failures)} failed{mean})"


class Step:
    """What a trainer consumes at once; it always has the same rows.

    step: its number, from 0
    result: the stream's answer: counts, files, and metrics, among them ``lag/*`` and ``stream/*``

        arrays = to_arrays(stream.next_step(0).rows())
    """

    def __init__(self, step: int, result: StepResult) -> None:
        self.step: int = step
        self.result: StepResult = result

    @property
    def metrics(self) -> Dict[str, float]:
        """Metrics of this step by name (docs/metrics.md)."""
        return self.result["metrics"]

    @property
    def final(self) -> bool:
        """Whether the stream's epochs are used up; this step may be short."""
        return self.result.get("final", False)

    @property
    def notes(self) -> List[str]:
        """What to know of it, in words: groups that faster versions overtook. The log has it, too."""
        return list(self.result.get("notes", []))

    def rows(self) -> List[Row]:
        """Its valid rollouts, read from the store.

        Returns them in the order of their groups. Raises ``StepOutOfOrder`` if the stream has forgotten the step, and
        ``OSError`` without the store's disk.
        """
        return self._read("rollouts")

    def failures(self) -> List[Row]:
        """The failed rollouts of its groups, each with ``failure``; other members of the group replaced them.

        Returns their rows. Raises like ``rows``.
        """
        return self._read("failures")

    def sequences(self) -> Sequences:
        """Its valid rollouts from ``rollouts.arrow``, which is much faster to read than rows.

        Returns their sequences in the order of their groups. Raises like ``rows``, ``NotFound`` where the store writes no
        Arrow (``formats`` in temporal.yaml), and ``ImportError`` without pyarrow.

            arrays = to_arrays(step.sequences())
        """
        return self._or_forgotten(lambda: sequences_of(self.result))

    def _read(self, kind: Literal["rollouts", "failures"]) -> List[Row]:
        return self._or_forgotten(lambda: read_counted(self.result, kind))

    def _or_forgotten(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except OSError as error:
            if error.errno not in GONE or not _is_forgotten(folder_of(self.result["files"]["rollouts"])):
                raise
            raise StepOutOfOrder(
                f"step {self.step} was forgotten after it was delivered: keep_steps of the request says how many steps are "
                "kept, and forget deletes more; read a step before you ask for the next one, or raise keep_steps by one for "
                "each step that you ask for ahead"
            ) from None

    def __repr__(self) -> str:
        completed = self.result.get("counts", {}).get("completed", "?")
        return f"Step({self.step}: {completed} rollouts{', final' if self.final else ''})"


GONE = (errno.ENOENT, errno.ESTALE)
"""The file was deleted, perhaps while it was being read over NFS."""


def _is_forgotten(folder: str) -> bool:
    """Of a step's folder: it stays, where there are folders, and ``metrics.json`` is deleted before all else."""
    if folder.startswith("s3://"):
        return not is_there(f"{folder}/metrics.json")
    return path_of(folder).is_dir() and not (path_of(folder) / "metrics.json").exists()


def read_rows(file: str) -> Iterator[Row]:
    """The lines of a JSONL file of the store, one by one."""
    for line in lines_of(file):
        row: Row = json.loads(line)
        yield row


def read_counted(result: BatchResult, kind: Literal["rollouts", "failures"]) -> List[Row]:
    """All rows of the file. Raises ``StoreFault`` for a part of it."""
    return list(counted(result, kind))


def counted(result: BatchResult, kind: Literal["rollouts", "failures"]) -> Iterator[Row]:
    """The same, one by one; only the end shows that there are fewer."""
    file, counts = result["files"][kind], cast(Dict[str, int], result.get("counts", {}))
    found = 0
    try:
        for row in read_rows(file):
            found += 1
            yield row
    except ValueError as error:
        raise StoreFault(f"{file}: expected lines of JSON, got something else: {error}") from None
    if all(name in counts for name in ENDS[kind]):
        expected = sum(counts[name] for name in ENDS[kind])
        if found != expected:
            raise StoreFault(f"{file}: expected {expected} rows (counts of its metrics.json), got {found}: it was cut, or copied in part")


ENDS: Dict[str, List[str]] = {"rollouts": ["completed"], "failures": ["failed", "timed_out", "stopped", "cancelled"]}
"""The counts of each file's rows."""


HOW_ARROW = (
    "formats: [jsonl, arrow] below store.outputs of temporal.yaml writes one for batches that end from then on; rows() reads any"
)


def sequences_of(result: BatchResult) -> Sequences:
    """What ``rollouts.arrow`` has. Raises ``StoreFault`` for a part of it, and ``NotFound`` where none is written."""
    file = result["files"].get("sequences")
    if file is None:
        raise NotFound(f"{result['files']['rollouts']} has no rollouts.arrow beside it: {HOW_ARROW}")
    return read_sequences(file, result.get("counts", {}).get("completed"))


def read_step(folder: str, step: int) -> Optional[StepResult]:
    """What the stream answered for a delivered step. None: its rows were not written, or its store is out of reach."""
    try:
        result: StepResult = json.loads(content_of(f"{folder}/{step}/metrics.json"))
        return result
    except FileNotFoundError:
        return None


def groups_of(rows: Iterable[Row], sequences: Optional[SequencesFile]) -> List[Group]:
    """sequences: the Arrow file beside these rows; None: there is none"""
    groups = to_groups(rows)
    for group in groups:
        object.__setattr__(group, "_sequences", sequences)
    return groups


def result_groups(result: BatchResult, seen: Container[int] = ()) -> List[Group]:
    """Those of a batch that has ended, without those that were seen, in input order. Raises like ``read_counted``."""
    rows = (row for row in chain(counted(result, "rollouts"), counted(result, "failures")) if row["row"] not in seen)
    file = result["files"].get("sequences")
    sequences = None if file is None else SequencesFile(file, result.get("counts", {}).get("completed"))
    return sorted(groups_of(rows, sequences), key=lambda group: group.row)


def to_groups(rows: Iterable[Row]) -> List[Group]:
    """Rollouts by ``row``, and those of NeMo Gym's agents by task.

    rows: of one batch or step, valid or not

    Returns a ``Group`` for each, in the order in which they first appear. Raises nothing of its own.

        means = [np.mean(group.rewards) for group in to_groups(rows)]
    """
    groups: Dict[Any, Group] = {}
    for row in rows:
        group = groups.setdefault(_group_of(row), Group(row["row"], [], []))
        (group.rows if failure_of(row) is None else group.failures).append(row)
    return list(groups.values())


def _group_of(row: Row) -> Any:
    info = row.get("extra_env_info")
    if not isinstance(info, Mapping) or not AGENT_FIELDS <= info.keys():
        return row["row"]
    return row.get("batch_id"), row.get("task_name"), info["agent"], info["task_index"]


AGENT_FIELDS = {"agent", "task_index", "rollout_index", "row"}
"""Of an agent's sample, which may be one of several of its task."""
