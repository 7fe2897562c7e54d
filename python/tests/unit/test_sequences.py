"""Rollouts of agents whose conversation branches: one array row a sequence, each sampled token in exactly one."""

import unittest
import warnings

import numpy as np
import two_turns
from durable_rollouts import to_arrays, trajectories

PROMPT = [1, 2]


def said(*ids, version="1"):
    return {"role": "assistant", "content": "", "token_ids": list(ids), "generation_logprobs": [-0.5] * len(ids)}


def asked(*ids):
    return {"role": "user", "content": "", "token_ids": list(ids)}


def row(number=0, reward=1.0, **change):
    """Main: prompt 1 2, sampled 3 4. A fork behind 3: sampled 9 9. Beyond that fork's first id: asked 7, sampled 8."""
    return {
        "rollout_id": f"b/0-{number}",
        "batch_id": "b",
        "row": 0,
        "repeat": number,
        "prompt_tokens": 2,
        "assistant_tokens": 2,
        "total_reward": reward,
        "logprobs_mode": "processed",
        "train_mask": [{"start": 2, "end": 4}],
        "policy_versions": [{"start": 0, "end": 2, "version": "1"}],
        "message_log": [asked(*PROMPT), said(3, 4)],
        "sequences": [
            {
                "sequence": 1,
                "parent": 0,
                "fork": 2,
                "cause": "resampled",
                "train": True,
                "train_mask": [{"start": 2, "end": 4}],
                "policy_versions": [{"start": 0, "end": 2, "version": "2"}],
                "message_log": [said(9, 9)],
            },
            {
                "sequence": 2,
                "parent": 1,
                "fork": 4,
                "cause": "edited",
                "train": True,
                "train_mask": [{"start": 5, "end": 6}],
                "policy_versions": [{"start": 0, "end": 1, "version": "3"}],
                "message_log": [asked(7), said(8)],
            },
        ],
        **change,
    }


def branched(number=0, reward=1.0):
    """The same of an agent that has ended, with the columns of its sample."""
    return row(number, reward, **two_turns.ENDED)


def plain(**change):
    return {name: value for name, value in row(**change).items() if name != "sequences"}


def with_sequence(**change):
    given = row()
    given["sequences"][0] |= change
    return given


