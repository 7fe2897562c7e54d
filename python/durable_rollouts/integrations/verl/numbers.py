"""A version's number names verl's step, whose weights it is: its last digits. Those in front grow with each restart."""

from __future__ import annotations

from typing import Any, Tuple

SAMPLING = ("temperature", "top_p", "top_k")
"""What verl's own settings say of sampling."""
STEPS = 1_000_000
"""More than a training has."""
MARK = "durable_rollouts"
"""In ``trainer.v1`` of a training whose trainer is one of these."""


def number_of(step: int, least: int) -> int:
    """The lowest that is not below ``least``."""
    return least + (step - least) % STEPS


def steps_of(versions: Any) -> Tuple[int, int]:
    """The first and the last step of the weights that sampled a sequence. versions: as ``Trajectory`` has them."""
    known = versions[versions >= 0] % STEPS
    if len(known) == 0:
        raise ValueError("expected tokens under a version of the weights, got none")
    return int(known.min()), int(known.max())
