"""What a call waits for is said soon, whoever is away: without a server."""

import asyncio
import contextlib
import time
import unittest
from types import SimpleNamespace
from unittest import mock

from durable_rollouts import aio, waits
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

PROGRESS = {"phase": "running", "requested": 4, "done": 1, "valid": 1, "failed": 0, "reward_sum": 1.0, "waiting": None}
AWAY = RPCError("connection refused", RPCStatusCode.UNAVAILABLE, b"")


class Stack:
    """A server and its workers; whoever is away says nothing, as the SDK has it: its calls go on asking."""

    def __init__(self, *, server=True, worker=True, polls_s_ago=(0,), progress=PROGRESS):
        self.server, self.worker, self.polls_s_ago, self.progress = server, worker, polls_s_ago, progress
        self.service_client = SimpleNamespace(config=SimpleNamespace(target_host="host:7233"))
        self.namespace = "ns"
        self.workflow_service = self
        self.id, self.queries = "b", 0

    def get_workflow_handle(self, id, run_id=None):
        return self

    async def describe(self):
        if not self.server:
            await asyncio.sleep(3600)
        pending = SimpleNamespace(attempt=0)
        return SimpleNamespace(
            run_id="r",
            workflow_type="rolloutBatch",
            task_queue="q",
            status=WorkflowExecutionStatus.RUNNING,
            raw_description=SimpleNamespace(pending_workflow_task=pending),
        )

    async def query(self, name):
        self.queries += 1
        if not self.worker:
            await asyncio.sleep(3600)
        return self.progress

    async def describe_task_queue(self, request, timeout):
        if not self.server:
            raise AWAY
        at = [time.time() - ago for ago in self.polls_s_ago]
        return SimpleNamespace(pollers=[SimpleNamespace(identity="1@host", last_access_time=SimpleNamespace(seconds=int(one))) for one in at])

    async def get_system_info(self, request, timeout):
        if not self.server:
            raise AWAY

    async def result(self):
        await asyncio.sleep(3600)

    async def execute_update(self, name, raw):
        await asyncio.sleep(3600)


NO_SERVER = "waiting for the Temporal server at host:7233: connection refused"
NO_WORKER = "no worker polls task queue q on host:7233, namespace ns: it waits for one"
BUSY = r"^no answer from the workers of task queue q for [234] s, last seen 4[0-4] s ago: they are busy or gone$"
ENGINE = "waits for http://engine: refused"
LOST_ENGINE = {**PROGRESS, "waiting": {"service": "http://engine", "message": "refused"}}

STACKS = [
    (Stack(server=False), f"^{NO_SERVER}$"),
    (Stack(worker=False, polls_s_ago=()), f"^{NO_WORKER}$"),
    (Stack(worker=False, polls_s_ago=(40, 90)), BUSY),
    (Stack(progress=LOST_ENGINE), f"^{ENGINE}$"),
    (Stack(progress={**PROGRESS, "phase": "planning"}), "^waits for its plan: "),
]


async def first_of(call, said):
    """Seconds until the first was said."""
    began = time.monotonic()
    calling = asyncio.ensure_future(call)
    while not said and time.monotonic() < began + 120:
        await asyncio.sleep(0.02)
    took = time.monotonic() - began
    calling.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await calling
    return took


class Said(unittest.TestCase):
    def said_by(self, calls):
        """What each of these calls says first, all at once."""

        async def main():
            said = [[] for _ in calls]
            told = lambda one: said[int(one)].append  # noqa: E731
            with mock.patch.object(aio.batch, "told", told), mock.patch.object(aio.stream, "told", told):
                return said, await asyncio.gather(*(first_of(call(str(at), said[at].append), said[at]) for at, call in enumerate(calls)))

        said, took = asyncio.run(main())
        # Its own pauses are shorter; the rest is a busy machine.
        self.assertLess(max(took), 60, said)
        return [texts[0] for texts in said]

    def test_within_five_seconds_by_a_batch_that_is_waited_for_in_any_way(self):
        async def groups(stack, id):
            async for _ in aio.Batch(stack, id).groups():
                pass

        ways = [lambda stack, id: aio.Batch(stack, id).wait(), lambda stack, id: aio.Batch(stack, id).rows(), groups]
        cases = [(way, stack, text) for way in ways for stack, text in STACKS]
        calls = [lambda id, _, way=way, stack=stack: way(stack, id) for way, stack, _ in cases]
        for said, (_, _, text) in zip(self.said_by(calls), cases):
            self.assertRegex(said, text)

    def test_within_five_seconds_by_a_stream_whose_own_answer_says_the_rest(self):
        cases = STACKS[:3]
        stacks = [stack for stack, _ in cases]
        asked = [lambda id, say, stack=stack: aio.Stream(typed(stack), id).next_step(0, on_wait=say) for stack in stacks]
        logged = [lambda id, _, stack=stack: aio.Stream(typed(stack), id).next_step(0) for stack in stacks]
        for said, (_, text) in zip(self.said_by(asked + logged), cases * 2):
            self.assertRegex(said, text)

    def test_nothing_by_a_batch_that_runs(self):
        async def main():
            said = []
            working = waits.Waits(waits.Sight(Stack(), "b", "rolloutBatch").why, said.append).during(asyncio.sleep(0.2, "done"))
            with mock.patch.object(waits, "FIRST_LOOK_S", 0.01):
                return await working, said

        self.assertEqual(asyncio.run(main()), ("done", []))

    def test_again_only_when_it_is_something_else(self):
        async def main():
            answers, said = ["engine", "engine", None, "engine", "store"], []

            async def why():
                if len(answers) == 1:
                    done.set()
                return answers.pop(0) if answers else "store"

            done = asyncio.Event()
            with mock.patch.object(waits, "FIRST_LOOK_S", 0.001), mock.patch.object(waits, "LONGEST_PAUSE_S", 0.001):
                await waits.Waits(why, said.append).during(done.wait())
                await asyncio.sleep(0)
            return said

        self.assertEqual(asyncio.run(main())[:2], ["engine", "engine"])

    def test_to_a_caller_whose_own_function_fails_is_raised(self):
        async def main():
            def say(text):
                raise ZeroDivisionError(text)

            async def why():
                return "engine"

            with mock.patch.object(waits, "FIRST_LOOK_S", 0.001):
                await waits.Waits(why, say).during(asyncio.sleep(3600))

        with self.assertRaisesRegex(ZeroDivisionError, "engine"):
            asyncio.run(main())


def typed(stack):
    """The same as a stream."""
    described = stack.describe

    async def describe():
        return SimpleNamespace(**{**vars(await described()), "workflow_type": "rolloutStream"})

    other = Stack(server=stack.server, worker=stack.worker, polls_s_ago=stack.polls_s_ago, progress=stack.progress)
    other.describe = describe
    return other


class Sight(unittest.TestCase):
    def test_asks_one_question_at_a_time(self):
        async def main():
            stack = Stack(worker=False)
            sight = waits.Sight(stack, "b", "rolloutBatch")
            with mock.patch.object(waits, "BRIEF_S", 0.01):
                for _ in range(5):
                    await sight.look()
            return stack.queries

        self.assertEqual(asyncio.run(main()), 1)
