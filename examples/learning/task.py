"""The task: words in a cipher that the policy has to find out by itself, two of them a rollout.

Turn 0 shows a word in small letters; its answer is each letter's successor (``a`` follows ``j``). Turn 1 shows one in
capitals; its answer is each letter's predecessor, in small letters. An answer ends with ``policy.END``. Its reward is
the share of letters that are right, and half of the rollout's. The environment (environment.ts) knows no rule: a sample
brings its words and answers.

    python task.py --folder FOLDER --seed 1      writes FOLDER/train.jsonl and FOLDER/held-out.jsonl
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Dict, List

import numpy as np

LETTERS = "abcdefghij"
LENGTH = 8
"""Letters of a word. With its end an answer has ``LENGTH + 1`` tokens."""
TURNS = 2
TRAIN, HELD_OUT = 512, 64

Sample = Dict[str, Any]


def answer_to(word: str) -> str:
    step = -1 if word.isupper() else 1
    return "".join(LETTERS[(LETTERS.index(letter) + step) % len(LETTERS)] for letter in word.lower())


def shown(word: str) -> str:
    return f"{word}="


def reward_of(answer: str, expected: str) -> float:
    """Letters in the right place, as a share of the longer one of both. A turn's part of the rollout's reward."""
    right = sum(a == b for a, b in zip(answer, expected))
    return right / max(len(answer), len(expected)) / TURNS


def samples(seed: int, count: int) -> List[Sample]:
    """All of them differ in their first words."""
    random = np.random.default_rng(seed)
    words: Dict[str, str] = {}
    while len(words) < count:
        small, large = random.choice(list(LETTERS), (TURNS, LENGTH))
        words.setdefault("".join(small), "".join(large).upper())
    return [
        {
            "message_log": [{"role": "user", "content": shown(first)}],
            "task_name": "cipher",
            "extra_env_info": {"turn": 0, "words": [first, second], "answers": [answer_to(first), answer_to(second)]},
        }
        for first, second in words.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()
    drawn = samples(args.seed, TRAIN + HELD_OUT)
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, some in (("train", drawn[:TRAIN]), ("held-out", drawn[TRAIN:])):
        lines = "".join(json.dumps(sample) + "\n" for sample in some)
        (args.folder / f"{name}.jsonl").write_text(lines)


if __name__ == "__main__":
    main()
