"""Rollouts for NeMo RL (docs/trainers.md, signatures of 7ea279a): ``run_durable_rollout`` takes the place of
``run_async_multi_turn_rollout(policy_generation, input_batch, …)`` of ``nemo_rl.experience.rollouts``.

``generation`` of the settings needs the ``temperature``, ``top_p`` and ``top_k`` of ``policy.generation``, and no other filter.
After a failed rollout, ask for the same id again: then only that rollout is played.
"""

import numpy as np
from durable_rollouts import trajectory


def run_durable_rollout(client, input_batch, id, **settings):
    names = ("message_log", "extra_env_info", "task_name", "idx", "loss_multiplier", "stop_strings")
    columns = {name: input_batch[name] for name in names if name in input_batch}
    samples = [{name: values[at] for name, values in columns.items()} for at in range(len(input_batch["message_log"]))]
    for sample in samples:
        sample["message_log"] = [{**message, "token_ids": message["token_ids"].tolist()} for message in sample["message_log"]]
    batch = client.start_batch({"samples": samples, "semantics": "nemo-rl", **settings}, id)
    result, rows = batch.wait(), batch.rows()
    if len(rows) < len(samples):
        raise RuntimeError(f"{id}: {len(samples) - len(rows)} of {len(samples)} rollouts failed: batch.failures()")
    if len(rows) > len(samples):
        raise RuntimeError(f"{id}: expected {len(samples)} rollouts, got {len(rows)}: NeMo RL repeats its prompts itself (num_repeats)")
    return columns_of(rows, input_batch), result["metrics"]


def columns_of(rows, input_batch):
    import torch

    played = {name: [row[name] for row in rows] for name in ("extra_env_info", "task_name", "idx")}
    rewards = torch.tensor([row["total_reward"] for row in rows], dtype=torch.float32)
    truncated = torch.tensor([row["truncated"] for row in rows], dtype=torch.bool)
    # 0: `overlong: mask`, or an agent said so.
    trains = torch.tensor([row.get("loss_multiplier", 1) for row in rows], dtype=torch.float32)
    numbers = {"total_reward": rewards, "truncated": truncated, "loss_multiplier": trains}
    # A BatchedDataDict, with the columns that it had before (length).
    return type(input_batch)({**input_batch, "message_log": [log_of(row) for row in rows], **numbers, **played})


def log_of(row):
    """NeMo RL trains a message that has logprobs, as a whole: one that trains in part is several here."""
    import torch

    if row.get("sequences"):
        raise ValueError(f"{row['rollout_id']}: expected one sequence for a sample, got {1 + len(row['sequences'])} of an agent")
    one = trajectory(row)
    if np.isnan(one.completion_logprobs).any():
        raise ValueError(f"{row['rollout_id']}: expected a logprob of each sampled token, got none (include_logprobs)")
    mask = np.concatenate([np.zeros(len(one.prompt_ids)), one.completion_mask])
    log, at = [], 0
    for message in row["message_log"]:
        ids = message["token_ids"]
        of, at = mask[at : at + len(ids)], at + len(ids)
        starts = [0, *(1 + np.flatnonzero(np.diff(of))).tolist()]
        for start, end in zip(starts, [*starts[1:], len(ids)]):
            part = {"role": message["role"], "content": message["content"] if start == 0 else ""}
            part["token_ids"] = torch.tensor(ids[start:end], dtype=torch.int64)
            if of[start:end].any():
                part["generation_logprobs"] = torch.tensor(message["generation_logprobs"][start:end], dtype=torch.float32)
            log.append(part)
    return log
