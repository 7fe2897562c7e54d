"""Columns that a row may have."""

import json
from numbers import Real
from typing import Any, Iterable, Mapping, Optional


def present(columns: Mapping[str, Any], name: str) -> Any:
    """A column's value; None if the row lacks it.

    A table (Parquet, ``datasets``, pandas, polars) gives every row every column. Where a row has none, there is None,
    NaN, NA, or a struct of nothing but these.
    """
    value = columns.get(name)
    return None if _is_nothing(value) else value


VALID_STOP_REASONS = ("terminated", "truncated", "max_turns")


def failure_of(row: Mapping[str, Any]) -> Optional[str]:
    """The type of a rollout's failure; None if it is valid.

    A table may also lack the column ``failure`` (``datasets`` takes the columns of its first row): only a valid rollout
    has one of these stop reasons.
    """
    failure, stop_reason = present(row, "failure"), present(row, "stop_reason")
    if failure is not None:
        return str(failure.get("type") if isinstance(failure, Mapping) else failure)[:80]
    return None if stop_reason is None or stop_reason in VALID_STOP_REASONS else f"stop_reason {stop_reason}"


def picture_of(row: Mapping[str, Any]) -> Optional[str]:
    """Where a row or a sequence has its first picture, as text or as ids that stand for it; None: nowhere."""
    for at, message in enumerate(row.get("message_log", ())):
        content, placed = message.get("content"), present(message, "pictures")
        parts = content if isinstance(content, Iterable) and not isinstance(content, str) else ()
        is_shown = any(isinstance(part, Mapping) and part.get("type") == "image_url" for part in parts)
        if is_shown or (placed is not None and len(placed) > 0):
            return f"message_log.{at}"
    result, info = present(row, "agent_result"), row.get("extra_env_info")
    if result is not None:  # An agent of NeMo Gym played it, whose messages have ids alone. Text has its quotes escaped.
        given = info.get("row") if isinstance(info, Mapping) else None
        for where, text in (("extra_env_info.row", str(given)), ("agent_result", json.dumps(result, default=str))):
            if '"input_image"' in text:
                return where
    return None


def _is_nothing(value: Any) -> bool:
    if isinstance(value, Mapping):
        return len(value) > 0 and all(map(_is_nothing, value.values()))
    if isinstance(value, Real):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")
