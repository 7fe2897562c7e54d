"""The task: words in a cipher that the policy has to find out by itself, four of them a rollout.

A word in small letters is answered by each letter's successor (``a`` follows ``j``), one in capitals by each letter's
predecessor, in small letters; turns alternate between the two. An answer ends with ``policy.END``. A turn's reward
is the share of letters that are right. The environment (environment.ts) knows no rule: a sample brings its words and
answers.

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
TURNS = 4
TRAIN, HELD_OUT = 256, 32

Sample = Dict[str, Any]


def answer_to(word: str) -> str:
    step = -1 if word.isupper() else 1
    return "".join(LETTERS[(LETTERS.index(letter) + step) % len(LETTERS)] for letter in word.lower())


def shown(word: str) -> str:
    return f"{word}="


def reward_of(answer: str, expected: str) -> float:
    """Letters in the right place, as a share of the longer one of both; a turn's part of the rollout's reward."""
    right = sum(a == b for a, b in zip(answer, expected))
    return right / max(len(answer), len(expected)) / TURNS


def samples(seed: int, count: int) -> List[Sample]:
    """All of them differ in their first words."""
    random = np.random.default_rng(seed)
    drawn: Dict[str, List[str]] = {}
    while len(drawn) < count:
        small = ["".join(letters) for letters in random.choice(list(LETTERS), (TURNS, LENGTH))]
        words = [word.upper() if turn % 2 == 1 else word for turn, word in enumerate(small)]
        drawn.setdefault(words[0], words)
    return [
        {
            "message_log": [{"role": "user", "content": shown(words[0])}],
            "task_name": "cipher",
            "extra_env_info": {"turn": 0, "words": words, "answers": list(map(answer_to, words))},
        }
        for words in drawn.values()
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
