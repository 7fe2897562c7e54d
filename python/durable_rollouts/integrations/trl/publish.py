"""Weights for the engines, from ``GRPOTrainer``: files of the whole model or of its adapter, or tensors that rank 0 sends."""

from __future__ import annotations

import os
from typing import Any, Iterable, Union

from accelerate.state import AcceleratorState
from transformers import TrainerCallback

from ...results import Row
from ...sync import Engines, Policy
from ..own import Own
from .files import Files
from .lora import Kind, check_model
from .rollouts import Rollouts
from .sending import Send, Sending
from .tensors import bare, check_ranks


class Publish(TrainerCallback):  # type: ignore[misc]
    """A callback of ``GRPOTrainer`` that brings its weights to all engines: before its first new rollouts, and from then on
    behind each step. All ranks make them whole, rank 0 waits until engines serve them, and the others wait for it.

    A trainer that continues from a checkpoint gets the rows of the steps behind it again. Meanwhile it publishes nothing:
    rollouts of the step in which it died may be open, and the engines have the weights that they began with.

    rollouts: the trainer's ``Rollouts``
    policy: ``client.policy()``
    folder: on a disk of the engines; each version is a folder below it, and goes when no engine needs it. None with ``send``
    kind: of a model with ``peft_config``: ``lora`` publishes its adapter, which pauses nothing; ``checkpoint`` the model with
      the adapter added to it; ``auto`` the adapter, if the engines take any
    send: rank 0 sends the tensors, one after the other, by vLLM's NCCL (True), or as this function does it: it gets
      ``engines`` of ``Policy.transfer``, and what ``engines.send`` takes
    take_over: takes the service from another training, once
    options: of ``Policy.publish`` (``cache``, ``quorum``, …); with ``send`` of ``Policy.transfer`` (``groups``, …)

    The ``run`` of the rollouts holds the service until the training's end. Raises ``PolicyUpdateFailed`` where another run
    does, and ``ForeignWeights`` for a row of versions that this run neither found at its start nor published.

        callbacks=[Publish(rollouts, client.policy(), "/shared/weights")]
    """

    def __init__(
        self, rollouts: Rollouts, policy: Policy, folder: "Union[str, os.PathLike[str], None]" = None, *, kind: Kind = "auto",
        send: Union[bool, Send] = False, take_over: bool = False, **options: Any,
    ) -> None:
        if kind not in ("auto", "lora", "checkpoint") or (send and kind == "lora"):
            raise ValueError(f"kind: expected auto, lora (with a folder, since adapters are not sent) or checkpoint, got {kind!r}")
        self.are_served = False
        """The engines have the trainer's weights; else they may have later ones."""
        self._rollouts, self._kind = rollouts, kind
        self._own = own = Own(policy, rollouts.run, take_over=take_over)
        self._way: Union[Files, Sending]
        if folder is not None and not send:
            self._way = Files(own, folder, run=rollouts.run, kind=kind, options=options)
        elif folder is None and send:
            self._way = Sending(own, policy, by_nccl if send is True else send, options=options)
        else:
            raise ValueError(f"folder: expected one, or send=True, and not both; got {folder!r} and send={send!r}")
        rollouts.weights = self

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        check_ranks(AcceleratorState())
        check_model(bare(model), self._kind)
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
        self._way.bring(bare(model))
        self.are_served = True


def by_nccl(engines: Engines, tensors: Any) -> None:
    engines.send(tensors)
