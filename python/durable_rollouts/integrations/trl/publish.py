"""Weights for the engines, from ``GRPOTrainer``."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, List, Union

from transformers import TrainerCallback

from ...faults import NotFound
from ...results import PolicyRecord, PublishResult
from ...sync import Policy

KEPT = 2
"""Folders of weights that stay: a replica that was away loads the newest."""


class Publish(TrainerCallback):  # type: ignore[misc]
    """A callback of ``GRPOTrainer`` that brings its weights to all engines: when training begins, and behind each step.
    Rank 0 waits until they serve them, and the others wait for it at the next rollouts.

    policy: ``client.policy()``
    folder: on a disk of the engines; each version is a folder below it, and the last two stay
    options: of ``Policy.publish``: ``cache``, ``quorum``, …

        callbacks=[Publish(client.policy(), "/shared/weights")]
    """

    def __init__(self, policy: Policy, folder: Union[str, "os.PathLike[str]"], **options: Any) -> None:
        self._policy = policy
        self._folder = Path(folder).resolve()
        self._options = options

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Those of a checkpoint, too: the engines may serve later ones. They get a new number."""
        self._check(args, model)
        self._publish(state, model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self._publish(state, model)

    def _check(self, args: Any, model: Any) -> None:
        for name in ("fsdp", "deepspeed"):
            if getattr(args, name, None):
                raise ValueError(f"{name}: expected none: this callback saves the weights of one process, which are only parts there")
        if hasattr(model, "peft_config"):
            raise ValueError("peft_config: expected none: engines load whole weights here, and an adapter has only its own")

    def _publish(self, state: Any, model: Any) -> None:
        if not state.is_world_process_zero:
            return
        version = next_version(self._policy)
        publish_model(self._policy, model, version, folder=self._folder, options=self._options)


def next_version(policy: Policy) -> int:
    """Above all that were ever published: a trainer's own counter begins anew when it is started again."""
    try:
        record = policy.status()["record"]
    except NotFound:
        record = None
    return 1 + (0 if record is None else max(_numbers(record), default=0))


def _numbers(record: PolicyRecord) -> List[int]:
    return [one for one in (record["version"], record["target"]) if one is not None]


def publish_model(policy: Policy, model: Any, version: int, *, folder: Path, options: Any) -> PublishResult:
    """Saves its weights below the folder, and publishes them."""
    model = getattr(model, "module", model)
    path = folder / str(version)
    unfinished = folder / f".{version}.{os.getpid()}"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    model.save_pretrained(unfinished)
    shutil.rmtree(path, ignore_errors=True)
    unfinished.rename(path)
    result = policy.publish(version, str(path), **options)
    for older in folder.iterdir():
        if older.name.isdigit() and int(older.name) <= version - KEPT:
            shutil.rmtree(older, ignore_errors=True)
    return result
