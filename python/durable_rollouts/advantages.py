"""What a reward is worth beside those of its group, and how much each token counts in the loss."""

from __future__ import annotations

from typing import Iterable, List, Literal

import numpy as np
from numpy.typing import NDArray

from .results import Group

Kind = Literal["grpo", "rloo", "none"]
Norm = Literal["token", "rollout"]

# Beside a spread of zero there is no signal, and nothing to divide by.
LEAST_SPREAD = 1e-6


def advantages(groups: Iterable[Group], kind: Kind = "grpo") -> List[NDArray[np.float32]]:
    """What each valid rollout's reward is worth beside those of its group.

    groups: of a batch, or of ``to_groups``
    kind: ``"grpo"``: minus the group's mean, divided by its standard deviation (of a sample: n - 1, as torch's) plus 1e-6;
      ``"rloo"``: minus the mean of the others; ``"none"``: the reward itself. Alone in its group it is 0 under ``"grpo"`` and
      ``"rloo"``

    Returns float32 arrays, one a group, in the order of its ``rows``. Raises ``ValueError`` for another kind.

        worth = dict(zip((row["rollout_id"] for row in group.rows), advantages([group])[0]))
    """
    rewards = [np.array(group.rewards, np.float32) for group in groups]
    return [advantages_of(one, np.zeros(len(one), np.int64), kind) for one in rewards]


def advantages_of(rewards: NDArray[np.float32], groups: NDArray[np.int64], kind: Kind) -> NDArray[np.float32]:
    """One for each rollout.

    rewards: of each rollout once
    groups: the number of its group, from 0 on
    kind: ``"grpo"``: minus the group's mean, divided by its standard deviation (of a sample: n - 1) plus 1e-6;
      ``"rloo"``: minus the mean of the others; ``"none"``: the reward itself. A rollout that is alone in its group says nothing beside
      others: 0 under ``"grpo"`` and ``"rloo"``

    Raises ``ValueError`` for another kind.
    """
    if kind == "none":
        copied: NDArray[np.float32] = rewards.copy()
        return copied
    if kind not in ("grpo", "rloo"):
        raise ValueError(f'advantages: expected "grpo", "rloo" or "none", got {kind!r}')
    exact = rewards.astype(np.float64)
    count = np.bincount(groups, minlength=1).astype(np.float64)
    own = count[groups]
    mean = np.bincount(groups, exact, minlength=1) / np.maximum(count, 1)
    # The mean of equal numbers may differ from them in the last digit.
    flat = _largest(exact, groups, len(count)) == -_largest(-exact, groups, len(count))
    apart = np.where(flat[groups], 0.0, exact - mean[groups])
    others = np.maximum(own - 1, 1)
    if kind == "rloo":
        beside: NDArray[np.float32] = (apart * own / others).astype(np.float32)
        return beside
    spread = np.sqrt(np.bincount(groups, apart**2, minlength=1)[groups] / others)
    scaled: NDArray[np.float32] = (apart / (spread + LEAST_SPREAD)).astype(np.float32)
    return scaled


def weights_of(loss_mask: NDArray[np.float32], rollouts: NDArray[np.int64], norm: Norm) -> NDArray[np.float32]:
    """The weight of each token: the loss is minus the sum of weight, advantage and ratio, and nothing else is divided.

    loss_mask: ``(N, T)``
    rollouts: ``(N,)``: which rollout each row of it belongs to, from 0 on
    norm: ``"token"``: all trained tokens count alike; ``"rollout"``: all rollouts that train count alike, whatever
      their length and the number of their sequences

    Raises ``ValueError`` for another norm.
    """
    trained = np.array([np.count_nonzero(row) for row in loss_mask], np.float64)
    if norm == "token":
        each = np.full(len(trained), max(1.0, trained.sum()))
    elif norm == "rollout":
        of_rollout = np.bincount(rollouts, trained, minlength=1)
        each = np.maximum(1.0, of_rollout[rollouts] * np.count_nonzero(of_rollout))
    else:
        raise ValueError(f'norm: expected "token" or "rollout", got {norm!r}')
    weights: NDArray[np.float32] = np.empty_like(loss_mask)
    # In float64, as if there were room for all of it.
    np.divide(loss_mask, each[:, None], out=weights, casting="same_kind")
    return weights


def _largest(values: NDArray[np.float64], groups: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    found = np.full(count, -np.inf)
    np.maximum.at(found, groups, values)
    return found
