"""Calls each method of a client on ids that another deployment in the namespace has, for a test that asks (asked.py)."""

import asyncio

from asked import answer
from durable_rollouts import RolloutFault
from durable_rollouts.aio import Client

REQUEST = {"samples": {"path": "samples.jsonl"}}
SAMPLE = {"message_log": [{"role": "user", "content": "?"}], "task_name": "t"}


async def call(address, namespace, what):
    client = await Client.connect(address, namespace, "ours")
    batch, policy = client.batch("step-1"), client.policy("default")
    stream = await client.stream("s")
    calls = {
        "start_batch": lambda: client.start_batch(REQUEST, "step-1"),
        "group": lambda: client.group(SAMPLE, 2, "step-1"),
        "wait": batch.wait,
        "rows": batch.rows,
        "batch_progress": batch.progress,
        "batch_stop": batch.stop,
        "cancel": batch.cancel,
        "set_max_in_flight": lambda: batch.set_max_in_flight(3),
        "rollout": lambda: client.rollout(SAMPLE, "one"),
        "stream": lambda: client.stream("s", REQUEST),
        "next_step": lambda: stream.next_step(0),
        "forget": lambda: stream.forget(0),
        "stream_progress": stream.progress,
        "stream_stop": stream.stop,
        "publish": lambda: policy.publish(1, "/weights"),
        "attach": lambda: policy.attach(1, "/weights"),
        "sleep": lambda: policy.sleep(holder="grpo"),
        "wake": policy.wake,
        "join": lambda: policy.join("http://10.0.0.1:8000/v1"),
        "status": policy.status,
        "batches": client.batches,
        "streams": client.streams,
    }
    try:
        return {"answered": repr(await asyncio.wait_for(calls[what](), 60))}
    except RolloutFault as fault:
        return {"type": fault.type, "message": str(fault)}


def ask(*given):
    return asyncio.run(call(*given))


answer(ask)
