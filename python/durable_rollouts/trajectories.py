"""Rollouts as ragged numpy arrays, for trainers that pad and pack themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable, List, Union

import numpy as np
from numpy.typing import NDArray

from .arrays import played_of, warn_of
from .arrow import Sequences
from .results import Row
from .tokens import Tokens


@dataclass(frozen=True)
class Trajectory:
    """One sequence of a rollout. Its arrays are views: of the file where it is ``rollouts.arrow``, and then read-only.

    rollout_id: the row's
    row, repeat: the row's: rollouts of one row share a baseline
    sequence: which of the rollout's sequences; 0: the main one
    prompt_ids: int32: ids before the first that the policy sampled. Of another sequence than the main one: before the first
      that it has of its own; those of its parents may be sampled, too, and train there
    completion_ids: int32: all others: what the policy sampled, and observations between
    completion_mask: uint8: 1 for those to train on (``train_mask``)
    completion_logprobs: float32: of each sampled id, in nats; 0 for others, NaN where the engine reported none
    versions: int32 or int64: the version of the weights that sampled the id; -1: it was not sampled, or nobody knows
    reward: ``total_reward`` of the rollout
    loss_multiplier: the row's, or 1
    stop_reason, terminated, truncated: the row's: what ended the rollout
    """

    rollout_id: str
    row: int
    repeat: int
    sequence: int
    prompt_ids: NDArray[np.int32] = field(repr=False)
    completion_ids: NDArray[np.int32] = field(repr=False)
    completion_mask: NDArray[np.uint8] = field(repr=False)
    completion_logprobs: NDArray[np.float32] = field(repr=False)
    versions: NDArray[Any] = field(repr=False)
    reward: float
    loss_multiplier: float
    stop_reason: str
    terminated: bool
    truncated: bool


def trajectory(row: Row) -> Trajectory:
    """A rollout's main sequence.

    row: a valid rollout

    Returns it. Raises ``ValueError`` like ``to_arrays``.

        completion = trajectory(row).completion_ids
    """
    return trajectory_of(played_of([row])[0][0])


def trajectories(rows: Union[Iterable[Row], Sequences]) -> List[Trajectory]:
    """All sequences that train, those of a rollout one after the other, the main one first.

    rows: valid rollouts, or the sequences of ``rollouts.arrow``

    Returns them in the order of the rows. Raises ``ValueError`` and warns like ``to_arrays``.

        lengths = [len(one.completion_ids) for one in trajectories(step.sequences())]
    """
    rollouts = played_of(rows)
    warn_of(rollouts, "all")
    return [trajectory_of(one) for rollout in rollouts for one in rollout if one.sequence == 0 or one.trains]


def trajectory_of(one: Tokens) -> Trajectory:
    """Its arrays are views of those."""
    at = one.prompt_tokens
    return Trajectory(
        rollout_id=one.rollout_id,
        row=one.row,
        repeat=one.repeat,
        sequence=one.sequence,
        prompt_ids=one.ids[:at],
        completion_ids=one.ids[at:],
        completion_mask=one.mask[at:],
        completion_logprobs=one.logprobs[at:],
        versions=one.versions[at:],
        reward=one.reward,
        loss_multiplier=one.loss_multiplier,
        stop_reason=one.stop_reason,
        terminated=one.terminated,
        truncated=one.truncated,
    )
