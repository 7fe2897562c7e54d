"""Batches and steps in a run of W&B: what a run that is not sent has kept."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from durable_rollouts import Step, export
from durable_rollouts.export.table import MOST_TEXT, picked
from durable_rollouts.export.wandb_files import records_of
from test_arrays import row

PROGRAM = '''
import json, os, signal, sys
import wandb
from durable_rollouts import export

result, first, end, how = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
wandb.init(project="p", id="one", resume="allow")
log = export.wandb()
for step in range(first, end):
    print(step if log(result, step) else "", end=" ", flush=True)
    if how == "beside":
        wandb.log({"loss": step}, step=step)
    if how == "unnumbered":
        wandb.log({"loss": step})
if how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
'''


def many(count):
    return [row(rollout_id=f"b/{at}-0", row=at, total_reward=(at * 7) % 5 / 4, stop_reason="terminated", turn_count=2) for at in range(count)]


def kept_in(folder):
    """The history of each process's part of the run."""
    proto = __import__("wandb.proto.wandb_internal_pb2", fromlist=["Record"])
    parts = []
    for file in sorted(Path(folder).glob("wandb/offline-run-*/run-*.wandb")):
        with file.open("rb") as content:
            records = [proto.Record.FromString(one) for one in records_of(content)]
        lines = [{item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in one.history.item} for one in records]
        parts.append((file.parent, [line for line in lines if line]))
    return parts


