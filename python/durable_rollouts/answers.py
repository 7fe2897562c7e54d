# Made by tools/python-sources from docs/schemas: changes of this file are lost.
"""What batches, streams and policies answer."""

from typing import Any, Dict, List, Literal, Optional

from typing_extensions import NotRequired, TypedDict

from .requests import Holder


class Counts(TypedDict):
    """How many rollouts ended how; the last five add up to the first.

    requested: all, including replacements and rollouts that never started
    completed: valid rollouts: the rows of rollouts.jsonl
    failed: rows of failures.jsonl that failed
    timed_out: those whose ``rollout_timeout`` passed
    stopped: those that were stopped, also before they started
    cancelled: those that were cancelled or never started
    """

    requested: int
    completed: int
    failed: int
    timed_out: int
    stopped: int
    cancelled: int


class Files(TypedDict):
    """Absolute paths on the worker's host; on S3 addresses, whose part after # names a member of ``objects``.

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
    counts: how many rollouts ended how; the last five add up to the first
    metrics: numbers by name (docs/metrics.md)
    files: absolute paths on the worker's host; on S3 addresses, whose part after # names a member of ``objects``
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


class StepResult(TypedDict):
    """The answer of a stream for a delivered step, and the content of the step's ``metrics.json``.

    schema_version: the version of this format
    batch_id: the id of the batch or stream
    counts: how many rollouts ended how; the last five add up to the first
    metrics: numbers by name (docs/metrics.md)
    files: absolute paths on the worker's host; on S3 addresses, whose part after # names a member of ``objects``
    objects: in metrics.json on S3 alone: what its results consist of
    metadata: the request's
    notes: what the trainer should know of it, in words: groups that faster versions overtook, what is true of all its
      rollouts
    step: the step, from 0
    version: the version of the weights that train on it; None: none was ever given or served
    final: the stream's epochs are used up; this step may be short
    """

    schema_version: Literal[1]
    batch_id: str
    counts: Counts
    metrics: Dict[str, float]
    files: Files
    objects: NotRequired[ResultObjects]
    metadata: Dict[str, Any]
    notes: NotRequired[List[str]]
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
    holds: NotRequired[Literal[True]]
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

    phase: what it does
    requested: rollouts, replacements included
    done: rollouts that have ended
    running: rollouts that run
    valid: rollouts that have ended with a row to train on
    failed: rollouts that have ended without one
    turns: of rollouts that have ended, and of those that run as far as the batch has looked
    tokens: likewise
    reward_sum: of valid rollouts
    waiting: the service that rollouts wait for, with its message; None: none
    elapsed_s: seconds since its start, up to its last event
    turns_per_s: over that time
    tokens_per_s: likewise
    priority: of the request
    share: of the request
    continued: it was started again: a part of ``done`` is of an earlier run, whose time does not count
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
    continued: NotRequired[Literal[True]]
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

    phase: what it does; ``done``: it was stopped
    step: the next one; ``next_step`` still returns those from ``kept_from`` on
    kept_from: earlier steps are forgotten
    version: of the previous step; None: unknown
    served: the lowest version that is served; None: unknown
    in_flight: groups that run
    banked: groups that wait for a step
    admitted: all groups so far
    out: groups that are neither, by how they left
    failures: of rollouts in groups that have ended since the last step, by type
    lag: how many versions the oldest open group would be behind if it were delivered now; None: unknown
    max_in_flight: rollouts
    priority: of the request
    share: of the request
    why: what the next step waits for, in words
    waiting: what all of it waits for; None: nothing outside
    steps_dir: folder of the steps on the worker's host, each with its ``metrics.json``
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


class Limits(TypedDict):
    """The limits in force for rollouts of a batch or a stream.

    max_rollout_turns: turns
    max_new_tokens: tokens of one turn
    max_seq_len: tokens of the whole log
    rollout_timeout: such as ``1h``, from the rollout's start
    """

    max_rollout_turns: int
    max_new_tokens: int
    max_seq_len: int
    rollout_timeout: str


class Replica(TypedDict):
    """The result of an update for one replica.

    state: ``current``: it serves its version; ``updating``; ``asleep``: its memory is somebody else's for a while;
      ``unknown``: it serves nothing until it has weights again; ``away``: it does not answer
    needs: ``load``: it is half loaded, and stays paused until it gets whole weights; ``restart``: only a new process
      helps; absent: nothing
    fault: why it lacks the weights
    """

    state: Literal["current", "updating", "asleep", "unknown", "away"]
    needs: NotRequired[Literal["load", "restart"]]
    fault: NotRequired[str]


class PublishResult(TypedDict):
    """The result of an update of weights.

    version: that was published
    replicas: by URL: its state, and what it lacks
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


