"""A transfer by vLLM's own trainer code, with a stand-in for it: what fails at an engine ends the wait for a collective."""

import sys
import threading
import unittest
from types import ModuleType, SimpleNamespace
from unittest import mock

from durable_rollouts import PolicyUpdateFailed
from durable_rollouts.collective import Collectives, nccl, source_of


class WeightSource:
    pass


class Sender:
    """As vLLM's NCCL engine: the collective in its own thread, the calls in another one."""

    made = []

    def __init__(self, init_info, client, source):
        self.init_info, self.client, self.source = init_info, client, source
        self.hangs = threading.Event()
        client.init_weight_transfer_engine({"rank_offset": 1})
        Sender.made.append(self)

    def send_weights(self):
        self.client.start_weight_update()
        failed = []
        calls = threading.Thread(target=lambda: failed.append(_outcome(self.client.update_weights, {"names": ["a"]})))
        calls.start()
        if self.init_info == "hangs":
            self.hangs.wait(60)
        calls.join()
        if failed[0] is not None:
            raise failed[0]
        self.client.finish_weight_update()


def _outcome(call, *given):
    try:
        call(*given)
    except Exception as error:
        return error


class Client:
    def __init__(self, fails=None):
        self.calls, self.threads, self.fails = [], set(), fails

    def __getattr__(self, name):
        def call(*given):
            self.calls.append(name)
            self.threads.add(threading.current_thread())
            if name == self.fails:
                raise PolicyUpdateFailed(f"{name}: 500")

        return call


def vllm():
    base, factory = ModuleType("base"), ModuleType("factory")
    base.WeightSource = WeightSource
    base.ModuleSource = lambda module: ("module", module)
    base.ParamMeta = lambda *meta: meta
    base.materialize_full_tensor = lambda one: ("full", one)
    factory.WeightTransferTrainerFactory = SimpleNamespace(
        trainer_init=lambda info, *, client, source: Sender(info, client, source)
    )
    nccl_engine = ModuleType("nccl_engine")
    nccl_engine.NCCLTrainerInitInfo = lambda *info, rank: (*info, rank)
    packages = {name: ModuleType(name) for name in ("vllm", "vllm.distributed", "vllm.distributed.weight_transfer")}
    parts = {f"vllm.distributed.weight_transfer.{name}": part for name, part in (("base", base), ("factory", factory), ("nccl_engine", nccl_engine))}
    return mock.patch.dict(sys.modules, {**packages, **parts})


ALL = ["init_weight_transfer_engine", "start_weight_update", "update_weights", "finish_weight_update"]


class Sending(unittest.TestCase):
    def setUp(self):
        Sender.made = []
        patch = vllm()
        patch.start()
        self.addCleanup(patch.stop)
        self.collectives = Collectives()

    def send(self, client, *, is_new=True, info="plain", timeout=120, place=("fleet", 0)):
        self.collectives.send([], place=place, client=client, init=lambda: info, is_new=is_new, timeout=timeout)

    def test_the_calls_are_made_in_the_thread_that_sends(self):
        client = Client()
        self.send(client)
        self.assertEqual(client.calls, ALL)
        self.assertEqual(client.threads, {threading.current_thread()})

    def test_a_collective_is_kept_for_the_same_fleet_and_made_anew_for_another(self):
        self.send(Client())
        second = Client()
        self.send(second, is_new=False)
        self.assertEqual(second.calls, ALL[1:])
        self.send(Client(), is_new=False, place=("other", 0))
        self.send(Client(), is_new=True)
        self.assertEqual(len(Sender.made), 3)

    def test_what_fails_at_an_engine_is_raised_though_the_collective_still_waits_for_it(self):
        with self.assertRaisesRegex(PolicyUpdateFailed, "update_weights: 500"):
            self.send(Client(fails="update_weights"), info="hangs", timeout=600)
        with self.assertRaisesRegex(PolicyUpdateFailed, "still waits: restart this trainer process"):
            self.send(Client())
        Sender.made[0].hangs.set()

    def test_a_collective_that_does_not_move_ends_in_a_fault_that_names_the_remedy(self):
        with self.assertRaisesRegex(PolicyUpdateFailed, "has not moved for 0.2 s: restart this trainer process"):
            self.send(Client(), info="hangs", timeout=0.2)
        Sender.made[0].hangs.set()

    def test_one_that_failed_is_made_anew(self):
        with self.assertRaises(PolicyUpdateFailed):
            self.send(Client(fails="finish_weight_update"))
        self.send(Client(), is_new=False)
        self.assertEqual(len(Sender.made), 2)

    def test_weights_are_named_tensors_a_module_or_a_source(self):
        base = sys.modules["vllm.distributed.weight_transfer.base"]
        tensor = SimpleNamespace(dtype="f32", shape=[2, 3])
        for named in ({"w": tensor}, [("w", tensor)], iter([("w", tensor)])):
            source = source_of(named, base)
            self.assertEqual((source.metadata(), list(source)), ([("w", "f32", (2, 3))], [("w", ("full", tensor))]))
            self.assertEqual(len(list(source)), 1)
        module = SimpleNamespace(named_parameters=lambda: None)
        self.assertEqual(source_of(module, base), ("module", module))
        own = SimpleNamespace(metadata=lambda: [])
        self.assertIs(source_of(own, base), own)

    def test_nccl_is_at_the_address_that_the_engine_sees(self):
        address, port, world_size, rank = nccl("http://127.0.0.1:8000")(5)
        self.assertEqual((address, world_size, rank), ("127.0.0.1", 5, 0))
        self.assertGreater(port, 0)


class Without(unittest.TestCase):
    def test_vllm_it_is_said_what_needs_it(self):
        with mock.patch.dict(sys.modules, {"vllm": None}):
            with self.assertRaisesRegex(ImportError, "engines.send needs vLLM"):
                Collectives().send([], place=("f", 0), client=Client(), init=lambda: None, is_new=True, timeout=1)
