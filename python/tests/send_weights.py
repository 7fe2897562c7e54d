"""A trainer that sends its weights itself, as the tests of transfers play it: ``send_weights.py HOW``."""

import asyncio
import json
import os
import sys

from durable_rollouts import Client, PolicyUpdateFailed, aio

PARTS = 2


def weights_of(version):
    return {"name": str(version), "skill": 1 + version % 3, "seed": version}


def send(engines, parts=PARTS):
    client = engines.client()
    if engines.init:
        client.init_weight_transfer_engine({"master_port": 29500, "rank_offset": 1})
    client.start_weight_update()
    for part in range(parts):
        client.update_weights({"weights": weights_of(engines.version), "part": part, "parts": PARTS})
    if parts == PARTS:
        client.finish_weight_update(weight_version="any label")


def whole(policy):
    with policy.transfer(holder="python", groups=1) as engines:
        send(engines)
    print(json.dumps(engines.result))


def printed(client):
    """A block of a page, with the names that it has from before it. Its holder is another one."""
    client.policy().release("python")
    exec(sys.stdin.read(), {"client": client, "send": send, "print": lambda result: print(json.dumps(result))})
    client.policy().release("grpo")


def raises(policy):
    try:
        with policy.transfer(holder="python") as engines:
            send(engines, parts=1)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        print(json.dumps(policy.status()["record"]["replicas"]))


def superseded(policy):
    """Another process of this trainer takes the engines; this one moves nothing more, and gives up nothing of theirs."""
    try:
        with policy.transfer(holder="python") as engines:
            engines.client().start_weight_update()
            if os.spawnv(os.P_WAIT, sys.executable, [sys.executable, __file__, "whole"]) != 0:
                sys.exit("its successor has failed")
            engines.client().update_weights({"weights": weights_of(engines.version)})
    except PolicyUpdateFailed as fault:
        print(json.dumps(str(fault)))


async def in_a_loop():
    client = await connect(aio.Client)
    async with client.policy().transfer(holder="python") as engines:
        try:
            engines.client().start_weight_update()
        except RuntimeError as error:
            refused = str(error)
        await asyncio.to_thread(send, engines)
    print(json.dumps({"refused": refused, "result": engines.result}))


def connect(client):
    return client.connect(os.environ["ADDRESS"], os.environ["NAMESPACE"], os.environ["TASK_QUEUE"])


if __name__ == "__main__":
    how = sys.argv[1]
    if how == "in_a_loop":
        asyncio.run(in_a_loop())
    else:
        client = connect(Client)
        printed(client) if how == "printed" else {"whole": whole, "raises": raises, "superseded": superseded}[how](client.policy())
