"""What a program is given, and what it may return."""

import math
import numbers
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List
from urllib.parse import urlsplit

# The size of an answer, as JSON.
MOST_OUTCOME = 2**20

RETURNED = "a reward (number), a submission (text), None, or a dictionary with reward, rewards, submission or metadata"


@dataclass(frozen=True)
class Task:
    """One life of one rollout.

    prompt: the task's text
    metadata: the sample's ``extra_env_info``
    message_log: the sample's messages, ``{"role", "content"}`` each
    base_url: of the model, with ``/v1``; ``OPENAI_BASE_URL`` is the same
    key: for the model, and for nothing else; ``OPENAI_API_KEY`` is the same
    id: the rollout and its life, such as ``step-17/3-0.1``
    folder: empty, of this run alone, deleted after it
    """

    prompt: str
    metadata: Dict[str, Any]
    message_log: List[Dict[str, Any]]
    base_url: str
    key: str = field(repr=False)
    id: str
    folder: str


def variables_of(task: Task) -> Dict[str, str]:
    """Variables by which the clients of OpenAI and Anthropic find the model. The latter adds ``/v1`` itself. A proxy of this
    host leads to other places.
    """
    others = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    direct = ",".join(filter(None, [others, urlsplit(task.base_url).hostname]))
    return {
        "NO_PROXY": direct,
        "no_proxy": direct,
        "OPENAI_BASE_URL": task.base_url,
        "OPENAI_API_KEY": task.key,
        "ANTHROPIC_BASE_URL": task.base_url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": task.key,
    }


def outcome_of(returned: Any) -> Dict[str, Any]:
    """The parts of an answer that a program decides.

    Raises ``TypeError`` and ``ValueError`` for what is none.
    """
    if returned is None:
        return {}
    if isinstance(returned, str):
        return {"submission": returned}
    if not isinstance(returned, dict):
        return {"reward": _number(returned, "the returned value")}
    unknown = [name for name in returned if name not in _PARTS]
    if unknown or not returned:
        raise TypeError(f"the returned dictionary: expected {RETURNED}, got {', '.join(map(repr, unknown)) or 'nothing'}")
    return {name: _PARTS[name](value, name) for name, value in returned.items() if value is not None}


def _number(value, where):
    # A scalar of numpy or torch.
    value = value.item() if hasattr(value, "item") else value
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{where}: expected {RETURNED if where == 'the returned value' else 'a number'}, got {type(value).__name__}")
    value = float(value)
    if not math.isfinite(value):
        raise ValueError(f"{where}: expected a finite number, got {value}")
    return value


def _numbers(value, where):
    return {str(name): _number(part, f"{where}.{name}") for name, part in _of(dict, value, where).items()}


def _of(kind, value, where):
    if not isinstance(value, kind):
        raise TypeError(f"{where}: expected a {kind.__name__}, got {type(value).__name__}")
    return value


_PARTS = {
    "reward": _number,
    "rewards": _numbers,
    "submission": lambda value, where: _of(str, value, where),
    "metadata": lambda value, where: _of(dict, value, where),
}
