"""Compares the rows of a run with the tokens that its engine sampled.

    python check.py --folder FOLDER        prints a report as JSON; the exit code is 1 if something is wrong

FOLDER has the trainer's metrics.jsonl and the engine's engine.jsonl. A token of a row is found in the engine's log by its
request and by the prompt before it, because a cut stream continues under the same request id.
A vLLM has no such log (``--model qwen``). There a token's logprob is computed again with the weights that its label names.
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

import numpy as np
from durable_rollouts import open as open_store
from durable_rollouts.results import read_rows

from grpo import Row, batch_of
from model import MODELS, Model, model_of
from run import Run, lines_of

RATIO_TOLERANCE = {"policy": 1e-4, "qwen": 1e-3}
"""Trainer and engine compute the same in numpy, or in other kernels."""
LOGGED_TOLERANCE = 1e-9
COMPUTED_TOLERANCE = 1e-3
"""Tolerances of a logprob, compared with the engine's log and with the policy's own computation."""


@dataclass
class Sampled:
    """A sequence of the engine."""

    name: str
    prompt: List[int]
    tokens: List[Tuple[int, float, str]] = field(default_factory=list)
    """Id, logprob, and the version of the weights themselves."""


def engine_log(path: Path) -> Dict[str, List[Sampled]]:
    """The logged sequences of each request."""
    by_name: Dict[str, Sampled] = {}
    by_request: Dict[str, List[Sampled]] = defaultdict(list)
    for line in lines_of(path):
        if "request" in line:
            by_name[line["sequence"]] = Sampled(line["sequence"], line["prompt"])
            by_request[line["request"]].append(by_name[line["sequence"]])
        for name, id, logprob in line.get("tokens", []):
            by_name[name].tokens.append((id, logprob, line["version"]))
    return by_request


class Logged:
    """Compares tokens of rows with the log, one by one."""

    def __init__(self, log: Dict[str, List[Sampled]]) -> None:
        self._log = log
        self._used: Set[Tuple[str, int]] = set()
        self._counts: Counter[str] = Counter({"tokens": 0, "missing": 0, "doubled": 0, "mislabelled": 0, "unlabelled": 0})

    def hold(self, rows: List[Row]) -> None:
        for row in rows:
            self._hold(row)

    def report(self) -> Dict[str, Any]:
        return dict(self._counts)

    def _hold(self, row: Row) -> None:
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
            if id != logged_id or abs(logprob - logged) > LOGGED_TOLERANCE:
                break
            run.append((one.name, k, version))
        return run

    def _count(self, label: Optional[str], held: Optional[Tuple[str, int, str]]) -> None:
        self._counts["tokens"] += 1
        if held is None:
            self._counts["missing"] += 1
            return
        name, k, version = held
        self._counts["doubled"] += (name, k) in self._used
        self._used.add((name, k))
        self._counts["unlabelled"] += label is None
        self._counts["mislabelled"] += label is not None and label != version


class Recomputed:
    """Compares tokens of rows with the policy's logprobs under the weights that their labels name.

    This also holds within a turn: an update empties the engine's cache, and the new weights compute it again.
    """

    def __init__(self, run: Run, model: Model) -> None:
        self._run, self._model = run, model
        self._counts: Counter[str] = Counter({"tokens": 0, "mislabelled": 0, "unlabelled": 0})
        self._versions: Set[int] = set()
        self._error = 0.0

    def hold(self, rows: List[Row]) -> None:
        batch = batch_of(rows)
        self._counts["tokens"] += len(batch)
        self._counts["unlabelled"] += int((batch.versions < 0).sum())
        for version in map(int, np.unique(batch.versions[batch.versions >= 0])):
            named = batch.versions == version
            rollouts, columns = batch.places
            weights = self._run.weights(version)
            computed, _ = self._model.logprobs(weights, batch.ids, (rollouts[named], columns[named]))
            errors = np.abs(computed - batch.logprobs[named])
            self._versions.add(version)
            self._counts["mislabelled"] += int((errors > COMPUTED_TOLERANCE).sum())
            self._error = max(self._error, float(errors.max()))

    def report(self) -> Dict[str, Any]:
        return {**self._counts, "logprob_error": self._error, "versions": len(self._versions)}


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


def rows_of_steps(folder: Path, asked: List[Dict[str, Any]]) -> Iterator[Tuple[Dict[str, Any], List[Row]]]:
    """Those of a stream are one file a step; TRL asks for its rollouts one by one."""
    by_step = {line["step"]: line for line in asked}.values()
    single = {batch.id: batch for batch in open_store(folder / "trajectories").batches()} if any("rollouts" in line for line in by_step) else {}
    for line in by_step:
        ids = line.get("rollouts", [])
        yield line, [row for id in ids for row in single[id.partition("/")[0]].rows()] if ids else list(read_rows(line["file"]))


def lag_of(rows: List[Row], version: int) -> int:
    """Of the oldest token whose version is known; 0 where the step's own is not."""
    known = [int(run["version"]) for row in rows for run in row["policy_versions"] if run["version"] is not None]
    return max(version - min(known), 0) if known else 0


