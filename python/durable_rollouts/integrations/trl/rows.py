"""Rows as TRL has completions. This copies, and decides nothing."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Protocol

from ...arrays import played_of, warn_of
from ...results import Row
from ...trajectories import Trajectory, trajectory_of
from ..sampling import check_rows
from ..singles import check_completion, mask_of


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
        check_completion(one, "TRL")
    return played
