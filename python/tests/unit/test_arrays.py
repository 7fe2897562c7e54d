import json
import math
import pickle
import unittest
import warnings
from pathlib import Path

import numpy as np
from durable_rollouts import to_arrays
from durable_rollouts.results import to_groups
from two_turns import row


def short(**change):
    """One turn without observation."""
    log = [
        {"role": "user", "content": "", "token_ids": [1]},
        {"role": "assistant", "content": "", "token_ids": [9], "generation_logprobs": [-2.0]},
    ]
    facts = {"prompt_tokens": 1, "assistant_tokens": 1, "message_log": log, "train_mask": [{"start": 1, "end": 2}]}
    return row(policy_versions=[{"start": 0, "end": 1, "version": None}], **{**facts, **change})


def without_logprobs(given):
    log = [
        {("sampled" if k == "generation_logprobs" else k): (True if k == "generation_logprobs" else v) for k, v in message.items()}
        for message in given["message_log"]
    ]
    return {**given, "message_log": log, "logprobs_mode": None}


class ToArrays(unittest.TestCase):
    def test_pads_on_the_right_and_masks_all_that_the_policy_has_not_sampled(self):
        arrays = to_arrays([row(), short(row=4)], pad_id=7)
        self.assertEqual(arrays.input_ids.tolist(), [[1, 2, 3, 4, 5, 6], [1, 9, 7, 7, 7, 7]])
        self.assertEqual(arrays.attention_mask.tolist(), [[1] * 6, [1, 1, 0, 0, 0, 0]])
        self.assertEqual(arrays.loss_mask.tolist(), [[0, 0, 1, 1, 0, 1], [0, 1, 0, 0, 0, 0]])
        self.assertEqual(arrays.logprobs.tolist(), [[0, 0, -0.5, -1.5, 0, -0.25], [0, -2.0, 0, 0, 0, 0]])
        self.assertEqual(arrays.versions.tolist(), [[-1, -1, 17, 17, -1, 18], [-1] * 6])
        self.assertEqual(arrays.rewards.tolist(), [0.5, 0.5])
        self.assertEqual(arrays.group_ids.tolist(), [0, 1])
        self.assertEqual(len(arrays), 2)
        self.assertEqual(
            repr(arrays),
            "Arrays(2 rollouts in 2 groups, at most 6 tokens; 4 of 8 tokens are trained on)",
        )

    def test_logprobs_in_the_prompt_are_no_actions_of_this_policy(self):
        given = row()
        given["message_log"][0] = {**given["message_log"][0], "generation_logprobs": [-1, -1]}
        self.assertEqual(to_arrays([given]).loss_mask.tolist(), to_arrays([row()]).loss_mask.tolist())
        self.assertEqual(to_arrays([given]).logprobs.tolist(), to_arrays([row()]).logprobs.tolist())

    def test_refuses_padding_and_lengths_that_are_no_number_by_name(self):
        with self.assertRaisesRegex(ValueError, "^pad_id: expected a whole number from 0 on, got None .a tokenizer without pad_token_id has eos_token_id"):
            to_arrays([], pad_id=None)
        for given in ({"pad_id": "0"}, {"pad_id": -1}, {"length": "8"}, {"length": 8.0}, {"pad_id": True}):
            with self.subTest(given), self.assertRaisesRegex(ValueError, f"^{next(iter(given))}: expected a whole number from 0 on, got "):
                to_arrays([], **given)
        self.assertEqual(to_arrays([], pad_id=np.int64(3), length=np.int32(8)).input_ids.shape, (0, 8))

    def test_takes_loss_multiplier_and_train_mask_into_the_loss_mask_alone(self):
        halved = to_arrays([row(loss_multiplier=0.5)])
        self.assertEqual(halved.loss_mask.tolist(), [[0, 0, 0.5, 0.5, 0, 0.5]])
        masked = to_arrays([row(train_mask=[{"start": 3, "end": 4}])])
        self.assertEqual(masked.loss_mask.tolist(), [[0, 0, 0, 1, 0, 0]])
        self.assertEqual(masked.logprobs.tolist(), [[0, 0, -0.5, -1.5, 0, -0.25]])
        self.assertEqual(masked.attention_mask.tolist(), [[1] * 6])
        self.assertEqual(to_arrays([row(train_mask=[])]).loss_mask.tolist(), [[0] * 6])

    def test_decides_nothing_where_the_row_says_what_trains(self):
        masked = [{"start": 0, "end": 3}]
        self.assertEqual(to_arrays([row(masked=masked)]).loss_mask.tolist(), [[0, 0, 1, 1, 0, 1]])
        unsaid = {name: value for name, value in row().items() if name != "train_mask"}
        self.assertRaisesRegex(ValueError, "train_mask", to_arrays, [unsaid])

    def test_a_label_that_is_no_whole_number_is_no_version(self):
        runs = [{"start": 0, "end": 1, "version": "default"}, {"start": 1, "end": 3, "version": "3"}]
        self.assertEqual(to_arrays([row(policy_versions=runs)]).versions.tolist(), [[-1, -1, -1, 3, -1, 3]])

    def test_rollouts_of_one_sample_are_one_group_and_those_of_another_batch_are_not(self):
        rows = [row(row=5), row(row=3), row(row=5), row(row=5, batch_id="c")]
        self.assertEqual(to_arrays(rows).group_ids.tolist(), [0, 1, 0, 2])

    def test_rollouts_of_one_task_of_an_agent_are_one_group_and_those_of_another_agent_or_environment_are_not(self):
        def played(task, agent="a", **more):
            return row(agent_result={}, extra_env_info={"agent": agent, "task_index": task}, **more)

        rows = [played(3, row=0), played(4, row=1), played(3, row=2), played(3, agent="b"), played(3, task_name="other")]
        self.assertEqual(to_arrays(rows).group_ids.tolist(), [0, 1, 0, 2, 3])

    def test_refuses_rows_without_logprobs_unless_asked_and_has_nan_for_them_then(self):
        bare = without_logprobs(row())
        with self.assertRaisesRegex(ValueError, "^b/0-0: expected a logprob of each sampled token, got none"):
            to_arrays([bare])
        arrays = to_arrays([bare, row()], require_logprobs=False)
        self.assertEqual(arrays.loss_mask.tolist(), [[0, 0, 1, 1, 0, 1]] * 2)
        self.assertEqual(np.isnan(arrays.logprobs).tolist(), [[False, False, True, True, False, True], [False] * 6])

    def test_refuses_failures_and_rows_that_contradict_themselves_or_are_too_long_by_name(self):
        with self.assertRaisesRegex(ValueError, r"^b/0-0: expected a valid rollout, got a failure \(TimedOut\)"):
            to_arrays([row(failure={"type": "TimedOut", "message": "", "turn": 1})])
        with self.assertRaisesRegex(ValueError, "^b/0-0: expected 4 sampled tokens"):
            to_arrays([row(assistant_tokens=4)])
        with self.assertRaisesRegex(ValueError, r"^b/0-0: expected at most 5 tokens \(length\), got 6"):
            to_arrays([row()], length=5)
        cut = row()
        cut["message_log"][1]["generation_logprobs"] = [-0.5]
        with self.assertRaisesRegex(ValueError, "^b/0-0: expected 2 logprobs of a message, got 1"):
            to_arrays([cut])
        self.assertEqual(to_arrays([row()], length=8).input_ids.shape, (1, 8))

    def test_warns_where_the_engine_did_not_show_its_logprobs_mode(self):
        with self.assertWarnsRegex(UserWarning, "logprobs_mode of 1 of 2 rollouts is unknown"):
            to_arrays([row(), row(logprobs_mode="unknown")])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            to_arrays([row()])

    def test_refuse_what_would_become_another_number_silently(self):
        def sampled(ids, logprobs):
            log = row()["message_log"][:1]
            return {"message_log": [*log, {"role": "assistant", "token_ids": ids, "generation_logprobs": logprobs}]}

        nan, inf = math.nan, math.inf
        garbage = {
            "token_ids: expected a list of ids, got [True, 3, 4]": sampled([True, 3, 4], [-1, -1, -1]),
            "token_ids: expected a list of ids, got [1.7, 3, 4]": sampled([1.7, 3, 4], [-1, -1, -1]),
            "token_ids: expected a list of ids, got ['7', 3, 4]": sampled(["7", 3, 4], [-1, -1, -1]),
            "token_ids: expected a list of ids, got '12'": sampled("12", [-1, -1]),
            "token_ids: expected ids from 0 to 2147483647, got -5": sampled([3, -5, 4], [-1, -1, -1]),
            "token_ids: expected ids from 0 to 2147483647, got 1180591620717411303424": sampled([2**70], [-1]),
            "generation_logprobs: expected a list of numbers, got [None, -1, -1]": sampled([3, 4, 5], [None, -1, -1]),
            "generation_logprobs: expected a list of numbers, got ['-1']": sampled([3], ["-1"]),
            "generation_logprobs: expected numbers from -9999 (excluded) to 0, got -inf": sampled([3, 4, 5], [-inf, -1, -1]),
            "generation_logprobs: expected numbers from -9999 (excluded) to 0, got 1e+39": sampled([3, 4, 5], [1e39, -1, -1]),
            "generation_logprobs: expected numbers from -9999 (excluded) to 0, got -1e+39": sampled([3, 4, 5], [-1, -1, -1e39]),
            "generation_logprobs: expected numbers from -9999 (excluded) to 0, got 0.5": sampled([3, 4, 5], [-1, 0.5, -1]),
            "generation_logprobs: expected numbers from -9999 (excluded) to 0, got 1000": sampled([3], [10**400]),
            "total_reward: expected a number that float32 has, got nan": {"total_reward": nan},
            "total_reward: expected a number that float32 has, got None": {"total_reward": None},
            "total_reward: expected a number that float32 has, got 1e+300": {"total_reward": 1e300},
            "loss_multiplier: expected a number from 0 to 1e+06, got '2'": {"loss_multiplier": "2"},
            "loss_multiplier: expected a number from 0 to 1e+06, got -1": {"loss_multiplier": -1},
            "loss_multiplier: expected a number from 0 to 1e+06, got 1e+39": {"loss_multiplier": 1e39},
            "extra_env_info.task_index: expected a whole number from 0 on, got None": {"agent_result": {"reward": 1}},
            "extra_env_info.task_index: expected a whole number from 0 on, got 1.5": {
                "agent_result": {"reward": 1},
                "extra_env_info": {"task_index": 1.5},
            },
            "train_mask.start: expected a whole number from 0 on, got -2": {"train_mask": [{"start": -2, "end": -1}]},
            "train_mask.end: expected a whole number from 0 on, got None": {"train_mask": [{"start": 2}]},
            "train_mask: expected a list of objects, got [[2, 4]]": {"train_mask": [[2, 4]]},
            "train_mask: expected runs of 6 ids, got": {"train_mask": [{"start": 0, "end": 99}]},
            "train_mask: expected runs of sampled ids, got {'start': 3, 'end': 5}": {"train_mask": [{"start": 3, "end": 5}]},
            "policy_versions: expected runs of 3 sampled tokens, got": {
                "policy_versions": [{"start": 2, "end": 1, "version": "17"}]
            },
            "prompt_tokens: expected a whole number from 0 on, got None": {"prompt_tokens": None},
            "message_log: expected a list of objects, got None": {"message_log": None},
            "row: expected a whole number from 0 on, got [1]": {"row": [1]},
        }
        for message, change in garbage.items():
            with self.subTest(message), self.assertRaises(ValueError) as caught:
                to_arrays([row(**change)], require_logprobs=False)
            self.assertIn(f"b/0-0: {message}", str(caught.exception))

    def test_take_rows_that_another_reader_has_made_numpy_of(self):
        given = row()
        given["message_log"] = [
            {name: np.array(value) if isinstance(value, list) else value for name, value in message.items()}
            for message in given["message_log"]
        ]
        given["total_reward"] = np.float64(0.5)
        self.assertEqual(to_arrays([given]).logprobs.tolist(), to_arrays([row()]).logprobs.tolist())

    def test_a_failure_of_another_shape_is_one_all_the_same(self):
        with self.assertRaisesRegex(ValueError, r"^b/0-0: expected a valid rollout, got a failure \(TimedOut\)"):
            to_arrays([row(failure="TimedOut")])

    def test_a_label_beyond_what_an_array_holds_is_no_version(self):
        runs = [{"start": 0, "end": 3, "version": "9" * 30}]
        self.assertEqual(to_arrays([row(policy_versions=runs)]).versions.tolist(), [[-1] * 6])

    def test_of_no_rows_are_empty(self):
        self.assertEqual(to_arrays([]).input_ids.shape, (0, 0))

    def test_become_tensors_only_where_torch_is(self):
        try:
            import torch
        except ImportError:
            with self.assertRaises(ImportError):
                to_arrays([row()]).torch()
            return
        tensors = to_arrays([row()]).torch()
        self.assertEqual(tensors["input_ids"].dtype, torch.int64)
        self.assertEqual(tensors["loss_mask"].tolist(), [[0, 0, 1, 1, 0, 1]])


class Groups(unittest.TestCase):
    def test_are_the_tasks_of_agents_whose_rollouts_have_samples_of_their_own(self):
        def played(task, **more):
            info = {"agent": "a", "task_index": task, "rollout_index": 0, "row": "{}"}
            return row(extra_env_info=info, **more)

        failure = {"type": "AgentFailed", "message": "", "turn": 0}
        first, second = to_groups([played(3, row=0), played(4, row=1), played(3, row=2, failure=failure)])
        self.assertEqual([first.row, second.row], [0, 1])
        self.assertEqual([len(first.rows), len(first.failures), len(second.rows)], [1, 1, 1])

    def test_hold_valid_rows_and_failures_apart_in_the_order_in_which_groups_come(self):
        failed = row(row=2, repeat=1, failure={"type": "Stopped", "message": "", "turn": 0})
        second, first = to_groups([row(row=2), failed, row(row=1, total_reward=math.pi)])
        self.assertEqual((second.row, first.row), (2, 1))
        self.assertEqual(second.failures, [failed])
        self.assertEqual(first.rewards, [math.pi])
        self.assertEqual(repr(second), "Group(row=2: 1 valid, 1 failed, mean reward 0.500)")
        self.assertEqual(pickle.loads(pickle.dumps(second)), second)
