"""The parts of the integration with SkyRL that need no SkyRL: rows, settings, weights. tests/skyrl has the others."""

import asyncio
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import two_turns
from durable_rollouts import to_arrays
from durable_rollouts.faults import InvalidBatchRequest
from durable_rollouts.integrations.own import Own
from durable_rollouts.integrations.skyrl.rows import outputs_of, samples_of
from durable_rollouts.integrations.skyrl.settings import UNSET, check_settings, settings_of
from durable_rollouts.integrations.skyrl.weights import Weights
from test_sequences import branched
from two_turns import ended as row


def table(fields):
    """``{"a.b": 1}`` as an object."""
    found = SimpleNamespace()
    for name, value in fields.items():
        *way, last = name.split(".")
        at = found
        for one in way:
            at.__dict__.setdefault(one, SimpleNamespace())
            at = getattr(at, one)
        setattr(at, last, value)
    return found


def config(**change):
    sampling = {"max_generate_length": 12, "temperature": 0.9, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "stop": None}
    usual = {
        "durable.weights": "/shared/weights",
        "durable.settings": {},
        "trainer.run_name": "run-3",
        "trainer.strategy": "fsdp",
        "trainer.policy.model.lora.rank": 0,
        "trainer.policy.megatron_config.lora_config.merge_lora": True,
        "trainer.algorithm.advantage_estimator": "grpo",
        "trainer.algorithm.temperature": 0.9,
        "generator.n_samples_per_prompt": 4,
        "generator.max_turns": 3,
        "generator.max_input_length": 52,
        "generator.apply_overlong_filtering": False,
        "generator.chat_template_kwargs": {},
        **{f"generator.sampling_params.{name}": value for name, value in sampling.items()},
        **{f"generator.eval_sampling_params.{name}": value for name, value in {**sampling, "temperature": 0.0, "stop": ["#"]}.items()},
        **dict.fromkeys(UNSET),
    }
    assert set(change) <= set(usual), change
    return table({**usual, **change})


class Rows(unittest.TestCase):
    def test_skyrls_trajectories_have_the_tokens_masks_and_logprobs_of_to_arrays(self):
        rows = two_turns.masked()
        output = outputs_of(rows, ["a", "b", "c", "d"], step_wise=False)
        self.assertNotIn("is_last_step", output)
        self.assertEqual((output["rewards"], output["stop_reasons"]), ([0.5] * 4, ["stop", "length", "length", "stop"]))
        self.check(output, to_arrays(rows), range(4))

    def test_an_agents_sequences_are_steps_of_one_trajectory_of_which_the_main_one_is_the_last(self):
        rows = [row(), branched()]
        output = outputs_of(rows, ["a", "b"], step_wise=True)
        self.assertEqual(output["trajectory_ids"], ["a", "b", "b", "b"])
        self.assertEqual(output["is_last_step"], [True, False, False, True])
        self.assertEqual(output["rewards"], [0.5, 1.0, 1.0, 1.0])
        self.check(output, to_arrays(rows), [0, 3, 2, 1])

    def test_they_are_refused_by_the_setting_that_trains_them(self):
        with self.assertRaisesRegex(ValueError, "^b/0-0: expected one sequence, got several, an agent's: generator.step_wise_trajectories=true"):
            outputs_of([branched()], ["a"], step_wise=False)

    def test_a_row_that_lacks_logprobs_or_a_completion_and_one_with_a_weight_are_refused_by_name(self):
        empty = row(message_log=[two_turns.row()["message_log"][0]], train_mask=[], policy_versions=[], assistant_tokens=0)
        for one, why in (
            (two_turns.unsaid(), "expected a logprob of each sampled token, got none"),
            (empty, "expected a completion, got none: SkyRL takes no empty one"),
            (row(loss_multiplier=0.5), "loss_multiplier: expected 0 or 1, since SkyRL has no weights, got 0.5"),
        ):
            with self.subTest(why), self.assertRaisesRegex(ValueError, f"^b/0-0: {why}"):
                outputs_of([one], ["a"], step_wise=False)

    def check(self, output, arrays, order):
        self.assertEqual({len(values) for values in output.values()}, {len(arrays)})
        for at, place in enumerate(order):
            prompt, length = output["prompt_token_ids"][at], int(arrays.attention_mask[place].sum())
            self.assertEqual(prompt + output["response_ids"][at], arrays.input_ids[place, :length].tolist())
            self.assertEqual([0] * len(prompt) + output["loss_masks"][at], arrays.loss_mask[place, :length].tolist())
            np.testing.assert_array_equal(np.float32([0.0] * len(prompt) + output["rollout_logprobs"][at]), arrays.logprobs[place, :length])


class Samples(unittest.TestCase):
    def test_a_row_of_skyrls_is_a_sample_and_its_environment_gets_all_columns(self):
        prompt, spec = [{"role": "user", "content": "q"}], {"method": "rule", "ground_truth": "4"}
        given = {"prompts": [prompt, prompt], "env_classes": ["math", "code"], "env_extras": [{"reward_spec": spec, "level": np.int64(3)}, {"a": 1}]}
        self.assertEqual(
            samples_of(given),
            [
                {"message_log": prompt, "task_name": "math", "extra_env_info": {"reward_spec": spec, "level": 3, "ground_truth": "4"}},
                {"message_log": prompt, "task_name": "code", "extra_env_info": {"a": 1}},
            ],
        )


