"""The parts of the integration with prime-rl: its settings, its samples, its files. Needs no server."""

import base64
import contextlib
import copy
import io
import json
import tempfile
import tomllib
import unittest
from pathlib import Path
from unittest import mock

import msgspec
import prime_rl.trainer.batch
import two_turns
from durable_rollouts.integrations.prime_rl import __main__ as orchestrator
from durable_rollouts import ForeignWeights
from durable_rollouts.integrations.own import Own
from durable_rollouts.integrations.prime_rl import samples
from durable_rollouts.integrations.prime_rl.settings import settings_of
from prime_rl.transports.rollouts.types import MicroBatch, TrainingSample

HERE = Path(__file__).parent
GIVEN = {
    "batch_size": 8,
    "group_size": 4,
    "seq_len": 16,
    "rollout_transport": {"type": "filesystem"},
    "durable_rollouts": {"stream": "s", "request": {"samples": [{}]}},
}
IS_REAL = hasattr(prime_rl.trainer.batch, "packed_samples_into_micro_bs")


def changed(path, value):
    """Of the settings; None: without it."""
    given = copy.deepcopy(GIVEN)
    *folders, name = path.split(".")
    table = given
    for folder in folders:
        table = table.setdefault(folder, {})
    if value is None:
        del table[name]
    else:
        table[name] = value
    return given


def row(**change):
    ended = {"stop_reason": "terminated", "terminated": True, "truncated": False, "task_name": "t", "idx": 0}
    return two_turns.row(**{**ended, **change})


ROWS = [
    row(),
    row(rollout_id="b/0-1", repeat=1, total_reward=1.5, truncated=True, stop_reason="truncated", train_mask=[{"start": 2, "end": 4}]),
    row(rollout_id="b/1-0", row=1, total_reward=1.0),
    row(rollout_id="b/1-1", row=1, repeat=1, total_reward=0.0, loss_multiplier=0.5),
]


class Settings(unittest.TestCase):
    def test_those_of_prime_rl_become_a_stream(self):
        settings = settings_of(changed("train.sampling", {"temperature": 0.7, "max_completion_tokens": 9}))
        self.assertEqual(settings.durable_rollouts.request["generation"], {"temperature": 0.7, "max_new_tokens": 9})
        stream = {name: settings.durable_rollouts.request[name] for name in ("groups_per_step", "num_repeats", "filter", "max_seq_len")}
        self.assertEqual(stream, {"groups_per_step": 2, "num_repeats": 4, "filter": "zero_variance", "max_seq_len": 16})
        self.assertEqual((settings.first, settings.train.sampling.temperature, settings.num_train_workers), (1, 0.7, 1))
        self.assertIsNone(settings_of(changed("train.filter_zero_advantages", False)).durable_rollouts.request["filter"])

    def test_the_settings_of_the_page_are_accepted(self):
        page = (HERE.parents[2] / "docs" / "prime-rl.md").read_text()
        settings = settings_of(tomllib.loads(page.partition("```toml\n")[2].partition("```")[0]))
        self.assertEqual((settings.durable_rollouts.stream, settings.durable_rollouts.request["groups_per_step"], settings.max_steps), ("run-3", 8, 500))

    def test_a_trainer_that_continues_names_its_step_or_has_its_checkpoints(self):
        self.assertEqual(settings_of(changed("resume", {"step": 7})).first, 8)
        with tempfile.TemporaryDirectory() as folder:
            for step in (2, 10):
                (Path(folder) / "checkpoints" / f"step_{step}").mkdir(parents=True)
            self.assertEqual(settings_of({**changed("resume", {}), "output_dir": folder}).first, 11)

    def test_what_does_not_fit_is_refused_by_its_name(self):
        for path, value, message in (
            ("durable_rollouts", None, "^Object missing required field `durable_rollouts`"),
            ("durable_rollouts.stream", None, "missing required field `stream` - at `.\\.durable_rollouts`"),
            ("durable_rollouts.else", 1, "unknown field `else` - at `.\\.durable_rollouts`"),
            ("durable_rollouts.request.max_seq_len", 17, "request.max_seq_len: expected at most seq_len = 16, .* got 17"),
            ("durable_rollouts.request.num_repeats", 2, "request.num_repeats: expected 4, .* got 2"),
            ("durable_rollouts.request.generation", {"temperature": 0.5}, "generation.temperature: expected 1.0, .* got 0.5"),
            ("rollout_transport", None, '^rollout_transport.type: expected "filesystem", .* got .zmq'),
            ("weight_broadcast", {"type": "nccl"}, '^weight_broadcast.type: expected "filesystem", .* got .nccl'),
            ("algo", {"type": "opd"}, '^algo: expected type = "grpo" alone'),
            ("algo", {"type": "grpo", "length_penalty": {}}, '^algo: expected type = "grpo" alone'),
            ("batch_size", 6, "^batch_size: expected whole groups"),
            ("batch_size", None, "missing required field `batch_size`"),
            ("model.lora", {"rank": 8}, "unknown field `lora` - at `.\\.model`"),
            ("train.source", [{}], "unknown field `source` - at `.\\.train`; samples, environments and engines are in durable_rollouts.request"),
            ("train.sampling", {"extra_body": {}}, "unknown field `extra_body` - at `.\\.train\\.sampling`"),
            ("eval", {}, "unknown field `eval`"),
            ("resume", {"dir": "x"}, "unknown field `dir` - at `.\\.resume`"),
        ):
            with self.subTest(path), self.assertRaisesRegex(ValueError, message):
                settings_of(changed(path, value))


