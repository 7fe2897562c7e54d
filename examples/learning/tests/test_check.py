"""Rows against the weights that their labels name."""

import tempfile
import unittest
from pathlib import Path

import numpy as np
import policy
from check import Recomputed
from grpo import Optimizer
from offline import play
from run import Run, State

from task import LETTERS, samples


class Labels(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_ = Run(Path(folder.name))
        for seed in (1, 2):
            weights = policy.untrained(seed, LETTERS)
            self.run_.put_weights(State(weights, Optimizer.of(weights), step=seed - 1, version=-1))

    def report(self, labels):
        """The check of rollouts that version 0 has sampled, and whose rows name these versions."""
        tasks = list(enumerate(samples(1, len(labels))))
        rows = play(self.run_.weights(0), 0, tasks, np.random.default_rng(1))
        for row, label in zip(rows, labels):
            [run] = row["policy_versions"]
            row["policy_versions"] = [{**run, "start": start, "end": end, "version": v} for start, end, v in label(run["end"])]
        held = Recomputed(self.run_, policy)
        held.hold(rows)
        return held.report()

    def test_that_are_true_are_right_of_every_token(self):
        report = self.report([lambda end: [(0, end, "0")]] * 4)
        self.assertGreater(report["tokens"], 20)
        self.assertEqual((report["mislabelled"], report["unlabelled"], report["versions"]), (0, 0, 1))
        self.assertLess(report["logprob_error"], 1e-5)

    def test_that_name_other_weights_are_wrong_be_it_of_one_token(self):
        report = self.report([lambda end: [(0, end, "0")], lambda end: [(0, 3, "0"), (3, 4, "1"), (4, end, "0")]])
        self.assertEqual((report["mislabelled"], report["unlabelled"], report["versions"]), (1, 0, 2))
        self.assertGreater(report["logprob_error"], 0.01)

    def test_that_are_absent_are_counted_and_not_judged(self):
        report = self.report([lambda end: [(0, 2, None), (2, end, "0")]] * 2)
        self.assertEqual((report["mislabelled"], report["unlabelled"], report["versions"]), (0, 4, 1))


if __name__ == "__main__":
    unittest.main()
