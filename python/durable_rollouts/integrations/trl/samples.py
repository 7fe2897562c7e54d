"""Rows as ``AsyncGRPOTrainer`` has samples."""

from __future__ import annotations

import dataclasses
import time
from typing import List, Optional

import numpy as np
from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

from ...advantages import Kind, advantages
from ...results import Row, to_groups
from ...trajectories import Trajectory
from ..singles import mask_of
from .rows import completions_of


def samples_of(rows: List[Row], kind: Kind, *, version: Optional[int]) -> List[RolloutSample]:
    """In their order. ``model_version`` is how much older than ``version`` each one is."""
    groups = to_groups(rows)
    worth = {row["rollout_id"]: one for group, all in zip(groups, advantages(groups, kind)) for row, one in zip(group.rows, all)}
    spread = {row["rollout_id"]: float(np.std(group.rewards)) for group in groups for row in group.rows}
    return [
        RolloutSample(
            prompt=row["message_log"][:1],
            completion=row["message_log"][1:],
            input_ids=np.concatenate([one.prompt_ids, one.completion_ids]).astype(np.int64),
            completion_mask=np.concatenate([np.zeros(len(one.prompt_ids), np.int64), mask_of(one)]),
            old_log_probs=np.concatenate([np.zeros(len(one.prompt_ids), np.float32), one.completion_logprobs]),
            advantage=float(worth[one.rollout_id]),
            model_version=lag_of(one, version),
            group_id=one.row,
            metrics={"reward": one.reward, "reward_std": spread[one.rollout_id]},
            enqueued_at=time.time(),
        )
        for row, one in zip(rows, completions_of(rows))
    ]


def lag_of(one: Trajectory, version: Optional[int]) -> int:
    """How much older than the version its oldest trained token is; 0 where nobody knows."""
    known = one.versions[(one.completion_mask > 0) & (one.versions >= 0)]
    return 0 if version is None or len(known) == 0 else max(0, version - int(known.min()))


def filler_like(sample: RolloutSample) -> RolloutSample:
    """A sample of the same ids, none of which trains: a group may have lost members, and the trainer counts samples."""
    return dataclasses.replace(sample, completion_mask=np.zeros_like(sample.completion_mask), advantage=0.0)
