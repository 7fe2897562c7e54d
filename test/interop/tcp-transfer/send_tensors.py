"""A trainer that sends the tensors of checkpoints to a real vLLM over TCP.

It reads orders, one JSON object a line: ``{tensors, stop, hang_s, options}``, or ``{times, folders, bare, options}`` for
many updates, ``bare`` at this URL without this project. ``tensors`` is the folder whose weights it sends (null: it says
that it has sent them), ``options`` are those of ``Policy.transfer``. Each order is a process of its own, because importing
vLLM takes half a minute: it says its pid and each stage, and sleeps at the one named ``stop`` until SIGUSR1.
"""

import json
import os
import signal
import sys
import time

from safetensors.torch import load_file
from tcp_transfer import TcpTrainerInitInfo, register
from vllm.distributed.weight_transfer.clients import HTTPVLLMWeightSyncClient
from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory

from durable_rollouts import Client, PolicyUpdateFailed


def say(**told):
    print(json.dumps(told), flush=True)


class Stages:
    def __init__(self, stop, quiet=False):
        self._stop, self._quiet = stop, quiet

    def reach(self, stage, **more):
        if self._quiet:
            return
        say(stage=stage, **more)
        if stage == self._stop:
            signal.sigwait({signal.SIGUSR1})


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


def init(hang_s=0):
    return lambda world_size: TcpTrainerInitInfo(engines=world_size - 1, hang_s=hang_s, rank=0)


def transfer(policy, order):
    stages = Stages(order.get("stop"))
    stages.reach("begins")
    with policy.transfer(**order["options"]) as engines:
        stages.reach("begun", version=engines.version, init=engines.init)
        began = time.monotonic()
        if order.get("tensors") is not None:
            engines.send(tensors(order["tensors"], stages), init(order.get("hang_s", 0)), timeout=60)
        stages.reach("ended", send_s=time.monotonic() - began)
    say(result=engines.result)


def repeated(policy, order):
    """Transfers in one process, by turns of these folders; `bare` as trainers do it, without this project."""
    quiet = Stages(None, quiet=True)
    bare = Bare(order["bare"]) if order.get("bare") is not None else None
    for i in range(order["times"]):
        source = tensors(order["folders"][i % len(order["folders"])], quiet)
        began = time.time()
        if bare is None:
            with policy.transfer(**order["options"]) as engines:
                begun = time.time()
                engines.send(source, init())
                sent = time.time()
            say(update=i, began=began, ended=time.time(), begin_s=begun - began, send_s=sent - begun, paused_s=engines.result["paused_s"])
        else:
            paused_s = bare.update(source)
            say(update=i, began=began, ended=time.time(), paused_s=paused_s)


class Bare:
    """Pause, send, resume: paused for ever if it is killed in between."""

    def __init__(self, url):
        self._client = HTTPVLLMWeightSyncClient(url)
        self._sender = None

    def update(self, source):
        """Returns how long the engine was paused, in seconds."""
        began = time.time()
        self._client._post("pause?mode=keep")
        if self._sender is None:
            self._sender = WeightTransferTrainerFactory.trainer_init(init()(2), client=self._client, source=source)
        self._sender.source = source
        self._sender.send_weights()
        self._client._post("reset_prefix_cache?reset_running_requests=true")
        self._client._post("resume")
        return time.time() - began


def child(order):
    policy = Client.connect(os.environ["ADDRESS"], os.environ["NAMESPACE"], os.environ["TASK_QUEUE"]).policy()
    try:
        (repeated if "times" in order else transfer)(policy, order)
    except PolicyUpdateFailed as fault:
        say(fault=str(fault))


def main():
    # For all threads, so that one can wait for it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
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
