"""Rollouts and groups one by one, on a real stack: see test_batches.py."""

import asyncio
import json
import os
import unittest
from pathlib import Path

import durable_rollouts
from durable_rollouts import Client, aio, single

with open(os.environ["STACK"]) as file:
    STACK = json.load(file)

BATCH = STACK["fast"]
SETTINGS = {name: value for name, value in BATCH.items() if name not in ("samples", "num_repeats")}
SLOW = {**SETTINGS, "generation": STACK["slow"]["generation"]}
STORE = Path(STACK["store_root"])


def samples():
    if isinstance(BATCH["samples"], list):
        return BATCH["samples"]
    raise AssertionError("the stack's samples are inline")


def claims(id):
    """How often its journal was claimed: attempts that played it."""
    lines = (STORE / id / "journals" / "0-0.jsonl").read_text().splitlines()
    return sum(json.loads(line)["kind"] == "claim" for line in lines if line)


class Singles(unittest.TestCase):
    def setUp(self):
        self.client = Client.connect()
        self.name = self.id().rsplit(".", 1)[-1][:80]

    def test_an_id_is_one_rollout_whoever_asks_again(self):
        sample = samples()[0]
        row = self.client.rollout(sample, self.name, **SETTINGS)
        self.assertEqual((row["rollout_id"], row["batch_id"]), (f"{self.name}/0-0", self.name))
        self.assertIn(row["stop_reason"], ("terminated", "truncated", "max_turns"))
        played = claims(self.name)
        self.assertEqual(self.client.rollout(sample, self.name, **SETTINGS, overlong="keep"), row)
        self.assertEqual(claims(self.name), played, "it is not played again")

    def test_another_sample_under_an_id_is_refused_by_field(self):
        self.client.rollout(samples()[0], self.name, **SETTINGS)
        other = json.loads(json.dumps(samples()[0]))
        other["message_log"][0]["content"] = "another"
        with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, r"has another request: sample\.message_log\.0\.content: .* there, 'another' here; use another id"):
            self.client.rollout(other, self.name, **SETTINGS)
        with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, r"max_seq_len: .* there, 17 here"):
            self.client.rollout(samples()[0], self.name, **{**SETTINGS, "max_seq_len": 17})
        with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, "is a single rollout"):
            self.client.group(samples()[0], 2, self.name, **SETTINGS)

    def test_a_group_has_its_members_in_order_and_is_the_same_again(self):
        group = self.client.group(samples()[1], 3, self.name, **SETTINGS)
        self.assertEqual([row["repeat"] for row in group.rows], [0, 1, 2])
        self.assertEqual(group.failures, [])
        self.assertEqual([row["rollout_id"] for row in group.sequences().rows()], [row["rollout_id"] for row in group.rows])
        self.assertEqual(self.client.group(samples()[1], 3, self.name, **SETTINGS), group)

    def test_a_failure_is_raised_by_name(self):
        with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, "No environment found for task type: nowhere"):
            self.client.rollout({**samples()[0], "task_name": "nowhere"}, f"{self.name}-task", **SETTINGS)
        with self.assertRaises(durable_rollouts.TimedOut):
            self.client.rollout(samples()[0], f"{self.name}-time", **{**SLOW, "rollout_timeout": "1s"})

    def test_those_that_end_are_returned_while_others_hold_all_polls(self):
        async def play():
            client = await aio.Client.connect()
            slow = [asyncio.ensure_future(client.rollout(samples()[0], f"{self.name}-slow-{k}", **SLOW)) for k in range(4)]
            while not client._single._polls.locked():
                await asyncio.sleep(0.05)
            fast = [client.rollout(samples()[k % 4], f"{self.name}-{k}", **SETTINGS) for k in range(8)]
            rows = await asyncio.wait_for(asyncio.gather(*fast), 90)
            running = [one for one in slow if not one.done()]
            for one in slow:
                one.cancel()
            await asyncio.gather(*slow, return_exceptions=True)
            temporal = client._temporal
            for k in range(4):
                await temporal.get_workflow_handle(f"{self.name}-slow-{k}").cancel()
            return rows, len(running)

        most, single.MOST_POLLS = single.MOST_POLLS, 2
        try:
            rows, running = asyncio.run(play())
        finally:
            single.MOST_POLLS = most
        self.assertEqual([row["batch_id"] for row in rows], [f"{self.name}-{k}" for k in range(8)])
        self.assertEqual(running, 4)
