"""Asks for very many rollouts at once, and prints them in the order in which they were asked for.

STACK: a file with ``samples``, ``settings`` and ``rollouts``. Each end is a line on standard error, and so is how many
results the client has waited for at once, whenever that is more than before. Another client of this process waits for a
batch meanwhile.
"""

import asyncio
import json
import os
import sys

from durable_rollouts import aio

with open(os.environ["STACK"]) as file:
    STACK = json.load(file)


def count_polls(client):
    """Results are waited for with this call alone, which also reads what an id was started with, and then waits for nothing."""
    service = client._temporal.workflow_service
    poll = service.get_workflow_execution_history
    now, most = 0, 0

    async def counted(request, **kwargs):
        nonlocal now, most
        if not request.wait_new_event:
            return await poll(request, **kwargs)
        now += 1
        if now > most:
            most = now
            print(f"polls {most}", file=sys.stderr, flush=True)
        try:
            return await poll(request, **kwargs)
        finally:
            now -= 1

    service.get_workflow_execution_history = counted


async def play(client, k):
    samples = STACK["samples"]
    row = await client.rollout(samples[k % len(samples)], f"many:{k}", **STACK["settings"])
    print(f"ended {k}", file=sys.stderr, flush=True)
    return {
        "id": row["rollout_id"],
        "ids": [id for message in row["message_log"] for id in message["token_ids"]],
        "reward": row["total_reward"],
        "attempts": row["attempts"],
    }


async def other():
    """A batch of another client."""
    client = await aio.Client.connect()
    batch = await client.start_batch({"samples": STACK["samples"][:1], **STACK["settings"]}, f"other-{os.getpid()}")
    return (await batch.wait())["counts"]["completed"]


async def main():
    client = await aio.Client.connect()
    count_polls(client)
    beside = asyncio.ensure_future(other())
    rows = await asyncio.gather(*(play(client, k) for k in range(STACK["rollouts"])))
    print(json.dumps({"rows": rows, "other": await beside}))


asyncio.run(main())
