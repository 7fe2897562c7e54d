"""The trainer: requests steps from a stream, learns from each, publishes new weights, and continues wherever it died.

    python trainer.py --folder FOLDER --id ID --seed 1 [--address 127.0.0.1:7233]

FOLDER has the files of ``run.py``. Started again with the same FOLDER and ID, it continues from the last checkpoint: it
requests the later steps again, gets the same rows, publishes nothing meanwhile, and then continues with new ones.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Protocol, Set, cast

import numpy as np
from durable_rollouts import Client, NotFound, PolicyUpdateFailed, Stream, StreamRequest

import policy
from grpo import Optimizer, Row, batch_of, report, shuffled, update
from model import MODELS, Model, Weights, logprobs_of, model_of
from run import Run, State, end_with_parent
from task import LENGTH, LETTERS, TURNS, answer_to, shown

STEPS = 50
GROUPS, REPEATS = 4, 8
MAX_LAG = 2
CHECKPOINT_EVERY = 5
HELD_OUT_EVERY = 5
PROBE = [ord(letter) for letter in shown(LETTERS[:LENGTH]) + answer_to(LETTERS[:LENGTH])]
"""A prompt whose logprobs identify an engine's weights."""
UNPUBLISHED = -1
"""Used instead of a version for weights that no engine was given."""

ROLLOUTS: Dict[str, Any] = {
    "max_rollout_turns": TURNS,
    "max_seq_len": 160,
    "rollout_timeout": "10m",
    "generation": {"max_new_tokens": 20, "prompt_format": "raw"},
}
"""How a rollout is played, in training and in evaluations."""


@dataclass(frozen=True)
class Settings:
    seed: int
    steps: int = STEPS
    shuffle_advantages: bool = False
    sleep: int = 0
    """The level at which engines sleep while the trainer computes; 0: they do not."""
    send: bool = False
    """Weights are sent to the engines, which read no file."""
    model: Model = policy


@dataclass(frozen=True)
class Delivered:
    """A step's rows, with their file and its checksum, which reveal any change."""

    rows: List[Row]
    sha256: str
    file: str


class Source(Protocol):
    """The source of rows, and the destination of weights."""

    def publish(self, version: int, path: Path, weights: Weights) -> None: ...

    def next_step(self, step: int, version: int) -> Delivered: ...

    def evaluate(self, step: int) -> None:
        """Starts a measurement of the held-out reward, and records its result in the run."""

    def end(self) -> None:
        """Starts no further one, and waits for running evaluations."""


class Durable:
    """Rows from a stream, weights by the policy, evaluations as batches: all of them survive this process."""

    def __init__(self, client: Client, run: Run, *, id: str, settings: Settings) -> None:
        self._client, self._run, self._id, self._settings = client, run, id, settings
        self._policy = client.policy()
        self._evaluations: List[threading.Thread] = []
        self._stream: Optional[Stream] = None

    def publish(self, version: int, path: Path, weights: Weights) -> None:
        model = self._settings.model
        probe = {"prompt_ids": PROBE, "logprobs": logprobs_of(model, weights, PROBE), "tolerance": 0.001}
        served = str(model.served(path, weights))
        while True:
            try:
                if self._settings.send:
                    self._send(version, weights, checkpoint=served, probe=probe)
                else:
                    if self._settings.sleep:
                        self._policy.wake()
                    self._policy.publish(version, served, probe=probe, holder=self._id)
                return
            except PolicyUpdateFailed as error:  # No engine is available. Wait for one, or for an interrupt.
                print(error, flush=True)
                time.sleep(1)

    def _send(self, version: int, weights: Weights, *, checkpoint: str, probe: Any) -> None:
        """The file is only read where an engine has lost its weights."""
        if self._served() == version:  # It was sent before this process died.
            self._policy.wake()
            return
        with self._policy.transfer(version, holder=self._id, checkpoint=checkpoint, probe=probe) as engines:
            client = engines.client()
            client.start_weight_update()
            for name, array in {**weights, "version": np.array(version)}.items():
                client.update_weights({"names": [name], "npz": packed({name: array})})
            client.finish_weight_update()

    def _served(self) -> Optional[int]:
        try:
            record = self._policy.status()["record"]
        except NotFound:
            return None
        return None if record is None else record["version"]

    def _lay_down(self, step: int) -> None:
        """While this process computes, the memory is its own; publishing wakes the engines."""
        if not self._settings.sleep or step + 1 < max(self._run.versions().values()):
            return
        try:
            self._policy.sleep(level=cast(Any, self._settings.sleep), holder=self._id)
        except PolicyUpdateFailed as error:  # No engine is there that could.
            print(error, flush=True)

    def _joined(self) -> Stream:
        """The stream, started or joined."""
        request: StreamRequest = {
            **ROLLOUTS,
            "samples": {"path": f"{self._id}/train.jsonl"},
            "num_repeats": REPEATS,
            "groups_per_step": GROUPS,
            "max_lag": MAX_LAG,
            "seed": self._settings.seed,
            "generation": {**ROLLOUTS["generation"], "seed": self._settings.seed},
        }
        self._stream = self._stream or self._client.stream(f"{self._id}-train", request)
        return self._stream

    def next_step(self, step: int, version: int) -> Delivered:
        delivered = self._joined().next_step(step, None if version == UNPUBLISHED else version)
        self._lay_down(step)
        file = delivered.result["files"]["rollouts"]
        return Delivered(delivered.rows(), hashlib.sha256(Path(file).read_bytes()).hexdigest(), file)

    def evaluate(self, step: int) -> None:
        request = {**ROLLOUTS, "samples": {"path": f"{self._id}/held-out.jsonl"}}
        batch = self._client.start_batch(request, f"{self._id}-held-out-{step}")

        def note() -> None:
            self._run.note("held_out", step=step, **of_held_out(batch.rows()))

        self._evaluations.append(threading.Thread(target=note, daemon=True))
        self._evaluations[-1].start()

    def end(self) -> None:
        self._joined().stop()
        for evaluation in self._evaluations:
            evaluation.join()
        self._policy.release(self._id)


