"""Rows of kind gym_agent, whose calls the gateway answered.

What was asked is of servers of a real NeMo Gym: two rollouts of one task, whose agent makes one call of its model, and one
with a tool call. The model has characters for tokens, and marks where a message begins and ends, so what it generated can
be read from the ids alone. The n-th logprob of each call is -((n % 7) + 1) / 8, and its version is 7. `agent_result` has
the reward alone.
"""

import json
import re
import unittest
from pathlib import Path

from durable_rollouts import to_arrays

with Path(__file__).with_name("gym_agent_rows.jsonl").open(encoding="utf-8") as lines:
    ROWS = [json.loads(line) for line in lines]

GENERATED = re.compile("\x02assistant\n([^\x03]*\x03)")
UNTOKENIZED = "expected calls of the agent that this policy answered, got none"


def arrays_of(rows):
    return to_arrays(rows, pad_id=7)


class RowsOfAgents(unittest.TestCase):
    def test_have_the_ids_the_mask_and_the_logprobs_of_each_call(self):
        arrays = arrays_of(ROWS)
        calls = []
        for ids, attention, loss, logprobs in zip(
            arrays.input_ids, arrays.attention_mask, arrays.loss_mask, arrays.logprobs
        ):
            length = int(attention.sum())
            self.assertEqual(attention.tolist(), [1] * length + [0] * (len(ids) - length))
            self.assertEqual(set(ids[length:].tolist()), {7} if length < len(ids) else set())
            spans = [match.span(1) for match in GENERATED.finditer("".join(map(chr, ids[:length])))]
            self.assertEqual(spans[-1][1], length, "the last call ends the log")
            expected = [0.0] * len(ids)
            for start, end in spans:
                expected[start:end] = [-((n % 7) + 1) / 8 for n in range(end - start)]
            self.assertEqual(logprobs.tolist(), expected)
            self.assertEqual(loss.tolist(), [float(logprob < 0) for logprob in expected])
            calls.append(len(spans))
        self.assertEqual(calls, [1, 1, 2])
        self.assertEqual(calls, [row["turn_count"] for row in ROWS])

    def test_are_grouped_by_task_within_their_batch_though_each_is_a_sample_of_its_own(self):
        self.assertEqual(len({row["row"] for row in ROWS}), 3)
        self.assertEqual(arrays_of(ROWS).group_ids.tolist(), [0, 0, 1])
        others = [{**row, "batch_id": "another"} for row in ROWS]
        self.assertEqual(arrays_of([*ROWS, *others]).group_ids.tolist(), [0, 0, 1, 2, 2, 3])

    def test_have_the_reward_of_their_agent_and_the_version_of_each_sampled_token(self):
        arrays = arrays_of([{**row, "total_reward": n / 2} for n, row in enumerate(ROWS)])
        self.assertEqual(arrays.rewards.tolist(), [0, 0.5, 1])
        expected = [[7 if trains else -1 for trains in row] for row in arrays.loss_mask.tolist()]
        self.assertEqual(arrays.versions.tolist(), expected)

    def test_that_were_shown_a_picture_are_refused(self):
        shown = {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}
        row, info = ROWS[0], ROWS[0]["extra_env_info"]
        asked = json.dumps({"responses_create_params": {"input": [shown]}})
        named = json.dumps({"responses_create_params": {"input": 'what is an "input_image"?'}})
        arrays_of([{**row, "extra_env_info": {**info, "row": named}}])
        for change, where in (({"extra_env_info": {**info, "row": asked}}, "extra_env_info.row"), ({"agent_result": {"output": [shown]}}, "agent_result")):
            with self.assertRaisesRegex(ValueError, f"^{row['rollout_id']}: {where}: expected text alone, got a picture"):
                arrays_of([{**row, **change}])

    def test_without_tokens_are_refused_with_what_the_row_says_of_it(self):
        for usage in (0, 23):
            nothing = {"message_log": [], "prompt_tokens": 0, "policy_versions": [], "segments": [], "train_mask": [], "assistant_tokens": usage}
            bare = {**ROWS[0], **nothing, "untokenized": UNTOKENIZED}
            with self.assertRaisesRegex(ValueError, rf"^{bare['rollout_id']}: expected tokens, got none .*{UNTOKENIZED}"):
                arrays_of([*ROWS, bare])
