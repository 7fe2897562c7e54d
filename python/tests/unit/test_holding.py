"""Signs of life of who holds a service: from the first call that brings weights, for as long as the event loop lives."""

import asyncio
import unittest
from unittest import mock

from durable_rollouts import PolicyUpdateFailed, aio, connection, holding, presence
from durable_rollouts.aio.service import incarnation


class Temporal:
    """A client of Temporal, of which only the identity counts."""


class Signs(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.signals, self.updates, self.answers = [], [], []

        async def signal(client, workflow, *, id, task_queue, signal, request):
            self.signals.append((id, signal, request["holder"]))

        async def ask(client, workflow, *, id, task_queue, update, request):
            self.updates.append((update, request))
            answer = self.answers.pop(0) if self.answers else {}
            if isinstance(answer, Exception):
                raise answer
            return answer

        for target, name, value in (
            (connection, "signal_or_start", signal),
            (connection, "ask_or_start", ask),
            (presence, "check_service", mock.AsyncMock()),
            (holding, "EVERY_S", 0.01),
        ):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.policy = aio.Policy(Temporal(), "default", "q")

    async def said(self):
        """How many signals come in the time of several."""
        before = len(self.signals)
        await asyncio.sleep(0.1)
        return len(self.signals) - before

    async def go_on(self, count):
        """Whether they come, however busy the machine is."""
        before = count()
        for _ in range(600):
            if count() > before + 2:
                return True
            await asyncio.sleep(0.05)
        return False

    async def test_come_from_the_first_publish_on_until_the_release_which_names_the_process(self):
        self.assertEqual(await self.said(), 0)
        await self.policy.publish(1, "/w", holder="a")
        await self.policy.publish(2, "/w", holder="a", take_over=True)
        self.assertTrue(await self.go_on(lambda: len(self.signals)))
        own = {"name": "a", "incarnation": incarnation()}
        self.assertEqual(self.signals[0], ("policy/default", "holding", own))
        self.assertEqual([(one["holder"], one["take_over"]) for _, one in self.updates], [(own, False), (own, True)])
        await self.policy.release("a")
        self.assertEqual(self.updates[-1], ("release", {"holder": own}))
        self.assertEqual(await self.said(), 0)

    async def test_come_from_a_transfer_on(self):
        self.answers = [{"ticket": "t", "version": 1, "engines": [], "fleet": "f", "init": True}]
        async with self.policy.transfer(holder="a"):
            self.assertTrue(await self.go_on(lambda: len(self.signals)))
        await self.policy.release("a")

    async def test_end_where_the_holder_is_refused_and_go_on_where_the_update_fails_otherwise(self):
        for message, goes_on in (('holder: "b" has held the service', False), ("no replica answers", True)):
            self.answers = [PolicyUpdateFailed(message)]
            with self.assertRaises(PolicyUpdateFailed):
                await self.policy.publish(1, "/w", holder="a")
            if goes_on:
                self.assertTrue(await self.go_on(lambda: len(self.signals)), message)
            else:
                self.assertLessEqual(await self.said(), 2, message)
        await self.policy.release("a")

    async def test_do_not_end_with_one_that_could_not_be_said(self):
        with mock.patch.object(self.policy._service, "say", side_effect=[OSError("away"), None, None, None] + [None] * 50) as say:
            with self.assertLogs("durable_rollouts", "WARNING"):
                await self.policy.publish(1, "/w", holder="a")
                self.assertTrue(await self.go_on(lambda: say.call_count))
            await self.policy.release("a")

    async def test_are_none_of_a_publish_without_a_name_and_an_operator_releases_by_name_alone(self):
        await self.policy.publish(1, "/w")
        self.assertEqual(await self.said(), 0)
        self.assertIsNone(self.updates[0][1]["holder"])
        await self.policy.release("a")
        self.assertEqual(self.updates[-1], ("release", {"holder": {"name": "a", "incarnation": None}}))


if __name__ == "__main__":
    unittest.main()
