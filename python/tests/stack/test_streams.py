"""What a client says to streams and policies, and makes of their answers: workflows of a script, on a real server."""

import asyncio
import logging
import unittest
import uuid
from datetime import timedelta

import durable_rollouts
from durable_rollouts import aio
from temporalio import workflow
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

REQUEST = {"samples": {"path": "samples.jsonl"}, "groups_per_step": 2}


def answer(step):
    return {
        "ready": True,
        "schema_version": 1,
        "batch_id": workflow.info().workflow_id,
        "counts": {"requested": 4, "completed": 4, "failed": 0, "timed_out": 0, "stopped": 0, "cancelled": 0},
        "metrics": {"lag/max": 1, "stream/banked": 3},
        "files": {"rollouts": f"/steps/{step}/rollouts.jsonl", "failures": "", "metrics": ""},
        "metadata": {},
        **({"final": True} if step == 2 else {}),
    }


@workflow.defn(name="rolloutStream")
class ScriptedStream:
    """Step 0 comes when asked twice, step 1 in the run after the one that was asked, step 2 is the last."""

    def __init__(self):
        self.asked = []
        self.goes_on = False
        self.stopped = False

    @workflow.run
    async def run(self, request, run=0):
        self.request, self.number = request, run
        await workflow.wait_condition(lambda: self.goes_on or self.stopped)
        if self.stopped:
            return
        workflow.continue_as_new(args=[request, run + 1])

    @workflow.update(unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON)
    async def next_step(self, given):
        await workflow.wait_condition(lambda: hasattr(self, "number"))
        self.asked.append(given)
        step = given["step"]
        if step == 0 and len(self.asked) < 2:
            return {"ready": False, "why": "1 of 2 groups is complete"}
        if step == 1 and self.number == 0:
            self.goes_on = True
            await workflow.wait_condition(lambda: False)
        if step == 3:
            raise ApplicationError("the epochs are used up", type="StreamEnded")
        if step > 3:
            raise ApplicationError(f"expected step 3 or one that is kept, got {step}", type="StepOutOfOrder")
        return answer(step)

    @workflow.update
    def forget(self, given):
        self.asked.append(given)

    @workflow.query
    def progress(self):
        phase = "done" if self.stopped else "running"
        return {"phase": phase, "run": self.number, "asked": self.asked, "request": self.request}

    @workflow.signal
    def stop(self):
        self.stopped = True


@workflow.defn(name="inputs")
class ScriptedInputs:
    @workflow.run
    async def run(self, asked):
        return {"inputs_dir": "/nowhere", "worker": "1@host", "most_characters": 10**9, "sees": False}


@workflow.defn(name="policy")
class ScriptedPolicy:
    def __init__(self):
        self.published = []

    @workflow.run
    async def run(self, given):
        self.given = given
        await workflow.wait_condition(lambda: False)

    @workflow.update
    def publish(self, given):
        if any(given["version"] < before["version"] for before in self.published):
            raise ApplicationError("version: expected more", type="PolicyUpdateFailed")
        self.published.append(given)
        return {"version": given["version"], "replicas": {}, "paused_s": 0.1, "total_s": 0.2}

    @workflow.query
    def status(self):
        return {"given": self.given, "updates": self.published}


