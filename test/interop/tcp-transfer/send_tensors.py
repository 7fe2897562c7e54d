"""A trainer that sends the tensors of checkpoints to a real vLLM over TCP.

It reads orders, one JSON object a line: ``{tensors, stop, hang_s, options}``. ``tensors`` is the folder whose weights it
sends (null: it says that it has sent them), ``options`` are those of ``Policy.transfer``. Each order is a process of its
own, because importing vLLM takes half a minute: it says its pid and each stage, and sleeps at the one named ``stop``.
"""

import json
import os
import sys
import time

from safetensors.torch import load_file
from tcp_transfer import TcpTrainerInitInfo, register

from durable_rollouts import Client, PolicyUpdateFailed


def say(**told):
    print(json.dumps(told), flush=True)


class Stages:
    def __init__(self, stop):
        self._stop = stop

    def reach(self, stage, **more):
        say(stage=stage, **more)
        if stage == self._stop:
            time.sleep(3600)


def tensors(folder, stages):
    """Named tensors whose sending passes through stages."""
    named = list(load_file(f"{folder}/model.safetensors").items())

    class Source:
        def metadata(self):
            from vllm.distributed.weight_transfer.base import ParamMeta

            return [ParamMeta(name, one.dtype, tuple(one.shape)) for name, one in named]

        def __iter__(self):
            stages.reach("started")
            for i, pair in enumerate(named):
                if i == len(named) // 2:
                    stages.reach("half")
                yield pair
            stages.reach("all")

    return Source()


def transfer(policy, order):
    stages = Stages(order.get("stop"))
    hang_s = order.get("hang_s", 0)
    stages.reach("begins")
    with policy.transfer(**order["options"]) as engines:
        stages.reach("begun", version=engines.version, init=engines.init)
        began = time.monotonic()
        if order.get("tensors") is not None:
            source = tensors(order["tensors"], stages)
            engines.send(source, lambda world_size: TcpTrainerInitInfo(engines=world_size - 1, hang_s=hang_s, rank=0), timeout=60)
        stages.reach("ended", send_s=time.monotonic() - began)
    say(result=engines.result)


def child(order):
    policy = Client.connect(os.environ["ADDRESS"], os.environ["NAMESPACE"], os.environ["TASK_QUEUE"]).policy()
    try:
        transfer(policy, order)
    except PolicyUpdateFailed as fault:
        say(fault=str(fault))


def main():
    register()
    say(stage="ready")
    for line in sys.stdin:
        if os.fork() == 0:
            say(pid=os.getpid())
            child(json.loads(line))
            os._exit(0)
        os.wait()
        say(stage="over")


main()
