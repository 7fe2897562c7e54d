"""The parts of the integration with verl, with verl's own classes. Needs no server."""

import contextlib
import unittest
from types import SimpleNamespace

import numpy as np
import two_turns
from durable_rollouts import to_arrays
from durable_rollouts.faults import InvalidBatchRequest
from durable_rollouts.integrations.own import Own
from durable_rollouts.integrations.verl import agent_loop, trainer
from durable_rollouts.integrations.verl.numbers import number_of, steps_of
from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import get_trainer_cls

CONFIG = {
    "actor_rollout_ref": {"rollout": {"name": "vllm", "free_cache_engine": False}, "model": {"lora_rank": 0}},
    "trainer": {"experiment_name": "run-3", "v1": {"trainer_mode": "durable_sync"}},
}


def row(**change):
    ended = {"stop_reason": "terminated", "terminated": True, "truncated": False, "task_name": "t", "idx": 0}
    timing = {"queue_s": 0.0, "generate_s": 2.0, "step_s": 0.5, "wall_s": 3.0}
    versions = [{"start": 0, "end": 2, "version": "1000016"}, {"start": 2, "end": 3, "version": "2000017"}]
    return two_turns.row(**{**ended, "timing": timing, "policy_versions": versions, **change})


class Numbers(unittest.TestCase):
    def test_a_number_names_its_step_and_only_grows(self):
        for step, least, number in ((0, 1, 1_000_000), (1, 1_000_001, 1_000_001), (0, 1_000_002, 2_000_000), (7, 7, 7)):
            self.assertEqual(number_of(step, least), number)

    def test_steps_are_those_of_sampled_tokens(self):
        self.assertEqual(steps_of(np.array([-1, 1_000_004, -1, 2_000_005])), (4, 5))


class Rows(unittest.TestCase):
    def test_verls_tensors_have_the_tokens_masks_and_logprobs_of_to_arrays(self):
        rows = [row(), row(truncated=True, stop_reason="truncated", train_mask=[{"start": 2, "end": 4}])]
        arrays = to_arrays(rows)
        for at, one in enumerate(rows):
            [output] = agent_loop.outputs_of(one, with_logprobs=True)
            tensors = output.as_dict()
            first, length = len(tensors["prompts"]), int(arrays.attention_mask[at].sum())
            self.assertEqual([*tensors["prompts"].tolist(), *tensors["responses"].tolist()], arrays.input_ids[at, :length].tolist())
            self.assertEqual(tensors["response_mask"].tolist(), arrays.loss_mask[at, first:length].tolist())
            np.testing.assert_array_equal(tensors["rollout_log_probs"].numpy(), arrays.logprobs[at, first:length])
            self.assertEqual(tensors["rm_scores"].tolist(), [0.0] * (length - first - 1) + [one["total_reward"]])

    def test_the_steps_of_its_weights_are_there(self):
        [output] = agent_loop.outputs_of(row(), with_logprobs=False)
        self.assertEqual((output.extra_fields["min_global_steps"], output.extra_fields["max_global_steps"]), (16, 17))
        self.assertIsNone(output.response_logprobs)

    def test_an_agents_sequences_are_outputs_of_which_the_main_one_is_the_last(self):
        log = [{"role": "assistant", "content": "", "token_ids": [7, 8], "generation_logprobs": [-1.0, -1.0]}]
        other = {"sequence": 1, "parent": 0, "fork": 2, "cause": "edited", "train": True, "calls": [1], "message_log": log}
        versions = [{"start": 0, "end": 2, "version": "16"}]
        runs = {"assistant_tokens": 2, "finish_reasons": ["stop"], "train_mask": [{"start": 2, "end": 4}], "policy_versions": versions, "segments": []}
        outputs = agent_loop.outputs_of(row(sequences=[{**other, **runs}]), with_logprobs=True)
        self.assertEqual([one.response_ids for one in outputs], [[7, 8], [3, 4, 5, 6]])
        self.assertEqual([one.response_mask for one in outputs], [[1, 1], [1, 1, 0, 1]])

    def test_one_without_a_known_version_is_refused_by_its_name(self):
        with self.assertRaisesRegex(ValueError, "^b/0-0: expected tokens under a version of the weights, got none"):
            agent_loop.outputs_of(row(policy_versions=[]), with_logprobs=True)