class Run(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = made.name
        rows = Path(self.folder) / "rollouts.jsonl"
        rows.write_text("".join(json.dumps(one) + "\n" for one in many(40)))
        self.result = {"counts": {"completed": 40, "failed": 2}, "files": {"rollouts": str(rows)}, "metrics": {"total_reward/mean": 0.5, "lag/max": 1}}

    def play(self, first, end, how, mode="offline"):
        env = {**os.environ, "WANDB_MODE": mode, "WANDB_SILENT": "true", **{f"WANDB_{name}_DIR": self.folder for name in ("CONFIG", "CACHE", "DATA")}}
        args = [sys.executable, "-c", PROGRAM, json.dumps(self.result), str(first), str(end), how]
        return subprocess.run(args, cwd=self.folder, env=env, capture_output=True, text=True, timeout=120)

    def logged(self, *args, **more):
        ran = self.play(*args, **more)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return [int(one) for one in ran.stdout.split()]

    def steps(self, name="rollouts/step"):
        return [line[name] for _, lines in kept_in(self.folder) for line in lines if name in line]

    def test_has_metrics_counts_and_a_table_of_a_step(self):
        self.assertEqual(self.logged(3, 4, "alone"), [3])
        [(folder, [line])] = kept_in(self.folder)
        said = {name: line[f"rollouts/{name}"] for name in ("step", "total_reward/mean", "lag/max", "counts/completed", "counts/failed")}
        self.assertEqual(said, {"step": 3, "total_reward/mean": 0.5, "lag/max": 1, "counts/completed": 40, "counts/failed": 2})
        table = json.loads((folder / "files" / line["rollouts/rollouts/path"]).read_text())
        lines = [dict(zip(table["columns"], one)) for one in table["data"]]
        self.assertEqual(lines, picked(many(40), 10, 0))
        self.assertEqual({one["picked"] for one in lines}, {"worst", "best", "random"})
        first = {name: lines[0][name] for name in ("reward", "answer", "stop_reason", "turns", "tokens")}
        self.assertEqual(first, {"reward": 0.0, "answer": "assistant: a\n\nenvironment: o\n\nassistant: b", "stop_reason": "terminated", "turns": 2, "tokens": 3})

    def test_loses_no_step_and_none_of_the_trainer_beside_it(self):
        for how in ("alone", "beside", "unnumbered"):
            with self.subTest(how), tempfile.TemporaryDirectory() as self.folder:
                self.assertEqual(self.logged(0, 5, how), [0, 1, 2, 3, 4])
                self.assertEqual(self.steps(), [0, 1, 2, 3, 4])
                self.assertEqual(self.steps("loss"), [] if how == "alone" else [0, 1, 2, 3, 4])

    def test_has_each_step_once_when_a_trainer_starts_again(self):
        self.assertEqual(self.logged(0, 4, "beside"), [0, 1, 2, 3])
        self.assertEqual(self.logged(2, 6, "beside"), [4, 5])
        self.assertEqual(self.steps(), [0, 1, 2, 3, 4, 5])

    def test_has_each_step_once_when_a_trainer_was_killed(self):
        self.assertEqual(self.play(0, 4, "killed").returncode, -signal.SIGKILL)
        had = self.steps()
        self.assertEqual(self.logged(0, 6, "alone"), [step for step in range(6) if step not in had])
        self.assertEqual(self.steps(), [0, 1, 2, 3, 4, 5])

    def test_that_is_disabled_costs_nothing(self):
        self.assertEqual(self.logged(0, 2, "beside", mode="disabled"), [0, 1])

    def test_is_not_needed_to_refuse_a_batch_without_a_step(self):
        log = export.wandb()
        for given in (None, "3", True, 1.5):
            with self.assertRaisesRegex(ValueError, "^step: expected a whole number .only steps of a stream have one themselves., got "):
                log([row()], given)

    def test_takes_the_number_of_a_step_of_a_stream(self):
        run = mock.Mock(spec=["summary", "define_metric", "log", "step", "dir", "id"], summary={}, step=0, dir=f"{self.folder}/wandb/run-1-x/files", id="x")
        log = export.wandb(run, samples=0)
        self.assertTrue(log(Step(7, self.result)))
        self.assertFalse(log(Step(7, self.result)))
        self.assertFalse(log(Step(6, self.result)))
        [said] = [call.args[0] for call in run.log.call_args_list]
        self.assertEqual((said["rollouts/step"], said["rollouts/lag/max"], "rollouts/rollouts" in said), (7, 1, False))

    def test_goes_on_where_the_server_says_that_the_run_was(self):
        run = mock.Mock(spec=["summary", "define_metric", "log", "step", "dir", "id"], summary={"r/step": 4}, step=9, dir=f"{self.folder}/wandb/run-1-x/files", id="x")
        log = export.wandb(run, prefix="r", samples=0)
        self.assertEqual([log(self.result, step) for step in (3, 4, 5)], [False, False, True])

    def test_without_its_package_names_what_to_install(self):
        with mock.patch.dict(sys.modules, {"wandb": None, "wandb.sdk": None}), self.assertRaisesRegex(ImportError, r'pip install "durable-rollouts\[wandb\]"'):
            export.wandb()


class Table(unittest.TestCase):
    def test_has_the_worst_the_best_and_others_and_no_rollout_twice(self):
        rows = [row(rollout_id=f"b/{at}-0", total_reward=at / 1000) for at in range(1000)]
        lines = picked(iter(rows), 5, 1)
        kinds = {kind: [one["reward"] for one in lines if one["picked"] == kind] for kind in ("worst", "best", "random")}
        self.assertEqual((kinds["worst"], kinds["best"]), ([0, 0.001, 0.002, 0.003, 0.004], [0.999, 0.998, 0.997, 0.996, 0.995]))
        self.assertEqual((len(lines), len({one["rollout_id"] for one in lines})), (15, 15))

    def test_is_the_same_for_the_same_seed_whatever_the_order(self):
        rows = many(600)
        of = [[one["rollout_id"] for one in picked(given, 8, seed)] for given, seed in ((rows, 1), (rows[::-1], 1), (rows, 2))]
        self.assertEqual(of[0], of[1])
        self.assertNotEqual(of[0], of[2])

    def test_of_equal_rewards_has_not_the_first_samples_alone(self):
        rows = [row(rollout_id=f"b/{at}-0") for at in range(300)]
        places = [int(one["rollout_id"][2:-2]) for one in picked(rows, 10, 0)]
        self.assertGreater(max(places), 100)

    def test_of_fewer_rollouts_has_all_of_them(self):
        self.assertEqual(len(picked(many(4), 10, 0)), 4)
        self.assertEqual(picked([], 10, 0), [])

    def test_reads_as_a_person_does(self):
        long = row()
        long["message_log"][1] |= {"content": "\ud800" + "x" * 10**6, "tool_calls": [{"id": "1", "name": "f", "arguments": "{}"}]}
        long["message_log"][0]["content"] = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "u"}}]
        [line] = picked([{**long, "rewards": {"style": 0.5}}], 1, 0)
        self.assertEqual((line["prompt"], line["parts"]), ("see [image_url]", '{"style": 0.5}'))
        self.assertLess(len(line["answer"]), MOST_TEXT + 10)
        self.assertTrue(line["answer"].startswith("assistant: \ufffdxx") and line["answer"].endswith("b"), line["answer"][-50:])
