"""SkyRL's experiment with these rollouts, and the entrypoint that trains it."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any, List, Optional

import ray
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.trainer import RayPPOTrainer
from skyrl.train.utils import validate_cfg
from skyrl.train.utils.utils import initialize_ray

from ...sync import Client
from ..own import Own
from .config import DurableTrainConfig
from .generator import DurableGenerator
from .settings import check_settings
from .weights import Weights


class DurableExp(BasePPOExp):  # type: ignore[misc]
    """SkyRL's ``BasePPOExp``, without engines of its own: a subclass may override all else. Raises ``ValueError``, which names
    the setting, for those that do not fit.
    """

    cfg: DurableTrainConfig

    def __init__(self, cfg: DurableTrainConfig) -> None:
        check_settings(cfg)
        super().__init__(cfg)

    def get_inference_client(self) -> None:
        """Engines are those of temporal.yaml."""

    def get_generator(self, cfg: DurableTrainConfig, tokenizer: Any, inference_engine_client: Any) -> DurableGenerator:
        client = Client.connect()
        return DurableGenerator(client, cfg, Own(client.policy(), cfg.trainer.run_name, take_over=cfg.durable.take_over))

    def get_trainer(self, **given: Any) -> "DurableTrainer":
        return DurableTrainer(**given)


class DurableTrainer(RayPPOTrainer):  # type: ignore[misc]
    """SkyRL's trainer. Its weights are a policy's."""

    cfg: DurableTrainConfig
    generator: DurableGenerator
    dispatch: Any

    def build_models(self, *workers: Any) -> None:
        super().build_models(*workers)
        durable, save = self.cfg.durable, partial(self.dispatch.save_hf_model, "policy", tokenizer=self.tokenizer)
        self.dispatch = self.generator.weights = Weights(
            self.dispatch, save=save, own=self.generator.own, folder=durable.weights or "", options=durable.publish
        )

    async def train(self) -> None:
        await super().train()
        self.dispatch.end()


@ray.remote(num_cpus=1)  # type: ignore[misc]
def entrypoint(cfg: DurableTrainConfig) -> None:
    DurableExp(cfg).run()


def config_of(arguments: List[str]) -> DurableTrainConfig:
    """As SkyRL reads them. Which entrypoint this is, is no setting of a training."""
    given = [one for one in arguments if not one.startswith("trainer.override_entrypoint=")]
    cfg: DurableTrainConfig = DurableTrainConfig.from_cli_overrides(given)
    check_settings(cfg)
    validate_cfg(cfg)
    return cfg


def main(arguments: Optional[List[str]] = None) -> None:
    """``python -m skyrl.train.entrypoints.main_base trainer.override_entrypoint=durable_rollouts.integrations.skyrl.experiment …``"""
    cfg = config_of(sys.argv[1:] if arguments is None else arguments)
    initialize_ray(cfg)
    # The trainer may run on another machine of the cluster.
    where = {name: value for name, value in os.environ.items() if name.startswith("TEMPORAL_")}
    ray.get(entrypoint.options(runtime_env={"env_vars": where}).remote(cfg))