class Samples(unittest.TestCase):
    def test_a_row_has_its_mask_by_token_and_its_reward_minus_its_groups_mean(self):
        first, cut, *_, weighted = samples.samples_of(ROWS, 0.7)
        self.assertEqual(first.token_ids, [1, 2, 3, 4, 5, 6])
        self.assertEqual(first.mask, [False, False, True, True, False, True])
        self.assertEqual(first.logprobs, [0.0, 0.0, -0.5, -1.5, 0.0, -0.25])
        self.assertEqual((first.temperatures, first.env_name, first.rl_weights), ([0.7] * 6, "t", None))
        self.assertEqual([first.advantages, cut.advantages], [[-0.5] * 6, [0.5] * 6])
        self.assertEqual(cut.mask, [False, False, True, True, False, False])
        self.assertEqual(weighted.rl_weights, [0.5] * 6)

    def test_each_sequence_of_an_agents_rollout_that_trains_is_a_sample(self):
        log = [{"role": "assistant", "content": "", "token_ids": [7, 8], "generation_logprobs": [-1.0, -1.0]}]
        other = {"sequence": 1, "parent": 0, "fork": 2, "cause": "edited", "train": True, "calls": [1], "message_log": log}
        runs = {"assistant_tokens": 2, "finish_reasons": ["stop"], "train_mask": [{"start": 2, "end": 4}], "policy_versions": [], "segments": []}
        found = samples.samples_of([row(sequences=[{**other, **runs}])], 1.0)
        self.assertEqual([one.token_ids for one in found], [[1, 2, 3, 4, 5, 6], [1, 2, 7, 8]])
        self.assertEqual(found[1].mask, [False, False, True, True])

    def test_what_prime_rl_would_cut_is_refused_with_its_count(self):
        settings = settings_of(changed("seq_len", 6))
        longer = row(rollout_id="b/1-1", row=1, repeat=1, message_log=[*row()["message_log"], {"role": "environment", "content": "", "token_ids": [7, 8]}])
        made = samples.samples_of([*ROWS[:-1], longer], 1.0)
        with self.assertRaisesRegex(ValueError, "^seq_len: expected at most 6 ids, got up to 8 in 1 of 4 samples"):
            samples.packed(made, settings)

    @unittest.skipUnless(IS_REAL, "the stand-in cuts nothing")
    def test_prime_rls_own_packing_cuts_and_says_nothing(self):
        given = samples.samples_of(ROWS, 1.0)
        said, log = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(log):
            batches = prime_rl.trainer.batch.prepare_batch(given, 5, 1, prime_rl.trainer.batch.build_bin_cost(None))[0]
        self.assertEqual([one.input_ids for one in batches], [[1, 2, 3, 4, 5]] * 4)
        self.assertEqual(sum(sum(one.loss_mask) for one in batches), 11 - 3, "the sampled token behind each observation is lost")
        self.assertEqual((said.getvalue(), log.getvalue()), ("", ""))

    def test_the_types_in_the_repository_are_prime_rls(self):
        types = json.loads((HERE / "stand_in" / "types.json").read_text())
        for of in (TrainingSample, MicroBatch):
            self.assertEqual(list(of.__struct_fields__), [name for name, _ in types[of.__name__]])

    def test_another_prime_rl_is_refused_by_the_fields_that_it_lacks(self):
        samples.check_types()
        with mock.patch.object(samples, "FIELDS", (*samples.FIELDS, "gone")), self.assertRaisesRegex(ImportError, "with .*gone"):
            samples.check_types()


