"""What a stack says of itself, in the words of another build."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from durable_rollouts import __version__
from durable_rollouts.stack import LocalError, _joined, _Log, what_runs

SAID = {
    "address": "127.0.0.1:7233",
    "namespace": "default",
    "task_queue": "rollouts",
    "ui_url": "http://127.0.0.1:8233",
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
        with _Log(self.home / ".rollouts" / "logs" / "stack.log") as log:
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


if __name__ == "__main__":
    unittest.main()
