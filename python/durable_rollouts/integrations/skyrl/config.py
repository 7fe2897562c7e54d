"""SkyRL's configuration with a table of ours. SkyRL asks its classes for their types, so they are no texts here."""

from dataclasses import dataclass, field
from typing import Any, Dict, Optional

from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.config.config import BaseConfig


@dataclass
class DurableConfig(BaseConfig):  # type: ignore[misc]
    """The table ``durable`` of the configuration."""

    weights: Optional[str] = None
    """A folder on a disk of the trainer and of the engines: each version is a folder below it."""
    settings: Dict[str, Any] = field(default_factory=dict)
    """Fields of a batch: ``help(durable_rollouts.RolloutSettings)``."""
    publish: Dict[str, Any] = field(default_factory=dict)
    """Options of ``Policy.publish``: ``cache``, ``quorum``, …"""
    take_over: bool = False
    """Takes the service from another training, once."""


@dataclass
class DurableTrainConfig(SkyRLTrainConfig):  # type: ignore[misc]
    durable: DurableConfig = field(default_factory=DurableConfig)
