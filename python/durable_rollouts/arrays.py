"""Rows as padded arrays for a training step. Which tokens train is decided in the row (``train_mask``), not here."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass, fields
from typing import Any, Dict, Iterable, Iterator, List, Literal, Mapping, Optional, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from .advantages import Kind, Norm, advantages_of, weights_of
from .arrow import Sequences, played_in
from .columns import failure_of, picture_of, present
from .results import Row
from .tokens import MOST_ID, Group, Tokens, version_of


@dataclass(frozen=True)
class Arrays:
    """``N`` sequences of at most ``T`` tokens, padded on the right, in the order of the rows. A rollout is one sequence,
    or several where an agent's conversation branched: the main one first, then each other that trains.

    input_ids: int64 ``(N, T)``: all ids of the log, as they were sent and sampled, followed by ``pad_id``
    attention_mask: int64 ``(N, T)``: 1 for ids of the log, 0 for padding
    loss_mask: float32 ``(N, T)``: ``loss_multiplier`` for the ids of ``train_mask``; else 0
    logprobs: float32 ``(N, T)``: logprob of each sampled id, in nats, from the engine; NaN if it reported none; 0 for
      other ids
    rewards: float32 ``(N,)``: ``total_reward``; the sequences of a rollout have one
    versions: int64 ``(N, T)``: the version of the weights that sampled the id; -1 if it was not sampled, or its label
      is unknown or not a whole number
    group_ids: int64 ``(N,)``: rollouts of one sample have the same number, or of one task of NeMo Gym; from 0 on, in
      the order of the rows
    rollout_ids: int64 ``(N,)``: which of the rows it is of, from 0 on
    sequence: int64 ``(N,)``: which of the rollout's sequences it is; 0: the main one
    advantages: float32 ``(N,)``: what the rollout's reward is worth, by ``advantages``
    weights: float32 ``(N, T)``: how much each token counts, by ``norm``. The loss is minus the sum of weight, advantage
      and ratio; nothing else is divided

    ``len(arrays)`` is ``N``. docs/training-data.md explains the content.
    """

    input_ids: NDArray[np.int64]
    attention_mask: NDArray[np.int64]
    loss_mask: NDArray[np.float32]
    logprobs: NDArray[np.float32]
    rewards: NDArray[np.float32]
    versions: NDArray[np.int64]
    group_ids: NDArray[np.int64]
    rollout_ids: NDArray[np.int64]
    sequence: NDArray[np.int64]
    advantages: NDArray[np.float32]
    weights: NDArray[np.float32]

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
        sequences, length = self.input_ids.shape
        trained = int(np.count_nonzero(self.loss_mask))
        rollouts, groups = (len(np.unique(ids)) for ids in (self.rollout_ids, self.group_ids))
        several = "" if sequences == rollouts else f"{sequences} sequences of "
        return (
            f"Arrays({several}{rollouts} rollouts in {groups} groups, at most {length} tokens; "
            f"{trained} of {int(self.attention_mask.sum())} tokens are trained on)"
        )


NO_PAD = " (a tokenizer without pad_token_id has eos_token_id; the attention mask leaves out either)"


def to_arrays(
    rows: Union[Iterable[Row], Sequences],
    *,
    pad_id: int = 0,
    length: Optional[int] = None,
    require_logprobs: bool = True,
    sequences: Literal["all", "main"] = "all",
    advantages: Kind = "none",
    norm: Norm = "token",
) -> Arrays:
    """Pads rollouts to one length, and copies what they say of each token (docs/training-data.md).

    rows: valid rollouts, of one batch or of several; or the sequences of ``rollouts.arrow``, which is much faster and
      gives equal arrays
    pad_id: follows each log in ``input_ids``
    length: ``T``, in tokens; None: that of the longest log
    require_logprobs: False accepts rows that were sampled without logprobs; their ``logprobs`` are NaN
    sequences: ``"main"`` leaves out all others of rollouts that have several, and warns with the share of tokens
    advantages: ``"grpo"``: minus the group's mean, divided by its standard deviation (of a sample: n - 1) plus 1e-6; ``"rloo"``:
      minus the mean of the others; ``"none"``: the reward. Each rollout counts once, whatever its sequences; alone in its group it is 0
    norm: ``"token"``: all trained tokens weigh alike; ``"rollout"``: all rollouts do

    Returns arrays of shape ``(N, T)`` and ``(N,)``: ``help(durable_rollouts.Arrays)``. Raises ``ValueError``, naming
    the rollout: for a failure, a row without tokens (``untokenized``) or with a picture, a log longer than ``length``, an
    inconsistent row, and, if required, a row without logprobs. Warns if an engine did not show the mode of its logprobs
    (``logprobs_mode`` unknown): do not compute importance ratios from these.

        arrays = to_arrays(batch.rows(), pad_id=tokenizer.pad_token_id)

    docs/training-data.md has the rules.
    """
    if sequences not in ("all", "main"):
        raise ValueError(f'sequences: expected "all" or "main", got {sequences!r}')
    for name, value in (("pad_id", pad_id), ("length", 0 if length is None else length)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
            raise ValueError(f"{name}: expected a whole number from 0 on, got {value!r:.80}{NO_PAD if value is None else ''}")
    rollouts = played_of(rows)
    warn_of(rollouts, sequences)
    played = [(i, one) for i, rollout in enumerate(rollouts) for one in _taken(rollout, sequences)]
    if require_logprobs:
        for _, one in played:
            _require_logprobs(one)
    longest = max((len(one.ids) for _, one in played), default=0)
    width = longest if length is None else length
    for _, one in played:
        if len(one.ids) > width:
            raise ValueError(f"{one.name}: expected at most {width} tokens (length), got {len(one.ids)}")
    of = np.array([i for i, _ in played], np.int64)
    rewards = np.array([main.reward for main, *_ in rollouts], np.float32)
    groups = _group_ids([main for main, *_ in rollouts])
    padded = _padded([one for _, one in played], width, pad_id)
    return Arrays(
        **padded,
        rewards=rewards[of],
        group_ids=groups[of],
        rollout_ids=of,
        sequence=np.array([one.sequence for _, one in played], np.int64),
        advantages=advantages_of(rewards, groups, advantages)[of],
        weights=weights_of(padded["loss_mask"], of, norm),
    )


def played_of(rows: Union[Iterable[Row], Sequences]) -> List[List[Tokens]]:
    """The sequences of each rollout, the main one first. Raises ``ValueError``, naming the rollout."""
    if not isinstance(rows, Sequences):
        return [_Rollout(row).tokens() for row in rows]
    rollouts = played_in(rows)
    for rollout in rollouts:
        for one in rollout:
            _refuse(one.name, one.failure, one.untokenized, one.picture)
    return rollouts


def _padded(played: List[Tokens], width: int, pad_id: int) -> Dict[str, NDArray[Any]]:
    """Each place is written once: memory that is written twice is as slow again."""
    shape = (len(played), width)
    input_ids, attention_mask, versions = (np.empty(shape, np.int64) for _ in range(3))
    loss_mask, logprobs = (np.empty(shape, np.float32) for _ in range(2))
    for i, one in enumerate(played):
        end = len(one.ids)
        input_ids[i, :end], input_ids[i, end:] = one.ids, pad_id
        attention_mask[i, :end], attention_mask[i, end:] = 1, 0
        loss_mask[i, end:], logprobs[i, end:], versions[i, end:] = 0, 0, -1
        np.multiply(one.mask, np.float32(one.loss_multiplier), out=loss_mask[i, :end])
        logprobs[i, :end], versions[i, :end] = one.logprobs, one.versions
    return {"input_ids": input_ids, "attention_mask": attention_mask, "loss_mask": loss_mask, "logprobs": logprobs, "versions": versions}


def _taken(rollout: List[Tokens], which: str) -> List[Tokens]:
    return [rollout[0], *(one for one in rollout[1:] if which == "all" and one.trains)]


def _require_logprobs(one: Tokens) -> None:
    # The least of several numbers is NaN if one of them is.
    if len(one.logprobs) > 0 and np.isnan(one.logprobs.min()):
        raise ValueError(
            f"{one.name}: expected a logprob of each sampled token, got none "
            "(include_logprobs of its request is false); require_logprobs=False takes it all the same"
        )


def _refuse(name: str, failure: Optional[str], untokenized: Optional[str], picture: Optional[str] = None) -> None:
    if failure is not None:
        raise ValueError(f"{name}: expected a valid rollout, got a failure ({failure})")
    if untokenized is not None:
        raise ValueError(f"{name}: expected tokens, got none (untokenized): {untokenized}")
    if picture is not None:
        raise ValueError(
            f"{name}: {picture}: expected text alone, got a picture: its ids mean nothing to a model without its pixels, "
            "and arrays have none"
        )


def warn_of(rollouts: List[List[Tokens]], sequences: str) -> None:
    """Warns of what the arrays lack, with counts, at the place of the caller's caller."""
    unknown = sum(main.is_unknown for main, *_ in rollouts)
    if unknown > 0:
        warnings.warn(
            f"logprobs_mode of {unknown} of {len(rollouts)} rollouts is unknown: do not compute importance ratios from them",
            stacklevel=3,
        )
    if sequences == "all" or all(len(rollout) == 1 for rollout in rollouts):
        return
    trained, main = (sum(int(np.count_nonzero(one.mask)) for all in rollouts for one in _taken(all, kind)) for kind in ("all", "main"))
    if main < trained:
        left = trained - main
        warnings.warn(
            f'sequences="main" leaves out {left} of {trained} tokens to train on ({100 * left / trained:.0f} %)',
            stacklevel=3,
        )