class Loop(unittest.TestCase):
    def test_a_row_of_verls_is_a_sample(self):
        given = {"raw_prompt": np.array([{"role": "user", "content": "q"}]), "extra_info": {"index": np.int64(3)}, "reward_model": {"style": "rule", "ground_truth": "4"}, "uid": "u"}
        self.assertEqual(
            agent_loop.sample_of(given),
            {"message_log": [{"role": "user", "content": "q"}], "extra_env_info": {"index": 3, "ground_truth": "4"}},
        )

    def test_another_trainer_and_settings_that_verl_has_are_refused_by_name(self):
        def made(mark, **settings):
            loop = object.__new__(agent_loop.DurableAgentLoop)
            base = agent_loop.AgentLoopBase.__init__
            agent_loop.AgentLoopBase.__init__ = lambda self, **given: None
            loop.config = OmegaConf.create({"trainer": {"experiment_name": "run-3", "v1": {"durable_rollouts": mark}}})
            try:
                loop.__init__("math", settings)
            finally:
                agent_loop.AgentLoopBase.__init__ = base

        made(True, max_rollout_turns=2)
        with self.assertRaisesRegex(ValueError, "^trainer.v1.trainer_mode: expected durable_sync"):
            made(None)
        with self.assertRaisesRegex(ValueError, "^settings.generation.top_p: expected none"):
            made(True, generation={"top_p": 0.5})


    def test_a_prompt_longer_than_verls_prompt_length_is_refused_when_it_is_planned(self):
        loop = object.__new__(agent_loop.DurableAgentLoop)
        loop.rollout_config = OmegaConf.create({"prompt_length": 40, "response_length": 24})
        sampling = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "logprobs": True}
        for settings, tokens, longest in (({}, 40, 64), ({"max_seq_len": 200}, 40, 200)):
            loop._settings = settings
            asked = loop._settings_with(sampling)
            self.assertEqual((asked["max_prompt_tokens"], asked["max_seq_len"]), (tokens, longest))


class Trainer(unittest.TestCase):
    def test_it_is_registered_beside_verls_own(self):
        self.assertIs(get_trainer_cls("durable_sync"), trainer.DurableSync)
        self.assertIs(get_trainer_cls("durable_colocate_async"), trainer.DurableColocateAsync)

    def test_what_does_not_fit_is_refused_by_its_name(self):
        trainer.check_settings(OmegaConf.create(CONFIG))
        for path, value, message in (
            ("actor_rollout_ref.rollout.name", "sglang", "^actor_rollout_ref.rollout.name: expected vllm, got sglang"),
            ("actor_rollout_ref.rollout.free_cache_engine", True, "^actor_rollout_ref.rollout.free_cache_engine: expected False"),
            ("actor_rollout_ref.model.lora_rank", 8, "^actor_rollout_ref.model.lora_rank: expected 0"),
        ):
            config = OmegaConf.create(CONFIG)
            OmegaConf.update(config, path, value)
            with self.subTest(path), self.assertRaisesRegex(ValueError, message):
                trainer.check_settings(config)
        with self.assertRaisesRegex(InvalidBatchRequest, "expected letters, digits"):
            trainer.check_settings(OmegaConf.merge(CONFIG, {"trainer": {"experiment_name": "a/b"}}))

    def test_each_sync_is_a_transfer_and_engines_of_others_end_it(self):
        begun, synced = [], []

        class Policy:
            def __init__(self, urls):
                self._urls = urls

            def status(self):
                return {"record": {"version": 1_000_004, "target": 1_000_004}}

            @contextlib.contextmanager
            def transfer(self, version, **named):
                begun.append((version, named["holder"], named["code"], named.get("take_over")))
                yield SimpleNamespace(engines=[{"url": url} for url in self._urls])

        manager = SimpleNamespace(update_weights=synced.append, backend="naive")
        policy = Policy(["a"])
        weights = trainer.Weights(manager, policy, own=Own(policy, "run-3", take_over=True), urls=["a"])
        weights.update_weights(5)
        weights.update_weights()
        self.assertEqual(begun, [(1_000_005, "run-3", "trainer", True), (1_000_005, "run-3", "trainer", None)])
        self.assertEqual((synced, weights.backend), ([5, None], "naive"))
        with self.assertRaisesRegex(ValueError, "^b: expected verl's own engines alone"):
            trainer.Weights(manager, Policy(["a", "b"]), own=Own(policy, "run-3"), urls=["a"]).update_weights(5)
        self.assertEqual(len(synced), 2)


if __name__ == "__main__":
    unittest.main()
