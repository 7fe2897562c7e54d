"""The report of a batch in a notebook, with a program in the place of ``temporal-rollout``."""

import asyncio
import json
import os
import sys
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from durable_rollouts import LocalError, aio
from durable_rollouts.offline import StoredBatch
from durable_rollouts.report import DRAWN_MB, report_of
from durable_rollouts.stack import Command

PAGE = """<!doctype html>
<html><head><meta charset="utf-8"></head><body>it's "so" &amp; 漢 </iframe><script>alert('1 && 2')</script></body></html>"""
PROGRAM = """
import json, os, sys
from pathlib import Path

args, here = sys.argv[1:], Path(__file__).parent
config = Path(args[args.index("--config") + 1]).read_text() if "--config" in args else None
with open(here / "log", "a") as log:
    print(json.dumps([args, os.getcwd(), config]), file=log)
if "--max-size" in args and (here / "page").stat().st_size > 2 * 10**6:
    sys.exit("--max-size: expected more than 3 MB for the overview of 9000 rollouts")
if "gone" in args:
    sys.exit("no batch gone in .rollouts/trajectories")
Path(args[args.index("-o") + 1]).write_bytes((here / "page").read_bytes())
"""


class Attributes(HTMLParser):
    """Those of the frame."""

    def handle_starttag(self, tag, attributes):
        self.seen = [*getattr(self, "seen", []), (tag, dict(attributes))]


class Reports(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name).resolve()
        (self.folder / "page").write_text(PAGE, encoding="utf-8")
        file = self.folder / "program.py"
        file.write_text(PROGRAM)
        found = mock.patch("durable_rollouts.report.find_command", return_value=Command([sys.executable, str(file)], None))
        found.start()
        self.addCleanup(found.stop)

    def asked(self):
        return [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]

    def test_is_written_where_it_was_asked_for_and_says_where(self):
        report = report_of("a:b", self.folder / "one.html")
        self.assertEqual(report.file.read_text(), PAGE)
        self.assertEqual(self.asked(), [[["report", "a:b", "-o", str(self.folder / "one.html")], os.getcwd(), None]])
        self.assertEqual(repr(report), f"Report('a:b', open it in a browser: file://{self.folder}/one.html)")

    def test_is_drawn_in_a_frame_that_reaches_nothing_of_the_notebook_and_keeps_its_own_address(self):
        report = report_of("it's <b>", None)
        parser = Attributes()
        parser.feed(report._repr_html_())
        [(tag, frame), (other, _)] = parser.seen
        self.assertEqual((tag, other, frame["sandbox"], frame["title"]), ("iframe", "div", "allow-scripts", "it's <b>"))
        self.assertEqual(frame["srcdoc"], PAGE.replace("<head>", '<head><base href="about:srcdoc">'))
        self.assertIn("height: 720px", frame["style"])
        self.assertEqual(self.asked()[0][0][-2:], ["--max-size", str(DRAWN_MB)])

    def test_that_is_too_large_for_a_notebook_is_written_all_the_same_and_says_where(self):
        (self.folder / "page").write_bytes(b"x" * 3 * 10**6)
        report = report_of("large", None)
        self.assertEqual(["--max-size" in args for args, *_ in self.asked()], [True, False])
        self.assertEqual(report._repr_html_(), f"<div>Open it in a browser for all of it: {report.file}</div>")

    def test_of_a_batch_of_local_is_of_the_stack_that_plays_it(self):
        temporal = SimpleNamespace(get_workflow_handle=lambda id: None)
        client = aio.Client(temporal, home=self.folder)
        for one in (client.batch("b"), asyncio.run(client.stream("b"))):
            asyncio.run(one.show(self.folder / "b.html"))
        asyncio.run(aio.Client(temporal).batch("b").show(self.folder / "b.html"))
        self.assertEqual([cwd for _, cwd, _ in self.asked()], [str(self.folder), str(self.folder), os.getcwd()])

    def test_has_the_store_that_a_file_names(self):
        (self.folder / "temporal.yaml").write_text("of a file")
        temporal = SimpleNamespace(get_workflow_handle=lambda id: None)
        asyncio.run(aio.Client(temporal).batch("b").show(config=self.folder / "temporal.yaml"))
        self.assertEqual(self.asked()[0][2], "of a file")

    def test_of_a_stored_batch_is_of_its_folder(self):
        StoredBatch(self.folder / "store" / "b").show(self.folder / "b.html")
        [[args, _, config]] = self.asked()
        self.assertEqual((args[1], json.loads(config)["store"]), ("b", {"root": str(self.folder / "store")}))

    def test_that_fails_says_what_the_program_said_and_how_it_was_called(self):
        with self.assertRaisesRegex(LocalError, r"program.py report gone -o \S+ ended with code 1:\nno batch gone in .rollouts/trajectories"):
            report_of("gone", None)

    def test_without_the_projects_programs_names_what_to_run_elsewhere(self):
        with mock.patch("durable_rollouts.report.find_command", side_effect=LocalError("the project's programs were not found: …")):
            with self.assertRaisesRegex(LocalError, "not found: …; or run this where the deployment's temporal.yaml is, .*: temporal-rollout report b -o b.html"):
                report_of("b", None)
        with mock.patch("durable_rollouts.report.find_command", return_value=Command(["node", "/no/main.js"], ["node", "/no/setup.mjs"])):
            with self.assertRaisesRegex(LocalError, "^/no/main.js is not built yet: node /no/setup.mjs does it"):
                report_of("b", None)
