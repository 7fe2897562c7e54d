"""The parts of the integration with SkyRL, with SkyRL's own classes. Needs no server, and no Ray that runs."""

import asyncio
import unittest
from types import SimpleNamespace
from unittest import mock

import numpy as np
import test_skyrl
import torch
from durable_rollouts import to_arrays
from durable_rollouts.faults import ForeignWeights, EnvironmentFailed
from durable_rollouts.integrations import replays
from durable_rollouts.integrations.skyrl import experiment, generator
from skyrl.train.dataset.preprocess import convert_prompts_responses_to_batch_tensors
from skyrl.train.entrypoints import main_base
from skyrl.train.generators.utils import concatenate_generator_outputs, prepare_generator_input
from skyrl.train.utils.trainer_utils import validate_generator_output

FITTING = (
    *("durable.weights=/shared/weights", "trainer.placement.colocate_all=false", "trainer.run_name=run-3", "trainer.logger=console"),
    *("trainer.train_batch_size=2", "trainer.policy_mini_batch_size=2", "generator.n_samples_per_prompt=2", "trainer.ckpt_interval=1"),
)
ROWS = [test_skyrl.row(rollout_id=f"b/{at // 2}-{at % 2}", row=at // 2, repeat=at % 2, total_reward=float(at)) for at in range(4)]


def config(*more):
    return experiment.config_of([*FITTING, *more])


class Client:
    """Plays what the rows say. A failure is one of them."""

    def __init__(self, rows):
        self.asked, self._rows = [], iter(rows)
        self._aio = self._single = self

    async def rollout(self, sample, id, **settings):
        self.asked.append((id, sample, settings))
        row = next(self._rows)
        if isinstance(row, Exception):
            raise row
        return row

    async def has_ended(self, id):
        return False


class Weights:
    are_served = False

    def __init__(self, client):
        self._client, self.brought = client, []

    def bring(self):
        self.brought.append(len(self._client.asked))
        self.are_served = True


def batch(phase="train", step=4, repeats=2):
    prompts = [
        {"prompt": [{"role": "user", "content": f"q{at}"}], "env_class": None, "env_extras": {"reward_spec": {"ground_truth": str(at)}}, "uid": str(at)}
        for at in (7, 3)
    ]
    given, uids = prepare_generator_input(prompts, repeats, {}, "math", phase, step)
    return given, uids


class Entrypoint(unittest.TestCase):
    def test_skyrls_own_one_hands_over_to_it_with_a_table_of_ours(self):
        asked = ["main_base", "trainer.override_entrypoint=durable_rollouts.integrations.skyrl.experiment", *FITTING, "durable.settings.max_seq_len=90"]
        with mock.patch("sys.argv", asked), mock.patch.object(experiment, "initialize_ray") as began, mock.patch.object(experiment, "ray") as ray:
            with mock.patch.object(experiment, "entrypoint") as entry, mock.patch.dict("os.environ", {"TEMPORAL_ADDRESS": "a:1"}):
                main_base.main()
        [cfg] = began.call_args.args
        self.assertEqual((cfg.durable.settings, cfg.durable.weights, cfg.trainer.algorithm.temperature), ({"max_seq_len": 90}, "/shared/weights", 1.0))
        self.assertEqual(entry.options.call_args.kwargs["runtime_env"]["env_vars"]["TEMPORAL_ADDRESS"], "a:1")
        self.assertEqual(ray.get.call_count, 1)

    def test_settings_that_do_not_fit_are_refused_by_name_before_ray_and_engines_are_started(self):
        for given, why in (
            ("trainer.placement.colocate_all=true", "trainer.placement.colocate_all: expected false: engines are those of temporal.yaml"),
            ("trainer.fully_async.enabled=true", "trainer.fully_async.enabled: expected false"),
            ("trainer.policy.model.lora.rank=8", "trainer.policy.model.lora.rank: expected 0"),
            ("generator.n_samples_per_prompt=1", "generator.n_samples_per_prompt: expected 2 or more, which grpo compares; got 1"),
            ("generator.sampling_params.top_p=0.5", "generator.sampling_params.top_p: expected 1"),
            ("durable.weights=null", "durable.weights: expected a folder"),
        ):
            with self.subTest(given), self.assertRaisesRegex(ValueError, f"^{why}"):
                config(given)
        with self.assertRaisesRegex(ValueError, "[Ii]nvalid|nknown"):
            config("durable.wieghts=/a")

    def test_an_experiment_starts_no_engines_and_has_this_trainer(self):
        made = object.__new__(experiment.DurableExp)
        self.assertIsNone(made.get_inference_client())
        self.assertTrue(issubclass(experiment.DurableTrainer, main_base.RayPPOTrainer))


class Generator(unittest.TestCase):
    def play(self, rows, *settings, given=None):
        client = Client(rows)
        own = SimpleNamespace(check=mock.Mock())
        made = generator.DurableGenerator(client, config(*settings), own)
        made.weights = Weights(client)
        with mock.patch.object(generator, "say_ended"):
            output = asyncio.run(made.generate(given or batch()[0]))
        return client, made, output, own

    def test_each_rollout_is_asked_for_by_step_prompt_and_repetition_after_the_weights_are_there(self):
        client, made, _, own = self.play(ROWS, "generator.max_turns=3", "generator.max_input_length=600")
        ids = [id for id, *_ in client.asked]
        self.assertEqual(ids, [f"run-3:4.0:{row}-{repeat}" for row in (7, 3) for repeat in (0, 1)])
        _, sample, settings = client.asked[0]
        self.assertEqual(sample, {"message_log": [{"role": "user", "content": "q7"}], "task_name": "math", "extra_env_info": {"reward_spec": {"ground_truth": "7"}, "ground_truth": "7"}})
        self.assertEqual((settings["max_rollout_turns"], settings["max_seq_len"]), (3, 1624))
        self.assertEqual((made.weights.brought, own.check.call_args.args), ([0], (ROWS,)))

    def test_a_prompt_that_a_step_asks_for_twice_is_sampled_twice(self):
        made = generator.DurableGenerator(Client([]), config(), None)
        with mock.patch.object(generator, "say_ended") as said:
            ids = [made._ids(batch(phase, step)[0])[0] for phase, step in (("eval", 3), ("train", 4), ("train", 4), ("eval", 4), ("train", 5))]
        self.assertEqual(ids, ["run-3:eval3.0:7-0", "run-3:4.0:7-0", "run-3:4.1:7-0", "run-3:eval4.0:7-0", "run-3:5.0:7-0"])
        self.assertEqual([one.args[2] for one in said.call_args_list], [4])
        self.assertIs(generator.say_ended, replays.say_ended)

    def test_skyrls_tensors_have_the_tokens_masks_and_logprobs_of_to_arrays(self):
        _, _, output, _ = self.play(ROWS)
        validate_generator_output(4, output)
        arrays = to_arrays(ROWS)
        rewards = [[0.0] * (len(ids) - 1) + [reward] for ids, reward in zip(output["response_ids"], output["rewards"])]
        tokenizer = SimpleNamespace(pad_token_id=0)
        sequences, attention, response, reward, mask, logprobs, _ = convert_prompts_responses_to_batch_tensors(
            tokenizer, output["prompt_token_ids"], output["response_ids"], rewards, output["loss_masks"], output["rollout_logprobs"]
        )
        width = response.shape[1]
        self.assertEqual(sequences.tolist(), arrays.input_ids.tolist())
        self.assertEqual(mask.tolist(), arrays.loss_mask[:, -width:].tolist())
        np.testing.assert_array_equal(logprobs.numpy(), arrays.logprobs[:, -width:])
        self.assertEqual(reward.sum(dim=1).tolist(), [0.0, 1.0, 2.0, 3.0])
        self.assertTrue(torch.equal(attention, torch.ones_like(attention)))

    def test_a_failed_rollout_is_raised_by_name_and_is_no_reward(self):
        with self.assertRaisesRegex(EnvironmentFailed, "^the engine is gone"):
            self.play([*ROWS[:3], EnvironmentFailed("the engine is gone")])

    def test_rows_of_another_trainer_and_of_raw_logprobs_do_not_train_and_an_evaluation_may_be_greedy(self):
        raw = [{**row, "logprobs_mode": "raw"} for row in ROWS]
        with self.assertRaisesRegex(ValueError, "^b/0-0: logprobs_mode: expected processed"):
            self.play(raw, "generator.sampling_params.temperature=0.9")
        client, _, output, own = self.play(raw, "generator.sampling_params.temperature=0.9", given=batch("eval")[0])
        self.assertEqual((client.asked[0][2]["generation"]["temperature"], own.check.call_count), (0.0, 0))
        self.assertEqual(len(concatenate_generator_outputs([output, output])["rewards"]), 8)
        made = generator.DurableGenerator(Client(ROWS), config(), SimpleNamespace(check=mock.Mock(side_effect=ForeignWeights("of 'b'"))))
        with mock.patch.object(generator, "say_ended"), self.assertRaisesRegex(ForeignWeights, "of 'b'"):
            asyncio.run(made.generate(batch()[0]))

    def test_an_agents_sequences_are_steps_that_skyrl_takes(self):
        rows = [test_skyrl.row(), test_skyrl.branched()]
        given, _ = batch(repeats=1)
        _, _, output, _ = self.play(rows, "generator.step_wise_trajectories=true", given=given)
        validate_generator_output(2, output, step_wise=True)
        self.assertEqual([one.instance_id for one in output["trajectory_ids"]], ["7", "3", "3", "3"])


if __name__ == "__main__":
    unittest.main()
