"""Streams on a real stack, as test_batches has it."""

import json
import os
import unittest

import durable_rollouts
import numpy as np
from durable_rollouts import Client, to_arrays

with open(os.environ["STACK"]) as file:
    STREAM = json.load(file)["stream"]
"""4 samples, 2 repeats, 2 groups a step."""


class Streams(unittest.TestCase):
    def setUp(self):
        self.client = Client.connect()

    def test_steps_are_the_same_rows_whenever_they_are_asked_for(self):
        name = "steps-are-facts"
        stream = self.client.stream(name, STREAM)
        steps = [stream.next_step(k, version=k, timeout=120) for k in range(3)]
        self.assertEqual([step.result["counts"]["completed"] for step in steps], [4, 4, 4])
        rows = [step.rows() for step in steps]
        self.assertEqual({row["step"] for row in rows[2]}, {2})
        self.assertEqual(to_arrays(rows[0]).rewards.shape, (4,))
        np.testing.assert_array_equal(to_arrays(steps[2].sequences()).loss_mask, to_arrays(rows[2]).loss_mask)
        self.assertEqual({row["step"] for row in steps[2].sequences().rows()}, {2})
        stream.stop()
        stream = self.client.stream(name, STREAM)
        again = stream.next_step(1, timeout=120)
        self.assertEqual(again.result, steps[1].result)
        self.assertEqual(again.rows(), rows[1])
        with self.assertRaisesRegex(durable_rollouts.StepOutOfOrder, "expected 3"):
            stream.next_step(9)
        stream.forget(1)
        with self.assertRaises(durable_rollouts.StepOutOfOrder):
            stream.next_step(0)
        self.assertEqual(stream.progress()["step"], 3)
        with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, "groups_per_step: 2 there, 3 here"):
            self.client.stream(name, {**STREAM, "groups_per_step": 3})
        stream.stop()

    def test_limits_and_how_many_run_at_once_change_while_it_runs(self):
        stream = self.client.stream("steered", STREAM)
        self.assertEqual(stream.set_limits(max_new_tokens=7)["max_new_tokens"], 7)
        stream.set_max_in_flight(2)
        self.assertEqual(stream.progress()["max_in_flight"], 2)
        with self.assertRaisesRegex(durable_rollouts.UpdateRefused, "max_new_tokens: .*got 0"):
            stream.set_limits(max_new_tokens=0)
        self.assertEqual(stream.next_step(0, version=0, timeout=120).result["counts"]["completed"], 4)
        stream.stop()
        with self.assertRaises(durable_rollouts.Stopped):
            stream.set_max_in_flight(3)
