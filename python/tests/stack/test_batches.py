"""Batches on a real stack: TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE name its server, STACK its requests and its store."""

import asyncio
import json
import os
import re
import time
import unittest
from pathlib import Path

import durable_rollouts
import numpy as np
from durable_rollouts import Client, aio, to_arrays
from durable_rollouts.answers import BatchProgress, BatchResult

with open(os.environ["STACK"]) as file:
    STACK = json.load(file)

FAST = STACK["fast"]
"""4 samples, 2 repeats."""
PACED = STACK["paced"]
"""The same, group after group, a second or so each."""
SLICED = STACK["sliced"]
"""More rollouts than one slice has."""
SLOW = STACK["slow"]
"""Takes minutes."""


def key(row):
    return (row["row"], row["repeat"])


class Batches(unittest.TestCase):
    def setUp(self):
        self.client = Client.connect()
        self.name = self.id().rsplit(".", 1)[-1]

    def start(self, request, suffix=""):
        return self.client.start_batch(request, f"{self.name}{suffix}"[:100])

    def folder(self, batch):
        return Path(STACK["store_root"]) / batch.id

    def test_has_result_progress_rows_and_arrays(self):
        batch = self.start(FAST)
        result = batch.wait(60, show=True)
        self.assertEqual(result.keys() - {"notes"}, BatchResult.__annotations__.keys() - {"objects", "notes"})
        self.assertEqual((result["batch_id"], result["counts"]["completed"]), (batch.id, 8))
        self.assertEqual(batch.progress().keys(), BatchProgress.__annotations__.keys() - {"continued", "replacements", "failures"})
        self.assertEqual(batch.progress()["phase"], "done")
        rows = batch.rows()
        stored = durable_rollouts.open(STACK["store_root"]).batch(batch.id)
        self.assertEqual((stored.rows(), stored.result, len(stored.samples())), (rows, result, 4))
        self.assertEqual((stored.rollouts(), stored.journal(3, 1)[-1]["kind"]), ([key(row) for row in rows], "end"))
        self.assertEqual([key(row) for row in rows], [(row, repeat) for row in range(4) for repeat in range(2)])
        self.assertEqual(batch.failures(), [])
        arrays = to_arrays(rows)
        self.assertEqual(arrays.group_ids.tolist(), [0, 0, 1, 1, 2, 2, 3, 3])
        self.assertEqual(arrays.loss_mask.sum(axis=1).tolist(), [row["assistant_tokens"] for row in rows])
        self.assertEqual(arrays.attention_mask.sum(axis=1).tolist(), [row["total_tokens"] + row["prompt_tokens"] for row in rows])
        self.assertTrue((arrays.logprobs[arrays.loss_mask > 0] <= 0).all())
        np.testing.assert_array_equal(to_arrays(batch.sequences()).input_ids, arrays.input_ids)
        self.assertEqual([row["rollout_id"] for row in stored.sequences().rows()], [row["rollout_id"] for row in rows])
        self.assertFalse((self.folder(batch) / "groups").exists(), "where nobody asks nothing is written")
        self.assertEqual(repr(batch), f"Batch({batch.id!r})")

    def test_started_again_while_it_runs_is_joined_and_with_another_request_refused(self):
        batch = self.start(SLOW)
        self.assertEqual(self.start({**SLOW, "num_repeats": SLOW["num_repeats"], "overlong": "keep"}).id, batch.id)
        with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, r"max_in_flight: \d+ there, 77 here"):
            self.start({**SLOW, "max_in_flight": 77})
        # Visibility is a moment behind.
        until = time.monotonic() + 120
        while (listed := {one.id: one for one in self.client.batches()}.get(batch.id)) is None and time.monotonic() < until:
            time.sleep(0.2)
        self.assertEqual((listed.state, listed.ended), ("running", None))
        batch.cancel()
        with self.assertRaises(durable_rollouts.Cancelled):
            batch.wait(60)
        while (listed := {one.id: one for one in self.client.batches()}[batch.id]).state == "running" and time.monotonic() < until:
            time.sleep(0.2)
        self.assertEqual(listed.state, "cancelled")
        self.assertGreater(listed.ended, listed.started)
        self.assertNotIn(batch.id, [one.id for one in self.client.streams()])

    def test_started_again_when_it_has_ended_has_the_same_rows(self):
        batch = self.start(FAST)
        rows = batch.rows()
        with self.assertLogs("durable_rollouts", "WARNING") as log:
            self.assertEqual(self.start(FAST).rows(), rows)
        self.assertRegex(log.output[0], "its last result has 8 of 8 rows; those that the store still has are not played again")

    def test_restarted_when_it_has_ended_is_played_again_and_not_while_it_runs(self):
        rows = self.start(FAST).rows()
        played = {file.name: file.stat().st_ino for file in (self.folder(self.client.batch(self.name)) / "journals").iterdir()}
        again = self.client.start_batch(FAST, self.name, restart=True)
        fresh = again.rows()
        self.assertEqual([key(row) for row in fresh], [key(row) for row in rows])
        self.assertNotEqual([row["timing"] for row in fresh], [row["timing"] for row in rows])
        self.assertEqual({row["attempts"] for row in fresh}, {row["attempts"] for row in rows}, "nothing of before is inherited")
        self.assertEqual(played.keys(), {file.name for file in (self.folder(again) / "journals").iterdir()})
        slow = self.start(SLOW, "-slow")
        with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, "runs: restart plays a batch again that has ended"):
            self.client.start_batch(SLOW, slow.id, restart=True)
        slow.cancel()

    def test_takes_more_samples_than_a_request_has_room_for_and_puts_them_once(self):
        rows = [{**FAST["samples"][n % 4], "n": n, "padding": "x" * 2000} for n in range(200)]
        request = {**FAST, "samples": (row for row in rows), "limit": 4}
        with self.assertLogs("durable_rollouts", "WARNING") as log:
            batch = self.start(request)
        [file] = re.findall(r"put 200 samples \(\d\.\d MB\) into (\S+\.jsonl), once", log.output[0])
        put = os.stat(file)  # its time says when it was used last
        self.assertEqual([row["n"] for row in batch.rows()], [0, 0, 1, 1, 2, 2, 3, 3])
        self.assertEqual(self.start({**request, "samples": iter(rows)}).rows(), batch.rows())
        self.assertEqual([os.stat(file).st_ino, os.stat(file).st_size], [put.st_ino, put.st_size])
        self.assertEqual([name for name in os.listdir(Path(file).parent) if not name.endswith(".jsonl")], [".gitignore"])

    def test_makes_samples_of_rows_with_other_columns(self):
        rows = [{"question": sample["message_log"], **sample["extra_env_info"], "id": n} for n, sample in enumerate(FAST["samples"])]
        state = {name: f"extra_env_info.{name}" for name in FAST["samples"][0]["extra_env_info"]}
        request = {**FAST, "samples": rows}
        with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, "probably columns=.'question': 'prompt'"):
            self.start(request)
        batch = self.client.start_batch(request, self.name, columns={"question": "prompt", **state}, task_name="sliding_puzzle")
        self.assertEqual([row["id"] for row in batch.rows()], [0, 0, 1, 1, 2, 2, 3, 3])

    def test_gives_groups_while_others_run_each_once_as_its_rows_have_them(self):
        batch = self.start(PACED)
        phases, groups = [], []
        for group in batch.groups():
            phases.append(batch.progress()["phase"])
            groups.append(group)
        self.assertEqual(phases[0], "running")
        self.assertEqual(sorted(group.row for group in groups), [0, 1, 2, 3])
        given = sorted((row for group in groups for row in group.rows), key=key)
        self.assertEqual(given, batch.rows())
        self.assertTrue((self.folder(batch) / "groups" / "0-1.jsonl").exists())
        self.assertTrue((self.folder(batch) / "groups" / "0-1.arrow").exists())
        for group in [*groups, *durable_rollouts.open(STACK["store_root"]).batch(batch.id).groups()]:
            np.testing.assert_array_equal(to_arrays(group.sequences()).loss_mask, to_arrays(group.rows).loss_mask)
            self.assertEqual([row["rollout_id"] for row in group.sequences().rows()], [row["rollout_id"] for row in group.rows])
        # Whoever comes late has all of them.
        self.assertEqual([group.row for group in batch.groups()], [0, 1, 2, 3])

    def test_of_slices_gives_groups_each_once(self):
        batch = self.start(SLICED)
        groups = list(batch.groups())
        rows = batch.rows()
        self.assertEqual(len(groups), len({group.row for group in groups}))
        self.assertEqual(sorted((row for group in groups for row in group.rows), key=key), rows)
        self.assertTrue(any((self.folder(batch) / "groups").iterdir()), "no group was given while others ran")

    def test_takes_other_limits_while_it_runs_and_none_once_it_has_ended(self):
        batch = self.start({**SLOW, "priority": 1, "share": 2.5})
        limits = batch.set_limits(max_rollout_turns=2, rollout_timeout="2h")
        self.assertEqual((limits["max_rollout_turns"], limits["rollout_timeout"]), (2, "2h"))
        batch.set_max_in_flight(3)
        progress = batch.progress()
        self.assertEqual((progress["priority"], progress["share"]), (1, 2.5))
        with self.assertRaisesRegex(durable_rollouts.UpdateRefused, "max_in_flight: .*got 0"):
            batch.set_max_in_flight(0)
        with self.assertRaises(durable_rollouts.UpdateRefused):
            batch.set_limits()
        batch.stop()
        batch.wait(60)
        with self.assertRaisesRegex(durable_rollouts.UpdateRefused, "has ended"):
            batch.set_limits(max_rollout_turns=3)

    def test_under_min_k_gives_groups_with_those_that_were_stopped(self):
        request = {**PACED, "completion": {"policy": "min_k", "k": 1}, "max_in_flight": 1}
        batch = self.start(request)
        groups = list(batch.groups())
        self.assertEqual([(len(group.rows), len(group.failures)) for group in groups], [(1, 1)] * 4)
        self.assertEqual(sorted((row for group in groups for row in group.failures), key=key), batch.failures())

    def test_that_is_stopped_has_a_result_and_gives_its_groups(self):
        batch = self.start(SLOW)
        with self.assertRaisesRegex(TimeoutError, "not within 0.5 s"):
            batch.wait(0.5)
        while batch.progress()["running"] == 0:
            time.sleep(0.1)
        batch.stop()
        counts = batch.wait(60)["counts"]
        self.assertEqual((counts["stopped"], counts["completed"]), (counts["requested"], 0))
        self.assertEqual({len(group.failures) for group in batch.groups()}, {SLOW["num_repeats"]})
        batch.stop()  # Does nothing for an ended batch.

    def test_raises_faults_by_name(self):
        batch = self.start({**FAST, "max_seq_length": 1})
        with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, "max_seq_length"):
            batch.wait(60)
        with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, "max_seq_length"):
            list(batch.groups())
        with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, "max_seq_length"):
            batch.progress()
        for ask in (batch_call for batch_call in ("wait", "progress", "stop", "rows")):
            with self.assertRaisesRegex(durable_rollouts.NotFound, "nobody-started-this"):
                getattr(self.client.batch("nobody-started-this"), ask)()

    def test_wrong_names_are_answered_at_once_and_start_nothing(self):
        with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, r"one of default, paced, slow\), got 'other'; nothing was started"):
            self.client.policy("other").publish(18, "/ckpt/18")
        with self.assertRaisesRegex(durable_rollouts.NotFound, "^other: no policy workflow runs"):
            self.client.policy("other").status()
        with self.assertRaisesRegex(ConnectionError, "has no namespace 'nobody-has-this'"):
            Client.connect(namespace="nobody-has-this")
        with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, "^samples.0.extra_env_info.answer: expected a finite number"):
            self.start({"samples": [{"extra_env_info": {"answer": float("nan")}}]})
        with self.assertRaises(durable_rollouts.NotFound):
            self.client.batch(self.name).progress()

    def test_of_a_stream_s_id_is_refused_by_name(self):
        stream = self.client.stream(self.name, STACK["stream"])
        for call in (self.client.batch(self.name).wait, self.client.batch(self.name).stop, lambda: self.start(FAST)):
            with self.assertRaisesRegex(durable_rollouts.RolloutFault, "is a stream: client.stream"):
                call()
        step = stream.next_step(0, version=0, timeout=60)
        rows = step.rows()
        stream.stop()
        self.assertEqual(self.client.stream(self.name).next_step(0).rows(), rows, "without starting it again")
        with self.assertRaises(durable_rollouts.Stopped):
            stream.next_step(1)

    def test_says_where_no_server_is(self):
        with self.assertRaisesRegex(ConnectionError, "no Temporal server at 127.0.0.1:1;"):
            Client.connect("127.0.0.1:1")

    def test_is_the_same_on_an_event_loop(self):
        async def play():
            client = await aio.Client.connect()
            batch = await client.start_batch(PACED, self.name)
            groups = [group.row async for group in batch.groups()]
            return groups, await batch.wait(60), await batch.rows()

        groups, result, rows = asyncio.run(play())
        self.assertEqual(sorted(groups), [0, 1, 2, 3])
        self.assertEqual(result["counts"]["completed"], len(rows))
