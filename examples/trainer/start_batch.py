"""Starts a batch of rollouts, waits for it, and reads its rows into arrays, as a training step would.

    python start_batch.py --batch-id step-17 [--request ../sliding-puzzle/batch.json]
        [--address 127.0.0.1:7233] [--namespace default]
"""

import argparse
import asyncio
import json

import numpy as np
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy


async def run_batch(args: argparse.Namespace, request: dict) -> dict:
    """The batch id is the workflow id: a trainer that crashed joins its running batch, or continues an ended one."""
    client = await Client.connect(args.address, namespace=args.namespace)
    return await client.execute_workflow(
        "rolloutBatch",
        request,
        id=args.batch_id,
        task_queue="rollouts",
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )


def to_arrays(row: dict) -> dict[str, np.ndarray]:
    """One rollout as training sees it: all ids, which of them are trained on, and their logprobs (0 elsewhere)."""
    ids, mask, logprobs = [], [], []
    for message in row["message_log"]:
        tokens = message["token_ids"]
        sampled = message.get("generation_logprobs") if len(ids) >= row["prompt_tokens"] else None
        ids += tokens
        mask += [sampled is not None and row.get("loss_multiplier", 1) > 0] * len(tokens)
        logprobs += sampled if sampled is not None else [0.0] * len(tokens)
    return {"ids": np.array(ids), "loss_mask": np.array(mask), "logprobs": np.array(logprobs, np.float32)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-id", required=True)
    parser.add_argument("--request", default="../sliding-puzzle/batch.json")
    parser.add_argument("--address", default="127.0.0.1:7233")
    parser.add_argument("--namespace", default="default")
    args = parser.parse_args()
    with open(args.request) as file:
        request = json.load(file)
    result = asyncio.run(run_batch(args, request))
    with open(result["files"]["rollouts"]) as file:
        rows = [json.loads(line) for line in file]
    arrays = [to_arrays(row) for row in rows]
    rewards: dict[int, list[float]] = {}  # by group: the rollouts of one sample share a baseline
    for row in rows:
        rewards.setdefault(row["row"], []).append(row["total_reward"])
    advantages = {group: np.array(r) - np.mean(r) for group, r in rewards.items()}
    print(f"{result['counts']['completed']} of {result['counts']['requested']} rollouts completed")
    print(f"{sum(a['loss_mask'].sum() for a in arrays)} of {sum(a['ids'].size for a in arrays)} tokens are trained on")
    print("mean reward by group:", {group: round(float(np.mean(r)), 3) for group, r in rewards.items()})
    print("groups with a gradient:", sum(bool(a.any()) for a in advantages.values()), "of", len(advantages))


if __name__ == "__main__":
    main()
