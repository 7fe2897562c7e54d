"""A sequence's tokens, whatever form of the results they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Tuple

from numpy.typing import NDArray

MOST_ID = 2**31 - 1
Group = Tuple[Any, ...]


@dataclass(frozen=True)
class Tokens:
    """name: of its rollout, for messages. ids, mask (0 or 1), logprobs, versions: as long as each other. trains: False for
    a sequence that is only kept. group: equal for those that share a baseline. is_unknown: the mode of its logprobs is.
    prompt_tokens: ids before the first that the policy sampled in this very sequence. picture: which message has one.
    """

    name: str
    rollout_id: str
    row: int
    repeat: int
    sequence: int
    trains: bool
    group: Group
    reward: float
    loss_multiplier: float
    stop_reason: str
    terminated: bool
    truncated: bool
    failure: Optional[str]
    untokenized: Optional[str]
    picture: Optional[str]
    is_unknown: bool
    prompt_tokens: int
    ids: NDArray[Any]
    mask: NDArray[Any]
    logprobs: NDArray[Any]
    versions: NDArray[Any]


def version_of(label: Any) -> int:
    """-1 also where it is no whole number that an array holds."""
    return int(label) if isinstance(label, str) and label.isascii() and label.isdigit() and len(label) <= 18 else -1
