"""The same trainer without any service: rollouts are played in this process, with weights of a fixed lag.

It shows in seconds that task, policy and GRPO learn. It survives nothing.

    python offline.py --seed 1 [--shuffle-advantages]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import List, Tuple

import numpy as np

from grpo import Row
from model import Weights
from policy import END, draw, next_logprobs, window_before
from rollouts import begun, ended, goes_on, ids_of, take
from run import Run
from task import HELD_OUT, TRAIN, Sample, samples
from trainer import GROUPS, MAX_LAG, REPEATS, ROLLOUTS, STEPS, Delivered, Settings, of_held_out, train

LONGEST = ROLLOUTS["generation"]["max_new_tokens"]


def answers(weights: Weights, logs: List[List[int]], random: np.random.Generator) -> List[Tuple[List[int], List[float]]]:
    """Ids and logprobs of the policy's answer to each log, up to an end or ``LONGEST`` tokens."""
    said: List[Tuple[List[int], List[float]]] = [([], []) for _ in logs]
    for _ in range(LONGEST):
        going = [i for i, (ids, _) in enumerate(said) if END not in ids]
        if not going:
            break
        windows = np.stack([window_before(logs[i] + said[i][0], len(logs[i]) + len(said[i][0])) for i in going])
        logprobs = next_logprobs(weights, windows)
        for row, (i, token) in enumerate(zip(going, draw(logprobs, random.random(len(going))))):
            said[i][0].append(int(token))
            said[i][1].append(float(logprobs[row, token]))
    return said


def play(weights: Weights, version: int, tasks: List[Tuple[int, Sample]], random: np.random.Generator) -> List[Row]:
    """A rollout for each ``(group, sample)``."""
    rows = [begun(group, sample) for group, sample in tasks]
    while going := [row for row in rows if goes_on(row)]:
        for row, (ids, logprobs) in zip(going, answers(weights, list(map(ids_of, going)), random)):
            take(row, ids, logprobs)
    return [ended(row, version) for row in rows]


class Local:
    """Steps that are played on request, with the weights of ``lag`` versions ago."""

    def __init__(self, run: Run, *, seed: int, lag: int) -> None:
        self._run, self._lag = run, lag
        self._random = np.random.default_rng(seed)
        drawn = samples(seed, TRAIN + HELD_OUT)
        self._train, self._held_out = drawn[:TRAIN], drawn[TRAIN:]
        self._published: List[Weights] = []

    def publish(self, version: int, path: Path, weights: Weights) -> None:
        self._published.append(weights)

    def next_step(self, step: int, version: int) -> Delivered:
        groups = [step * GROUPS + i for i in range(GROUPS)]
        tasks = [(group, self._train[group % TRAIN]) for group in groups for _ in range(REPEATS)]
        behind = min(self._lag, len(self._published) - 1)
        return Delivered(play(self._published[-1 - behind], version - behind, tasks, self._random), "", "")

    def evaluate(self, step: int) -> None:
        tasks = list(enumerate(self._held_out))
        self._run.note("held_out", step=step, **of_held_out(play(self._published[-1], step, tasks, self._random)))

    def end(self) -> None:
        """Nothing runs in the background."""


def held_out_rewards(settings: Settings, lag: int = MAX_LAG) -> List[float]:
    """The metrics of a whole training, from before the first step to after the last."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        train(run, Local(run, seed=settings.seed, lag=lag), settings)
        return [line["reward"] for line in run.noted("held_out")]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--shuffle-advantages", action="store_true")
    args = parser.parse_args()
    began = time.process_time()
    rewards = held_out_rewards(Settings(args.seed, args.steps, args.shuffle_advantages))
    print(" ".join(f"{reward:.2f}" for reward in rewards), f"in {time.process_time() - began:.1f} s of processor time")


if __name__ == "__main__":
    main()
