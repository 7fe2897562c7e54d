"""Brings new weights to every replica of a generation service, between two training steps, while rollouts run.

    python publish_weights.py --version 18 --path /ckpt/step-18 [--address 127.0.0.1:7233]
"""

import argparse
import asyncio
import json
import uuid

from temporalio.client import Client, WithStartWorkflowOperation
from temporalio.common import WorkflowIDConflictPolicy


async def publish(client: Client, version: int, path: str, service: str = "default", **options) -> dict:
    """Returns when enough replicas serve `version`; raises WorkflowUpdateFailedError, whose cause says why.

    options: mode, cache, order, max_unavailable, quorum, probe, pause_limit, drain_limit. Asking again is safe: an update
    is known by its version, and what is missing is done.
    """
    start = WithStartWorkflowOperation(
        "policy",
        {"service": service},
        id=f"policy/{service}",
        task_queue="rollouts",
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )
    weights = {"kind": "checkpoint", "path": path}
    return await client.execute_update_with_start_workflow(
        "publish",
        {"version": version, "weights": weights, **options},
        start_workflow_operation=start,
        # Never the same id twice: Temporal remembers an update that failed.
        id=str(uuid.uuid4()),
    )


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", type=int, required=True)
    parser.add_argument("--path", required=True)
    parser.add_argument("--service", default="default")
    parser.add_argument("--mode", default="keep")
    parser.add_argument("--address", default="127.0.0.1:7233")
    args = parser.parse_args()
    client = await Client.connect(args.address)
    print(json.dumps(await publish(client, args.version, args.path, args.service, mode=args.mode), indent=2))


if __name__ == "__main__":
    asyncio.run(main())
