"""The weight transfer of ``AsyncGRPOTrainer``: through the policy, so that the record knows the weights of each engine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, Iterator, Tuple, Union

import torch
from safetensors.torch import save_file

from ...sync import Policy
from .worker import RolloutWorker


class WeightTransfer:
    """A ``weight_transfer`` of ``AsyncGRPOTrainer``: saves the weights below a folder of the engines, and publishes them.

    worker: the trainer's ``RolloutWorker``
    policy: ``client.policy()``
    folder: each version is a folder below it, and the last two stay
    take_over: takes the service from another training, once
    options: of ``Policy.publish``

    The stream's id holds the service until the training's end. Raises ``PolicyUpdateFailed`` where another one does.

        WeightTransfer(worker, client.policy(), "/shared/weights")
    """

    def __init__(self, worker: RolloutWorker, policy: Policy, folder: Union[str, "os.PathLike[str]"], *, take_over: bool = False, **options: Any) -> None:
        self._worker = worker
        self._own = worker.owned(policy, take_over=take_over)
        self._folder = Path(folder).resolve()
        self._options = options

    def init_weight_transfer(self) -> None:
        """Nothing: the policy finds its engines."""

    def pause(self) -> None:
        """Nothing: the policy pauses them. An exception here would leave other ranks waiting for each other."""

    def send_weights(self, iterator: Iterator[Tuple[str, torch.Tensor]]) -> None:
        """The iterator is used up in any case: the other ranks take part in it. Raises what ``Policy.publish`` raises."""
        course = self._worker.course
        if course.replays:
            for _ in iterator:
                pass
        else:
            # A copy of each: the trainer's own tensors change with the next step.
            tensors: Dict[str, torch.Tensor] = {name: one.detach().cpu().clone().contiguous() for name, one in iterator}
            save = lambda path: save_file(tensors, path / "model.safetensors", {"format": "pt"})  # noqa: E731
            version = self._own.put(save, folder=self._folder, options=self._options)
            course.published(version)
        self._worker.synced()

    def resume(self) -> None:
        """Nothing: engines that have the weights serve already."""

    def destroy(self) -> None:
        """The policy stays, and others may bring weights."""
        self._own.end()
