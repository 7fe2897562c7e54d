"""What ``python -m durable_rollouts`` prints, and where ``temporal-rollout`` is found."""

import io
import os
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

import durable_rollouts
from durable_rollouts import LocalError, __main__, stack


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
