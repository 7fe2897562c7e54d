"""Checks on GPUs what the tests of this project cannot: weights by NCCL and CUDA IPC, real sleep, an engine in FP8.

    python check.py [--model NAME] [--cases nccl,ipc,sleep,fp8] [--folder DIR]
    python check.py --cpu

Each case starts a vLLM and the stack of one machine, and changes the weights in the middle of batches. A line for each
check. The exit code is 1 if one fails, 2 if this machine cannot play a case. README.md says what is checked.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, List, Set

from engine import CASES, await_that, engine, get
from trainer import Trainer, free_memory, init_of

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
TOKENS_WITHIN_S = 300.0
HOLDER = "check"
LONGEST_PAUSE_S = 60.0
EDGE = 8
"""Tokens on either side of a change of the label, where a wrong one would be."""
PROMPTS = [f"Tell a story about {what}." for what in ("a lamp", "a river", "two cats", "a map", "rain", "a bridge", "tea", "the sea")]


class Play:
    """A case, and what has come of it."""

    def __init__(self, name: str, *, url: str, client: Any, trainer: Trainer, given: argparse.Namespace) -> None:
        self._name, self._url, self._client, self._trainer, self._given = name, url, client, trainer, given
        self._case = CASES[name]
        self._policy = client.policy()
        self._init = init_of(self._case.backend)
        self.checked = self.failed = 0

    def that(self, is_so: bool, what: str) -> None:
        self.checked += 1
        self.failed += not is_so
        print(f"{'ok  ' if is_so else 'FAIL'} {self._name}: {what}", flush=True)

    def all(self) -> None:
        self.send(same=True)
        self.across("weights are sent", lambda: (self._trainer.step(), self.send()))
        if not self._case.sleeps:
            self.across("weights are sent again", lambda: (self._trainer.step(), self.send()))
            return
        self.across("asleep at level 1, woken", lambda: (self.lay_down(1), self.wake()))
        self.across("asleep at level 2, weights are sent", lambda: (self.lay_down(2), self._trainer.step(), self.send(checkpoint=self._trainer.save())))
        self.across("asleep at level 2, loaded from files", lambda: (self.lay_down(2), self.wake()))

    def send(self, **options: Any) -> None:
        with self._policy.transfer(holder=HOLDER, **options) as engines:
            engines.send(self._trainer.model, self._init)
        self._trainer.keep(engines.version)
        paused_s = engines.result["paused_s"]
        self.that(0 < paused_s < LONGEST_PAUSE_S, f"version {engines.version} has paused the engine for {paused_s:.2f} s")
        self.serves(engines.version)

    def lay_down(self, level: int) -> None:
        before = free_memory()
        states = self._policy.sleep(holder=HOLDER, level=level)["replicas"].values()
        freed = free_memory() - before
        self.that(all(one["state"] == "asleep" for one in states), f"asleep at level {level}")
        if self._case.gpus > 0:
            weights, gib = self._trainer.bytes, 2**30
            self.that(freed >= weights, f"asleep at level {level}: {freed / gib:.2f} GiB are free, with {weights / gib:.2f} GiB of weights")

    def wake(self) -> None:
        self._policy.wake()
        self.serves(max(self._trainer.kept))

    def serves(self, version: int) -> None:
        record = self._policy.status()["record"]
        states = [one["state"] for one in record["replicas"].values()]
        label = json.loads(get(f"{self._url}/weight_info"))["weight_version"]
        paused = json.loads(get(f"{self._url}/is_paused"))["is_paused"]
        is_so = states == ["current"] and record["version"] == version and label == str(version) and not paused
        self.that(is_so, f"version {version} is served: the record says {record['version']} and {states}, the engine {label!r}, paused {paused}")

    def across(self, what: str, change: Callable[[], Any]) -> None:
        """A batch whose rollouts are open during the change."""
        before = max(self._trainer.kept)
        sampled = self._sampled()
        generation = {"max_new_tokens": self._case.tokens, "ignore_eos": True}
        request = {"samples": PROMPTS, "generation": generation, "max_seq_len": self._case.context}
        batch = self._client.start_batch(request, f"{self._name}-{what}".replace(" ", "-").replace(",", ""), task_name="length")
        await_that("tokens", lambda: self._sampled() - sampled > len(PROMPTS) * self._case.tokens / 6, within_s=TOKENS_WITHIN_S)
        try:
            change()
        except Exception as error:
            self.that(False, f"{what}: {error}")
            raise
        self.compare(what, batch.rows(), expected={before, max(self._trainer.kept)})
        failures = batch.failures()
        self.that(failures == [], f"{what}: no rollout has failed{''.join(str(one['failure']) for one in failures)}")

    def _sampled(self) -> float:
        return sum(map(float, re.findall(r"^vllm:generation_tokens_total\{[^}\n]*\} (\S+)$", get(f"{self._url}/metrics"), re.MULTILINE)))

    def compare(self, what: str, rows: List[Any], *, expected: Set[int]) -> None:
        """Each token with the weights that its label names, and with all others."""
        import numpy as np
        from durable_rollouts import trajectory

        sequences = [trajectory(row) for row in rows]
        labels = np.concatenate([one.versions for one in sequences])
        said = np.concatenate([one.completion_logprobs for one in sequences])
        self.that(len(rows) == len(PROMPTS) and set(labels.tolist()) == expected, f"{what}: {len(labels)} tokens of {len(rows)} rollouts are labelled {sorted(set(labels.tolist()))}")
        off = {version: np.abs(np.concatenate(self._trainer.logprobs(version, sequences)) - said) for version in self._trainer.kept}
        at_edge = np.concatenate([near_change(one.versions) for one in sequences])
        tolerance = self._case.tolerance if self._given.tolerance is None else self._given.tolerance
        for version in sorted(expected.intersection(labels.tolist())):
            mine = labels == version
            own, *others = (float(off[one][mine].mean()) for one in (version, *sorted(set(off) - {version})))
            edge = float(off[version][mine & at_edge].mean()) if (mine & at_edge).any() else 0.0
            is_so = max(own, edge) <= tolerance and 2 * own < min(others)
            told = f"{own:.2g} off its own weights ({edge:.2g} at the change), {min(others):.2g} off others"
            self.that(is_so, f"{what}: logprobs of version {version} are {told} (expected at most {tolerance:g})")


def near_change(versions: Any) -> Any:
    """Which tokens are next to one with another label."""
    import numpy as np

    near = np.zeros(len(versions), dtype=bool)
    for at in np.flatnonzero(np.diff(versions)) + 1:
        near[max(0, at - EDGE) : at + EDGE] = True
    return near


def play(name: str, given: argparse.Namespace, folder: Path) -> int:
    """The number of checks that have failed."""
    from durable_rollouts import local

    with engine(CASES[name], model=given.model, folder=folder) as url:
        # Before the model is there: the reward's process is a copy of this one.
        with local(engine=url, folder=folder, environments={"length": lambda reply, info: len(reply)}) as client:
            played = Play(name, url=url, client=client, trainer=Trainer(given.model, CASES[name], folder), given=given)
            played.all()
    print(f"{name}: {played.checked - played.failed} of {played.checked} checks have passed; logs and results are in {folder}", flush=True)
    return played.failed


class Refused(Exception):
    """This machine cannot play a case."""


def check_machine(names: List[str]) -> None:
    try:
        import torch
    except ImportError:
        raise Refused("this Python has no torch, and so no CUDA") from None
    has = torch.cuda.device_count()
    lacking = [f"{name}: expected {CASES[name].gpus} GPUs with CUDA, got {has}" for name in names if CASES[name].gpus > has]
    if lacking:
        raise Refused("; ".join(lacking))
    for package in ("vllm", "transformers", "durable_rollouts"):
        if importlib.util.find_spec(package) is None:
            raise Refused(f"this Python has no {package}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks on GPUs what the tests of this project cannot.")
    parser.add_argument("--model", default=MODEL, help="a name or a folder (default: %(default)s)")
    parser.add_argument("--cases", default="nccl,ipc,sleep,fp8", help="separated by commas (default: %(default)s)")
    parser.add_argument("--cpu", action="store_true", help="the same checks of a tiny model on a CPU, with the tests' wire and sleep")
    parser.add_argument("--tolerance", type=float, help="of the mean difference of logprobs; default: that of each case")
    parser.add_argument("--folder", type=Path, help="for logs and results; it must not exist (default: one in the system's temporary folder)")
    given = parser.parse_args()
    names = ["cpu"] if given.cpu else given.cases.split(",")
    unknown = [name for name in names if name not in CASES]
    if unknown:
        parser.error(f"--cases: expected some of {', '.join(CASES)}, got {unknown[0]!r}")
    try:
        check_machine(names)
    except Refused as why:
        print(f"check.py: {why}. --cases plays some of {', '.join(CASES)}; cpu needs no GPU", file=sys.stderr)
        return 2
    if given.folder is not None:
        given.folder.mkdir(parents=True)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="gpu-check-"))
    if len(names) == 1:
        return int(play(names[0], given, folder) > 0)
    # A process that has had a collective, or memory that others share, is not used again.
    more = [] if given.tolerance is None else ["--tolerance", str(given.tolerance)]
    own = [sys.executable, __file__, "--model", given.model, *more]
    codes = [subprocess.call([*own, "--cases", name, "--folder", str(folder / name)]) for name in names]
    print(f"{codes.count(0)} of {len(names)} cases have passed")
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
