"""The temperature, which a trainer's loss and its rollouts share."""

from __future__ import annotations

from typing import Any, Mapping

from ...requests import ROLLOUT_DEFAULTS


def check_temperature(args: Any, generation: Mapping[str, Any]) -> None:
    """Raises ``ValueError``: the trainer divides its logits by its own, and would train another distribution."""
    sampled = {**ROLLOUT_DEFAULTS["generation"], **generation}["temperature"]
    if args.temperature != sampled:
        raise ValueError(
            f"temperature: expected that of the rollouts (generation.temperature) = {sampled}, since the loss is of logits "
            f"divided by it; got {args.temperature}"
        )
