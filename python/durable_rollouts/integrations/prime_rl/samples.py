"""Rows as prime-rl has training samples, packed by its own function. This copies, and decides nothing."""

from __future__ import annotations

from typing import Any, List

import numpy as np
from prime_rl.trainer.batch import build_bin_cost, prepare_batch
from prime_rl.transports.rollouts.types import TrainingSample

from ...results import Row, to_groups
from ...trajectories import Trajectory, trajectories
from ..sampling import check_rows
from ..singles import check_logprobs
from .settings import Settings

FIELDS = ("token_ids", "mask", "logprobs", "temperatures", "env_name", "rl_weights", "advantages")
"""Those that are filled. prime-rl has no releases, so its type is looked at."""


def check_types() -> None:
    """Raises ``ImportError`` for a prime-rl whose samples have other fields."""
    missing = [name for name in FIELDS if name not in TrainingSample.__struct_fields__]
    if missing:
        raise ImportError(f"prime_rl: expected a TrainingSample with {', '.join(missing)}, as at commit 559b447, got one without")


def samples_of(rows: List[Row], temperature: float) -> List[TrainingSample]:
    """One a sequence: prime-rl has one a branch. Raises ``ValueError``, naming the rollout."""
    check_rows(rows, temperature)
    worth = {row["rollout_id"]: reward - np.mean(group.rewards) for group in to_groups(rows) for row, reward in zip(group.rows, group.rewards)}
    tasks = {row["rollout_id"]: row["task_name"] for row in rows}
    return [_sample(one, float(worth[one.rollout_id]), tasks[one.rollout_id], temperature) for one in trajectories(rows)]


def _sample(one: Trajectory, worth: float, task: str, temperature: float) -> TrainingSample:
    check_logprobs(one)
    before, length = len(one.prompt_ids), len(one.prompt_ids) + len(one.completion_ids)
    return TrainingSample(
        token_ids=[*one.prompt_ids.tolist(), *one.completion_ids.tolist()],
        mask=[False] * before + (one.completion_mask > 0).tolist(),
        logprobs=[0.0] * before + one.completion_logprobs.tolist(),
        temperatures=[temperature] * length,
        env_name=task,
        rl_weights=None if one.loss_multiplier == 1 else [one.loss_multiplier] * length,
        advantages=[worth] * length,
    )


def packed(samples: List[TrainingSample], settings: Settings) -> List[List[Any]]:
    """For each rank its micro-batches. prime-rl cuts what is longer than ``seq_len``, and says nothing, so nothing longer
    gets there: ``ValueError``, with the count.
    """
    lengths = [len(sample.token_ids) for sample in samples]
    longer = [length for length in lengths if length > settings.seq_len]
    if longer:
        raise ValueError(
            f"seq_len: expected at most {settings.seq_len} ids, got up to {max(longer)} in {len(longer)} of {len(lengths)} samples, "
            "which prime-rl would cut: give it and its trainer a larger one"
        )
    found: List[List[Any]] = prepare_batch(
        samples, settings.seq_len, settings.num_train_workers, build_bin_cost(_model_config(settings.model.name)), settings.pad_to_multiple_of
    )
    return found


def _model_config(name: Any) -> Any:
    """As prime-rl's own orchestrator balances micro-batches; None: by tokens."""
    if name is None:
        return None
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(name)
