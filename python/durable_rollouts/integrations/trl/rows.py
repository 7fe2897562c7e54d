"""Rows as TRL has completions. This copies, and decides nothing."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Protocol

import numpy as np

from ...arrays import played_of, warn_of
from ...results import Row
from ...trajectories import Trajectory, trajectory_of
from ..sampling import check_rows


class Owner(Protocol):
    """Of versions of weights: ``Own``, or who has one."""

    def check(self, rows: List[Row]) -> None: ...


def check(rows: List[Row], *, temperature: float, own: Optional[Owner]) -> None:
    """Raises ``ValueError`` for rows of another distribution than the loss has, and ``ForeignWeights``."""
    check_rows(rows, temperature)
    if own is not None:
        own.check(rows)


def columns_of(rows: Iterable[Row]) -> Dict[str, List[Any]]:
    """``prompt_ids``, ``completion_ids``, ``logprobs``, and ``env_mask`` (1: trained), a list for each row."""
    played = completions_of(rows)
    return {
        "prompt_ids": [one.prompt_ids.tolist() for one in played],
        "completion_ids": [one.completion_ids.tolist() for one in played],
        "logprobs": [one.completion_logprobs.tolist() for one in played],
        "env_mask": [mask_of(one).tolist() for one in played],
        "rollout_reward": [one.reward for one in played],
        "rollout_id": [one.rollout_id for one in played],
    }


def completions_of(rows: Iterable[Row]) -> List[Trajectory]:
    """TRL has one completion for a rollout: of an agent's several sequences the main one, and a warning says how much that
    leaves out. Raises ``ValueError``, naming the rollout, for what TRL cannot hold.
    """
    rollouts = played_of(rows)
    warn_of(rollouts, "main")
    played = [trajectory_of(main) for main, *_ in rollouts]
    for one in played:
        if one.loss_multiplier not in (0, 1):
            raise ValueError(f"{one.rollout_id}: loss_multiplier: expected 0 or 1, since TRL has no weights, got {one.loss_multiplier:g}")
        if len(one.completion_ids) == 0:
            raise ValueError(f"{one.rollout_id}: expected a completion, got none: TRL takes no empty one (max_prompt_tokens leaves it room)")
        if np.isnan(one.completion_logprobs).any():
            raise ValueError(f"{one.rollout_id}: expected a logprob of each sampled token, got none (include_logprobs)")
    return played


def mask_of(one: Trajectory) -> Any:
    """What trains. With ``loss_multiplier`` 0: nothing."""
    return one.completion_mask.astype(np.int64) * int(one.loss_multiplier)
