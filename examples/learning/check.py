"""Compares the rows of a run with the tokens that its engine sampled.

    python check.py --folder FOLDER        prints a report as JSON; the exit code is 1 if something is wrong

FOLDER has the trainer's metrics.jsonl and the engine's engine.jsonl. A row's token is compared with the engine's log by
its request and by its prompt: an interrupted stream continues under the same request id.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from durable_rollouts.results import read_rows

from grpo import Row
from run import lines_of

RATIO_TOLERANCE = 1e-4
LOGPROB_TOLERANCE = 1e-9


@dataclass
class Sampled:
    """A sequence of the engine."""

    name: str
    prompt: List[int]
    tokens: List[Tuple[int, float, str]] = field(default_factory=list)
    """Id, logprob, and the version of the weights themselves."""


def engine_log(path: Path) -> Dict[str, List[Sampled]]:
    """By request."""
    by_name: Dict[str, Sampled] = {}
    by_request: Dict[str, List[Sampled]] = defaultdict(list)
    for line in lines_of(path):
        if "request" in line:
            by_name[line["sequence"]] = Sampled(line["sequence"], line["prompt"])
            by_request[line["request"]].append(by_name[line["sequence"]])
        for name, id, logprob in line.get("tokens", []):
            by_name[name].tokens.append((id, logprob, line["version"]))
    return by_request


class Tokens:
    """Tokens of rows, compared with the log one by one."""

    def __init__(self, log: Dict[str, List[Sampled]]) -> None:
        self._log = log
        self._used: Set[Tuple[str, int]] = set()
        self.counts: Counter[str] = Counter({"tokens": 0, "missing": 0, "doubled": 0, "mislabelled": 0, "unlabelled": 0})

    def hold(self, row: Row) -> None:
        sampled = list(_sampled_of(row))
        ids = [id for message in row["message_log"] for id in message["token_ids"]]
        for segment in row["segments"]:
            at = segment["start"]
            while at < segment["end"]:
                asked = self._log.get(segment["request_id"], [])
                behind = [one for one in asked if one.prompt == ids[: sampled[at][0]]]
                # The last request for this position: tokens of earlier ones were not kept.
                runs = (self._matching(one, sampled[at : segment["end"]]) for one in reversed(behind))
                run = next((one for one in runs if one), [None])
                for place, held in zip(range(at, segment["end"]), run):
                    self._count(_version_of(row, place), held)
                at += len(run)

    def _matching(self, one: Sampled, sampled: List[Tuple[int, int, float]]) -> List[Tuple[str, int, str]]:
        """The beginning of the sequence that equals the row's."""
        run = []
        for k, ((_, id, logprob), (logged_id, logged, version)) in enumerate(zip(sampled, one.tokens)):
            if id != logged_id or abs(logprob - logged) > LOGPROB_TOLERANCE:
                break
            run.append((one.name, k, version))
        return run

    def _count(self, label: Optional[str], held: Optional[Tuple[str, int, str]]) -> None:
        self.counts["tokens"] += 1
        if held is None:
            self.counts["missing"] += 1
            return
        name, k, version = held
        self.counts["doubled"] += (name, k) in self._used
        self._used.add((name, k))
        self.counts["unlabelled"] += label is None
        self.counts["mislabelled"] += label is not None and label != version


def _sampled_of(row: Row) -> Iterator[Tuple[int, int, float]]:
    """Position in the log, id and logprob of each sampled token."""
    place = 0
    for message in row["message_log"]:
        for k, id in enumerate(message["token_ids"]):
            if place >= row["prompt_tokens"] and "generation_logprobs" in message:
                yield place, id, message["generation_logprobs"][k]
            place += 1


def _version_of(row: Row, place: int) -> Optional[str]:
    [version] = [run["version"] for run in row["policy_versions"] if run["start"] <= place < run["end"]]
    return version


def check(folder: Path) -> Dict[str, Any]:
    """The report; ``wrong`` lists violations."""
    lines = list(lines_of(folder / "metrics.jsonl"))
    asked = [line for line in lines if line["kind"] == "step"]
    held_out = sorted((line for line in lines if line["kind"] == "held_out"), key=lambda line: line["step"])
    sums: Dict[int, Set[str]] = defaultdict(set)
    for line in asked:
        sums[line["step"]] |= {line["sha256"], hashlib.sha256(Path(line["file"]).read_bytes()).hexdigest()}
    tokens, rollouts = Tokens(engine_log(folder / "engine.jsonl")), Counter()
    for file in {line["step"]: line["file"] for line in asked}.values():
        for row in read_rows(file):
            tokens.hold(row)
            rollouts[row["rollout_id"]] += 1
    current = [line for line in asked if line["current"] > 0]
    report = {
        "steps": len(sums),
        "asked_again": len(asked) - len(sums),
        "steps_that_changed": sum(len(found) > 1 for found in sums.values()),
        "rollouts": len(rollouts),
        "rollouts_twice": sum(count > 1 for count in rollouts.values()),
        **tokens.counts,
        "ratio_error": max((line["ratio_error"] for line in current), default=None),
        "ratio_tokens": sum(line["current"] for line in current),
        "lag_max": max(line["lag_max"] for line in asked),
        "held_out": [round(line["reward"], 3) for line in held_out],
        "seconds": round(max(line["at"] for line in lines) - min(line["at"] for line in lines), 1),
    }
    none = ("steps_that_changed", "rollouts_twice", "missing", "doubled", "mislabelled")
    wrong = [f"{name}: expected 0, got {report[name]}" for name in none if report[name] > 0]
    if report["ratio_error"] is None or report["ratio_error"] > RATIO_TOLERANCE:
        wrong.append(f"ratio_error: expected at most {RATIO_TOLERANCE}, got {report['ratio_error']}")
    if sorted(sums) != list(range(len(sums))):
        wrong.append(f"steps: expected 0 to {len(sums) - 1}, got {sorted(sums)}")
    return {**report, "wrong": wrong}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    report = check(parser.parse_args().folder)
    print(json.dumps(report))
    sys.exit(1 if report["wrong"] else 0)


if __name__ == "__main__":
    main()
