"""What several ranks of a trainer do together. One that failed alone would leave the others waiting for it."""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable, List, TypeVar

from accelerate.state import PartialState
from accelerate.utils import broadcast_object_list, gather_object

T = TypeVar("T")


def of_all_ranks(objects: List[Any], accelerator: Any) -> List[Any]:
    """In the order of the ranks."""
    return objects if accelerator.num_processes == 1 else list(gather_object(objects))


def of_earlier_ranks(hashes: List[str], accelerator: Any) -> Counter[str]:
    """How often they have each prompt: a group may be on several ranks."""
    return Counter(of_all_ranks(hashes, accelerator)[: accelerator.process_index * len(hashes)])


def said(value: T) -> T:
    """Rank 0's value, on each rank."""
    if PartialState().num_processes == 1:
        return value
    one = [value]
    broadcast_object_list(one)
    return one[0]


def told(work: Callable[[], T]) -> T:
    """Rank 0's result of it, on each rank. If rank 0 raises, the others raise ``RuntimeError``."""
    if not PartialState().is_main_process:
        found, why = said((None, None))
        if why is not None:
            raise RuntimeError(why)
        return found  # type: ignore[return-value]
    try:
        done = work()
    except Exception as error:
        said((None, f"rank 0: {type(error).__name__}: {error}"))
        raise
    return said((done, None))[0]