class _Rollout:
    """A row's sequences: the main one, which the row's own columns describe, and others, which share ids with it."""

    def __init__(self, row: Row) -> None:
        self.main = _Played(row)
        self.all = [self.main]
        others = present(row, "sequences")
        for number, given in enumerate(self.main.list("sequences", [] if others is None else others, dict), 1):
            self.all.append(self._other(number, given))

    def _other(self, number: int, given: Mapping[str, Any]) -> _Played:
        where = f"sequences.{number - 1}"
        parent, fork = given.get("parent"), given.get("fork")
        begun: List[int] = []
        if parent is not None or fork != 0:
            at = self.main.count(f"{where}.parent", parent)
            ids = self.all[at].ids if at < number else []
            if not 0 < self.main.count(f"{where}.fork", fork) <= len(ids):
                raise self.main.wrong(f"{where}.fork", f"a number of ids that sequence {at} has", fork)
            begun = ids[:fork]
        own = {name: None for name in ("assistant_tokens", "train_mask", "policy_versions", "masked")}
        row = {**self.main.row, **own, **given, "prompt_tokens": len(begun)}
        return _Played(row, begun=begun, sequence=number)

    def tokens(self) -> List[Tokens]:
        return [one.tokens() for one in self.all]


class _Played:
    """A sequence's ids, and the positions of the sampled ones. It begins with ids of another one (``begun``)."""

    def __init__(self, row: Row, begun: Iterable[int] = (), sequence: int = 0) -> None:
        if not isinstance(row, Mapping):
            raise ValueError(f"expected rollouts, got {_short(row)}")
        self.row = row
        self.sequence = sequence
        self.name = (present(row, "rollout_id") or "a rollout") + (f", sequence {sequence}" if sequence > 0 else "")
        self.trains = present(row, "train") is not False
        _refuse(self.name, failure_of(row), present(row, "untokenized"))
        self.ids: List[int] = list(begun)
        self.sampled: List[int] = []
        self.logprobs: List[float] = []
        self.reward = self._number("total_reward", row.get("total_reward"), (-MOST_NUMBER, MOST_NUMBER))
        self.loss_multiplier = self._optional_number("loss_multiplier", (0, MOST_MULTIPLIER), 1)
        self.group = self._group()
        self.prompt_tokens = self.count("prompt_tokens", row.get("prompt_tokens"))
        messages = self.list("message_log", row.get("message_log"), dict)
        _refuse(self.name, None, None, picture_of(row))
        for message in messages:
            self._add(message)
        expected = present(row, "assistant_tokens")
        if expected is not None and len(self.sampled) != expected:
            raise ValueError(f"{self.name}: expected {expected} sampled tokens (assistant_tokens), got {len(self.sampled)}")

    def _add(self, message: Dict[str, Any]) -> None:
        ids: List[int] = self.list("token_ids", message.get("token_ids"), int)
        if ids and not 0 <= min(ids) <= max(ids) <= MOST_ID:
            raise self.wrong("token_ids", f"ids from 0 to {MOST_ID}", min(ids) if min(ids) < 0 else max(ids))
        start = len(self.ids)
        self.ids.extend(ids)
        if start < self.prompt_tokens:
            return
        given = present(message, "generation_logprobs")
        if given is None and not _is_true(present(message, "sampled")):
            return
        logprobs = [float("nan")] * len(ids) if given is None else self.list("generation_logprobs", given, float)
        if len(logprobs) != len(ids):
            raise ValueError(f"{self.name}: expected {len(ids)} logprobs of a message, got {len(logprobs)}")
        wrong = [one for one in logprobs if not (LEAST_LOGPROB < one <= MOST_LOGPROB or one != one)]
        if wrong:
            raise self.wrong("generation_logprobs", f"numbers from {LEAST_LOGPROB} (excluded) to 0", wrong[0])
        self.sampled.extend(range(start, len(self.ids)))
        self.logprobs.extend(logprobs)

    def tokens(self) -> Tokens:
        mask = np.zeros(len(self.ids), np.uint8)
        for start, end in self.trained():
            mask[start:end] = 1
        logprobs, versions = np.zeros(len(self.ids), np.float32), np.full(len(self.ids), -1, np.int64)
        logprobs[self.sampled] = self.logprobs
        versions[self.sampled] = self.versions_of_sampled()
        return Tokens(
            name=self.name,
            rollout_id=present(self.row, "rollout_id") or "",
            row=int(self.row["row"]),
            repeat=int(present(self.row, "repeat") or 0),
            sequence=self.sequence,
            trains=self.trains,
            group=self.group,
            reward=self.reward,
            loss_multiplier=self.loss_multiplier,
            stop_reason=present(self.row, "stop_reason") or "",
            terminated=_is_true(present(self.row, "terminated")),
            truncated=_is_true(present(self.row, "truncated")),
            failure=None,
            untokenized=None,
            picture=None,
            is_unknown=present(self.row, "logprobs_mode") == "unknown",
            prompt_tokens=self.prompt_tokens if self.sequence == 0 else next(iter(self.sampled), len(self.ids)),
            ids=np.array(self.ids, np.int32),
            mask=mask,
            logprobs=logprobs,
            versions=versions,
        )

    def trained(self) -> List[Tuple[int, int]]:
        """Runs of ids: the row says which."""
        if present(self.row, "train_mask") is None and self.sequence == 0:
            raise self.wrong("train_mask", "runs of sampled ids", None)
        runs = [(start, end) for start, end, _ in self._runs("train_mask", f"{len(self.ids)} ids", len(self.ids))]
        sampled = np.zeros(len(self.ids), np.bool_)
        sampled[self.sampled] = True
        for start, end in runs:
            if not sampled[start:end].all():
                raise self.wrong("train_mask", "runs of sampled ids", {"start": start, "end": end})
        return runs

    def versions_of_sampled(self) -> NDArray[np.int64]:
        versions = np.full(len(self.sampled), -1, np.int64)
        for start, end, run in self._sampled_runs("policy_versions"):
            versions[start:end] = version_of(run.get("version"))
        return versions

    def _sampled_runs(self, field: str) -> Iterator[Tuple[int, int, Dict[str, Any]]]:
        return self._runs(field, f"{len(self.sampled)} sampled tokens", len(self.sampled))

    def _runs(self, field: str, of: str, count: int) -> Iterator[Tuple[int, int, Dict[str, Any]]]:
        """Start, end and the whole of each; they lie within as many."""
        runs = present(self.row, field)
        for run in self.list(field, [] if runs is None else runs, dict):
            start, end = (self.count(f"{field}.{name}", run.get(name)) for name in ("start", "end"))
            if not start <= end <= count:
                raise self.wrong(field, f"runs of {of}", run)
            yield start, end, run

    def list(self, field: str, value: Any, kind: type) -> List[Any]:
        """A value that only looks like its kind (``True``, ``1.0`` and ``"1"`` for an id) would become a number silently."""
        items = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(items, (list, tuple)) or not all(_is_kind(one, kind) for one in set(map(type, items))):
            raise self.wrong(field, f"a list of {NAMES[kind]}", value)
        return list(items)

    def count(self, field: str, value: Any) -> int:
        if not _is_kind(type(value), int) or value < 0:
            raise self.wrong(field, "a whole number from 0 on", value)
        return int(value)

    def _group(self) -> Group:
        """An agent of NeMo Gym may have a sample for each rollout; those of one task share a baseline."""
        batch = present(self.row, "batch_id")
        row = self.count("row", self.row.get("row"))
        if present(self.row, "agent_result") is None:
            return batch, "row", row
        info = self.row.get("extra_env_info")
        task = info.get("task_index") if isinstance(info, Mapping) else None
        agent = info.get("agent") if isinstance(info, Mapping) else None
        return batch, self.row.get("task_name"), agent, self.count("extra_env_info.task_index", task)

    def _number(self, field: str, value: Any, bounds: Tuple[float, float]) -> float:
        least, most = bounds
        if not _is_kind(type(value), float) or not least <= value <= most:
            expected = f"a number from {least:g} to {most:g}" if most < MOST_NUMBER else "a number that float32 has"
            raise self.wrong(field, expected, value)
        return float(value)

    def _optional_number(self, field: str, bounds: Tuple[float, float], absent: float) -> float:
        value = present(self.row, field)
        return absent if value is None else self._number(field, value, bounds)

    def wrong(self, field: str, expected: str, got: Any) -> ValueError:
        return ValueError(f"{self.name}: {field}: expected {expected}, got {_short(got)}")


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


def _is_true(value: Any) -> bool:
    return value is True or (isinstance(value, np.bool_) and bool(value))


def _group_ids(played: List[Tokens]) -> NDArray[np.int64]:
    numbers: Dict[Group, int] = {}
    return np.array([numbers.setdefault(one.group, len(numbers)) for one in played], np.int64)
