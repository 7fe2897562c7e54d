"""Feeds prime-rl's trainer: its weights to the engines, and the steps of a stream to its ranks, in its own files.

The trainer's step s trains, with the weights that it wrote behind step s - 1, on step s - 1 of the stream, which counts from 0.
Steps that were delivered before keep their files, so a trainer that continues from a checkpoint reads them again. Meanwhile
nothing is published; the first step that is new has the weights of the step in front of it, under a new number.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any, List

import msgspec

from ...results import Step
from ...sync import Client, Policy
from ..folders import next_version, publish, put_and_publish
from .samples import check_types, packed, samples_of
from .settings import Settings, settings_of

log = logging.getLogger("durable_rollouts")
POLL_S = 0.5


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("expected one argument: python -m durable_rollouts.integrations.prime_rl orchestrator.toml")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        check_types()
        settings = settings_of(_read(sys.argv[1]))
    except (ImportError, ValueError) as error:
        raise SystemExit(f"{sys.argv[1]}: {error}") from error
    feed(settings, Client.connect())


def _read(file: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib.loads(Path(file).read_text())
    raise SystemExit(f"expected Python 3.11 or later, as prime-rl does, got {sys.version.split()[0]}")


def feed(settings: Settings, client: Client) -> None:
    """Until ``max_steps``."""
    stream = client.stream(settings.stream, settings.request)
    policy = client.policy(settings.request.get("generation", {}).get("service", "default"))
    first_new = stream.progress()["step"] + 1
    last = settings.max_steps or sys.maxsize
    for step in range(settings.first, last + 1):
        if _is_written(settings, step):
            continue
        version = None if step < first_new else _published(settings, policy, step - 1)
        _write(settings, step, stream.next_step(step - 1, version))


def _published(settings: Settings, policy: Policy, step: int) -> int:
    """The number of the weights behind a step of the trainer, once the engines have them.

    They are moved: the trainer removes its folders, or writes them anew. What was moved and perhaps not published is
    found in the place that it was moved to.
    """
    written, place = settings.output_dir / "broadcasts" / f"step_{step}", settings.output_dir / "durable" / f"step_{step}"
    log.info("waiting for the trainer's weights: %s", written / "STABLE")
    while True:
        if (written / "STABLE").exists():
            version = next_version(policy)
            put_and_publish(policy, version, lambda path: written.rename(path), folder=place, options={})
            break
        moved = [int(one.name) for one in place.glob("[0-9]*")]
        if moved:
            version = max(moved)
            publish(policy, version, str(place / str(version)), options={})
            break
        time.sleep(POLL_S)
    for older in place.parent.glob("step_*"):
        if int(older.name.partition("_")[2]) < step - 1:
            shutil.rmtree(older, ignore_errors=True)
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
    grid: List[List[Any]] = packed(samples_of(rows, settings.temperature), settings)
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
