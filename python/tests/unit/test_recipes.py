"""The recipes of examples/recipes: what they make of a row is what ``to_arrays`` says of it, and they lose nothing of it
without a word: masks, ``loss_multiplier``, an agent's sequences, missing logprobs.
"""

import copy
import enum
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import two_turns
from durable_rollouts import to_arrays
from test_sequences import branched

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "recipes"))

import for_nemo_rl  # noqa: E402
import for_slime  # noqa: E402


def row(**change):
    return two_turns.ended(**{"policy_versions": VERSIONS, **change})


VERSIONS = [{"start": 0, "end": 3, "version": "17"}]
ROWS = [{**one, "policy_versions": VERSIONS} for one in two_turns.masked()]
UNSAID = two_turns.unsaid()


class Status(enum.Enum):
    """slime's."""

    COMPLETED = "completed"
    TRUNCATED = "truncated"


def slime_sample(index=0, group_index=0):
    return SimpleNamespace(Status=Status, index=index, group_index=group_index, rollout_id=None)


class Recipes(unittest.TestCase):
    def setUp(self):
        self.arrays = to_arrays(ROWS)

    def assert_equal_to_arrays(self, at, arrays, *, ids, mask, logprobs):
        """Of all ids: mask and logprobs are 0 before the completion."""
        length = int(arrays.attention_mask[at].sum())
        self.assertEqual(ids, arrays.input_ids[at, :length].tolist())
        self.assertEqual(mask, arrays.loss_mask[at, :length].tolist())
        np.testing.assert_array_equal(np.float32(logprobs), arrays.logprobs[at, :length])

    def test_slime_gets_a_sample_for_each_rollout(self):
        for at, one in enumerate(ROWS):
            [sample] = for_slime.samples_of(slime_sample(index=7), one)
            status = Status.TRUNCATED if one["truncated"] else Status.COMPLETED
            self.assertEqual((sample.reward, sample.response, sample.status, sample.rollout_id), (0.5, "b", status, 7))
            self.assert_slime(sample, self.arrays, at)

    def test_slime_gets_all_sequences_of_an_agent_as_samples_of_one_rollout(self):
        found = for_slime.samples_of(slime_sample(index=7), branched())
        self.assertEqual([(one.rollout_id, one.reward) for one in found], [(7, 1.0)] * 3)
        arrays = to_arrays([branched()])
        for at, sample in enumerate(found):
            self.assert_slime(sample, arrays, at)

    def test_slime_counts_a_rollout_of_several_samples_once_in_its_group(self):
        place = [(0, 0, branched(0, 1.0)), (1, 0, row(total_reward=0.0)), (2, 1, row(total_reward=5.0)), (3, 1, row(total_reward=5.0))]
        samples = [one for index, group, played in place for one in for_slime.samples_of(slime_sample(index, group), played)]
        raw, worth = for_slime.rewards(SimpleNamespace(), samples)
        self.assertEqual(raw, [1.0, 1.0, 1.0, 0.0, 5.0, 5.0])
        spread = np.std([1.0, 0.0], ddof=1) + 1e-6
        np.testing.assert_allclose(worth, [*[0.5 / spread] * 3, -0.5 / spread, 0, 0])

    def test_slime_is_told_where_its_own_mean_would_be_of_the_whole_step(self):
        for path, rows in ((None, [row(), branched()]), ("for_slime.rewards", [row(), branched()]), (None, [row(), row()])):
            found = self.slime_plays(rows, path)
            self.assertEqual(found, "refused" if path is None and rows[1] != row() else [[1, 1 if rows[1] == row() else 3]])

    def slime_plays(self, rows, path):
        """How many samples each rollout of each group is."""

        class Client:
            async def rollout(self, given, id, *, generation, **settings):
                assert generation == {"temperature": 0.8}, "that of slime's loss"
                return rows[int(id.rpartition(":")[2])]

        async def connect():
            return Client()

        group = [slime_sample(index) for index in range(len(rows))]
        for one in group:
            one.prompt, one.label = "q", "a"
        args = SimpleNamespace(rollout_batch_size=1, rollout_temperature=0.8, custom_reward_post_process_path=path)
        with mock.patch("durable_rollouts.aio.Client.connect", connect):
            try:
                groups = for_slime.generate_rollout(args, 3, SimpleNamespace(get_samples=lambda count: [group]))
            except AssertionError as error:
                self.assertRegex(str(error), "^--custom-reward-post-process-path: expected for_slime.rewards")
                return "refused"
        return [[len(rollout) for rollout in rollouts] for rollouts in groups]

    def test_slime_gets_no_row_that_lacks_logprobs(self):
        with self.assertRaisesRegex(ValueError, r"^b/0-0: expected a logprob of each sampled token, got none \(include_logprobs\)$"):
            for_slime.samples_of(slime_sample(), UNSAID)

    def assert_slime(self, sample, arrays, at):
        before = len(sample.tokens) - sample.response_length
        self.assert_equal_to_arrays(
            at,
            arrays,
            ids=sample.tokens,
            mask=[0] * before + sample.loss_mask,
            logprobs=[0.0] * before + sample.rollout_log_probs,
        )

    def test_slime_is_not_evaluated_by_it(self):
        with self.assertRaisesRegex(AssertionError, "^--eval-function-path: expected another function"):
            for_slime.generate_rollout(None, 3, None, evaluation=True)

    def test_nemo_rl_gets_messages_and_columns_as_tensors_in_a_batch_of_its_own_kind(self):
        given = self.batch(len(ROWS), stop_strings=[["#"], None, None, None])
        asked, columns, metrics = self.nemo_rl(ROWS, given, max_rollout_turns=2)
        [(request, id)] = asked
        self.assertEqual((request["semantics"], request["max_rollout_turns"], id, metrics), ("nemo-rl", 2, "run-4", {"m": 1}))
        self.assertEqual(request["samples"][0]["message_log"], [{"role": "user", "content": "", "token_ids": [1, 2]}])
        self.assertEqual(request["samples"][0]["stop_strings"], ["#"])
        self.assertIs(type(columns), BatchedDataDict)
        self.assertEqual((columns["total_reward"].dtype, columns["truncated"].dtype), (np.float32, np.bool_))
        self.assertEqual(columns["total_reward"].tolist(), [0.5] * 4)
        self.assertEqual(columns["truncated"].tolist(), [False, True, True, False])
        self.assertEqual(columns["stop_strings"], given["stop_strings"])

    def test_nemo_rl_gets_the_loss_multiplier_of_the_rows(self):
        rows = [*ROWS[:3], {name: value for name, value in row().items() if name != "loss_multiplier"}]
        columns = self.nemo_rl(rows, self.batch(len(rows)))[1]
        self.assertEqual((columns["loss_multiplier"].dtype, columns["loss_multiplier"].tolist()), (np.float32, [1, 1, 0, 1]))

    def test_nemo_rl_trains_the_tokens_of_the_row_s_mask(self):
        columns = self.nemo_rl(ROWS, self.batch(len(ROWS)))[1]
        for at, log in enumerate(columns["message_log"]):
            self.assertEqual({message["token_ids"].dtype for message in log}, {np.dtype(np.int64)})
            # NeMo RL's own rule (``add_grpo_token_loss_masks_and_generation_logprobs``).
            masks = [np.full(len(one["token_ids"]), one["role"] == "assistant" and "generation_logprobs" in one) for one in log]
            trained = np.concatenate(masks)
            logprobs = np.concatenate([one.get("generation_logprobs", np.zeros(len(one["token_ids"]))) for one in log])
            length = len(trained)
            self.assertEqual([id for one in log for id in one["token_ids"].tolist()], self.arrays.input_ids[at, :length].tolist())
            self.assertEqual(trained.tolist(), (self.arrays.loss_mask[at, :length] > 0).tolist())
            np.testing.assert_array_equal(np.float32(logprobs), self.arrays.logprobs[at, :length] * trained)
            self.assertEqual("".join(one["content"] for one in log), "".join(one["content"] for one in ROWS[at]["message_log"]))

    def test_nemo_rl_gets_ids_of_one_kind_also_of_an_empty_observation(self):
        log = [*row()["message_log"], {"role": "environment", "content": "", "token_ids": []}]
        columns = self.nemo_rl([row(message_log=log)], self.batch(1))[1]
        self.assertEqual(columns["message_log"][0][-1]["token_ids"].dtype, np.int64)

    def test_nemo_rl_gets_a_row_for_each_of_its_samples_or_nothing(self):
        for rows, why in ((ROWS[:1], "1 of 2 rollouts failed"), (ROWS[:3], "expected 2 rollouts, got 3")):
            with self.assertRaisesRegex(RuntimeError, f"^run-4: {why}"):
                self.nemo_rl(rows, self.batch(2))

    def test_nemo_rl_gets_no_row_that_it_would_train_in_part(self):
        for one, why in ((branched(), "b/0-0: expected one sequence"), (UNSAID, "b/0-0: expected a logprob of each")):
            with self.assertRaisesRegex(ValueError, f"^{why}"):
                self.nemo_rl([one], self.batch(1))

    def batch(self, count, **more):
        given = BatchedDataDict(message_log=[[{"role": "user", "content": "", "token_ids": np.array([1, 2])}] for _ in range(count)])
        given.update(extra_env_info=[{}] * count, task_name=["t"] * count, idx=list(range(count)), loss_multiplier=np.ones(count))
        given.update(length=np.full(count, 2), **more)
        return given

    def nemo_rl(self, rows, given, **settings):
        asked = []
        result = SimpleNamespace(wait=lambda: {"metrics": {"m": 1}}, rows=lambda: copy.deepcopy(rows))
        client = SimpleNamespace(start_batch=lambda request, id: asked.append((request, id)) or result)
        torch = SimpleNamespace(tensor=np.array, float32=np.float32, bool=np.bool_, int64=np.int64)
        with mock.patch.dict(sys.modules, {"torch": torch}):
            columns, metrics = for_nemo_rl.run_durable_rollout(client, given, "run-4", **settings)
        return asked, columns, metrics


class BatchedDataDict(dict):
    """NeMo RL's, which is a mapping, too."""