def packed(arrays: Weights) -> str:
    file = io.BytesIO()
    np.savez(file, **cast(Any, arrays))
    return base64.b64encode(file.getvalue()).decode()


def of_held_out(rows: List[Row]) -> Dict[str, float]:
    versions = [int(one["version"]) for row in rows for one in row["policy_versions"] if one["version"] is not None]
    return {
        "reward": float(np.mean([row["total_reward"] for row in rows])),
        "length": float(np.mean([row["assistant_tokens"] for row in rows])),
        "version": float(np.mean(versions)) if versions else -1.0,
        "rollouts": len(rows),
    }


def train(run: Run, source: Source, settings: Settings) -> State:
    """Returns after the last step."""
    state = run.load() or begin(run, settings)
    furthest = max(run.versions().values())
    run.note("start", step=state.step, furthest=furthest)
    if state.step == furthest:
        source.publish(state.version, run.weights_file(state.version), state.weights)
    evaluated = {line["step"] for line in run.noted("held_out")}
    evaluate(source, evaluated, furthest)
    while state.step < settings.steps:
        learn(run, source, (state, settings))
        if state.step < furthest:  # It ran here before: the engines' weights come from this step, or from a later one.
            known = run.version_of(state)
            state.version = UNPUBLISHED if known is None else known
            continue
        state.version = run.put_weights(state)
        if state.step % CHECKPOINT_EVERY == 0 or state.step == settings.steps:
            run.save(state)
        source.publish(state.version, run.weights_file(state.version), state.weights)
        evaluate(source, evaluated, state.step)
    source.end()
    run.note("end", step=state.step)
    return state


def evaluate(source: Source, evaluated: Set[int], through: int) -> None:
    for step in sorted(set(range(0, through + 1, HELD_OUT_EVERY)) - evaluated):
        source.evaluate(step)
        evaluated.add(step)


def begin(run: Run, settings: Settings) -> State:
    weights = settings.model.untrained(settings.seed, LETTERS)
    state = State(weights, Optimizer.of(weights), step=0, version=UNPUBLISHED)
    state.version = run.put_weights(state)
    run.save(state)
    return state


def learn(run: Run, source: Source, going: tuple[State, Settings]) -> None:
    """One step: its rows, new weights, a line in the run."""
    state, settings = going
    asked = time.monotonic()
    delivered = source.next_step(state.step, state.version)
    waited_s = time.monotonic() - asked
    batch = batch_of(delivered.rows)
    learned = shuffled(batch, (settings.seed, state.step)) if settings.shuffle_advantages else batch
    weights, ratios = update(settings.model, state.weights, state.optimizer, learned)
    what = report(delivered.rows, batch, ratios, state.version)
    rows = {"sha256": delivered.sha256, "file": delivered.file}
    run.note("step", step=state.step, version=state.version, waited_s=waited_s, **rows, **what)
    state.weights, state.step = weights, state.step + 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--id", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--address", help="default: TEMPORAL_ADDRESS, temporal.toml, 127.0.0.1:7233")
    parser.add_argument("--shuffle-advantages", action="store_true", help="the control: nothing is to be learned")
    parser.add_argument("--model", default="policy", choices=MODELS, help="the policy")
    parser.add_argument("--sleep", type=int, default=0, choices=(0, 1, 2), help="level of the engines' sleep meanwhile")
    parser.add_argument("--send", action="store_true", help="weights are sent, and read from no file")
    args = parser.parse_args()
    end_with_parent()
    run = Run(args.folder)
    settings = Settings(args.seed, args.steps, args.shuffle_advantages, args.sleep, args.send, model_of(args.model))
    train(run, Durable(Client.connect(args.address), run, id=args.id, settings=settings), settings)


if __name__ == "__main__":
    main()