class PolicyState(TypedDict):
    """What a service serves after a change.

    version: that enough replicas have; None: none
    replicas: by URL: its state, and what it lacks
    """

    version: Optional[int]
    replicas: Dict[str, Replica]


class PolicySleep(TypedDict):
    """Engines that sleep.

    version: that enough replicas have; None: none
    replicas: by URL: its state, and what it lacks
    level: 1: the weights wait in the memory of the host; 2: they are dropped
    until: they are woken then, in milliseconds since 1970
    """

    version: Optional[int]
    replicas: Dict[str, Replica]
    level: Literal[1, 2]
    until: float


class KnownWeights(TypedDict):
    """Weights of a version.

    kind: ``checkpoint``: files; ``lora``: an adapter; ``transfer``: only a trainer has them
    path: of files
    base: of an adapter: the version of the weights that it is for
    """

    kind: str
    path: NotRequired[str]
    base: NotRequired[int]


class ReplicaRecord(TypedDict):
    """What the record has of a replica.

    state: ``current``: it serves its version; ``updating``; ``asleep``: its memory is somebody else's for a while;
      ``unknown``: it serves nothing until it has weights again; ``away``: it does not answer
    version: of its weights; None: unknown
    epoch: changes whenever its weights may
    paused_until: the end of its pause, at most, in milliseconds since 1970; None: it is not paused
    fault: its last one; None: none
    needs: ``load``: it is half loaded, and stays paused until it gets whole weights; ``restart``: only a new process
      helps; absent: nothing
    owner: who has listed it; absent: temporal.yaml
    instance: names its process; absent: nobody says it
    examined: it has joined, and nobody has compared it with the others yet
    draining_until: it gets no new request, and leaves then, in milliseconds since 1970
    away_since: since when it does not answer, in milliseconds since 1970
    slept: the level at which it sleeps, or has yet to be woken; absent: it is awake
    """

    state: Literal["current", "updating", "asleep", "unknown", "away"]
    version: Optional[int]
    epoch: int
    paused_until: Optional[float]
    fault: Optional[str]
    needs: NotRequired[Literal["load", "restart"]]
    owner: NotRequired[str]
    instance: NotRequired[str]
    examined: NotRequired[Literal[False]]
    draining_until: NotRequired[float]
    away_since: NotRequired[float]
    slept: NotRequired[Literal[1, 2]]


class TicketRecord(TypedDict):
    """An open transfer of weights.

    nonce: of its ticket
    version: that the weights get
    holder: who sends them
    paused_until: the end of the pause, at most, in milliseconds since 1970
    stall_ms: how long its holder may be silent
    engines: their URLs
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
    until: they are woken then, in milliseconds since 1970
    """

    nonce: str
    holder: Holder
    level: Literal[1, 2]
    until: float


class HoldRecord(TypedDict):
    """Who brings weights to a service.

    name: of the training
    incarnation: of its process
    since: when this name began, in milliseconds since 1970
    at: its last update, in milliseconds since 1970
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
    replicas: by URL: its state, and what it lacks
    ticket: of the transfer that is open; absent or None: none is
    sleep: who has put the engines to sleep; absent or None: nobody
    may_delete: paths of adapters that no engine needs any more
    hold: who brings weights; absent: nobody has said who it is, or it was released
    courses: who has brought which versions, oldest first; absent: nobody knows
    """

    epoch: int
    version: Optional[int]
    target: Optional[int]
    weights: Dict[str, KnownWeights]
    replicas: Dict[str, ReplicaRecord]
    ticket: NotRequired[Optional[TicketRecord]]
    sleep: NotRequired[Optional[SleepRecord]]
    may_delete: NotRequired[List[str]]
    hold: NotRequired[HoldRecord]
    courses: NotRequired[List[CourseRecord]]


class PolicyUpdate(TypedDict):
    """One of the last updates.

    version: that was brought
    at: its end, in milliseconds since 1970
    paused_s: the longest pause of a replica, in seconds
    total_s: the whole update, in seconds
    fault: None: it succeeded
    """

    version: Optional[int]
    at: float
    paused_s: float
    total_s: float
    fault: Optional[str]


class TransferNews(TypedDict):
    """What the holder of an open transfer has said; absent: none is open.

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
    phases: of replicas that are slow, by URL: ``pause``, ``load``, …
    updates: the last ten, oldest first
    transfer: what the holder of an open transfer has said; absent: none is open
    heard_at: when the holder was heard last; absent: nobody holds the service, in milliseconds since 1970
    """

    service: str
    record: Optional[PolicyRecord]
    phases: Dict[str, Literal["record", "wake", "pause", "load", "label", "cache", "resume", "probe", "adapter"]]
    updates: List[PolicyUpdate]
    transfer: NotRequired[TransferNews]
    heard_at: NotRequired[float]


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
