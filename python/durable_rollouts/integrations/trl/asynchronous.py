"""Rollouts for TRL's ``AsyncGRPOTrainer`` (docs/trl.md), which is one of TRL's experiments.

    from durable_rollouts.integrations.trl.asynchronous import RolloutWorker, WeightTransfer
"""

from .transfer import WeightTransfer
from .worker import RolloutWorker

__all__ = ["RolloutWorker", "WeightTransfer"]
