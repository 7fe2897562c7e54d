"""Requests with their defaults, so that two of them can be compared."""

from typing import Any, Dict, Mapping, Optional

from .requests import STREAM_DEFAULTS


def with_defaults(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> Dict[str, Any]:
    """The request with its defaults filled in; a field without a default stays as it is."""
    filled: Dict[str, Any] = {**defaults, **given}
    for name in ("generation", "attempts"):
        if name in defaults and isinstance(given.get(name), Mapping):
            filled[name] = {**defaults[name], **given[name]}
    if defaults is STREAM_DEFAULTS:
        filled.setdefault("max_replacements", filled["num_repeats"])
    completion = filled.get("completion")
    if isinstance(completion, Mapping) and completion.get("policy") == "min_k":
        filled["completion"] = {"deadline": None, **completion}
    return filled


def first_difference(before: Mapping[Any, Any], now: Mapping[Any, Any], where: str = "") -> Optional[str]:
    """The first field in which two requests differ, with both values; ``None``: they are equal."""
    for name in {**before, **now}:
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            inner = first_difference(old, new, f"{where}{name}.")
            if inner is not None:
                return inner
            continue
        if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            return first_difference(dict(enumerate(old)), dict(enumerate(new)), f"{where}{name}.")
        return f"{where}{name}: {_short(old)} there, {_short(new)} here"
    return None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
