"""A block that ends with an update that has begun and not ended gives its engines up."""

import asyncio
import unittest
from unittest import mock

from durable_rollouts import PolicyUpdateFailed
from durable_rollouts.aio.transfer import Engines, Transfer, WeightSyncClient

ENGINE = {"control_url": "http://e", "instance": None, "world_size": 1, "rank_offset": 1, "backend": None}
ANSWER = {
    "ticket": "t",
    "version": 4,
    "engines": [{**ENGINE, "url": "http://a/v1", "group": 0}, {**ENGINE, "url": "http://b/v1", "group": 1}],
    "fleet": "f",
    "init": True,
}


class Service:
    def __init__(self):
        self.updates = []

    async def update(self, name, request):
        self.updates.append((name, request))
        return ANSWER if name == "begin" else {"version": 4}


class Block(unittest.TestCase):
    def played(self, *steps, sent=None):
        service = Service()

        async def block():
            async with Transfer(service, {}) as engines:
                client = engines.client()
                for step in steps:
                    await asyncio.to_thread(getattr(client, step))
                if sent is not None:
                    engines.sent(sent)

        with mock.patch.object(WeightSyncClient, "_post"), mock.patch.object(Engines, "check", mock.AsyncMock()):
            try:
                asyncio.run(block())
                fault = None
            except PolicyUpdateFailed as error:
                fault = str(error)
        return [name for name, _ in service.updates], fault

    def test_finishes_an_update_that_has_ended(self):
        self.assertEqual(self.played("start_weight_update", "finish_weight_update"), (["begin", "finish"], None))

    def test_finishes_where_its_own_code_has_sent_the_weights(self):
        self.assertEqual(self.played(), (["begin", "finish"], None))

    def test_gives_up_where_an_update_has_not_ended(self):
        updates, fault = self.played("start_weight_update")
        self.assertEqual(updates, ["begin", "abandon"])
        self.assertRegex(fault, r"groups \[0, 1\] have begun an update \(start_weight_update\) and not ended it")

    def test_does_not_give_up_groups_that_it_does_not_call_sent(self):
        self.assertEqual(self.played("start_weight_update", sent=[])[0], ["begin", "finish"])
