"""The recipes of docs/trainers.md: what they make of a row is what ``to_arrays`` says of it."""

import asyncio
import enum
import re
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import two_turns
from durable_rollouts import to_arrays

PAGE = Path(__file__).parents[3] / "docs" / "trainers.md"


def recipe(heading):
    """The names of its code."""
    section = PAGE.read_text().partition(f"\n### {heading}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    [code] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names = {}
    exec(compile(code, f"{PAGE.name} {heading}", "exec"), names)
    return SimpleNamespace(**{name: value for name, value in names.items() if not name.startswith("__")})


def row(**change):
    ended = {"stop_reason": "terminated", "terminated": True, "truncated": False}
    sample = {"task_name": "t", "idx": 0, "extra_env_info": {}}
    versions = [{"start": 0, "end": 3, "version": "17"}]
    return two_turns.row(**{**ended, **sample, "policy_versions": versions, **change})


ROWS = [row(), row(rollout_id="b/0-1", repeat=1, truncated=True, stop_reason="truncated", train_mask=[{"start": 2, "end": 4}])]


class Recipes(unittest.TestCase):
    def setUp(self):
        self.arrays = to_arrays(ROWS)

    def assert_equal_to_arrays(self, at, *, ids, mask, logprobs):
        """Of all ids: mask and logprobs are 0 before the completion."""
        length = int(self.arrays.attention_mask[at].sum())
        self.assertEqual(ids, self.arrays.input_ids[at, :length].tolist())
        self.assertEqual(mask, self.arrays.loss_mask[at, :length].tolist())
        np.testing.assert_array_equal(np.float32(logprobs), self.arrays.logprobs[at, :length])

    def test_skyrl_asks_for_each_trajectory_by_its_id_and_gets_its_tokens(self):
        asked = {}

        class Client:
            async def rollout(self, sample, id, **settings):
                asked[id] = (sample, settings)
                return ROWS[len(asked) - 1]

        generator = recipe("SkyRL").DurableGenerator(Client(), "run", "math", max_seq_len=9)
        ids = [SimpleNamespace(to_string=lambda k=k: f"i_{k}") for k in range(2)]
        given = {
            "prompts": [[{"role": "user", "content": "q"}]] * 2,
            "env_extras": None,
            "trajectory_ids": ids,
            "batch_metadata": SimpleNamespace(global_step=4, training_phase="train"),
        }
        output = asyncio.run(generator.generate(given))
        self.assertEqual(list(asked), ["run:train4:i_0", "run:train4:i_1"])
        self.assertEqual(asked["run:train4:i_0"][1], {"task_name": "math", "max_seq_len": 9})
        self.assertEqual((output["trajectory_ids"], output["rewards"], output["stop_reasons"]), (ids, [0.5, 0.5], ["stop", "length"]))
        for at in range(2):
            prompt = output["prompt_token_ids"][at]
            self.assert_equal_to_arrays(
                at,
                ids=prompt + output["response_ids"][at],
                mask=[0] * len(prompt) + output["loss_masks"][at],
                logprobs=[0.0] * len(prompt) + output["rollout_logprobs"][at],
            )

    def test_slime_fills_its_samples(self):
        class Status(enum.Enum):
            COMPLETED = "completed"
            TRUNCATED = "truncated"

        for at, one in enumerate(ROWS):
            sample = SimpleNamespace(Status=Status)
            recipe("slime").fill(sample, one)
            before = len(sample.tokens) - sample.response_length
            self.assertEqual((sample.reward, sample.response, sample.status), (0.5, "b", list(Status)[at]))
            self.assert_equal_to_arrays(
                at,
                ids=sample.tokens,
                mask=[0] * before + sample.loss_mask,
                logprobs=[0.0] * before + sample.rollout_log_probs,
            )

    def test_slime_is_not_evaluated_by_it(self):
        with self.assertRaisesRegex(AssertionError, "^--eval-function-path: expected another function"):
            recipe("slime").generate_rollout(None, 3, None, evaluation=True)

    def test_nemo_rl_gets_messages_and_columns_as_tensors_in_a_batch_of_its_own_kind(self):
        class BatchedDataDict(dict):
            """NeMo RL's, which is a mapping, too."""

        given = BatchedDataDict(message_log=[[{"role": "user", "content": "", "token_ids": np.array([1, 2])}]] * 2)
        given.update(extra_env_info=[{}] * 2, task_name=["t"] * 2, idx=[0, 1], loss_multiplier=np.array([1.0, 0.0]), length=np.array([2, 2]))
        asked = []

        class Client:
            rows = ROWS

            def start_batch(self, request, id):
                asked.append((request, id))
                return SimpleNamespace(wait=lambda: {"metrics": {"m": 1}}, rows=lambda: self.rows)

        names = recipe("NeMo RL")
        torch = SimpleNamespace(tensor=np.array, float32=np.float32, bool=np.bool_)
        with mock.patch.dict(sys.modules, {"torch": torch}):
            columns, metrics = names.run_durable_rollout(Client(), given, "run-4", max_rollout_turns=2)
            Client.rows = ROWS[:1]
            with self.assertRaisesRegex(RuntimeError, "^1 of 2 rollouts failed"):
                names.run_durable_rollout(Client(), given, "run-4")
        [(request, id), _] = asked
        self.assertEqual((request["semantics"], request["max_rollout_turns"], id, metrics), ("nemo-rl-async", 2, "run-4", {"m": 1}))
        self.assertEqual(request["samples"][0]["message_log"], [{"role": "user", "content": "", "token_ids": [1, 2]}])
        self.assertIs(type(columns), BatchedDataDict)
        self.assertEqual((columns["total_reward"].dtype, columns["truncated"].dtype), (np.float32, np.bool_))
        self.assertEqual((columns["total_reward"].tolist(), columns["truncated"].tolist()), ([0.5, 0.5], [False, True]))
        self.assertIs(columns["loss_multiplier"], given["loss_multiplier"])
        for at, log in enumerate(columns["message_log"]):
            self.assertEqual([id for message in log for id in message["token_ids"].tolist()], self.arrays.input_ids[at].tolist())
            sampled = [one for message in log for one in message.get("generation_logprobs", np.zeros(len(message["token_ids"]))).tolist()]
            np.testing.assert_array_equal(np.float32(sampled), self.arrays.logprobs[at])
            self.assertEqual([message["content"] for message in log], [message["content"] for message in ROWS[at]["message_log"]])