class Scripted(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        for name in ("durable_rollouts", "asyncio"):
            logging.getLogger(name).setLevel(logging.ERROR)
        self.queue = f"scripted-{uuid.uuid4()}"
        self.client = await aio.Client.connect(task_queue=self.queue)
        self.worker = Worker(
            self.client._temporal,
            task_queue=self.queue,
            workflows=[ScriptedStream, ScriptedInputs, ScriptedPolicy],
            workflow_runner=UnsandboxedWorkflowRunner(),
            graceful_shutdown_timeout=timedelta(0),
        )
        await self.worker.__aenter__()

    async def asyncTearDown(self):
        await self.worker.__aexit__(None, None, None)

    async def stream(self, request=REQUEST):
        return await self.client.stream(self.queue, request)


class Streams(Scripted):
    async def test_a_step_is_asked_for_until_it_comes_and_what_it_waits_for_is_told(self):
        stream, why = await self.stream(), []
        step = await stream.next_step(0, version=17, timeout=60, on_wait=why.append)
        self.assertEqual(why, ["1 of 2 groups is complete"])
        self.assertEqual((step.step, step.final, step.metrics), (0, False, {"lag/max": 1, "stream/banked": 3}))
        self.assertEqual(repr(step), "Step(0: 4 rollouts)")
        await stream.forget(0)
        progress = await stream.progress()
        *asked, forgot = progress["asked"]
        self.assertEqual([(one["step"], one["version"]) for one in asked], [(0, 17)] * 2)
        self.assertEqual(forgot, {"through": 0})
        self.assertEqual(progress["request"], REQUEST)

    async def test_is_asked_again_where_it_goes_on_in_a_new_run_before_it_has_answered(self):
        stream = await self.stream()
        self.assertEqual((await asyncio.wait_for(stream.next_step(1), 60)).step, 1)
        progress = await stream.progress()
        self.assertEqual((progress["run"], progress["asked"]), (1, [{"step": 1, "wait": "10m"}]))
        joined = await self.stream()
        self.assertEqual((await joined.next_step(1, timeout=60)).step, 1)
        with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, "groups_per_step: 2 there, 3 here"):
            await self.stream({**REQUEST, "groups_per_step": 3})

    async def test_faults_are_raised_by_name_and_the_last_step_is_final(self):
        stream = await self.stream()
        self.assertTrue((await stream.next_step(2, timeout=60)).final)
        with self.assertRaisesRegex(durable_rollouts.StreamEnded, "the epochs are used up"):
            await stream.next_step(3)
        with self.assertRaisesRegex(durable_rollouts.StepOutOfOrder, "got 9"):
            await stream.next_step(9)

    async def test_a_caller_who_waits_no_longer_may_ask_again(self):
        stream = await self.stream()
        with self.assertRaisesRegex(TimeoutError, f"step 0 of {self.queue}: not within 0.3 s"):
            await stream.next_step(0, timeout=0.3)
        self.assertEqual((await stream.next_step(0, timeout=60)).step, 0)

    async def test_one_that_was_stopped_has_ended_and_is_continued_with_its_request(self):
        stream = await self.stream()
        await stream.next_step(2, timeout=60)
        await stream.stop()
        await asyncio.wait_for(stream._handle.result(), 60)
        with self.assertRaisesRegex(durable_rollouts.Stopped, "was stopped"):
            await stream.next_step(3)
        self.assertEqual((await stream.progress())["phase"], "done")
        await self.stream()
        with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, "groups_per_step: 2 there, 3 here"):
            await self.stream({**REQUEST, "groups_per_step": 3})
        self.assertEqual((await (await self.stream(None)).next_step(2, timeout=60)).step, 2)

    async def test_one_that_was_terminated_does_not_look_alive(self):
        stream = await self.stream()
        self.assertEqual((await stream.progress())["phase"], "running")
        await stream._handle.terminate()
        for call in (stream.progress, lambda: stream.next_step(0)):
            with self.assertRaises(durable_rollouts.Terminated):
                await call()

    async def test_with_more_samples_than_a_request_has_room_for_is_refused_where_no_disk_is_shared(self):
        samples = ["x" * 2**20] * 5
        with self.assertRaisesRegex(
            durable_rollouts.InvalidBatchRequest,
            r"has to be below /nowhere, the inputs_dir of worker 1@host: here that is not possible \(No such file or directory: /nowhere/.samples\)",
        ):
            await asyncio.wait_for(self.stream({**REQUEST, "samples": samples}), 120)

    async def test_of_an_id_that_nobody_started_is_not_found(self):
        with self.assertRaises(durable_rollouts.NotFound):
            await (await self.stream(None)).next_step(0)


class Policies(Scripted):
    async def test_publish_starts_the_policy_and_says_everything_but_asks_again_safely(self):
        policy = self.client.policy(self.queue)
        with self.assertRaises(durable_rollouts.NotFound):
            await policy.status()
        for _ in range(2):
            result = await policy.publish(18, "/ckpt/18", mode="wait", drain_limit="5s")
        self.assertEqual((result["version"], result["paused_s"]), (18, 0.1))
        status = await policy.status()
        self.assertEqual(status["given"], {"service": self.queue})
        given = {
            **{"version": 18, "weights": {"kind": "checkpoint", "path": "/ckpt/18"}, "mode": "wait", "drain_limit": "5s"},
            **{"cache": "reset", "order": "all", "max_unavailable": 1, "quorum": None, "probe": None, "pause_limit": "10m", "keep_adapters": 2},
            **{"holder": None, "take_over": False},
        }
        self.assertEqual(status["updates"], [given, given])
        with self.assertRaisesRegex(durable_rollouts.PolicyUpdateFailed, "version: expected more"):
            await policy.publish(17, {"kind": "checkpoint", "path": "/ckpt/17"})
