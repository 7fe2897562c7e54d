"""The parts of the integration with TRL: refusals, ids, numbers. Needs TRL, and no server."""

import tempfile
import time
import unittest
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch
import two_turns
from accelerate import Accelerator
from durable_rollouts import ForeignWeights, InvalidBatchRequest, PolicyUpdateFailed, StoreFault
from durable_rollouts.integrations.trl import Publish, Rollouts, last_checkpoint, reward
from durable_rollouts.integrations.trl.asynchronous import RolloutWorker, WeightTransfer
from durable_rollouts.integrations.trl.course import Course
from durable_rollouts.integrations.trl.rollouts import check_settings, hash_of
from durable_rollouts.integrations.trl.rows import columns_of
from durable_rollouts.integrations.trl.samples import filler_like, samples_of

Accelerator(cpu=True)
MODEL = torch.nn.Linear(1, 1)
MODEL.save_pretrained = lambda path, state_dict: None
ROWS = [{"prompt": "a=", "task_name": "t"}, {"prompt": [{"role": "user", "content": "b"}], "task_name": "t"}]


def row(**change):
    ended = {"stop_reason": "terminated", "terminated": True, "truncated": False}
    return two_turns.row(**{**ended, **change})


def trainer(step=3, *, processes=1, rank=0, training=True):
    return SimpleNamespace(
        args=SimpleNamespace(use_vllm=False, mask_truncated_completions=False, temperature=1.0),
        state=SimpleNamespace(global_step=step, is_world_process_zero=rank == 0),
        model=SimpleNamespace(training=training),
        accelerator=SimpleNamespace(num_processes=processes, process_index=rank, wait_for_everyone=lambda: None),
    )


class Ended:
    """A client's rollouts: which of them have their rows."""

    def __init__(self, *ids):
        self._ids = ids
        self._aio = self._single = self

    async def has_ended(self, id):
        return id in self._ids

    async def row_of(self, id):
        step = int(id.split(":")[1].split(".")[0])
        return row(policy_versions=[{"start": 0, "end": 3, "version": str(step + 1)}])

    @property
    def _temporal(self):
        return self

    async def list_workflows(self, query, limit):
        for one in self._ids:
            yield SimpleNamespace(id=one)


class Played(Ended):
    """A client whose rollouts end at once."""

    async def rollout(self, sample, id, **settings):
        return row(rollout_id=id)


class Service:
    """A policy whose record another trainer may change."""

    service = "default"

    def __init__(self, *courses, version=None, held=None):
        self.record = {"version": version, "target": version, "courses": [dict(zip(("name", "first", "found"), one)) for one in courses]}
        self.heard_at = 0
        if held is not None:
            self.record["hold"], self.heard_at = {"name": held}, 1000 * time.time()
        self.asked = []
        self._aio = self

    def status(self):
        return {"record": self.record, "heard_at": self.heard_at}

    async def _begins(self, name):
        self.asked.append(("begins", name))

    def release(self, name):
        self.asked.append(("release", name))


class Published(Publish):
    """Notes the steps whose weights it would publish."""

    def __init__(self, rollouts):
        super().__init__(rollouts, Service(), "weights")
        self.steps = []

    def _publish(self, state, model):
        if state.is_world_process_zero:
            self.steps.append(state.global_step)
        self.are_served = True


def config(**change):
    return SimpleNamespace(
        **{
            "max_staleness": 2,
            "token_budget": 0,
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 2,
            "world_size": 1,
            "weight_sync_steps": 1,
            "max_steps": 100,
            "temperature": 1.0,
            **change,
        }
    )


REQUEST = {"samples": [{}], "groups_per_step": 2, "num_repeats": 4, "max_lag": 1}


