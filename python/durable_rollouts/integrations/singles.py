"""Rollouts that a trainer waits for one by one, under names that it gives them again when it was killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Dict, List, Mapping, Sequence

import numpy as np

from ..loop import run as _run
from ..results import Row
from ..sync import Client
from ..trajectories import Trajectory


class Places:
    """Names of what a training asks for. It may ask several times in a step, and in the same order when it is started again."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._asked: Counter[str] = Counter()

    def next(self, step: int, *, kind: str = "") -> str:
        """The start of its rollouts' ids. kind: "" for those that train."""
        place = f"{self._run}:{kind}{step}"
        self._asked[place] += 1
        return f"{place}.{self._asked[place] - 1}"


async def play(client: Client, samples: Sequence[Any], ids: Sequence[str], settings: Mapping[str, Any]) -> List[Row]:
    """Raises the failure of the first that fails, and waits for no other. For the loop of ``durable_rollouts``."""
    playing = [asyncio.ensure_future(client._aio.rollout(one, id, **settings)) for one, id in zip(samples, ids)]
    try:
        return list(await asyncio.gather(*playing))
    finally:
        for one in playing:
            one.cancel()
        await asyncio.gather(*playing, return_exceptions=True)


def have_ended(client: Client, ids: Sequence[str]) -> bool:
    """Whether asking for them plays nothing."""
    return all(_run(_ended(client, ids)))


async def _ended(client: Client, ids: Sequence[str]) -> List[bool]:
    return await asyncio.gather(*(client._aio._single.has_ended(one) for one in ids))


def check_completion(one: Trajectory, trainer: str) -> None:
    """Raises ``ValueError``, naming the rollout, for what trainers with masks of 0 and 1, and without missing values, cannot hold."""
    if one.loss_multiplier not in (0, 1):
        raise ValueError(f"{one.rollout_id}: loss_multiplier: expected 0 or 1, since {trainer} has no weights, got {one.loss_multiplier:g}")
    if len(one.completion_ids) == 0:
        raise ValueError(f"{one.rollout_id}: expected a completion, got none: {trainer} takes no empty one (max_prompt_tokens leaves it room)")
    check_logprobs(one)


def check_logprobs(one: Trajectory) -> None:
    """Raises ``ValueError``, naming the rollout, for one that was sampled without them."""
    if np.isnan(one.completion_logprobs).any():
        raise ValueError(f"{one.rollout_id}: expected a logprob of each sampled token, got none (include_logprobs)")


def mask_of(one: Trajectory) -> Any:
    """1 for each token that trains. With ``loss_multiplier`` 0 none does."""
    return one.completion_mask.astype(np.int64) * int(one.loss_multiplier)


def truth_of(spec: Any) -> Dict[str, Any]:
    """The part of a column such as verl's ``reward_model`` that environments get."""
    return {"ground_truth": spec["ground_truth"]} if isinstance(spec, Mapping) and "ground_truth" in spec else {}
