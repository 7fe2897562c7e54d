"""Rows of the store: by group and by step."""

import errno
import json
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Callable, ClassVar, Container, Dict, Iterable, Iterator, List, Literal, Mapping, Optional, TypeVar, cast

from .answers import BatchResult, StepResult
from .arrow import Sequences, SequencesFile, read_sequences
from .columns import failure_of
from .faults import NotFound, StepOutOfOrder, StoreFault
from .objects import content_of, folder_of, is_there, lines_of, path_of

T = TypeVar("T")
Row = Dict[str, Any]
"""One rollout: a line of ``rollouts.jsonl``, with the sample's own columns and those of ``RowColumns``."""


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
    """Whether a step was forgotten: its folder stays, where there are folders, and ``metrics.json`` is deleted first."""
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
    """The groups of a batch that has ended, without those that were seen, in input order. Raises like ``read_counted``."""
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
"""The fields of an agent's sample, which may be one of several of its task."""
