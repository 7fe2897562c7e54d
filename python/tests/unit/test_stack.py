"""What a stack says of itself, in the words of another build."""

import errno
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from durable_rollouts import __version__
from durable_rollouts import local, machine, serving
from durable_rollouts.stack import LocalError, Log, _joined, what_runs

SAID = {
    "address": "127.0.0.1:7233",
    "namespace": "default",
    "task_queue": "rollouts",
    "ui_url": "http://127.0.0.1:8233",
    "viewer_url": "http://127.0.0.1:8234/?token=t",
    "engine": None,
    "engine_faults": [],
    "served": {},
    "environments": [],
    "ends_unused": True,
}


class OtherBuilds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = Path(folder.name)
        (self.home / ".rollouts" / "logs").mkdir(parents=True)

    def joined(self, said, *, by="pass"):
        """What a command has joined that ends with this line. It says ``said`` with its own process id."""
        process = subprocess.Popen([sys.executable, "-c", by], stdin=subprocess.PIPE)
        self.addCleanup(process.communicate)
        (self.home / ".rollouts" / "stack.json").write_text(json.dumps({"pid": process.pid, **said}))
        with Log(self.home / ".rollouts" / "logs" / "stack.log") as log:
            return _joined(process, self.home, log)

    def without(self, field):
        return {name: value for name, value in SAID.items() if name != field}

    def test_a_stack_that_says_less_is_named_instead_of_waited_for_whether_it_is_joined_or_started(self):
        for by in ("pass", "import sys; sys.stdin.read()"):
            with self.assertRaises(LocalError) as raised:
                self.joined({**self.without("engine_faults"), "version": "0.0.1"}, by=by)
            for text in ("another build", "0.0.1", __version__, "has no 'engine_faults'", "up --end --config"):
                self.assertIn(text, str(raised.exception))
        self.assertIsNone(what_runs(self.home), "for who leaves, it is as if none ran")

    def test_one_of_another_version_that_says_all_is_joined_with_its_version(self):
        self.assertEqual(self.joined({**SAID, "version": "9.9.9"}).version, "9.9.9")
        self.assertIsNone(self.joined(SAID).version)

    def test_none_is_none(self):
        self.assertIsNone(what_runs(self.home))


class Folder(unittest.TestCase):
    def test_that_cannot_be_written_is_refused_by_name_before_anything_starts(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / ".rollouts").write_text("")
            with self.assertRaisesRegex(LocalError, r"^folder: expected one in which \.rollouts can be written, got '/.*': .*Not a directory"):
                local(folder=folder, environments={"a": lambda reply, sample: 1})
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(Path, "mkdir", side_effect=PermissionError(13, "Permission denied")):
            with self.assertRaisesRegex(LocalError, "^folder: expected .*Permission denied"):
                local(folder=folder)


class Reward(unittest.TestCase):
    def test_of_another_form_is_refused_by_its_environment_before_anything_starts(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(machine, "_served", {}):
            with self.assertRaisesRegex(LocalError, r"^environments: a: expected a function of two, reward\(reply, info\), .*, got <lambda>\(r\)$"):
                local(folder=folder, environments={"a": lambda r: 1})
            self.assertEqual(machine._served, {})


class Served(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = Path(folder.name)

    def test_on_a_disk_without_locks_it_is_the_disk_that_is_named_and_no_other_process(self):
        """huggingface/datasets#2618."""
        for number in (errno.ENOLCK, errno.ENOSYS):
            refusal = OSError(number, os.strerror(number))
            with mock.patch.object(serving.fcntl, "lockf", side_effect=refusal), self.assertRaisesRegex(LocalError, f"^folder: expected one on a disk .*{os.strerror(number)}"):
                serving.Served(self.home, "mine")

    def test_that_still_loads_ends_when_its_start_is_interrupted(self):
        """marimo-team/marimo#10468."""
        (self.home / "slow.py").write_text("import time\ntime.sleep(600)\n")
        served = serving.Served(self.home, "mine")
        self.addCleanup(served.close)
        started = []

        def interrupted(process):
            started.append(process)
            raise KeyboardInterrupt

        with mock.patch.object(served, "_first_line", side_effect=interrupted), mock.patch.object(sys, "path", [str(self.home), *sys.path]):
            self.assertRaises(KeyboardInterrupt, served.serve, "slow:reward", "code")
        self.assertIsNotNone(started[0].poll(), "its process is left")


class Worker(unittest.TestCase):
    def test_that_ends_at_each_start_is_not_waited_for_and_its_reason_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            log = home / ".rollouts" / "logs" / "stack.log"
            log.parent.mkdir(parents=True)
            log.write_text("worker ended with code 1 (of an earlier start); it starts again\n" * 3)
            stack = SimpleNamespace(home=home, task_queue="q", served={})

            def dies(_):
                self.assertLess(slept.call_count, 9, "it is waited for")
                with open(log, "a") as file:
                    file.write("worker ended with code 1 (Error: no such key); it starts again in 1 s\n")

            with (
                mock.patch.object(machine, "what_runs", return_value=stack),
                mock.patch.object(machine, "_run", return_value=[]),
                mock.patch.object(machine.presence, "workers_of", mock.Mock()),
                mock.patch.object(machine.time, "sleep", side_effect=dies) as slept,
                self.assertRaisesRegex(LocalError, "ends at each start .*\nworker ended with code 1 \\(Error: no such key\\)"),
            ):
                machine._await_worker(stack, None, {})
            self.assertEqual(slept.call_count, 3)


if __name__ == "__main__":
    unittest.main()
