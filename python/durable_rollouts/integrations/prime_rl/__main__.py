"""Feeds prime-rl's trainer: its weights to the engines, and the steps of a stream to its ranks, in its own files.

The trainer's step s trains, with the weights that it wrote behind step s - 1, on step s - 1 of the stream, which counts from 0.
Steps that were delivered before keep their files, so a trainer that continues from a checkpoint reads them again. Meanwhile
nothing is published; the first step that is new has the weights of the step in front of it, under a new number.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any, List, cast

import msgspec

from ...requests import StreamRequest
from ...results import Step
from ...sync import Client, Policy
from ..folders import answered, published_of
from ..own import Own
from ..replays import say_steps
from .samples import check_types, packed, samples_of
from .settings import OWN, Settings, settings_of

log = logging.getLogger("durable_rollouts")


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("expected one argument: python -m durable_rollouts.integrations.prime_rl orchestrator.toml")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        check_types()
        settings = settings_of(msgspec.toml.decode(Path(sys.argv[1]).read_bytes()))
    except (ImportError, ValueError) as error:
        raise SystemExit(f"{sys.argv[1]}: {error}") from error
    feed(settings, Client.connect())


def feed(settings: Settings, client: Client) -> None:
    """Until ``max_steps``."""
    own = settings.durable_rollouts
    stream = client.stream(own.stream, cast(StreamRequest, own.request))
    policy = client.policy(own.request["generation"].get("service", "default"))
    training = Own(policy, own.stream, take_over=own.take_over)
    training.begin()
    first_new = answered(stream.delivered) + 1
    first = settings.first
    while settings.resume is None and _is_written(settings, first):  # Only this process was started again.
        first += 1
    say_steps(stream, first - 1, first_new - 1, counts_from=1, anew=f"give {OWN} another stream")
    last = settings.max_steps or sys.maxsize
    for step in range(settings.first, last + 1):
        if _is_written(settings, step):
            continue
        version = None if step < first_new else _published(settings, policy, step - 1, training)
        delivered = stream.next_step(step - 1, version)
        training.check(delivered.rows())
        _write(settings, step, delivered)
    training.end()


def _published(settings: Settings, policy: Policy, step: int, training: Own) -> int:
    """The number of the weights behind a step of the trainer, once the engines have them. They are moved: the trainer
    removes its folders, or writes them anew.
    """
    written, own = settings.output_dir / "broadcasts" / f"step_{step}", settings.output_dir / "durable"
    log.info("waiting for the trainer's weights: %s", written / "STABLE")
    version = published_of(policy, written, mark="STABLE", own=own, step=step, options=training.options)
    training.published()
    log.info("the engines have the weights of step %s, as version %s", step, version)
    return version


def _folder(settings: Settings, step: int) -> Path:
    return settings.output_dir / "rollouts" / f"step_{step}"


def _is_written(settings: Settings, step: int) -> bool:
    """For as many ranks as there are now."""
    return {one.name for one in _folder(settings, step).glob("*.bin")} == {f"rank_{rank}.bin" for rank in range(settings.num_train_workers)}


def _write(settings: Settings, step: int, delivered: Step) -> None:
    """Each rank's file has its name once it is whole."""
    rows = delivered.rows()
    grid: List[List[Any]] = packed(samples_of(rows, settings.train.sampling.temperature), settings)
    folder, encoder = _folder(settings, step), msgspec.msgpack.Encoder()
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"rank_{rank}.bin" for rank in range(len(grid))]
    for beyond in {*folder.glob("*.bin")} - {*paths}:
        beyond.unlink()
    for path, micro_batches in zip(paths, grid):
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        unfinished.write_bytes(encoder.encode(micro_batches))
        unfinished.rename(path)
    log.info("step %s: %s rollouts in %s micro-batches for each rank", step, len(rows), len(grid[0]))


if __name__ == "__main__":
    main()
