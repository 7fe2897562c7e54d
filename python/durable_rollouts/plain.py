"""Requests as plain JSON: what a worker cannot read is refused here, by field, before anything is sent."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Mapping
from datetime import date
from itertools import islice
from typing import Any, List, Type
from uuid import UUID

from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from .faults import RolloutFault

MOST_ITEMS = 2**20
"""Items of one list. A generator may be endless, and no request of so many items is small enough to be sent."""
MOST_BITS = 1024
"""The bits of an integer; Python itself refuses to write much longer ones."""
MOST_LEVELS = 200
"""Lists and objects within each other; a structure that contains itself has more."""


def plain(value: Any, *, of: str = "", fault: Type[RolloutFault]) -> Any:
    """The value as dictionaries, lists, text, numbers, booleans and None. Scalars, arrays and tensors of numpy, torch
    and others, pandas columns, tuples, generators, paths, dates, UUIDs and dataclasses become those. Everything else,
    and NaN and the infinities, which JSON does not have, raise ``fault``, which names the field. ``of``: its name.
    """
    return _Refusing(fault).plain(value, of, 0)


def raw_json(value: Any) -> RawValue:
    """What ``plain`` returned as an argument for Temporal, whose own converter would sort the keys."""
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=compact(value)))


def compact(value: Any) -> bytes:
    """As JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


class _Refusing:
    def __init__(self, fault: Type[RolloutFault]) -> None:
        self._fault = fault

    def plain(self, value: Any, where: str, level: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value, where)
        if isinstance(value, int):
            return self._integer(int(value), where)
        if isinstance(value, float):
            return self._number(float(value), where)
        if level >= MOST_LEVELS:
            raise self._refusal(where, f"expected at most {MOST_LEVELS} lists and objects within each other, got more")
        if isinstance(value, Mapping):
            return {self._key(key, where): self.plain(one, _member(where, key), level + 1) for key, one in value.items()}
        return self._converted(value, where, level)

    def _converted(self, value: Any, where: str, level: int) -> Any:
        """What an object stands for in JSON."""
        if isinstance(value, os.PathLike):
            return self.plain(os.fspath(value), where, level + 1)
        if isinstance(value, date):
            return value.isoformat() if value == value else self._refuse(value, where)
        if isinstance(value, UUID):
            return str(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return self.plain(fields, where, level + 1)
        for name in ("tolist", "model_dump"):
            # Arrays, scalars, tensors and models, without knowing their packages.
            convert = getattr(value, name, None)
            if callable(convert) and not isinstance(value, type) and not _loses(value):
                return self.plain(convert(), where, level + 1)
        return self._list(value, where, level) if _is_list(value) else self._refuse(value, where)

    def _integer(self, value: int, where: str) -> int:
        if value.bit_length() <= MOST_BITS:
            return value
        raise self._refusal(where, f"expected an integer of at most {MOST_BITS} bits, got one of {value.bit_length()}")

    def _list(self, value: Iterable[Any], where: str, level: int) -> List[Any]:
        items = list(islice(value, MOST_ITEMS + 1))
        if len(items) > MOST_ITEMS:
            raise self._refusal(where, f"expected at most {MOST_ITEMS} items, got more")
        return [self.plain(one, f"{where}.{index}" if where else str(index), level + 1) for index, one in enumerate(items)]

    def _number(self, value: float, where: str) -> float:
        if math.isfinite(value):
            return value
        why = "; an empty cell of pandas is NaN: leave the field out, or give None" if math.isnan(value) else ""
        raise self._refusal(where, f"expected a finite number, which JSON can hold, got {value}{why}")

    def _text(self, value: str, where: str) -> str:
        text = str.__str__(value)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            got = f"{text[error.start]!r} at position {error.start}"
            raise self._refusal(where, f"expected text that UTF-8 can hold, got {got}") from None
        return text

    def _key(self, key: Any, where: str) -> str:
        if isinstance(key, str):
            return self._text(key, where)
        # As Python's own JSON has it.
        if isinstance(key, int) and not isinstance(key, bool):
            return str(int(key))
        raise self._refusal(where, f"expected text as a key, got {_short(key)}")

    def _refuse(self, value: Any, where: str) -> Any:
        kind = f"{type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")
        what = "expected text, a number, a boolean, None, a list or a dictionary of these"
        raise self._refusal(where, f"{what}, got {_short(value)} of type {kind}; convert it, for example with str() or float()")

    def _refusal(self, where: str, what: str) -> RolloutFault:
        return self._fault(f"{where or '(input)'}: {what}")


def _loses(value: Any) -> bool:
    """Whether ``tolist`` makes something else of it: dates of numpy become integers, structures lose their names."""
    return getattr(getattr(value, "dtype", None), "kind", "") in ("m", "M", "V")


def _is_list(value: Any) -> bool:
    """A set has another order in each process, and so would the request; iterating over a table gives its columns."""
    is_other = isinstance(value, (bytes, bytearray, memoryview, set, frozenset, type)) or hasattr(value, "keys")
    return isinstance(value, Iterable) and not is_other and not _loses(value)


def _member(where: str, key: Any) -> str:
    return f"{where}.{key}" if where else str(key)


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # It cannot even show itself.
        text = f"one of {type(value).__qualname__}"
    return text if len(text) <= 80 else f"{text[:80]}…"
