"""Rows as padded arrays for a training step. Which tokens train is decided in the row (``train_mask``), not here."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass, fields
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

from .columns import failure_of, present
from .results import Row


@dataclass(frozen=True)
class Arrays:
    """``N`` rollouts of at most ``T`` tokens, padded on the right, in the order of the rows.

    input_ids: int64 ``(N, T)``: all ids of the log, as they were sent and sampled, followed by ``pad_id``
    attention_mask: int64 ``(N, T)``: 1 for ids of the log, 0 for padding
    loss_mask: float32 ``(N, T)``: ``loss_multiplier`` for the ids of ``train_mask``; else 0
    logprobs: float32 ``(N, T)``: logprob of each sampled id, in nats, from the engine; NaN if it reported none; 0 for
      other ids
    rewards: float32 ``(N,)``: ``total_reward``
    versions: int64 ``(N, T)``: the version of the weights that sampled the id; -1 if it was not sampled, or its label
      is unknown or not a whole number
    group_ids: int64 ``(N,)``: rollouts of one sample have the same number, or of one task of NeMo Gym; from 0 on, in
      the order of the rows

    ``len(arrays)`` is ``N``. docs/training-data.md explains the content.
    """

    input_ids: NDArray[np.int64]
    attention_mask: NDArray[np.int64]
    loss_mask: NDArray[np.float32]
    logprobs: NDArray[np.float32]
    rewards: NDArray[np.float32]
    versions: NDArray[np.int64]
    group_ids: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.input_ids.shape[0])

    def torch(self) -> Dict[str, Any]:
        """The arrays as torch tensors that share their memory.

        Returns them by name. Raises ``ImportError`` without torch.

            loss_mask = arrays.torch()["loss_mask"]
        """
        torch = importlib.import_module("torch")
        return {one.name: torch.from_numpy(getattr(self, one.name)) for one in fields(self)}

    def __repr__(self) -> str:
        rollouts, length = self.input_ids.shape
        trained = int(np.count_nonzero(self.loss_mask))
        groups = len(np.unique(self.group_ids))
        return (
            f"Arrays({rollouts} rollouts in {groups} groups, at most {length} tokens; "
            f"{trained} of {int(self.attention_mask.sum())} tokens are trained on)"
        )


def to_arrays(
    rows: Iterable[Row],
    *,
    pad_id: int = 0,
    length: Optional[int] = None,
    require_logprobs: bool = True,
) -> Arrays:
    """Pads rollouts to one length, and copies what they say of each token (docs/training-data.md).

    rows: valid rollouts, of one batch or of several
    pad_id: follows each log in ``input_ids``
    length: ``T``, in tokens; None: that of the longest log
    require_logprobs: False accepts rows that were sampled without logprobs; their ``logprobs`` are NaN

    Returns arrays of shape ``(N, T)`` and ``(N,)``: ``help(durable_rollouts.Arrays)``. Raises ``ValueError``, naming
    the rollout: for a failure, a row without tokens (``untokenized``), a log longer than ``length``, an inconsistent
    row, and, if required, a row without logprobs. Warns if an engine did not show the mode of its logprobs
    (``logprobs_mode`` unknown): do not compute importance ratios from these.

        arrays = to_arrays(batch.rows(), pad_id=tokenizer.pad_token_id)

    docs/training-data.md has the rules.
    """
    all_rows = list(rows)
    played = [_Played(row, require_logprobs) for row in all_rows]
    longest = max((len(one.ids) for one in played), default=0)
    width = longest if length is None else length
    for one in played:
        if len(one.ids) > width:
            raise ValueError(f"{one.name}: expected at most {width} tokens (length), got {len(one.ids)}")
    unknown = sum(present(row, "logprobs_mode") == "unknown" for row in all_rows)
    if unknown > 0:
        warnings.warn(
            f"logprobs_mode of {unknown} of {len(all_rows)} rollouts is unknown: do not compute importance ratios from them",
            stacklevel=2,
        )
    shape = (len(played), width)
    arrays = Arrays(
        input_ids=np.full(shape, pad_id, np.int64),
        attention_mask=np.zeros(shape, np.int64),
        loss_mask=np.zeros(shape, np.float32),
        logprobs=np.zeros(shape, np.float32),
        rewards=np.array([one.reward for one in played], np.float32),
        versions=np.full(shape, -1, np.int64),
        group_ids=_group_ids(played),
    )
    for i, one in enumerate(played):
        end = len(one.ids)
        arrays.input_ids[i, :end] = one.ids
        arrays.attention_mask[i, :end] = 1
        for start, end in one.trained():
            arrays.loss_mask[i, start:end] = one.loss_multiplier
        arrays.logprobs[i, one.sampled] = one.logprobs
        arrays.versions[i, one.sampled] = one.versions_of_sampled()
    return arrays


class _Played:
    """A row's ids, and the positions of the sampled ones."""

    def __init__(self, row: Row, require_logprobs: bool) -> None:
        if not isinstance(row, Mapping):
            raise ValueError(f"expected rollouts, got {_short(row)}")
        self.row = row
        self.name = present(row, "rollout_id") or "a rollout"
        failure, untokenized = failure_of(row), present(row, "untokenized")
        if failure is not None:
            raise ValueError(f"{self.name}: expected a valid rollout, got a failure ({failure})")
        if untokenized is not None:
            raise ValueError(f"{self.name}: expected tokens, got none (untokenized): {untokenized}")
        self.ids: List[int] = []
        self.sampled: List[int] = []
        self.logprobs: List[float] = []
        self.reward = self._number("total_reward", row.get("total_reward"), (-MOST_NUMBER, MOST_NUMBER))
        self.loss_multiplier = self._optional_number("loss_multiplier", (0, MOST_MULTIPLIER), 1)
        self.group = self._group()
        self.prompt_tokens = self._count("prompt_tokens", row.get("prompt_tokens"))
        for message in self._list("message_log", row.get("message_log"), dict):
            self._add(message)
        expected = present(row, "assistant_tokens")
        if expected is not None and len(self.sampled) != expected:
            raise ValueError(f"{self.name}: expected {expected} sampled tokens (assistant_tokens), got {len(self.sampled)}")
        if require_logprobs and any(logprob != logprob for logprob in self.logprobs):
            raise ValueError(
                f"{self.name}: expected a logprob of each sampled token, got none "
                "(include_logprobs of its request is false); require_logprobs=False takes it all the same"
            )

    def _add(self, message: Dict[str, Any]) -> None:
        ids: List[int] = self._list("token_ids", message.get("token_ids"), int)
        if ids and not 0 <= min(ids) <= max(ids) <= MOST_ID:
            raise self._wrong("token_ids", f"ids from 0 to {MOST_ID}", min(ids) if min(ids) < 0 else max(ids))
        start = len(self.ids)
        self.ids.extend(ids)
        if start < self.prompt_tokens:
            return
        given = present(message, "generation_logprobs")
        if given is None and not _is_true(present(message, "sampled")):
            return
        logprobs = [float("nan")] * len(ids) if given is None else self._list("generation_logprobs", given, float)
        if len(logprobs) != len(ids):
            raise ValueError(f"{self.name}: expected {len(ids)} logprobs of a message, got {len(logprobs)}")
        wrong = [one for one in logprobs if not (LEAST_LOGPROB < one <= MOST_LOGPROB or one != one)]
        if wrong:
            raise self._wrong("generation_logprobs", f"numbers from {LEAST_LOGPROB} (excluded) to 0", wrong[0])
        self.sampled.extend(range(start, len(self.ids)))
        self.logprobs.extend(logprobs)

    def trained(self) -> List[Tuple[int, int]]:
        """Runs of ids: the row says which."""
        if present(self.row, "train_mask") is None:
            return self._trained_before_masks()
        runs = [(start, end) for start, end, _ in self._runs("train_mask", f"{len(self.ids)} ids", len(self.ids))]
        sampled = np.zeros(len(self.ids), np.bool_)
        sampled[self.sampled] = True
        for start, end in runs:
            if not sampled[start:end].all():
                raise self._wrong("train_mask", "runs of sampled ids", {"start": start, "end": end})
        return runs

    def _trained_before_masks(self) -> List[Tuple[int, int]]:
        """For rows of releases that wrote no ``train_mask``, and for them alone: what was sampled and is not masked."""
        masked = np.zeros(len(self.sampled), np.bool_)
        for start, end, _ in self._sampled_runs("masked"):
            masked[start:end] = True
        return [(at, at + 1) for at, is_masked in zip(self.sampled, masked) if not is_masked]

    def versions_of_sampled(self) -> NDArray[np.int64]:
        versions = np.full(len(self.sampled), -1, np.int64)
        for start, end, run in self._sampled_runs("policy_versions"):
            versions[start:end] = _number_of(run.get("version"))
        return versions

    def _sampled_runs(self, field: str) -> Iterator[Tuple[int, int, Dict[str, Any]]]:
        return self._runs(field, f"{len(self.sampled)} sampled tokens", len(self.sampled))

    def _runs(self, field: str, of: str, count: int) -> Iterator[Tuple[int, int, Dict[str, Any]]]:
        """Start, end and the whole of each; they lie within as many."""
        runs = present(self.row, field)
        for run in self._list(field, [] if runs is None else runs, dict):
            start, end = (self._count(f"{field}.{name}", run.get(name)) for name in ("start", "end"))
            if not start <= end <= count:
                raise self._wrong(field, f"runs of {of}", run)
            yield start, end, run

    def _list(self, field: str, value: Any, kind: type) -> List[Any]:
        """A value that only looks like its kind (``True``, ``1.0`` and ``"1"`` for an id) would become a number silently."""
        items = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(items, (list, tuple)) or not all(_is_kind(one, kind) for one in set(map(type, items))):
            raise self._wrong(field, f"a list of {NAMES[kind]}", value)
        return list(items)

    def _count(self, field: str, value: Any) -> int:
        if not _is_kind(type(value), int) or value < 0:
            raise self._wrong(field, "a whole number from 0 on", value)
        return int(value)

    def _group(self) -> Tuple[Any, ...]:
        """An agent of NeMo Gym may have a sample for each rollout; those of one task share a baseline."""
        batch = present(self.row, "batch_id")
        row = self._count("row", self.row.get("row"))
        if present(self.row, "agent_result") is None:
            return batch, "row", row
        info = self.row.get("extra_env_info")
        task = info.get("task_index") if isinstance(info, Mapping) else None
        agent = info.get("agent") if isinstance(info, Mapping) else None
        return batch, self.row.get("task_name"), agent, self._count("extra_env_info.task_index", task)

    def _number(self, field: str, value: Any, bounds: Tuple[float, float]) -> float:
        least, most = bounds
        if not _is_kind(type(value), float) or not least <= value <= most:
            expected = f"a number from {least:g} to {most:g}" if most < MOST_NUMBER else "a number that float32 has"
            raise self._wrong(field, expected, value)
        return float(value)

    def _optional_number(self, field: str, bounds: Tuple[float, float], absent: float) -> float:
        value = present(self.row, field)
        return absent if value is None else self._number(field, value, bounds)

    def _wrong(self, field: str, expected: str, got: Any) -> ValueError:
        return ValueError(f"{self.name}: {field}: expected {expected}, got {_short(got)}")


MOST_ID = 2**31 - 1
MOST_NUMBER = float(np.finfo(np.float32).max)
MOST_MULTIPLIER = 1e6
LEAST_LOGPROB, MOST_LOGPROB = -9999, 1e-6
"""vLLM writes minus infinity as -9999, which no sampled token has. Above 0 there is only rounding."""
NAMES: Dict[type, str] = {dict: "objects", int: "ids", float: "numbers"}


def _is_kind(given: type, kind: type) -> bool:
    kinds: Dict[type, Tuple[type, ...]] = {
        dict: (Mapping,),
        int: (int, np.integer),
        float: (int, float, np.integer, np.floating),
    }
    return given is not bool and issubclass(given, kinds[kind])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _number_of(label: Any) -> int:
    """-1 also where it is no whole number that an array holds."""
    return int(label) if isinstance(label, str) and label.isascii() and label.isdigit() and len(label) <= 18 else -1


def _is_true(value: Any) -> bool:
    return value is True or (isinstance(value, np.bool_) and bool(value))


def _group_ids(played: List[_Played]) -> NDArray[np.int64]:
    numbers: Dict[Tuple[Any, ...], int] = {}
    return np.array([numbers.setdefault(one.group, len(numbers)) for one in played], np.int64)
