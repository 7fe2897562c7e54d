"""What ``python -m durable_rollouts`` prints, and where ``temporal-rollout`` is found."""

import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

import durable_rollouts
from durable_rollouts import LocalError, __main__, connection, stack


class Folder:
    """An empty one, with this environment, where this package is in no clone."""

    def __init__(self, case, **env):
        place = tempfile.TemporaryDirectory()
        case.addCleanup(place.cleanup)
        self.path = Path(place.name).resolve()
        before = os.getcwd()
        case.addCleanup(os.chdir, before)
        os.chdir(self.path)
        scripts = str(self.path / "venv" / "bin")
        for patch in (
            mock.patch.dict(os.environ, env, clear=True),
            mock.patch.object(stack, "_origin", lambda: None),
            mock.patch.object(stack, "__file__", str(self.path / "site" / "packages" / "durable_rollouts" / "stack.py")),
            mock.patch.object(stack.sysconfig, "get_path", lambda name: {"scripts": scripts}[name]),
        ):
            patch.start()
            case.addCleanup(patch.stop)

    def program(self, *parts, says="exit 0"):
        file = self.path.joinpath(*parts, "temporal-rollout")
        file.parent.mkdir(parents=True)
        file.write_text(f"#!/bin/sh\n{says}\n")
        file.chmod(0o755)
        return str(file)


class TestFindCommand(unittest.TestCase):
    def test_is_of_this_python_then_of_npm_in_or_above_the_folder_then_of_the_path(self):
        folder = Folder(self, PATH="")
        with self.assertRaisesRegex(LocalError, r"pip install 'durable-rollouts\[server\]', npm install durable-rollouts"):
            stack.find_command()
        on_path = folder.program("on-path")
        os.environ["PATH"] = str(folder.path / "on-path")
        self.assertEqual(stack.find_command(), ([on_path], None))
        of_npm = folder.program("node_modules", ".bin")
        (folder.path / "below").mkdir()
        os.chdir(folder.path / "below")
        self.assertEqual(stack.find_command().run, [of_npm])
        own = folder.program("venv", "bin")
        self.assertEqual(stack.find_command().run, [own])


class TestStackHere(unittest.TestCase):
    SAID = {
        "address": "127.0.0.1:7301", "namespace": "n", "task_queue": "q", "ui_url": "u", "viewer_url": "v", "engine": None,
        "engine_faults": [], "served": {}, "environments": [], "ends_unused": False,
    }

    def put(self, folder, pid, host=socket.gethostname()):
        (folder.path / ".rollouts").mkdir(exist_ok=True)
        (folder.path / ".rollouts" / "stack.json").write_text(json.dumps({**self.SAID, "pid": pid}))
        (folder.path / ".rollouts" / "stack.lock").write_text(json.dumps({"pid": pid, "host": host}))

    def settings(self):
        found = connection._settings(None, None, None, connection.stack_here(None, None))
        return found["target_host"], found["namespace"]

    def test_is_the_server_unless_something_names_another_one(self):
        folder = Folder(self, HOME="/nowhere")
        self.assertEqual(self.settings(), ("127.0.0.1:7233", "default"))
        self.put(folder, os.getpid())
        self.assertEqual(self.settings(), ("127.0.0.1:7301", "n"))
        os.environ["TEMPORAL_NAMESPACE"] = "other"
        self.assertEqual(self.settings(), ("127.0.0.1:7301", "other"))
        self.assertIsNone(connection.stack_here("127.0.0.1:1", None))
        os.environ["TEMPORAL_ADDRESS"] = "127.0.0.1:1"
        self.assertEqual(self.settings(), ("127.0.0.1:1", "other"))

    def test_is_none_once_its_process_is_gone(self):
        folder = Folder(self, HOME="/nowhere")
        with subprocess.Popen([sys.executable, "-c", ""]) as ended:
            ended.wait()
        self.put(folder, ended.pid)
        self.assertEqual(self.settings(), ("127.0.0.1:7233", "default"))

    def test_is_none_where_the_folder_s_stack_runs_on_another_host(self):
        folder = Folder(self, HOME="/nowhere")
        self.put(folder, os.getpid(), host="another")
        self.assertEqual(self.settings(), ("127.0.0.1:7233", "default"))


class TestAbout(unittest.TestCase):
    def said(self):
        out = io.StringIO()
        with redirect_stdout(out):
            __main__.main()
        return out.getvalue()

    def test_names_what_is_installed_what_answers_and_three_commands(self):
        folder = Folder(self, PATH="", HOME="/nowhere", TEMPORAL_ADDRESS="127.0.0.1:1")
        said = self.said()
        self.assertIn(f"durable_rollouts {durable_rollouts.__version__}", said)
        self.assertRegex(said, r"temporalio \d.*numpy \d")
        self.assertRegex(said, r"temporal-rollout none: the project's programs were not found")
        self.assertIn("no Temporal server at 127.0.0.1:1", said)
        self.assertEqual(len(said.partition("Next:\n")[2].splitlines()), 3)
        self.assertIn("npx durable-rollouts up", said)
        own = folder.program("venv", "bin")
        self.assertIn(f"  {own} up", self.said())

    def test_says_that_a_program_does_not_run(self):
        folder = Folder(self, PATH="", HOME="/nowhere", TEMPORAL_ADDRESS="127.0.0.1:1")
        folder.program("venv", "bin", says="echo no node >&2; exit 127")
        self.assertRegex(self.said(), r"which does not run: no node")
