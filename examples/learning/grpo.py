"""GRPO: rows as a batch of tokens, each with its advantage, and one step of the policy on them.

A turn's advantage compares its reward with the same turn of the other members of its group, so no turn depends on
another one's answer. Older versions than the training one sampled the tokens. Their recorded logprobs give the
importance ratio, which is clipped as in PPO.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
from durable_rollouts import to_arrays

from model import Floats, Ids, Model, Places, Weights

Row = Dict[str, Any]

EPOCHS = 2
CLIP = 0.8
LONGEST_GRADIENT = 1.0
BETAS = (0.9, 0.99)
LEAST_SPREAD = 0.01
"""Added to the spread of a group's rewards: a group without spread teaches nothing."""


@dataclass(frozen=True)
class Batch:
    """``M`` sampled tokens of a step's rollouts."""

    ids: Ids
    """``(N, T)``: whole sequences."""
    places: Places
    """Rows and columns of the tokens in ``ids``."""
    logprobs: Floats
    """``(M,)``: as the engine reported them."""
    advantages: Floats
    """``(M,)``"""
    versions: Ids
    """``(M,)``: version of the weights that sampled it; -1: unknown."""
    turns: Ids
    """``(M,)``: tokens of one turn of one rollout have one number."""

    def __len__(self) -> int:
        return len(self.logprobs)


@dataclass
class Optimizer:
    """Adam's means of gradients and of their squares, and the number of updates."""

    first: Weights
    second: Weights
    updates: int = 0

    @classmethod
    def of(cls, weights: Weights) -> "Optimizer":
        zeros = [{name: np.zeros_like(array) for name, array in weights.items()} for _ in range(2)]
        return cls(*zeros)


def batch_of(rows: List[Row]) -> Batch:
    """Raises ``ValueError`` if ``to_arrays`` refuses a row."""
    arrays = to_arrays(rows)
    sampled = arrays.loss_mask > 0
    # A turn begins at a sampled token that follows an unsampled one.
    begins = sampled & ~np.pad(sampled, ((0, 0), (1, 0)))[:, :-1]
    turn_in_row = begins.cumsum(axis=1) - 1
    advantages = advantages_of([row["turn_rewards"] for row in rows], arrays.group_ids)
    rollouts, columns = places = np.nonzero(sampled)
    turns = turn_in_row[places]
    return Batch(
        ids=arrays.input_ids,
        places=(rollouts, columns),
        logprobs=arrays.logprobs[places].astype(np.float64),
        advantages=advantages[rollouts, turns],
        versions=arrays.versions[places],
        turns=rollouts * advantages.shape[1] + turns,
    )


def advantages_of(turn_rewards: List[List[float]], group_ids: Ids) -> Floats:
    """``(N, turns)``: each turn compared with the group's members that have it; 0 if a rollout lacks it."""
    longest = max(map(len, turn_rewards))
    rewards = np.full((len(turn_rewards), longest), np.nan)
    for row, given in enumerate(turn_rewards):
        rewards[row, : len(given)] = given
    advantages = np.zeros_like(rewards)
    for group in np.unique(group_ids):
        for turn in range(longest):
            members = np.nonzero((group_ids == group) & ~np.isnan(rewards[:, turn]))[0]
            if len(members) > 1:
                of_turn = rewards[members, turn]
                advantages[members, turn] = (of_turn - of_turn.mean()) / (of_turn.std() + LEAST_SPREAD)
    return advantages


def shuffled(batch: Batch, seed: Tuple[int, int]) -> Batch:
    """The same tokens with permuted advantages: there is nothing to learn from them."""
    advantages = np.random.default_rng(seed).permutation(batch.advantages)
    return Batch(**{**vars(batch), "advantages": advantages})


def gradient(model: Model, weights: Weights, batch: Batch) -> Tuple[Weights, Floats]:
    """The gradient of the clipped objective, to be descended, and the importance ratios ``(M,)``."""
    logprobs, pull = model.logprobs(weights, batch.ids, batch.places)
    ratios = np.exp(logprobs - batch.logprobs)
    # Beyond the clipping bound the objective is constant.
    counts = np.where(batch.advantages > 0, ratios < 1 + CLIP, ratios > 1 - CLIP)
    return pull(-1.0 * counts * ratios * batch.advantages / len(batch)), ratios


def objective(model: Model, weights: Weights, batch: Batch) -> float:
    """The objective whose gradient ``gradient`` returns."""
    logprobs, _ = model.logprobs(weights, batch.ids, batch.places)
    ratios = np.exp(logprobs - batch.logprobs)
    clipped = np.clip(ratios, 1 - CLIP, 1 + CLIP)
    return -float(np.minimum(ratios * batch.advantages, clipped * batch.advantages).mean())


def update(model: Model, weights: Weights, optimizer: Optimizer, batch: Batch) -> Tuple[Weights, Floats]:
    """New weights, and the ratios before them ``(M,)``; changes the optimizer. The same input gives the same bits."""
    first_ratios: Optional[Floats] = None
    for _ in range(EPOCHS):
        by_weight, ratios = gradient(model, weights, batch)
        first_ratios = ratios if first_ratios is None else first_ratios
        length = np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in by_weight.values()))
        scale = np.float32(min(1.0, LONGEST_GRADIENT / max(length, 1e-12)))
        scaled = {name: scale * slope for name, slope in by_weight.items()}
        weights = _adam(weights, optimizer, scaled, model.LEARNING_RATE)
    assert first_ratios is not None
    return weights, first_ratios


def _adam(weights: Weights, optimizer: Optimizer, by_weight: Weights, learning_rate: float) -> Weights:
    optimizer.updates += 1
    first, second = (1 - beta**optimizer.updates for beta in BETAS)
    new = {}
    for name, array in weights.items():
        slope = by_weight[name]
        optimizer.first[name] = BETAS[0] * optimizer.first[name] + (1 - BETAS[0]) * slope
        optimizer.second[name] = BETAS[1] * optimizer.second[name] + (1 - BETAS[1]) * slope**2
        step = optimizer.first[name] / first / (np.sqrt(optimizer.second[name] / second) + 1e-8)
        new[name] = (array - learning_rate * step).astype(array.dtype)
    return new


def report(rows: List[Row], batch: Batch, ratios: Floats, version: int) -> Dict[str, float]:
    """Statistics of a step for the board, the plot and the checks.

    ``ratio_error``: the largest distance of a ratio from 1 among the tokens of turns that only ``version`` sampled; -1
    without such a turn. ``lag``: versions between the training one and the sampling ones, where known.
    """
    known = batch.versions >= 0
    lags = version - batch.versions[known]
    other = np.unique(batch.turns[batch.versions != version])
    current = ~np.isin(batch.turns, other)
    return {
        "reward": float(np.mean([row["total_reward"] for row in rows])),
        "length": len(batch) / len(rows),
        "tokens": len(batch),
        "unknown": int((~known).sum()),
        "lag": float(lags.mean()) if len(lags) > 0 else 0.0,
        "lag_max": int(lags.max()) if len(lags) > 0 else 0,
        "ratio": float(ratios.mean()),
        "current": int(current.sum()),
        "ratio_error": float(np.abs(ratios[current] - 1).max()) if current.any() else -1.0,
    }
