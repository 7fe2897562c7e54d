"""SkyRL's generator: the rollouts that its trainer asks for, by names that a trainer that was killed gives them again."""

from __future__ import annotations

import asyncio
from typing import List, Optional

from skyrl.train.generators.base import GeneratorInput, GeneratorInterface, GeneratorOutput
from skyrl.train.generators.utils import get_rollout_metrics

from ...loop import loop
from ...sync import Client
from ..own import Own
from ..replays import say_ended
from ..sampling import check_rows
from ..singles import Places, have_ended, play
from .config import DurableTrainConfig
from .rows import outputs_of, samples_of
from .settings import settings_of
from .weights import Weights


class DurableGenerator(GeneratorInterface):  # type: ignore[misc]
    """The generator that ``DurableExp`` gives to SkyRL's trainer."""

    def __init__(self, client: Client, cfg: DurableTrainConfig, own: Own) -> None:
        self._client, self._cfg, self.own = client, cfg, own
        self._places = Places(cfg.trainer.run_name)
        self._trains = False
        self.weights: Optional[Weights] = None

    async def generate(self, input_batch: GeneratorInput) -> GeneratorOutput:
        """Raises a rollout's failure by name: a failure is no reward, and a group is whole. Started again, the trainer asks
        for the same rollouts.
        """
        phase = input_batch["batch_metadata"].training_phase
        ids = self._ids(input_batch)
        if self.weights is not None and not self.weights.are_served and not have_ended(self._client, ids):
            self.weights.bring()
        playing = play(self._client, samples_of(input_batch), ids, settings_of(self._cfg, phase))
        rows = await asyncio.wrap_future(loop.start(playing))
        # An evaluation's rows do not train.
        if phase == "train":
            check_rows(rows, self._cfg.trainer.algorithm.temperature)
            self.own.check(rows)
        output = outputs_of(rows, input_batch["trajectory_ids"], step_wise=self._cfg.generator.step_wise_trajectories)
        metrics = get_rollout_metrics(output["response_ids"], output["rewards"], loss_masks=output["loss_masks"])
        return {**output, "rollout_metrics": metrics}

    def _ids(self, batch: GeneratorInput) -> List[str]:
        """Dynamic sampling asks several times in a step, and an evaluation batch by batch."""
        where = batch["batch_metadata"]
        if where.training_phase == "train" and not self._trains:
            self._trains = True
            say_ended(self._client, self._cfg.trainer.run_name, where.global_step, anew="give trainer.run_name another name")
        place = self._places.next(where.global_step, kind="" if where.training_phase == "train" else where.training_phase)
        return [f"{place}:{one.instance_id}-{one.repetition_id}" for one in batch["trajectory_ids"]]
