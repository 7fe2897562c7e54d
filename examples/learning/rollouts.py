"""Rollouts that are played without the project, as rows with the fields that the trainer reads."""

from __future__ import annotations

from typing import List

from grpo import Row
from policy import END
from task import TURNS, Sample, reward_of, shown


def begun(group: int, sample: Sample) -> Row:
    [prompt] = [{**message, "token_ids": list(map(ord, message["content"]))} for message in sample["message_log"]]
    row = {**sample, "row": group, "message_log": [prompt], "prompt_tokens": len(prompt["token_ids"]), "train_mask": []}
    return {**row, "turn_rewards": [], "truncated": False, "logprobs_mode": "processed", "policy_versions": []}


def ids_of(row: Row) -> List[int]:
    return [id for message in row["message_log"] for id in message["token_ids"]]


def goes_on(row: Row) -> bool:
    """As under the project's ``standard`` semantics, a truncated answer ends its rollout."""
    return len(row["turn_rewards"]) < TURNS and not row["truncated"]


def take(row: Row, ids: List[int], logprobs: List[float]) -> None:
    """A turn: the policy's answer, and environment.ts's reply."""
    info, turn = row["extra_env_info"], len(row["turn_rewards"])
    text = "".join(chr(id) for id in ids if id != END)
    right = sum(a == b for a, b in zip(text, info["answers"][turn]))
    content = f"\n{right} {shown(info['words'][turn + 1])}" if turn + 1 < TURNS else ""
    start = len(ids_of(row))
    row["train_mask"].append({"start": start, "end": start + len(ids)})
    row["message_log"] += [
        {"role": "assistant", "content": text, "token_ids": ids, "generation_logprobs": logprobs},
        {"role": "environment", "content": content, "token_ids": list(map(ord, content))},
    ]
    row["turn_rewards"].append(reward_of(text, info["answers"][turn]))
    row["truncated"] = END not in ids


def ended(row: Row, version: int) -> Row:
    sampled = sum(len(message.get("generation_logprobs", [])) for message in row["message_log"])
    run = {"start": 0, "end": sampled, "version": str(version)}
    total = {"total_reward": sum(row["turn_rewards"]), "assistant_tokens": sampled}
    return {**row, **total, "policy_versions": [run]}
