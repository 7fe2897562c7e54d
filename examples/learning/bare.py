"""A loop that keeps nothing of an unfinished step. The plot shows what the same kills do to it.

It has the same trainer, engine and task, but not the project: it plays a step's rollouts against the engine itself, loads
new weights into it, and writes the same checkpoints. Any failure ends it. Its supervisor starts it again, and it starts
over after its last checkpoint.

    python bare.py --folder FOLDER --engine http://127.0.0.1:8000 --seed 1
"""

from __future__ import annotations

import argparse
import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, List, Tuple
from urllib.parse import urlsplit

import numpy as np

from grpo import Row
from model import Weights
from offline import play
from rollouts import begun, ended, goes_on, ids_of, take
from run import Run, end_with_parent
from task import HELD_OUT, TRAIN, Sample, samples
from trainer import GROUPS, REPEATS, ROLLOUTS, STEPS, Delivered, Settings, train

LONGEST_S = 120
MAX_TOKENS = ROLLOUTS["generation"]["max_new_tokens"]


class Bare:
    def __init__(self, run: Run, *, engine: str, seed: int) -> None:
        self._run, self._host = run, urlsplit(engine).netloc
        self._random = np.random.default_rng()
        drawn = samples(seed, TRAIN + HELD_OUT)
        self._train, self._held_out = drawn[:TRAIN], drawn[TRAIN:]
        self._weights: Weights = {}

    def publish(self, version: int, path: Path, weights: Weights) -> None:
        self._weights = weights
        self._ask("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(path)}})

    def next_step(self, step: int, version: int) -> Delivered:
        groups = [step * GROUPS + i for i in range(GROUPS)]
        tasks = [(group, self._train[group % TRAIN]) for group in groups for _ in range(REPEATS)]
        with ThreadPoolExecutor(len(tasks)) as pool:
            rows = list(pool.map(lambda task: self._play(version, task), tasks))
        return Delivered(rows, "", "")

    def _play(self, version: int, task: Tuple[int, Sample]) -> Row:
        row = begun(*task)
        while goes_on(row):
            asked = {"prompt": ids_of(row), "max_tokens": MAX_TOKENS, "logprobs": 0, "return_token_ids": True}
            [choice] = self._ask("/v1/completions", asked)["choices"]
            take(row, choice["token_ids"], choice["logprobs"]["token_logprobs"])
        return ended(row, version)

    def _ask(self, path: str, body: Dict[str, Any]) -> Dict[str, Any]:
        connection = http.client.HTTPConnection(self._host, timeout=LONGEST_S)
        try:
            connection.request("POST", path, json.dumps(body))
            response = connection.getresponse()
            answer: Dict[str, Any] = json.loads(response.read())
            if response.status != 200:
                raise RuntimeError(f"{path}: expected 200, got {response.status} {answer}")
            return answer
        finally:
            connection.close()

    def evaluate(self, step: int) -> None:
        """Plays in this process with its own weights, so kills of the engine cost it nothing."""
        tasks: List[Tuple[int, Sample]] = list(enumerate(self._held_out))
        rows = play(self._weights, step, tasks, self._random)
        self._run.note("held_out", step=step, reward=float(np.mean([row["total_reward"] for row in rows])))

    def end(self) -> None:
        """Nothing runs in the background."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steps", type=int, default=STEPS)
    args = parser.parse_args()
    end_with_parent()
    run = Run(args.folder)
    run.forget_unsaved()
    train(run, Bare(run, engine=args.engine, seed=args.seed), Settings(args.seed, args.steps))


if __name__ == "__main__":
    main()
