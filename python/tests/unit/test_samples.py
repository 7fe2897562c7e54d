"""Samples that no request has room for: put into a file that a worker reads, or refused with the ways. Without a server."""

import asyncio
import contextlib
import hashlib
import json
import os
import tempfile
import threading
import time
import tracemalloc
import unittest
from pathlib import Path
from types import SimpleNamespace

from durable_rollouts import InvalidBatchRequest, samples, waits
from durable_rollouts.shapes import Shape
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError, TimeoutError as TimedOutWorkflow, TimeoutType

PROMPT = "x" * 2000


class Workers:
    """Answers workflow ``inputs`` as a worker with this folder does."""

    def __init__(self, inputs_dir, *, reads=None, most=10**9, fails=(), polled=True):
        self.inputs_dir, self.reads, self.most, self.fails, self.polled = str(inputs_dir), Path(reads or inputs_dir), most, list(fails), polled
        self.asked = []
        self.service_client = SimpleNamespace(config=SimpleNamespace(target_host="host:7233"))
        self.namespace = "ns"
        self.workflow_service = SimpleNamespace(describe_task_queue=self.describe_task_queue)

    async def describe_task_queue(self, request, timeout):
        return SimpleNamespace(pollers=[SimpleNamespace(identity="1@host")] if self.polled else [])

    async def execute_workflow(self, workflow, raw, *, id, task_queue, execution_timeout):
        assert (workflow, task_queue) == ("inputs", "q"), (workflow, task_queue)
        assert id.startswith("inputs/"), id
        while not self.polled:
            await asyncio.sleep(0.01)
        question = json.loads(raw.payload.data)
        self.asked.append(question["token"])
        if self.fails:
            raise WorkflowFailureError(cause=self.fails.pop(0))
        file = self.reads / ".samples" / f"{question['token']}.token"
        sees = question["token"] is not None and file.exists() and file.read_text() == question["token"]
        return {"inputs_dir": self.inputs_dir, "worker": "1@host", "most_characters": self.most, "sees": sees}