class LastCheckpoint(unittest.TestCase):
    def test_is_the_newest_whole_one_and_none_where_there_is_none(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.assertIsNone(last_checkpoint(folder / "missing"))
            for step, state in ((8, "{}"), (10, "{}"), (12, '{"global'), (14, None)):
                (folder / f"checkpoint-{step}").mkdir()
                if state is not None:
                    (folder / f"checkpoint-{step}" / "trainer_state.json").write_text(state)
            (folder / "checkpoint-old").mkdir()
            self.assertEqual(last_checkpoint(folder), str(folder / "checkpoint-10"))


class Grpo(unittest.TestCase):
    def ids(self, rollouts, prompts, given):
        return rollouts._ids(prompts, given)

    def test_a_rollout_has_the_id_of_its_step_its_prompt_and_its_place_over_all_ranks(self):
        prompts = ["a=", "a=", ROWS[1]["prompt"], "a="]
        a, b = hash_of("a="), hash_of(ROWS[1]["prompt"])
        alone = self.ids(Rollouts(None, ROWS, run="r"), prompts, trainer())
        self.assertEqual(alone, [f"r:3.0:{a}-0", f"r:3.0:{a}-1", f"r:3.0:{b}-0", f"r:3.0:{a}-2"])
        hashes = [hash_of(one) for one in prompts]
        found = []
        with mock.patch("durable_rollouts.integrations.trl.ranks.gather_object", lambda _: hashes):
            for rank in range(2):
                found += self.ids(Rollouts(None, ROWS, run="r"), prompts[2 * rank : 2 * rank + 2], trainer(processes=2, rank=rank))
        self.assertEqual(found, alone)

    def test_a_generation_has_a_number_of_its_own_within_a_step_and_so_has_an_evaluation(self):
        rollouts = Rollouts(None, ROWS, run="r")
        places = [self.ids(rollouts, ["a="], given)[0].rpartition(":")[0] for given in (trainer(), trainer(), trainer(training=False), trainer(4))]
        self.assertEqual(places, ["r:3.0", "r:3.1", "r:eval3.0", "r:4.0"])

    def test_a_prompt_is_found_whatever_columns_a_table_gives_its_messages(self):
        self.assertEqual(hash_of([{"role": "user", "content": "b", "name": None}]), hash_of(ROWS[1]["prompt"]))
        samples = Rollouts(None, ROWS, run="r")._samples
        self.assertEqual(samples.of("a=")["message_log"], [{"role": "user", "content": "a="}])
        with self.assertRaisesRegex(InvalidBatchRequest, "expected a prompt of the rows"):
            samples.of("c")

    def test_rows_of_a_training_step_are_handed_over_on_rank_0(self):
        seen = []
        rollouts = Rollouts(Played(), ROWS, run="r", on_rows=lambda rows, step: seen.append((step, [one["rollout_id"] for one in rows])))
        for given in (trainer(3), trainer(3, training=False), trainer(4, rank=1), trainer(5)):
            rollouts(["a="], given)
        self.assertEqual([(step, len(ids), ids[0][:6]) for step, ids in seen], [(3, 1, "r:3.0:"), (5, 1, "r:5.0:")])

    def test_rows_that_the_trainer_cannot_tell_apart_are_refused(self):
        with self.assertRaisesRegex(InvalidBatchRequest, "rows.2: another row has the same prompt"):
            Rollouts(None, [*ROWS, {"prompt": "a=", "task_name": "u"}], run="r")
        with self.assertRaisesRegex(InvalidBatchRequest, "rows.0: expected a column 'prompt'"):
            Rollouts(None, [{"question": "a"}], run="r")
        with self.assertRaisesRegex(InvalidBatchRequest, "id: expected letters"):
            Rollouts(None, ROWS, run="a/b")
        with self.assertRaisesRegex(InvalidBatchRequest, "^rows: expected a table or a list, .* got generator, which has no length"):
            Rollouts(None, (one for one in ROWS), run="r")

    def test_settings_that_do_not_fit_are_refused_by_name(self):
        for name in ("use_vllm", "mask_truncated_completions"):
            args = trainer().args
            setattr(args, name, True)
            with self.assertRaisesRegex(ValueError, f"^{name}: expected False"):
                check_settings(args)
        for generation, got in (({}, 0.7), ({"temperature": 0.7}, 1.0)):
            given = trainer()
            given.args.temperature = got
            with self.assertRaisesRegex(ValueError, r"^temperature: expected that of the rollouts .* got "):
                Rollouts(None, ROWS, run="r", generation=generation)(["a="], given)
        with self.assertRaisesRegex(ValueError, "expected rewards of rollout_func=Rollouts"):
            reward(["a"], ["b"])

    def test_a_trainer_that_plays_its_own_rollouts_is_told_so_after_its_first_step(self):
        publish = Published(Rollouts(Ended(), ROWS, run="r"))
        state = SimpleNamespace(global_step=0, is_world_process_zero=True)
        publish.on_train_begin(SimpleNamespace(), state, None, model=MODEL)
        with self.assertRaisesRegex(ValueError, r"^rollout_func: expected the Rollouts of Publish\(rollouts, …\)"):
            publish.on_step_end(None, state, None)
        self.assertEqual(publish.steps, [])

    def train(self, rollouts, publish, steps):
        """What a trainer calls, from the first step to the last."""
        state = SimpleNamespace(global_step=steps[0], is_world_process_zero=True)
        publish.on_train_begin(SimpleNamespace(), state, None, model=MODEL)
        for step in steps:
            given = trainer(step)
            rollouts.was_asked = True
            rollouts._bring_weights(self.ids(rollouts, ["a=", "a="], given), given)
            state.global_step = step + 1
            publish.on_step_end(None, state, None)
        publish.on_train_end(None, state, None)

    def test_weights_are_published_before_the_first_rollouts_and_behind_each_step(self):
        rollouts = Rollouts(Ended(), ROWS, run="r")
        publish = Published(rollouts)
        self.train(rollouts, publish, range(3))
        self.assertEqual(publish.steps, [0, 1, 2, 3])

    def test_while_steps_are_replayed_nothing_is_published_so_that_open_rollouts_keep_their_weights(self):
        a = hash_of("a=")
        # Killed in step 5, whose second rollout is open; its checkpoint is that of step 2.
        rollouts = Rollouts(Ended(*(f"r:{step}.0:{a}-{k}" for step in range(6) for k in range(2) if (step, k) != (5, 1))), ROWS, run="r")
        publish = Published(rollouts)
        self.train(rollouts, publish, range(2, 7))
        self.assertEqual(publish.steps, [5, 6, 7])

    def test_a_trainer_that_asks_for_nothing_new_publishes_its_last_weights(self):
        a = hash_of("a=")
        rollouts = Rollouts(Ended(*(f"r:{step}.0:{a}-{k}" for step in range(6) for k in range(2))), ROWS, run="r")
        publish = Published(rollouts)
        self.train(rollouts, publish, range(2, 6))
        self.assertEqual(publish.steps, [6])

    def killed_in_step_5(self):
        a = hash_of("a=")
        return Rollouts(Ended(*(f"r:{step}.0:{a}-{k}" for step in range(6) for k in range(2))), ROWS, run="r")

    def test_a_training_that_continues_says_which_steps_it_replays_of_which_versions_and_how_to_play_them_anew(self):
        publish = Published(self.killed_in_step_5())
        with self.assertLogs("durable_rollouts", "WARNING") as logs:
            publish.on_train_begin(SimpleNamespace(), SimpleNamespace(global_step=2, is_world_process_zero=True), None, model=MODEL)
        self.assertEqual(
            [line.partition("durable_rollouts:")[2] for line in logs.output],
            [
                "r: steps 2 to 5 are replayed: rows of an earlier course, versions 3 to 6. They train as they are, whatever this "
                "trainer's settings are; to play them anew, give Rollouts another run"
            ],
        )

    def test_one_whose_replayed_rows_were_deleted_is_told_which_file_is_gone_before_it_trains(self):
        rollouts = self.killed_in_step_5()

        async def gone(id):
            raise FileNotFoundError(2, "No such file or directory", "/store/rollouts.jsonl")

        rollouts._client.row_of = gone
        said = "^r: steps 2 to 5 are replayed, and rows of them cannot be read: .*'/store/rollouts.jsonl'; put the files back, or, to play them anew, give Rollouts another run$"
        with self.assertRaisesRegex(StoreFault, said):
            Published(rollouts).on_train_begin(SimpleNamespace(), SimpleNamespace(global_step=2, is_world_process_zero=True), None, model=MODEL)

    def test_one_that_begins_or_replays_nothing_says_nothing(self):
        for step, rollouts in ((6, self.killed_in_step_5()), (0, Rollouts(Ended(), ROWS, run="r"))):
            with self.assertNoLogs("durable_rollouts"):
                Published(rollouts).on_train_begin(SimpleNamespace(), SimpleNamespace(global_step=step, is_world_process_zero=True), None, model=MODEL)

    def test_its_run_holds_the_service_to_its_end_and_takes_it_over_once(self):
        service, published = Service(), []
        service.publish = lambda version, path, **named: published.append((version, named)) or {}
        rollouts = Rollouts(Ended(), ROWS, run="r")
        with tempfile.TemporaryDirectory() as folder:
            publish = Publish(rollouts, service, folder, take_over=True, cache="keep")
            state = SimpleNamespace(global_step=0, is_world_process_zero=True)
            publish.on_train_begin(SimpleNamespace(), state, None, model=MODEL)
            for _ in range(2):
                publish.bring(SimpleNamespace(state=state, model=MODEL))
            publish.on_train_end(None, state, None, model=MODEL)
        self.assertEqual(service.asked, [("begins", "r"), ("release", "r")])
        named = {"cache": "keep", "holder": "r"}
        self.assertEqual(published, [(1, {**named, "take_over": True}), (1, named)])

    def test_rows_of_another_training_are_never_trained(self):
        rollouts = Rollouts(Ended(), ROWS, run="r")
        service = Service(("r", 16, None), version=17)
        publish = Publish(rollouts, service, "weights")
        publish.on_train_begin(SimpleNamespace(), SimpleNamespace(global_step=0, is_world_process_zero=False), None, model=MODEL)
        service.record = Service(("r", 16, None), ("other", 18, 17), version=18).record
        publish.check([row(policy_versions=[{"start": 0, "end": 3, "version": "17"}])])
        publish.are_served = True
        played = mock.patch("durable_rollouts.integrations.trl.rollouts.play", mock.AsyncMock(return_value=[row()]))
        with played, self.assertRaisesRegex(ForeignWeights, "got 18, of 'other'"):
            rollouts(["a="], trainer())

    def test_a_service_that_another_run_holds_is_refused_before_the_first_step(self):
        publish = Publish(Rollouts(Ended(), ROWS, run="r"), Service(("other", 1, None), version=1, held="other"), "weights")
        with self.assertRaisesRegex(PolicyUpdateFailed, "^holder: 'other' holds service 'default'"):
            publish.on_train_begin(SimpleNamespace(), SimpleNamespace(global_step=0, is_world_process_zero=True), None, model=MODEL)

    def test_weights_are_published_if_rollouts_of_any_rank_are_new(self):
        rollouts = Rollouts(Ended("mine"), ROWS, run="r")
        for others, published in (([True, True], []), ([True, False], [3])):
            publish = Published(rollouts)
            with mock.patch("durable_rollouts.integrations.trl.ranks.gather_object", lambda _: others):
                rollouts._bring_weights(["mine"], trainer(processes=2))
            self.assertEqual(publish.steps, published)

    def test_what_the_trainer_cannot_hold_is_refused_by_rollout(self):
        with self.assertRaisesRegex(ValueError, "b/0-0: loss_multiplier: expected 0 or 1, since TRL has no weights, got 0.5"):
            columns_of([row(loss_multiplier=0.5)])
        columns = columns_of([row(), row(loss_multiplier=0)])
        self.assertEqual(columns["prompt_ids"], [[1, 2]] * 2)
        self.assertEqual(columns["completion_ids"], [[3, 4, 5, 6]] * 2)
        self.assertEqual(columns["logprobs"], [[-0.5, -1.5, 0.0, -0.25]] * 2)
        self.assertEqual(columns["env_mask"], [[1, 1, 0, 1], [0, 0, 0, 0]])
        prompt_only = row(message_log=row()["message_log"][:1], assistant_tokens=0, train_mask=[], policy_versions=[])
        with self.assertRaisesRegex(ValueError, "b/0-0: expected a completion, got none"):
            columns_of([prompt_only])

    def test_what_an_agent_has_beside_its_main_sequence_is_left_out_with_the_count(self):
        log = [{"role": "assistant", "content": "", "token_ids": [7, 8], "generation_logprobs": [-1.0, -1.0]}]
        other = {"sequence": 1, "parent": 0, "fork": 2, "cause": "edited", "train": True, "calls": [1], "message_log": log}
        runs = {"assistant_tokens": 2, "finish_reasons": ["stop"], "train_mask": [{"start": 2, "end": 4}], "policy_versions": [], "segments": []}
        with self.assertWarnsRegex(UserWarning, "leaves out 2 of 5 tokens"):
            columns_of([row(sequences=[{**other, **runs}])])


class Async(unittest.TestCase):
    def test_settings_that_do_not_fit_are_refused_by_name_when_the_worker_is_made(self):
        RolloutWorker(None, "s", REQUEST, config())
        for args, request, message in (
            (config(), {**REQUEST, "max_lag": 0}, "^max_lag: expected at least 1"),
            (config(max_staleness=1), REQUEST, "^max_staleness: expected at least max_lag \\+ 1 = 2, .* got 1"),
            (config(token_budget=None), REQUEST, "^token_budget: expected 0, .* got None"),
            (config(token_budget=4096), REQUEST, "^token_budget: expected 0, .* got 4096"),
            (config(max_steps=-1), REQUEST, "^max_steps: expected a number of steps.* got -1"),
            (config(temperature=0.5), REQUEST, r"^temperature: expected that of the rollouts .* = 1, .* got 0.5"),
            (config(world_size=2), REQUEST, "^per_device_train_batch_size × .* = 8, got 16"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                RolloutWorker(None, "s", request, args)

    def test_a_worker_without_its_callback_or_transfer_does_not_start(self):
        worker = RolloutWorker(None, "s", REQUEST, config())
        with self.assertRaisesRegex(RuntimeError, r"^callbacks: expected \[worker.callback\]"):
            worker.start()
        worker._stream = object()
        with self.assertRaisesRegex(RuntimeError, "^weight_transfer: expected WeightTransfer"):
            worker.start()

    def test_while_steps_are_replayed_tensors_are_used_up_and_nothing_is_published(self):
        worker = RolloutWorker(None, "s", REQUEST, config())
        worker.course.begin(3, first_new=6, version=9)
        # A policy that would raise if it were asked.
        transfer = WeightTransfer(worker, None, "weights")
        used = iter([("a", None), ("b", None)])
        transfer.send_weights(used)
        self.assertEqual(list(used), [])

    def test_a_training_that_continues_says_which_steps_it_replays_and_its_stream_holds_the_service(self):
        steps = {3: {"version": 4}, 5: {"version": 6}}
        stream = SimpleNamespace(id="s", _aio=None, delivered=lambda: 6, next_step=lambda step: SimpleNamespace(result=steps[step]))
        service = Service(("s", 1, None), version=6)
        client = SimpleNamespace(stream=lambda id, request: stream, policy=lambda name: service)
        worker = RolloutWorker(client, "s", REQUEST, config())
        transfer = WeightTransfer(worker, service, "weights")
        with self.assertLogs("durable_rollouts", "WARNING") as logs:
            worker.begin(3)
        self.assertRegex(logs.output[0], "s: steps 3 to 5 are replayed: rows of an earlier course, versions 4 to 6.*give RolloutWorker another id")
        service.record = Service(("s", 1, None), ("other", 7, 6), version=7).record
        foreign = SimpleNamespace(step=6, rows=lambda: [row(policy_versions=[{"start": 0, "end": 3, "version": "7"}])])
        with self.assertRaisesRegex(ForeignWeights, "got 7, of 'other'"):
            worker._samples(foreign)
        transfer.destroy()
        self.assertEqual(service.asked, [("begins", "s"), ("release", "s")])

    def test_a_step_has_the_numbers_of_the_weights_that_train_on_it(self):
        course = Course(1)
        course.begin(3, first_new=6, version=9)
        sent = []
        for step in range(3, 9):
            course.stepped(step)
            sent.append(not course.replays)
            if not course.replays:
                course.published(9 + sum(sent))
            course.synced(step - 2)
            self.assertEqual([course.may_have(step + k) for k in range(3)], [True, True, False])
            # The one in front of the sync, and the one behind it.
            versions = [course.version_of(step + k) for k in range(2)]
            self.assertEqual(versions, [None if one < 6 else 10 + one - 6 for one in (step, step + 1)])
            self.assertEqual([course.trainers_version(step + k) for k in range(2)], [step - 2, step - 1])
        self.assertEqual(sent, [False, False, False, True, True, True])

    def test_with_rare_syncs_all_steps_between_two_have_one_number(self):
        course = Course(3)
        course.begin(0, first_new=0, version=0)
        self.assertFalse(course.may_have(0), "before the first sync there are no weights")
        course.published(1)
        course.synced(1)
        self.assertEqual([course.version_of(step) for step in range(4)], [1, 1, 1, 2])
        self.assertEqual([course.stepped(step) for step in (1, 2, 3)], [True, True, False])

    def test_samples_have_lags_advantages_and_masks_over_all_ids(self):
        rows = [row(), row(rollout_id="b/0-1", repeat=1, total_reward=1.5)]
        samples = samples_of(rows, "grpo", version=18)
        self.assertEqual([one.model_version for one in samples], [1, 1])
        np.testing.assert_allclose([one.advantage for one in samples], [-(0.5**0.5), 0.5**0.5], rtol=1e-5)
        one = samples[0]
        self.assertEqual((one.input_ids.tolist(), one.completion_mask.tolist()), ([1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 0, 1]))
        self.assertEqual(one.old_log_probs.tolist(), [0.0, 0.0, -0.5, -1.5, 0.0, -0.25])
        filler = filler_like(one)
        self.assertEqual((int(filler.completion_mask.sum()), filler.advantage, filler.model_version), (0, 0.0, one.model_version))

    def test_no_sample_is_so_old_that_the_trainer_drops_it(self):
        seen = []
        worker = RolloutWorker(None, "s", REQUEST, config(), on_step=seen.append)
        worker.course.begin(0, first_new=0, version=17)
        worker.course.synced(1)
        step = SimpleNamespace(step=0, result={"version": 25}, rows=lambda: [row(repeat=k, rollout_id=f"b/0-{k}") for k in range(7)])
        with self.assertLogs("durable_rollouts", "WARNING") as logs:
            samples = worker._samples(step)
        self.assertEqual(seen, [step])
        self.assertEqual(len(samples), 8, "a filler takes the place of the missing one")
        self.assertEqual(Counter(one.model_version for one in samples), {1 - 2: 8})
        self.assertRegex("\n".join(logs.output), r"(?s)8 versions old, max_staleness is 2.*lacks 1 of 8 rollouts")


if __name__ == "__main__":
    unittest.main()
