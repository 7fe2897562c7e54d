"""Weights for the engines, from ``GRPOTrainer``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Iterable, Union

from accelerate.state import AcceleratorState
from transformers import TrainerCallback

from ...results import Row
from ...sync import Policy
from ..own import Own
from .rollouts import Rollouts


class Publish(TrainerCallback):  # type: ignore[misc]
    """A callback of ``GRPOTrainer`` that brings its weights to all engines: before its first new rollouts, and from then on
    behind each step. Rank 0 waits until they serve them, and the others wait for it at the next rollouts.

    A trainer that continues from a checkpoint gets the rows of the steps behind it again. Meanwhile it publishes nothing:
    rollouts of the step in which it died may be open, and the engines have the weights that they began with.

    rollouts: the trainer's ``Rollouts``
    policy: ``client.policy()``
    folder: on a disk of the engines; each version is a folder below it, and the last two stay
    take_over: takes the service from another training, once
    options: of ``Policy.publish``: ``cache``, ``quorum``, …

    The ``run`` of the rollouts holds the service until the training's end. Raises ``PolicyUpdateFailed`` where another run
    does, and ``ForeignWeights`` for a row of versions that this run neither found at its start nor published.

        callbacks=[Publish(rollouts, client.policy(), "/shared/weights")]
    """

    def __init__(self, rollouts: Rollouts, policy: Policy, folder: Union[str, "os.PathLike[str]"], *, take_over: bool = False, **options: Any) -> None:
        self.are_served = False
        """The engines have the trainer's weights; else they may have later ones."""
        self._rollouts = rollouts
        self._own = Own(policy, rollouts.run, take_over=take_over)
        self._folder = Path(folder).resolve()
        self._options = options
        rollouts.weights = self

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        # The state that all accelerators of a process share: ``accelerate launch`` shards without arguments of the trainer.
        for name in ("fsdp", "deepspeed"):
            if getattr(args, name, None) or AcceleratorState().distributed_type == name.upper():
                raise ValueError(f"{name}: expected none: this callback saves the weights of one process, which are only parts there")
        if hasattr(model, "peft_config"):
            raise ValueError("peft_config: expected none: engines load whole weights here, and an adapter has only its own")
        self.are_served = False
        self._own.begin(says=state.is_world_process_zero)
        if state.is_world_process_zero:
            self._rollouts.say_replays(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if not self._rollouts.was_asked:
            raise ValueError("rollout_func: expected the Rollouts of Publish(rollouts, …): the trainer has trained a step without asking them")
        if self.are_served:
            self._publish(state, model)

    def on_train_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """A trainer that has asked for nothing new leaves the engines with its last weights, too."""
        if not self.are_served:
            self._publish(state, model)
        if state.is_world_process_zero:
            self._own.end()

    def check(self, rows: Iterable[Row]) -> None:
        """Called by ``Rollouts``, on each rank."""
        self._own.check(rows)

    def bring(self, trainer: Any) -> None:
        """Under a new number, also those of a checkpoint. Called by ``Rollouts``, on each rank."""
        self._publish(trainer.state, trainer.model)

    def _publish(self, state: Any, model: Any) -> None:
        if state.is_world_process_zero:
            whole = getattr(model, "module", model)
            self._own.put(whole.save_pretrained, folder=self._folder, options=self._options)
        self.are_served = True