class Files(unittest.TestCase):
    def test_prime_rls_decoder_reads_what_its_own_packing_made(self):
        golden = json.loads((HERE / "golden.json").read_text())
        batches = [msgspec.msgpack.decode(base64.b64decode(one), type=list[MicroBatch]) for one in golden["ranks"]]
        self.assertEqual([len(one) for one in batches], [1, 1])
        packed = [one for rank in batches for one in rank]
        self.assertEqual(sorted(one.sequence_lengths for one in packed), [[6, 6], [6, 6]])
        self.assertEqual({tuple(one.input_ids) for one in packed}, {(1, 2, 3, 4, 5, 6) * 2})
        trained = sorted(sum(one.loss_mask) for one in packed)
        self.assertEqual(sum(trained), 3 + 2 + 3 + 3)
        if IS_REAL:
            self.assertEqual(self.written(), golden["ranks"])

    def written(self):
        grid = samples.packed(samples.samples_of(ROWS, 0.7), settings_of({**GIVEN, "num_train_workers": 2}))
        return [base64.b64encode(msgspec.msgpack.encode(one)).decode() for one in grid]

    def test_a_step_is_written_for_the_ranks_that_there_are(self):
        class Delivered:
            def rows(self):
                return ROWS

        with tempfile.TemporaryDirectory() as folder:
            for workers in (2, 1):
                settings = settings_of({**GIVEN, "num_train_workers": workers, "output_dir": folder})
                self.assertFalse(orchestrator._is_written(settings, 3))
                with self.assertLogs("durable_rollouts"):
                    orchestrator._write(settings, 3, Delivered())
                self.assertTrue(orchestrator._is_written(settings, 3))
            [only] = (Path(folder) / "rollouts" / "step_3").iterdir()
            batches = msgspec.msgpack.decode(only.read_bytes(), type=list[MicroBatch])
            self.assertEqual(sum(sum(one.loss_mask) for one in batches), 11)

    def test_an_orchestrator_holds_the_service_says_what_is_replayed_and_writes_no_row_of_another_training(self):
        asked = []

        class Service:
            service, record = "default", {"version": 18, "target": 18, "courses": [{"name": "s", "first": 1, "found": None}]}
            _aio = property(lambda self: self)

            def status(self):
                return {"record": self.record}

            async def _begins(self, name):
                asked.append(("begins", name))

            def release(self, name):
                asked.append(("release", name))

        class Stream:
            id, _aio = "s", None

            def delivered(self):
                return 3

            def next_step(self, step, version=None):
                delivered = mock.Mock(rows=lambda: ROWS, result={"version": step + 4})
                return delivered

        service = Service()
        client = mock.Mock(stream=lambda *_: Stream(), policy=lambda *_: service)
        with tempfile.TemporaryDirectory() as folder:
            settings = settings_of({**GIVEN, "output_dir": folder, "max_steps": 3, "resume": {"step": 1}})
            with self.assertLogs("durable_rollouts", "WARNING") as logs:
                orchestrator.feed(settings, client)
            self.assertEqual(asked, [("begins", "s"), ("release", "s")])
            self.assertEqual(len(logs.output), 1)
            self.assertRegex(logs.output[0], "s: steps 2 to 3 are replayed: rows of an earlier course, versions 5 to 6.*give durable_rollouts another stream")
            service.record = {**service.record, "version": 19, "target": 19, "courses": [*service.record["courses"], {"name": "t", "first": 18, "found": 17}]}
            settings.output_dir = Path(folder) / "other"
            with self.assertRaisesRegex(ForeignWeights, "got 18, of 't'"), self.assertLogs("durable_rollouts"):
                orchestrator.feed(settings, client)
            self.assertFalse((settings.output_dir / "rollouts").exists())

    def test_weights_are_moved_and_published_and_what_was_moved_is_published_again(self):
        published = []

        class Policy:
            def status(self):
                return {"record": {"version": 4, "target": 5}}

            def publish(self, version, path, **named):
                published.append((version, path))
                self.named = named
                if len(published) == 1:
                    raise ConnectionError("away")

        with tempfile.TemporaryDirectory() as folder:
            settings = settings_of({**GIVEN, "output_dir": folder})
            written = settings.output_dir / "broadcasts" / "step_3"
            for one in (written, settings.output_dir / "durable" / "step_1", settings.output_dir / "durable" / "step_2"):
                one.mkdir(parents=True)
            (written / "STABLE").touch()
            policy = Policy()
            training = Own(policy, "run-3")
            with contextlib.suppress(ConnectionError), self.assertLogs("durable_rollouts"):
                orchestrator._published(settings, policy, 3, training)
            self.assertFalse(written.exists())
            with self.assertLogs("durable_rollouts"):
                self.assertEqual(orchestrator._published(settings, policy, 3, training), 6)
            self.assertEqual(policy.named, {"holder": "run-3"})
            path = settings.output_dir / "durable" / "step_3" / "6"
            self.assertEqual(published, [(6, str(path))] * 2)
            self.assertTrue((path / "STABLE").exists())
            self.assertEqual(sorted(one.name for one in path.parents[1].iterdir()), ["step_2", "step_3"])


if __name__ == "__main__":
    unittest.main()
