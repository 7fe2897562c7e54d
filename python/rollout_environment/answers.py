"""From what `step` returns (NamedTuple, dataclass, dict, tuple; torch or numpy inside) to the protocol's JSON."""

import dataclasses
import math
from typing import Any, Dict

# In the order of upstream's EnvironmentReturn, which has no truncateds.
FIELDS = ("observations", "metadata", "next_stop_strings", "rewards", "terminateds", "answers", "truncateds")


# Of an integer: as many as a float has. Python itself writes no text of much longer ones.
MOST_BITS = 1024


class Unavailable(Exception):
    """Raise this if an environment cannot answer now: the step is tried again later."""


class CallFailed(Exception):
    """The failure as it is answered. `status`: 500 it raised, 503 it cannot answer now, 422 it returned a malformed
    answer.
    """

    def __init__(self, status, kind, message, trace=None):
        super().__init__(status, kind, message, trace)
        self.status, self.kind, self.message, self.trace = status, kind, message, trace


def to_json(value: Any, where: str = "") -> Any:
    """Plain JSON of a value. Tensors and arrays become lists by their own ``tolist``; their libraries are not imported.

    value: a scalar, tensor, array, dataclass, named tuple, dictionary, list, tuple or set, nested in any way
    where: name of the field, for messages

    Returns dictionaries, lists, text, numbers, booleans and None. Raises ``ValueError`` for NaN, infinities and integers
    of more than 1024 bits, and ``TypeError`` for what JSON cannot hold.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where or 'the answer'}: expected a finite number, got {value}")
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise ValueError(f"{where or 'the answer'}: expected an integer of at most {MOST_BITS} bits, got one of {value.bit_length()}")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "tolist"):
        return to_json(value.tolist(), where)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name), _in(where, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: to_json(part, _in(where, name)) for name, part in value._asdict().items()}
    if isinstance(value, dict):
        return {str(name): to_json(part, _in(where, name)) for name, part in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [to_json(part, _in(where, i)) for i, part in enumerate(value)]
    raise TypeError(f"{where or 'the answer'}: expected something that JSON can hold, got {type(value).__name__}")


def to_reward(value: Any, where: str) -> Any:
    """The reward of a turn: a number, or a dictionary of named numbers. Truth values are 0 and 1.

    value: as an environment or a function gives it, as in `to_json`
    where: whose it is, for messages

    Raises ``TypeError`` and ``ValueError`` for anything else: no verdict is not 0, and a text is no number.
    """
    plain = to_json(value, where)
    parts = plain if isinstance(plain, dict) and plain else {None: plain}
    if all(isinstance(part, (int, float)) for part in parts.values()):
        # `reply == truth` is a reward, too.
        numbers = {name: int(part) if isinstance(part, bool) else part for name, part in parts.items()}
        return numbers if isinstance(plain, dict) else numbers[None]
    raise TypeError(f"{where}: expected a number, or a dictionary of named numbers, as reward, got {plain!r:.80}")


def to_flag(value: Any, where: str) -> bool:
    """Whether a turn ends a rollout: True, False, 1 or 0. Raises ``TypeError`` and ``ValueError`` for anything else,
    such as ``"False"``, which Python takes for true.
    """
    plain = to_json(value, where)
    if isinstance(plain, (int, float)) and plain in (0, 1):
        return bool(plain)
    raise TypeError(f"{where}: expected True or False, got {plain!r:.80}")


def _in(where, name):
    return f"{where}.{name}" if where else str(name)


def to_answer(returned: Any) -> Dict[str, Any]:
    """The answer to ``POST /step``.

    returned: what ``step`` of NeMo RL returns: an EnvironmentReturn, a dictionary of its fields, or a tuple in its
      order

    Returns a dictionary with ``observations``, ``rewards``, ``terminateds``, ``metadata``, and what else was returned;
    each has an entry per sample. Raises ``TypeError`` and ``ValueError``, which name what is missing or no JSON.
    """
    is_plain_tuple = isinstance(returned, (list, tuple)) and not hasattr(returned, "_asdict")
    plain = to_json(dict(zip(FIELDS, returned)) if is_plain_tuple else returned)
    if not isinstance(plain, dict):
        raise TypeError(f"step: expected an EnvironmentReturn, got {type(returned).__name__}")
    answer = {name: plain[name] for name in FIELDS if name in plain}
    missing = [name for name in ("observations", "rewards", "terminateds") if name not in answer]
    if missing:
        raise TypeError(f"step: the returned value lacks {', '.join(missing)}")
    if answer.get("truncateds") is None:
        answer.pop("truncateds", None)
    answer.setdefault("metadata", None)
    if answer["metadata"] is None:
        answer["metadata"] = [None] * len(answer["observations"])
    return answer
