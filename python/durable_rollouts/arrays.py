"""Rows as a training step takes them: padded arrays, in which only what the policy sampled is to be trained on."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass, fields
from typing import Any, Dict, Iterable, List, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

from .results import Row


@dataclass(frozen=True)
class Arrays:
    """``N`` rollouts of at most ``T`` tokens, padded on the right, in the order of the rows."""

    input_ids: NDArray[np.int64]
    """``(N, T)``: all ids of the log, as they were sent and sampled; ``pad_id`` behind them."""
    attention_mask: NDArray[np.int64]
    """``(N, T)``: 1 for ids of the log, 0 for padding."""
    loss_mask: NDArray[np.float32]
    """``(N, T)``: ``loss_multiplier`` for ids that the policy sampled and that are to be trained on; else 0."""
    logprobs: NDArray[np.float32]
    """``(N, T)``: of each sampled id, in nats, as the engine said; NaN where it said none; 0 where nothing was sampled."""
    rewards: NDArray[np.float32]
    """``(N,)``: ``total_reward``."""
    versions: NDArray[np.int64]
    """``(N, T)``: which weights sampled the id; -1 where none did, or where their label is no whole number or not known."""
    group_ids: NDArray[np.int64]
    """``(N,)``: rollouts of one sample have one number; from 0 on, in the order of the rows."""

    def __len__(self) -> int:
        return int(self.input_ids.shape[0])

    def torch(self) -> Dict[str, Any]:
        """The same by name, as torch tensors that share the arrays' memory. Raises ``ImportError`` without torch."""
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
    """Pads rollouts to one length, and masks what is not to be trained on (docs/training-data.md).

    rows: valid rollouts, of one batch or of several.
    pad_id: what stands in ``input_ids`` behind a log.
    length: ``T``; None: that of the longest log.
    require_logprobs: False takes rows that were sampled without logprobs, whose ``logprobs`` are NaN.

    Raises ``ValueError``, naming the rollout: for a failure, for a log that is longer than ``length``, for a row without
    logprobs unless asked, for a row that contradicts itself. Warns where an engine did not show of which distribution
    its logprobs are (``logprobs_mode`` unknown): do not compute importance ratios from these.
    """
    all_rows = list(rows)
    played = [_Played(row, require_logprobs) for row in all_rows]
    longest = max((len(one.ids) for one in played), default=0)
    width = longest if length is None else length
    for one in played:
        if len(one.ids) > width:
            raise ValueError(f"{one.name}: expected at most {width} tokens (length), got {len(one.ids)}")
    unknown = sum(row.get("logprobs_mode") == "unknown" for row in all_rows)
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
        rewards=np.array([row["total_reward"] for row in all_rows], np.float32),
        versions=np.full(shape, -1, np.int64),
        group_ids=_group_ids(all_rows),
    )
    for i, one in enumerate(played):
        end = len(one.ids)
        arrays.input_ids[i, :end] = one.ids
        arrays.attention_mask[i, :end] = 1
        arrays.loss_mask[i, one.sampled] = one.loss_of_sampled()
        arrays.logprobs[i, one.sampled] = one.logprobs
        arrays.versions[i, one.sampled] = one.versions_of_sampled()
    return arrays


class _Played:
    """A row's ids, and the places of those that the policy sampled."""

    def __init__(self, row: Row, require_logprobs: bool) -> None:
        self.row = row
        self.name = row.get("rollout_id", "a rollout")
        if "failure" in row:
            raise ValueError(f"{self.name}: expected a valid rollout, got a failure ({row['failure'].get('type')})")
        self.ids: List[int] = []
        self.sampled: List[int] = []
        self.logprobs: List[float] = []
        for message in row["message_log"]:
            self._add(message)
        expected = row.get("assistant_tokens", len(self.sampled))
        if len(self.sampled) != expected:
            raise ValueError(f"{self.name}: expected {expected} sampled tokens (assistant_tokens), got {len(self.sampled)}")
        if require_logprobs and any(logprob != logprob for logprob in self.logprobs):
            raise ValueError(
                f"{self.name}: expected a logprob of each sampled token, got none "
                "(include_logprobs of its request is false); require_logprobs=False takes it all the same"
            )

    def _add(self, message: Dict[str, Any]) -> None:
        ids: List[int] = message["token_ids"]
        start = len(self.ids)
        self.ids.extend(ids)
        if start < self.row["prompt_tokens"]:
            return
        given: Optional[List[float]] = message.get("generation_logprobs")
        if given is None and message.get("sampled") is not True:
            return
        logprobs = [float("nan")] * len(ids) if given is None else given
        if len(logprobs) != len(ids):
            raise ValueError(f"{self.name}: expected {len(ids)} logprobs of a message, got {len(logprobs)}")
        self.sampled.extend(range(start, len(self.ids)))
        self.logprobs.extend(logprobs)

    def loss_of_sampled(self) -> NDArray[np.float32]:
        loss = np.full(len(self.sampled), self.row.get("loss_multiplier", 1), np.float32)
        for run in self.row.get("masked") or []:
            loss[run["start"] : run["end"]] = 0
        return loss

    def versions_of_sampled(self) -> NDArray[np.int64]:
        versions = np.full(len(self.sampled), -1, np.int64)
        for run in self.row.get("policy_versions") or []:
            versions[run["start"] : run["end"]] = _number_of(run["version"])
        return versions


def _number_of(label: Optional[str]) -> int:
    return int(label) if label is not None and label.isascii() and label.isdigit() else -1


def _group_ids(rows: List[Row]) -> NDArray[np.int64]:
    numbers: Dict[Tuple[Any, int], int] = {}
    ids = [numbers.setdefault((row.get("batch_id"), row["row"]), len(numbers)) for row in rows]
    return np.array(ids, np.int64)
