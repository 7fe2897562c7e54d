"""Weights for the engines, from ``GRPOTrainer``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Union

from transformers import TrainerCallback

from ...sync import Policy
from ..folders import next_version, put_and_publish


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
        whole = getattr(model, "module", model)
        put_and_publish(
            self._policy, next_version(self._policy), whole.save_pretrained, folder=self._folder, options=self._options
        )