class Settings(unittest.TestCase):
    def test_sampling_is_skyrls_own_and_an_evaluation_has_its_own(self):
        cfg = config(**{"durable.settings": {"generation": {"prompt_format": "raw"}}, "generator.chat_template_kwargs": {"thinking": False}})
        asked = settings_of(cfg, "train")
        said = {"temperature": 0.9, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "max_new_tokens": 12}
        generation = {"prompt_format": "raw", "chat_template_kwargs": {"thinking": False}}
        self.assertEqual(asked, {"max_rollout_turns": 3, "max_seq_len": 64, "generation": {**generation, **said}})
        greedy = {**generation, **said, "temperature": 0.0, "stop_strings": ["#"]}
        self.assertEqual(settings_of(cfg, "eval"), {**asked, "generation": greedy})

    def test_fields_of_a_batch_go_before_and_skyrls_filter_of_long_ones_masks(self):
        cfg = config(**{"durable.settings": {"max_seq_len": 90, "max_rollout_turns": 2}, "generator.apply_overlong_filtering": True})
        asked = settings_of(cfg, "train")
        self.assertEqual((asked["max_seq_len"], asked["max_rollout_turns"], asked["overlong"]), (90, 2, "mask"))

    def test_those_that_do_not_fit_are_refused_by_name(self):
        check_settings(config())
        check_settings(config(**{"generator.n_samples_per_prompt": 1, "trainer.algorithm.advantage_estimator": "reinforce++"}))
        check_settings(config(**{"trainer.strategy": "megatron", "trainer.policy.model.lora.rank": 8}))
        for name, value, message in (
            ("durable.weights", None, "durable.weights: expected a folder that the trainer and the engines share; got None"),
            ("trainer.policy.model.lora.rank", 8, "trainer.policy.model.lora.rank: expected 0"),
            ("generator.n_samples_per_prompt", 1, "generator.n_samples_per_prompt: expected 2 or more, which grpo compares; got 1"),
            ("durable.settings", {"generation": {"top_p": 0.5}}, "durable.settings.generation.top_p: expected none: .*generator.sampling_params.top_p"),
            ("generator.sampling_params.top_p", 0.5, "generator.sampling_params.top_p: expected 1"),
            ("trainer.algorithm.temperature", 1.0, r"temperature: expected that of the rollouts \(generator.sampling_params.temperature\) = 0.9"),
            *((name, True, f"{name}: expected false: ") for name in UNSET),
            ("generator.inference_engine.external_server_urls", ["http://a"], "generator.inference_engine.external_server_urls: expected none: engines are"),
        ):
            with self.subTest(name), self.assertRaisesRegex(ValueError, f"^{message}"):
                check_settings(config(**{name: value}))
        with self.assertRaisesRegex(InvalidBatchRequest, "expected letters, digits"):
            check_settings(config(**{"trainer.run_name": "a/b"}))


class Service:
    """A policy that has what was published."""

    service = "default"

    def __init__(self):
        self.published, self.said = [], []
        self._aio = self

    def status(self):
        version = self.published[-1][0] if self.published else None
        return {"record": None if version is None else {"version": version, "target": version}}

    def publish(self, version, path, **options):
        self.published.append((version, Path(path), options))
        return {}

    async def _begins(self, name):
        self.said.append(f"{name} begins")

    def release(self, name):
        self.said.append(f"{name} ends")


class Syncs(unittest.TestCase):
    def setUp(self):
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.service, self.steps = Path(folder.name).resolve(), Service(), iter(range(10))
        dispatch = SimpleNamespace(forward="SkyRL's own")
        save = lambda path: (Path(path) / "model.safetensors").write_text(str(next(self.steps)))  # noqa: E731
        self.weights = Weights(dispatch, save=save, own=Own(self.service, "run-3", take_over=True), folder=str(self.folder), options={"quorum": 1})

    def sync(self):
        asyncio.run(self.weights.save_weights_for_sampler())

    def test_each_sync_publishes_the_models_files_under_the_next_number_for_the_holder(self):
        self.weights.init_weight_sync_state(None)
        self.weights.bring()
        self.sync()
        self.weights.end()
        held = {"quorum": 1, "holder": "run-3"}
        self.assertEqual(
            self.service.published,
            [(1, self.folder / "1", {**held, "take_over": True}), (2, self.folder / "2", held)],
        )
        self.assertEqual((self.folder / "2" / "model.safetensors").read_text(), "1")
        self.assertEqual((self.service.said, self.weights.forward), (["run-3 begins", "run-3 ends"], "SkyRL's own"))

    def test_a_trainer_that_replays_steps_publishes_nothing_and_its_last_weights_at_the_end(self):
        self.weights.init_weight_sync_state(None)
        self.sync()
        self.sync()
        self.assertEqual(self.service.published, [])
        self.weights.end()
        self.assertEqual([version for version, *_ in self.service.published], [1])


if __name__ == "__main__":
    unittest.main()