class Sequences(unittest.TestCase):
    def test_each_begins_with_ids_of_its_parent_which_do_not_train(self):
        arrays = to_arrays([row()], pad_id=0)
        self.assertEqual(arrays.input_ids.tolist(), [[1, 2, 3, 4, 0, 0], [1, 2, 9, 9, 0, 0], [1, 2, 9, 9, 7, 8]])
        self.assertEqual(arrays.loss_mask.tolist(), [[0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1]])
        self.assertEqual(arrays.versions.tolist(), [[-1, -1, 1, 1, -1, -1], [-1, -1, 2, 2, -1, -1], [-1, -1, -1, -1, -1, 3]])
        self.assertEqual(arrays.logprobs[2].tolist(), [0, 0, 0, 0, 0, -0.5])
        self.assertEqual((arrays.rollout_ids.tolist(), arrays.sequence.tolist()), ([0, 0, 0], [0, 1, 2]))
        self.assertIn("3 sequences of 1 rollouts in 1 groups", repr(arrays))

    def test_a_completion_begins_with_the_first_id_that_the_policy_sampled_in_it(self):
        found = trajectories([row()])
        self.assertEqual([one.prompt_ids.tolist() for one in found], [[1, 2], [1, 2], [1, 2, 9, 9, 7]])
        self.assertEqual([one.completion_ids.tolist() for one in found], [[3, 4], [9, 9], [8]])
        self.assertEqual([one.completion_mask.tolist() for one in found], [[1, 1], [1, 1], [1]])
        # One that another one than the first begins has no parent.
        alone = {"parent": None, "fork": 0, "message_log": [asked(5, 6), said(9, 9), asked(7)]}
        self.assertEqual(trajectories([with_sequence(**alone)])[1].prompt_ids.tolist(), [5, 6])

    def test_a_picture_in_any_of_them_is_refused(self):
        pictured = {**asked(7), "content": [{"type": "image_url", "image_url": {"url": "u"}}]}
        with self.assertRaisesRegex(ValueError, "^b/0-0, sequence 1: message_log.0: expected text alone, got a picture"):
            to_arrays([with_sequence(message_log=[pictured, said(9, 9)], train_mask=[{"start": 3, "end": 5}])])

    def test_the_mode_of_logprobs_that_nobody_knows_is_said_of_trajectories_too(self):
        with self.assertWarnsRegex(UserWarning, "logprobs_mode of 1 of 1 rollouts is unknown"):
            trajectories([row(logprobs_mode="unknown")])

    def test_what_does_not_train_is_left_out_and_can_be_continued(self):
        arrays = to_arrays([with_sequence(train=False, why="unread", train_mask=[])])
        self.assertEqual(arrays.sequence.tolist(), [0, 2])
        self.assertEqual(arrays.input_ids[1].tolist(), [1, 2, 9, 9, 7, 8])

    def test_main_alone_says_what_it_leaves_out(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            arrays = to_arrays([row(), plain(number=1)], sequences="main")
        self.assertEqual(len(arrays), 2)
        self.assertEqual([str(one.message) for one in caught], ['sequences="main" leaves out 3 of 7 tokens to train on (43 %)'])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            to_arrays([plain()], sequences="main")

    def test_a_rollout_counts_once_in_its_group(self):
        arrays = to_arrays([row(reward=1.0), plain(number=1, reward=0.0)], advantages="rloo")
        self.assertEqual(arrays.rewards.tolist(), [1, 1, 1, 0])
        self.assertEqual(arrays.advantages.tolist(), [1, 1, 1, -1])

    def test_to_split_a_rollout_changes_neither_the_loss_nor_what_its_tokens_weigh(self):
        random = np.random.default_rng(5)
        for _ in range(50):
            rows, split = [], []
            for number in range(int(random.integers(2, 5))):
                ids = random.integers(1, 99, int(random.integers(4, 20))).tolist()
                whole = plain(number=number, reward=float(random.random()))
                whole |= {"message_log": [asked(*PROMPT), said(*ids)], "assistant_tokens": len(ids)}
                whole |= {"policy_versions": [], "train_mask": [{"start": 2, "end": 2 + len(ids)}]}
                cut = int(random.integers(1, len(ids)))
                main = {**whole, "message_log": [asked(*PROMPT), said(*ids[:cut])], "assistant_tokens": cut}
                main["train_mask"] = [{"start": 2, "end": 2 + cut}]
                rest = {"sequence": 1, "parent": 0, "fork": 2 + cut, "train": True, "policy_versions": []}
                rest |= {"message_log": [said(*ids[cut:])], "train_mask": [{"start": 2 + cut, "end": 2 + len(ids)}]}
                rows.append(whole)
                split.append({**main, "sequences": [rest]})
            for norm in ("token", "rollout"):
                ones = [to_arrays(some, advantages="grpo", norm=norm) for some in (rows, split)]
                losses = [-(one.weights * one.advantages[:, None] * np.sin(one.input_ids)).sum() for one in ones]
                self.assertAlmostEqual(float(losses[0]), float(losses[1]), places=6)

    def test_what_contradicts_itself_is_named(self):
        refused = [
            (with_sequence(fork=5), "sequences.0.fork: expected a number of ids that sequence 0 has, got 5"),
            (with_sequence(parent=1), "sequences.0.fork: expected a number of ids that sequence 1 has"),
            (with_sequence(parent=None), "sequences.0.parent: expected a whole number from 0 on, got None"),
            (with_sequence(train_mask=[{"start": 1, "end": 3}]), "b/0-0, sequence 1: train_mask: expected runs of sampled ids"),
            (with_sequence(message_log=[said(9, 9), {"token_ids": ["x"]}]), "b/0-0, sequence 1: token_ids: expected a list of ids"),
            (row(sequences=3), "sequences: expected a list of objects, got 3"),
        ]
        for given, expected in refused:
            with self.subTest(expected), self.assertRaises(ValueError) as raised:
                to_arrays([given])
            self.assertIn(expected, str(raised.exception))
        with self.assertRaisesRegex(ValueError, 'sequences: expected "all" or "main", got \'longest\''):
            to_arrays([row()], sequences="longest")

    def test_an_absent_mask_of_a_sequence_trains_nothing(self):
        given = row()
        del given["sequences"][0]["train_mask"]
        self.assertEqual(to_arrays([given]).loss_mask.sum(axis=1).tolist(), [2, 0, 1])


if __name__ == "__main__":
    unittest.main()
