"""Which distribution rows are of, beside that of a trainer's loss: the model's, divided by a temperature. One rule for all
adapters (docs/training-data.md has it as a table).
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ..columns import present
from ..requests import ROLLOUT_DEFAULTS
from ..results import Row

FILTERS = (
    *("greedy", "top_p", "top_k", "min_p", "min_tokens", "repetition_penalty"),
    *("presence_penalty", "frequency_penalty", "bad_words", "structured_outputs"),
)
"""Settings of ``generation`` that leave ids out, or make some likelier. ``reshapedBy`` of ``src/model/logprobs-mode.ts`` has
the same for logprobs that an engine reports.
"""


def check_sampling(generation: Mapping[str, Any], temperature: float, *, where: str = "generation.") -> None:
    """Raises ``ValueError``, which names the setting: its rows have logprobs of a distribution that the loss does not have, or
    were not sampled from it.

    generation: of the request
    temperature: by which the trainer divides its logits
    where: in front of the setting's name
    """
    usual = ROLLOUT_DEFAULTS["generation"]
    sampled = {**usual, **generation}
    if temperature != sampled["temperature"]:
        raise ValueError(
            f"temperature: expected that of the rollouts ({where}temperature) = {sampled['temperature']}, since the loss is of logits "
            f"divided by it; got {temperature}"
        )
    if temperature == 0:
        raise ValueError(f"{where}temperature: expected more than 0, at which nothing is sampled, got {temperature}")
    for name in FILTERS:
        # 0 is all of them, too.
        is_usual = sampled[name] <= 0 if name == "top_k" else sampled[name] == usual[name]
        if not is_usual:
            raise ValueError(
                f"{where}{name}: expected {usual[name]!r}, since the loss has no such filter or penalty, and rows would be of another "
                f"distribution; got {sampled[name]!r:.80}"
            )


def check_unsaid(generation: Mapping[str, Any], own: Mapping[str, str], *, trainer: str, where: str) -> None:
    """Raises ``ValueError`` for what the trainer's own settings say, too. own: their names"""
    for name in own:
        if name in generation:
            raise ValueError(f"{where}{name}: expected none: {trainer}'s own setting says it ({own[name]})")


def check_rows(rows: Iterable[Row], temperature: float) -> None:
    """Checks what only the rows show. Raises ``ValueError``, naming the rollout, for raw logprobs beside another temperature than 1,
    and for an agent that asked for a structure.
    """
    for row in rows:
        if present(row, "logprobs_mode") == "raw" and temperature != 1:
            raise ValueError(
                f"{row['rollout_id']}: logprobs_mode: expected processed, since the loss is of logits divided by {temperature}; "
                "got raw, which are of temperature 1"
            )
        structured = present(row, "structured_calls")
        if structured is not None:
            raise ValueError(
                f"{row['rollout_id']}: structured_calls: expected none, since the loss has no such masks, got {structured}: "
                "structured: refuse of its environment"
            )
