"""A store's folder, read without a server."""

import json
import os
import re
import tempfile
import time
import unittest
from pathlib import Path

import durable_rollouts
from durable_rollouts import NotFound, StoreFault

CLAIM = {"kind": "claim", "writer": "a", "at": 1.0}
FAILURE = {"type": "TimedOut", "message": "late", "turn": 0}
README = Path(__file__).parents[2] / "README.md"


def lines(*values):
    return "".join(f"{json.dumps(value)}\n" for value in values)


class Offline(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "trajectories"
        self.put("step-17/batch.json", json.dumps({"num_repeats": 2}))
        self.put("step-17/samples.jsonl", lines({"task_name": "a"}))
        self.store = durable_rollouts.open(self.root)

    def put(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def test_has_batches_by_their_ids_and_nothing_else_that_is_there(self):
        self.put("nightly-2026-11-25T10=00=00Z/batch.json", json.dumps({"groups_per_step": 1}))
        self.put("+con/metrics.json", "{}")
        self.put("begun/samples.jsonl", "")
        self.put("_policy/default/0.json", "{}")
        self.put("notes.txt", "mine")
        self.assertEqual({batch.id for batch in self.store.batches()}, {"step-17", "nightly-2026-11-25T10:00:00Z", "con"})
        self.assertTrue(self.store.batch("nightly-2026-11-25T10:00:00Z").is_stream)
        self.assertFalse(self.store.batch("step-17").is_stream)

    def test_names_the_batch_or_the_folder_that_was_meant(self):
        with self.assertRaisesRegex(NotFound, r"^no batch stpe-17 in .*; did you mean step-17\?$"):
            self.store.batch("stpe-17")
        with self.assertRaisesRegex(NotFound, r"has no batch; did you mean .*trajectories\?$"):
            durable_rollouts.open(self.root.parent)
        with self.assertRaisesRegex(FileNotFoundError, "store.root of temporal.yaml"):
            durable_rollouts.open(self.root / "nothing")

    def test_has_request_samples_and_journals_of_a_batch_that_runs_and_no_rows(self):
        self.put(
            "step-17/journals/0-1.jsonl",
            lines(CLAIM, {"kind": "start", "writer": "a"}, {**CLAIM, "writer": "b"}, {"kind": "chunk", "writer": "a"})
            + '{"kind": "chunk", "writer": "b", "tex\n'
            + lines([1], {"kind": "chunk", "writer": "b", "text": "é"}),
        )
        batch = self.store.batch("step-17")
        self.assertEqual((batch.request, batch.samples(), batch.result), ({"num_repeats": 2}, [{"task_name": "a"}], None))
        self.assertEqual(batch.rollouts(), [(0, 1)])
        self.assertEqual(
            [(line["kind"], line["writer"]) for line in batch.journal(0, 1)],
            [("claim", "a"), ("start", "a"), ("claim", "b"), ("chunk", "b")],
        )
        with self.assertRaisesRegex(NotFound, "no result yet"):
            batch.rows()
        with self.assertRaisesRegex(NotFound, "no journal of rollout 0-0"):
            batch.journal(0, 0)

    def test_has_rows_failures_and_groups_of_one_that_has_ended(self):
        valid, failed = {"row": 0, "repeat": 0, "total_reward": 1.0}, {"row": 0, "repeat": 1, "failure": FAILURE}
        self.put("step-17/rollouts.jsonl", lines(valid))
        self.put("step-17/failures.jsonl", lines(failed))
        self.put("step-17/metrics.json", json.dumps({"counts": {"requested": 2}}))
        batch = self.store.batch("step-17")
        self.assertEqual((batch.rows(), batch.failures(), batch.result["counts"]), ([valid], [failed], {"requested": 2}))
        self.assertEqual([(group.row, group.rewards, len(group.failures)) for group in batch.groups()], [(0, [1.0], 1)])

    def test_has_the_worst_rows_and_their_journals_as_the_readme_finds_them(self):
        rows = [{"row": 0, "repeat": repeat, "total_reward": 1.0 - repeat} for repeat in (0, 1)]
        self.put("step-17/rollouts.jsonl", lines(*rows))
        self.put("step-17/metrics.json", json.dumps({"counts": {"requested": 2}}))
        self.put("step-17/journals/0-1.jsonl", lines(CLAIM))
        self.put("step-16/batch.json", json.dumps({"num_repeats": 1}))
        before = time.time() - 24 * 3600
        os.utime(self.root / "step-16" / "batch.json", (before, before))
        [code] = [code for code in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL) if "worst" in code]
        found = {}
        exec(compile(code.replace(".rollouts/trajectories", str(self.root)), README.name, "exec"), found)
        self.assertEqual(found["worst"], rows[::-1])
        self.assertEqual([line["kind"] for line in found["lines"]], ["claim"])

    def test_lines_that_were_cut_anywhere_are_a_fault_that_names_the_file_never_fewer_rows(self):
        rows = [{"row": at // 2, "repeat": at % 2, "total_reward": 1.0, "text": "é" * at} for at in range(8)]
        counts = {"requested": 10, "completed": 8, "failed": 2, "timed_out": 0, "stopped": 0, "cancelled": 0}
        self.put("step-17/metrics.json", json.dumps({"counts": counts}))
        whole = {"rollouts": lines(*rows), "failures": lines({"row": 4, "failure": FAILURE}, {"row": 5, "failure": FAILURE})}
        for kind, text in whole.items():
            for name, content in whole.items():
                self.put(f"step-17/{name}.jsonl", content)
            batch = self.store.batch("step-17")
            read = {"rollouts": batch.rows, "failures": batch.failures}[kind]
            self.assertEqual((len(read()), len(batch.groups())), (len(text.splitlines()), 6))
            file = self.root / "step-17" / f"{kind}.jsonl"
            data = text.encode()
            # Without its last line feed it has all rows.
            for length in range(len(data) - 1):
                file.write_bytes(data[:length])
                for ask in (read, batch.groups):
                    with self.assertRaisesRegex(StoreFault, f"{kind}.jsonl: expected"):
                        ask()

    def test_fewer_lines_than_the_result_counts_are_a_fault(self):
        self.put("step-17/rollouts.jsonl", lines({"row": 0}))
        self.put("step-17/failures.jsonl", "")
        counts = {"requested": 2, "completed": 2, "failed": 0, "timed_out": 0, "stopped": 0, "cancelled": 0}
        self.put("step-17/metrics.json", json.dumps({"counts": counts}))
        batch = self.store.batch("step-17")
        with self.assertRaisesRegex(StoreFault, r"rollouts\.jsonl: expected 2 rows .* got 1"):
            batch.rows()
        self.assertEqual(batch.failures(), [])
        self.put("step-17/rollouts.jsonl", lines({"row": 0}) + '{"row": 1, "to')
        with self.assertRaisesRegex(StoreFault, r"rollouts\.jsonl: expected lines of JSON"):
            batch.rows()
        with self.assertRaisesRegex(NotFound, "formats"):
            batch.sequences()

    def test_has_steps_wherever_the_folder_is_now(self):
        self.put("train/batch.json", json.dumps({"groups_per_step": 1}))
        self.put("train/steps/2/step.json", "{}")
        for step in (10, 9):
            files = {"rollouts": f"/elsewhere/train/steps/{step}/rollouts.jsonl", "failures": "/elsewhere/failures.jsonl"}
            self.put(f"train/steps/{step}/metrics.json", json.dumps({"metrics": {}, "files": files}))
            self.put(f"train/steps/{step}/rollouts.jsonl", lines({"row": step}))
        stream = self.store.batch("train")
        self.assertEqual(stream.steps(), [9, 10])
        self.assertEqual(stream.step(9).rows(), [{"row": 9}])
        with self.assertRaisesRegex(NotFound, "no step 2 here; it has 9, 10"):
            stream.step(2)


if __name__ == "__main__":
    unittest.main()