def check(folder: Path, model: str) -> Dict[str, Any]:
    """The report; ``wrong`` names the violated conditions."""
    lines = list(lines_of(folder / "metrics.jsonl"))
    asked = [line for line in lines if line["kind"] == "step"]
    held_out = sorted((line for line in lines if line["kind"] == "held_out"), key=lambda line: line["step"])
    sums: Dict[int, Set[str]] = defaultdict(set)
    for line in asked:
        sums[line["step"]] |= {line["sha256"], *([hashlib.sha256(Path(line["file"]).read_bytes()).hexdigest()] if "file" in line else [])}
    log = folder / "engine.jsonl"
    tokens: Logged | Recomputed = Logged(engine_log(log)) if log.exists() else Recomputed(Run(folder), model_of(model))
    rollouts: Counter[str] = Counter()
    lag_max = 0
    current = []
    for line, rows in rows_of_steps(folder, asked):
        tokens.hold(rows)
        lag_max = max(lag_max, lag_of(rows, line["version"]))
        rollouts.update(row["rollout_id"] for row in rows)
        if line["current"] > 0:
            current.append(line)
    report = {
        "steps": len(sums),
        "asked_again": len(asked) - len(sums),
        "steps_that_changed": sum(len(found) > 1 for found in sums.values()),
        "rollouts": len(rollouts),
        "rollouts_twice": sum(count > 1 for count in rollouts.values()),
        **tokens.report(),
        "ratio_error": max((line["ratio_error"] for line in current), default=None),
        "ratio_tokens": sum(line["current"] for line in current),
        "lag_max": lag_max,
        "held_out": [round(line["reward"], 3) for line in held_out],
        "seconds": round(max(line["at"] for line in lines) - min(line["at"] for line in lines), 1),
    }
    none = ("steps_that_changed", "rollouts_twice", "missing", "doubled", "mislabelled")
    wrong = [f"{name}: expected 0, got {report[name]}" for name in none if report.get(name, 0) > 0]
    if report["ratio_error"] is None or report["ratio_error"] > RATIO_TOLERANCE[model]:
        wrong.append(f"ratio_error: expected at most {RATIO_TOLERANCE[model]}, got {report['ratio_error']}")
    if sorted(sums) != list(range(len(sums))):
        wrong.append(f"steps: expected 0 to {len(sums) - 1}, got {sorted(sums)}")
    return {**report, "wrong": wrong}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--model", default="policy", choices=MODELS)
    args = parser.parse_args()
    report = check(args.folder, args.model)
    print(json.dumps(report))
    sys.exit(1 if report["wrong"] else 0)


if __name__ == "__main__":
    main()
