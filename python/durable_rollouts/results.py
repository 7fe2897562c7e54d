"""Results, progress, groups and steps."""

import errno
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Literal, Mapping, Optional
from urllib.parse import unquote, urlsplit

from typing_extensions import NotRequired, TypedDict

from .columns import failure_of
from .faults import StepOutOfOrder

Row = Dict[str, Any]
"""One rollout: a line of ``rollouts.jsonl``, with the sample's own columns and those of ``RowColumns``."""


class Counts(TypedDict):
    """The last five add up to the first."""

    requested: int
    completed: int
    failed: int
    timed_out: int
    stopped: int
    cancelled: int


class Files(TypedDict):
    """Absolute paths on the worker's host."""

    rollouts: str
    failures: str
    groups: str
    metrics: str


class BatchResult(TypedDict):
    """The result of a batch, and the content of its ``metrics.json``."""

    schema_version: Literal[1]
    batch_id: str
    counts: Counts
    metrics: Dict[str, float]
    files: Files
    metadata: Dict[str, Any]


class Waiting(TypedDict):
    """A service that rollouts wait for."""

    service: str
    message: str
    holds: NotRequired[bool]


class Failures(TypedDict):
    """Rollouts that failed for one reason, with the first message and the rollout that has it."""

    rollouts: int
    message: str
    example: NotRequired[str]


class BatchProgress(TypedDict):
    """The state of a batch's rollouts. ``elapsed_s``: seconds since its start, up to its last event."""

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


class Replica(TypedDict):
    """The result of an update for one replica."""

    state: Literal["current", "updating", "unknown", "away"]
    fault: NotRequired[str]


class PublishResult(TypedDict):
    """``replicas`` by URL; ``paused_s``: the longest pause of a replica, in seconds."""

    version: int
    replicas: Dict[str, Replica]
    paused_s: float
    total_s: float
    notes: NotRequired[List[str]]


@dataclass(frozen=True)
class Group:
    """The rollouts of one sample, which share a baseline."""

    row: int
    """The sample's place in the batch."""
    rows: List[Row] = field(repr=False)
    """Valid rollouts, by repeat."""
    failures: List[Row] = field(repr=False)
    """The others, each with ``failure``."""

    @property
    def rewards(self) -> List[float]:
        """``total_reward`` of each valid rollout."""
        return [row["total_reward"] for row in self.rows]

    def __repr__(self) -> str:
        rewards = self.rewards
        mean = f", mean reward {sum(rewards) / len(rewards):.3f}" if rewards else ""
        return f"Group(row={self.row}: {len(self.rows)} valid, {len(self.failures)} failed{mean})"


class Step:
    """What a trainer consumes at once; it always has the same rows."""

    def __init__(self, step: int, result: Dict[str, Any]) -> None:
        self.step = step
        self.result = result
        """The stream's answer: counts, files, and metrics, among them ``lag/*`` and ``stream/*``."""

    @property
    def metrics(self) -> Dict[str, float]:
        """Metrics of this step."""
        metrics: Dict[str, float] = self.result["metrics"]
        return metrics

    @property
    def final(self) -> bool:
        """The stream's epochs are used up; this step may be short."""
        return bool(self.result.get("final", False))

    @property
    def notes(self) -> List[str]:
        """What to know of it, in words: groups that faster versions overtook. The log has it, too."""
        return list(self.result.get("notes", []))

    def rows(self) -> List[Row]:
        """Its valid rollouts, read from the store. Raises ``StepOutOfOrder`` if the stream has forgotten the step."""
        return self._read("rollouts")

    def failures(self) -> List[Row]:
        """The failed rollouts of its groups, each with ``failure``; other members of the group replaced them."""
        return self._read("failures")

    def _read(self, kind: Literal["rollouts", "failures"]) -> List[Row]:
        file: str = self.result["files"][kind]
        try:
            return list(read_rows(file))
        except OSError as error:
            if error.errno not in GONE or not _is_forgotten(_path_of(file).parent):
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


def _is_forgotten(folder: Path) -> bool:
    """Of a step's folder: it stays, and ``metrics.json`` is deleted before all else."""
    return folder.is_dir() and not (folder / "metrics.json").exists()


def _path_of(file: str) -> Path:
    parts = urlsplit(file)
    if parts.scheme not in ("", "file"):
        raise ValueError(f"expected a path or a file: URI, got {file}; read it with its store's own client")
    return Path(unquote(parts.path) if parts.scheme == "file" else file)


def read_rows(file: str) -> Iterator[Row]:
    """The lines of a JSONL file of the store, one by one."""
    with _path_of(file).open(encoding="utf-8") as lines:
        for line in lines:
            row: Row = json.loads(line)
            yield row


def read_step(folder: str, step: int) -> Optional[Dict[str, Any]]:
    """What the stream answered for a delivered step. None: its rows were not written, or its store is out of reach."""
    try:
        text = (Path(folder) / str(step) / "metrics.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return {"ready": True, **json.loads(text)}


def to_groups(rows: Iterable[Row]) -> List[Group]:
    """By ``row``, and rollouts of NeMo Gym's agents by task, in the order in which groups first appear; ``failures`` are
    those that are not valid.
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
