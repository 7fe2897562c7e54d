"""Some rollouts of many, as a person reads them: the worst, the best, and others."""

from __future__ import annotations

import hashlib
import json
from heapq import nsmallest
from itertools import islice
from typing import Any, Callable, Dict, Iterable, List, Tuple

from ..results import Row

COLUMNS = ("rollout_id", "picked", "prompt", "answer", "reward", "parts", "stop_reason", "turns", "tokens")
MOST_TEXT = 4000
"""Of a prompt or an answer, in characters."""
ROWS_AT_ONCE = 256

Line = Dict[str, Any]


def picked(rows: Iterable[Row], count: int, seed: int) -> List[Line]:
    """Lines with ``COLUMNS``: so many of the worst, of the best, and of all by chance. The same rows and seed give the same.

    Holds only these, however many rows there are.
    """
    kept: List[Tuple[str, List[Line]]] = [("worst", []), ("best", []), ("random", [])]
    orders = _orders(seed)
    lines = map(_line_of, rows)
    while some := list(islice(lines, ROWS_AT_ONCE)):
        kept = [(kind, nsmallest(count, [*held, *some], orders[kind])) for kind, held in kept]
    found: Dict[str, Line] = {}
    for kind, held in kept:
        for line in held:
            found.setdefault(line["rollout_id"], {**line, "picked": kind})
    return list(found.values())


def _orders(seed: int) -> Dict[str, Callable[[Line], Any]]:
    def chance(line: Line) -> bytes:
        return hashlib.sha256(f"{seed}:{line['rollout_id']}".encode("utf-8", "surrogatepass")).digest()

    # Of equal rewards chance decides, else they would all be of the first samples.
    return {"worst": lambda line: (line["reward"], chance(line)), "best": lambda line: (-line["reward"], chance(line)), "random": chance}


def _line_of(row: Row) -> Line:
    prompt, answer = _split(row)
    return {
        "rollout_id": row["rollout_id"],
        "prompt": _short(_text_of(prompt)),
        "answer": _short(_text_of(answer)),
        "reward": float(row["total_reward"]),
        "parts": json.dumps(row.get("rewards", {})),
        "stop_reason": row.get("stop_reason", ""),
        "turns": row.get("turn_count", 0),
        "tokens": row.get("assistant_tokens", 0),
    }


def _split(row: Row) -> Tuple[List[Row], List[Row]]:
    """Messages of the prompt, and those after it."""
    log: List[Row] = row["message_log"]
    ids, at = 0, 0
    while at < len(log) and ids + len(log[at]["token_ids"]) <= row["prompt_tokens"]:
        ids += len(log[at]["token_ids"])
        at += 1
    return log[:at], log[at:]


def _text_of(messages: List[Row]) -> str:
    texts = [_content_of(one) for one in messages]
    # A single message needs no name of its role.
    return texts[0] if len(texts) == 1 else "\n\n".join(f"{one['role']}: {text}" for one, text in zip(messages, texts))


def _content_of(message: Row) -> str:
    content, calls = message["content"], message.get("tool_calls")
    text = content if isinstance(content, str) else " ".join(part.get("text", f"[{part['type']}]") for part in content)
    return text if not calls else f"{text}\n{json.dumps(calls, ensure_ascii=False)}".strip()


def _short(text: str) -> str:
    """Prompts differ at their end, answers are judged by it: a long one lacks its middle."""
    if len(text) > MOST_TEXT:
        text = f"{text[: MOST_TEXT // 2]} […] {text[-MOST_TEXT // 2 :]}"
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
