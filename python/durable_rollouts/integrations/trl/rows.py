"""Rows as TRL has completions. This copies, and decides nothing."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np

from ...arrays import Arrays, to_arrays
from ...results import Row


def columns_of(rows: List[Row]) -> Dict[str, List[Any]]:
    """``prompt_ids``, ``completion_ids``, ``logprobs``, and ``env_mask`` (1: trained), a list for each row. TRL has one
    completion for a rollout: of an agent's several sequences the main one, and a warning says how much that leaves out.
    """
    arrays = to_arrays(rows, sequences="main")
    columns: Dict[str, List[Any]] = {name: [] for name in ("prompt_ids", "completion_ids", "logprobs", "env_mask")}
    for at, row in enumerate(rows):
        ids, mask, logprobs, start = completion_of(row, arrays, at)
        columns["prompt_ids"].append(ids[:start])
        columns["completion_ids"].append(ids[start:])
        columns["logprobs"].append(logprobs[start:])
        columns["env_mask"].append(mask[start:])
    return {
        **columns,
        "rollout_reward": [float(row["total_reward"]) for row in rows],
        "rollout_id": [row["rollout_id"] for row in rows],
    }


def completion_of(row: Row, arrays: Arrays, at: int) -> Tuple[List[int], List[int], List[float], int]:
    """Its ids, which of them train, their logprobs, and where its completion begins."""
    length = int(arrays.attention_mask[at].sum())
    weights = arrays.loss_mask[at, :length]
    if not np.isin(weights, (0, 1)).all():
        raise ValueError(f"{row['rollout_id']}: loss_multiplier: expected 0 or 1, since TRL has no weights, got {weights.max():g}")
    start = int(row["prompt_tokens"])
    if start >= length:
        raise ValueError(f"{row['rollout_id']}: expected a completion, got none: TRL takes no empty one (min_tokens: 1)")
    return arrays.input_ids[at, :length].tolist(), weights.astype(int).tolist(), arrays.logprobs[at, :length].tolist(), start