class Large(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory())) if hasattr(self, "enterContext") else self.temporary()
        self.put = self.folder / ".samples"

    def temporary(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Path(folder.name)

    def place(self, workers, rows, **shape):
        return asyncio.run(samples.placed(workers, rows, shape=Shape(**shape), task_queue="q"))

    def files(self):
        return sorted(file.name for file in self.put.iterdir()) if self.put.exists() else None

    def test_are_put_by_their_hash_and_named_from_the_folder_on(self):
        rows = [{"message_log": [{"role": "user", "content": f"{PROMPT}é"}], "task_name": "t", "n": n} for n in range(500)]
        workers = Workers(self.folder)
        with self.assertLogs("durable_rollouts", "WARNING") as log:
            found = self.place(workers, rows)
        text = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows).encode()
        name = f"{hashlib.sha256(text).hexdigest()}.jsonl"
        self.assertEqual(found, {"path": f".samples/{name}"})
        self.assertEqual((self.folder / found["path"]).read_bytes(), text)
        self.assertEqual(self.files(), [".gitignore", name], "no token, no part")
        self.assertRegex(log.records[0].getMessage(), rf"^put 500 samples \(1\.\d MB\) into {self.put}/{name}, once: workers read them there$")

    def test_are_put_once_and_again_where_the_file_is_cut(self):
        workers = Workers(self.folder)
        rows = lambda: (PROMPT for _ in range(500))  # noqa: E731
        with self.assertLogs("durable_rollouts", "INFO") as log:
            first = self.place(workers, rows(), task_name="t")
            file = self.folder / first["path"]
            written = file.stat().st_ino
            os.utime(file, (1, 1))
            self.assertEqual(self.place(workers, rows(), task_name="t"), first)
            self.assertEqual(file.stat().st_ino, written)
            self.assertLess(time.time() - file.stat().st_mtime, 60, "its time is not that of its last use")
            whole = file.read_bytes()
            file.write_bytes(whole[:100])
            self.place(workers, rows(), task_name="t")
        self.assertEqual(file.read_bytes(), whole)
        self.assertEqual([record.getMessage().split()[0] for record in log.records], ["put", str(file), "put"])

    def test_few_are_in_the_request_and_ask_nobody(self):
        workers = Workers(self.folder)
        rows = [{"message_log": [], "n": n} for n in range(100)]
        self.assertEqual(self.place(workers, iter(rows)), rows)
        self.assertEqual(self.place(workers, {"path": "samples.jsonl"}), {"path": "samples.jsonl"})
        self.assertEqual((workers.asked, self.files()), ([], None))

    def test_on_another_disk_of_the_same_path_are_refused_with_the_ways_and_nothing_stays(self):
        elsewhere = self.temporary()
        workers = Workers(self.folder, reads=elsewhere)
        with self.assertRaisesRegex(
            InvalidBatchRequest,
            rf"^samples: expected at most 256 kB in a request, got 26\d+ bytes or more; and a file of them has to be below {self.folder}, "
            r"the inputs_dir of worker 1@host: what this process writes there is not what the worker reads\. Start this on the worker's "
            r"host; or give both hosts one disk or bucket there .*; or write the samples to a JSONL file there yourself and give",
        ):
            self.place(workers, (PROMPT for _ in range(500)), task_name="t")
        self.assertEqual((self.files(), len(workers.asked)), (None, 2))

    def test_where_this_process_cannot_write_are_refused_with_the_reason(self):
        gone = self.folder / "gone"
        with self.assertRaisesRegex(InvalidBatchRequest, rf"{gone}, the inputs_dir .*: here that is not possible \(No such file or directory: {gone}/.samples\)"):
            self.place(Workers(gone), (PROMPT for _ in range(500)), task_name="t")
        self.put.write_text("a file")
        with self.assertRaisesRegex(InvalidBatchRequest, r"here that is not possible \(Not a directory: "):
            self.place(Workers(self.folder), (PROMPT for _ in range(500)), task_name="t")

    def test_more_than_a_worker_holds_are_refused_before_the_rest_is_made(self):
        made = []

        def endless():
            while True:
                made.append(1)
                yield PROMPT

        with self.assertRaisesRegex(InvalidBatchRequest, r"^samples: expected at most 1000000 characters .*, got more in the first 4\d\d; split them"):
            self.place(Workers(self.folder, most=10**6), endless(), task_name="t")
        self.assertLess(len(made), 600)
        self.assertEqual(self.files(), [".gitignore"])

    def test_with_a_row_that_is_none_leave_nothing(self):
        rows = [*([PROMPT] * 500), {"x": float("nan")}]
        with self.assertRaisesRegex(InvalidBatchRequest, r"^samples\.500\.x: expected a finite number"):
            self.place(Workers(self.folder), rows, task_name="t")
        self.assertEqual(self.files(), [".gitignore"])

    def test_are_never_in_memory_at_once(self):
        tracemalloc.start()
        try:
            self.place(Workers(self.folder), (PROMPT + str(n) for n in range(20_000)), task_name="t")
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        self.assertLess(most, 4_000_000, "40 MB of samples")

    def test_wait_for_a_worker_and_say_so(self):
        workers = Workers(self.folder, polled=False)

        async def main():
            waits.FIRST_LOOK_S, before = 0.01, waits.FIRST_LOOK_S
            try:
                placing = asyncio.ensure_future(samples.placed(workers, [PROMPT] * 500, shape=Shape(None, "t"), task_queue="q"))
                await asyncio.sleep(0.1)
                workers.polled = True
                return await placing
            finally:
                waits.FIRST_LOOK_S = before

        with self.assertLogs("durable_rollouts", "WARNING") as log:
            asyncio.run(main())
        self.assertEqual(
            log.records[0].getMessage(),
            "samples: no worker polls task queue q on host:7233, namespace ns: the start waits for one",
        )

    def test_ask_again_where_no_worker_answered_in_time_and_name_one_of_an_earlier_release(self):
        late = TimedOutWorkflow("late", type=TimeoutType.START_TO_CLOSE, last_heartbeat_details=[])
        workers = Workers(self.folder, fails=[late])
        self.place(workers, [PROMPT] * 500, task_name="t")
        self.assertEqual(len(workers.asked), 3)
        unknown = ApplicationError('workflow type: expected rolloutBatch, rolloutStream, rollout or policy, got "inputs"', type="InvalidBatchRequest")
        with self.assertRaisesRegex(InvalidBatchRequest, "a worker of an earlier release, which does not say where its inputs_dir is"):
            self.place(Workers(self.folder, fails=[unknown]), [PROMPT] * 500, task_name="t")

    def test_of_a_caller_that_has_left_are_made_no_more_and_leave_nothing(self):
        entered, made = threading.Event(), []

        def rows():
            for n in range(10**9):
                made.append(n)
                if n == 1000:
                    entered.set()
                yield PROMPT

        async def main():
            placing = asyncio.ensure_future(samples.placed(Workers(self.folder), rows(), shape=Shape(None, "t"), task_queue="q"))
            await asyncio.to_thread(entered.wait, 10)
            placing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await placing

        asyncio.run(main())  # Its end waits for the threads.
        count = len(made)
        self.assertEqual(self.files(), [".gitignore"])
        self.assertEqual(len(made), count)

    def test_parts_of_a_process_that_was_killed_go_after_a_day(self):
        self.put.mkdir()
        old, new = self.put / "old.part", self.put / "new.part"
        for part in (old, new):
            part.write_text("x")
        os.utime(old, (0, 0))
        self.place(Workers(self.folder), [PROMPT] * 500, task_name="t")
        self.assertEqual((old.exists(), new.exists()), (False, True))
