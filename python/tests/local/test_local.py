"""`local()` as users call it: in scripts, notebooks and pytest, which end, are killed, and come back."""

import contextlib
import io
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

import nbclient
import nbformat

from durable_rollouts import LocalError, local, to_arrays
from durable_rollouts.stack import find_command, what_runs

SAMPLES = """
samples = [
    {"message_log": [{"role": "user", "content": f"What is {n} + 1?\\nSay: {n + 1}"}], "task_name": TASK, "extra_env_info": {"answer": str(n + 1)}}
    for n in range(6)
]
request = {"samples": samples, "num_repeats": 2, "max_in_flight": 2}
"""
REWARD = """
import time

def reward(reply, sample):
    with open(CALLS, "a") as calls:
        calls.write(sample["answer"] + "\\n")
    time.sleep(SECONDS)
    return float(reply.strip() == sample["answer"])
"""


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(what, holds, seconds=90):
    latest = time.monotonic() + seconds
    while time.monotonic() < latest:
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="local-")).resolve()
        self.addCleanup(subprocess.run, ["rm", "-rf", self.folder])
        self.addCleanup(self.end)

    def source(self, body="", *, task="mine", seconds=0.0):
        head = f"from durable_rollouts import local\nTASK, SECONDS, CALLS = {task!r}, {seconds}, {str(self.folder / 'calls')!r}\n"
        return head + SAMPLES + REWARD + textwrap.dedent(body)

    def end(self):
        command = [*find_command().run, "up", "--end", "--config", str(self.folder / "temporal.yaml")]
        return subprocess.run(command, capture_output=True, text=True, timeout=90)

    def start(self, text):
        file = self.folder / f"script-{len(list(self.folder.glob('script-*')))}.py"
        file.write_text(text)
        log = open(f"{file}.log", "w")
        self.addCleanup(log.close)
        child = subprocess.Popen([sys.executable, file], cwd=self.folder, stdout=log, stderr=log)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        child.log = Path(log.name)
        return child

    def run_script(self, text):
        child = self.start(text)
        code = child.wait(200)
        self.assertEqual(code, 0, child.log.read_text())
        return child.log.read_text()

    def calls(self):
        try:
            return (self.folder / "calls").read_text().split()
        except FileNotFoundError:
            return []

    def reward(self, seconds=0.0):
        space = {}
        exec(self.source(seconds=seconds), space)
        return space["reward"], space["request"]

    def assert_nothing_runs(self, stack, *more):
        for pid in (stack.pid, *more):
            self.assertFalse(lives(pid), f"process {pid} is left")
        self.assertEqual(os.listdir(self.folder / ".rollouts" / "users"), [])
        for left in ("stack.lock", "stack.json"):
            self.assertFalse((self.folder / ".rollouts" / left).exists(), left)


class Scripts(Case):
    def test_a_script_is_rewarded_by_its_function_and_nothing_is_left_after_its_block(self):
        said = self.run_script(
            self.source(
                """
                from durable_rollouts import to_arrays
                from durable_rollouts.stack import what_runs
                from pathlib import Path
                with local(environments={"mine": reward}) as client:
                    print("stack", what_runs(Path.cwd()).pid)
                    rows = client.start_batch(request, "b").rows()
                    assert to_arrays(rows).rewards.tolist() == [1.0] * 12, rows
                print("over")
                """
            )
        )
        pid = int(re.search(r"^stack (\d+)$", said, re.M)[1])
        self.assertFalse(lives(pid), "the stack goes on after the block")
        self.assertIn(f"started the stack of {self.folder}, serving mine. Engine: the simulator", said)
        self.assertEqual(len(self.calls()), 12)
        self.assertFalse((self.folder / ".rollouts" / "stack.lock").exists())

    def test_a_class_an_object_and_a_module_are_environments_too(self):
        (self.folder / "mine.py").write_text("def half(reply, sample):\n    return {'half': 0.5, 'none': 0}\n")
        self.run_script(
            self.source(
                """
                class Game:
                    def __init__(self, worth=0.25):
                        self.worth = worth
                    def step(self, message_log_batch, metadata):
                        n = len(metadata)
                        return {"observations": [{"role": "environment", "content": "over"}] * n, "rewards": [self.worth] * n, "terminateds": [1] * n}
                with local(environments={"class": Game, "object": Game(0.75), "module": "mine:half"}) as client:
                    of = {}
                    for task in ("class", "object", "module"):
                        own = [{**sample, "task_name": task} for sample in samples[:1]]
                        [row] = client.start_batch({"samples": own}, task).rows()
                        of[task] = row["total_reward"]
                assert of == {"class": 0.25, "object": 0.75, "module": 0.5}, of
                """
            )
        )

    def test_killed_with_kill_9_the_next_one_joins_what_runs_and_loses_nothing(self):
        child = self.start(self.source('with local(environments={"mine": reward}) as client:\n    client.start_batch(request, "b").wait()', seconds=0.5))
        until("some rollouts", lambda: len(self.calls()) >= 4)
        stack = what_runs(self.folder)
        child.kill()
        child.wait()
        time.sleep(2)
        self.assertTrue(lives(stack.pid), "the stack has ended with the script")
        reward, request = self.reward(seconds=0.5)
        before = self.calls()
        with local(environments={"mine": reward}, folder=self.folder) as client:
            joined = what_runs(self.folder)
            self.assertEqual((joined.pid, joined.served), (stack.pid, stack.served), "another stack, or another URL")
            rows = client.start_batch(request, "b").rows()
        self.assertEqual(to_arrays(rows).rewards.tolist(), [1.0] * 12)
        # Those that the killed script was asked for, and did not answer, are asked again.
        self.assertLessEqual(len(self.calls()), 12 + 2)
        self.assertGreaterEqual(len(before), 4)
        self.assert_nothing_runs(stack)

    def test_other_code_is_refused_while_a_batch_uses_it_and_named_when_it_is_served(self):
        slow, request = self.reward(seconds=1.0)
        with local(environments={"mine": slow}, folder=self.folder) as client:
            batch = client.start_batch(request, "b")
            until("it is asked", lambda: self.calls())
            with self.assertRaisesRegex(LocalError, r"expected mine with the code and data that b plays with.*stop\(\)"):
                local(environments={"mine": lambda reply, sample: 2}, folder=self.folder)
            with local(environments={"mine": slow}, folder=self.folder):
                self.assertEqual(batch.progress()["phase"], "running", "the same code is no other")
            batch.stop()
            batch.wait()
            with local(environments={"mine": lambda reply, sample: 2}, folder=self.folder) as again:
                [row] = again.start_batch({"samples": request["samples"][:1]}, "c").rows()
            self.assertEqual(row["total_reward"], 2)

    def test_other_code_is_refused_also_by_the_next_process_as_long_as_the_batch_runs(self):
        child = self.start(self.source('with local(environments={"mine": reward}) as client:\n    client.start_batch(request, "b").wait()', seconds=0.5))
        until("some rollouts", lambda: len(self.calls()) >= 2)
        child.kill()
        child.wait()
        with self.assertRaisesRegex(LocalError, "expected mine with the code and data that b plays with"):
            local(environments={"mine": lambda reply, sample: 2}, folder=self.folder)
        calls = len(self.calls())
        with local(folder=self.folder) as client:
            client.batch("b").stop()
            client.batch("b").wait()
        with local(environments={"mine": lambda reply, sample: 2}, folder=self.folder):
            pass
        self.assertEqual(len(self.calls()), calls)

    def test_a_killed_stack_is_started_again_and_plays_on_also_where_its_ports_are_taken(self):
        reward, request = self.reward(seconds=0.3)
        child = self.start(self.source('with local(environments={"mine": reward}) as client:\n    client.start_batch(request, "b").wait()', seconds=0.3))
        until("some rollouts", lambda: len(self.calls()) >= 2)
        stack = what_runs(self.folder)
        for pid in (stack.pid, child.pid):
            os.kill(pid, signal.SIGKILL)
        child.wait()
        port = int(stack.served["mine"].rpartition(":")[2])
        with socket.socket() as taker:
            taker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

            def takes():
                try:
                    taker.bind(("127.0.0.1", port))
                except OSError:
                    return False
                taker.listen()
                return True

            until("the port is free", takes)
            said = io.StringIO()
            with contextlib.redirect_stderr(said), local(environments={"mine": reward}, folder=self.folder) as client:
                self.assertIn("batches of an earlier stack go on, with the simulator: b;", said.getvalue())
                again = what_runs(self.folder)
                self.assertNotEqual((again.pid, again.served), (stack.pid, stack.served))
                self.assertEqual(len(client.start_batch(request, "b").rows()), 12)

    def test_one_that_is_kept_stays_until_it_is_ended(self):
        said = self.run_script(self.source('with local(keep=True) as client:\n    print(client)'))
        stack = what_runs(self.folder)
        self.assertTrue(lives(stack.pid))
        self.assertIn("up --end --config", said)
        with local(folder=self.folder):
            self.assertEqual(what_runs(self.folder).pid, stack.pid)
        time.sleep(1.5)
        self.assertTrue(lives(stack.pid), "it was kept")
        self.assertIn("has ended", self.end().stdout)
        self.assertFalse(lives(stack.pid))

    def free_port(self):
        with socket.socket() as any_port:
            any_port.bind(("127.0.0.1", 0))
            return any_port.getsockname()[1]

    def engine(self):
        port = self.free_port()
        simulator = subprocess.Popen([*find_command().run, "simulator", "--port", str(port)], stdout=subprocess.PIPE)
        self.addCleanup(simulator.stdout.close)
        self.addCleanup(simulator.wait)
        self.addCleanup(simulator.kill)
        simulator.stdout.readline()
        return f"http://127.0.0.1:{port}"

    def test_an_engine_that_temporal_yaml_names_plays_and_one_that_does_not_answer_is_named_at_once(self):
        url, away = self.engine(), f"http://127.0.0.1:{self.free_port()}/v1"
        reward, request = self.reward()
        service = "generation: {{ default: {{ kind: vllm, base_urls: [{}] }} }}\nenvironments: {{}}\n"
        for named, faults in ((f"{url}/v1", False), (away, True)):
            (self.folder / "temporal.yaml").write_text(service.format(named))
            said = io.StringIO()
            with contextlib.redirect_stderr(said), local(environments={"mine": reward}, folder=self.folder) as client:
                self.assertEqual(what_runs(self.folder).engine, named)
                if not faults:
                    self.assertEqual(len(client.start_batch(request, "b").rows()), 12)
            self.assertIn(f"Engine: {named}.", said.getvalue())
            self.assertEqual(f"generation.default {away}: GET /health: connect ECONNREFUSED" in said.getvalue(), faults)
            self.assertEqual("engine= names another one; without generation" in said.getvalue(), faults)

    def test_an_engine_takes_the_simulators_place_and_another_one_is_refused(self):
        url = self.engine()
        reward, request = self.reward()
        with local(environments={"mine": reward}, engine=url, folder=self.folder) as client:
            self.assertEqual(what_runs(self.folder).engine, f"{url}/v1")
            self.assertEqual(len(client.start_batch(request, "b").rows()), 12)
            with self.assertRaisesRegex(LocalError, rf"engine: the stack that runs in \S+ has {url}/v1, got http://127.0.0.1:1/v1"):
                local(engine="http://127.0.0.1:1", folder=self.folder)
            with local(folder=self.folder) as other:
                self.assertEqual(other.address, client.address)

    def test_what_cannot_be_served_says_why_and_leaves_nothing(self):
        class Broken:
            def __init__(self):
                raise ValueError("no weights")

        for environments, why in (
            ({"mine": Broken}, r"mine cannot be served[^$]*cannot load Broken: ValueError: no weights"),
            ({"a b": lambda reply, sample: 1}, "expected a name of letters"),
            ({"mine": 5}, "int has no method step"),
        ):
            with self.subTest(why), self.assertRaisesRegex(LocalError, why):
                local(environments=environments, folder=self.folder)
        with self.assertRaisesRegex(LocalError, "folder: expected one that exists"):
            local(folder=self.folder / "none")
        (self.folder / "temporal.yaml").write_text("environments: { mine: { kind: sliding_puzzle } }\n")
        with self.assertRaisesRegex(LocalError, "mine is in .*temporal.yaml; give yours another name"):
            local(environments={"mine": lambda reply, sample: 1}, folder=self.folder)
        until("the stack ends", lambda: not (self.folder / ".rollouts" / "stack.lock").exists())
        (self.folder / "temporal.yaml").write_text("environment: {}\n")
        with self.assertRaisesRegex(LocalError, "temporal.yaml is not valid:[^$]*  environment: unknown field"):
            local(folder=self.folder)

    def test_a_worker_that_ends_at_each_start_is_named_with_its_reason_at_once(self):
        # An address that no machine has.
        program = 'environments: { own: { kind: agent, run: { url: "http://127.0.0.1:9" } } }\n'
        (self.folder / "temporal.yaml").write_text(program + 'worker: { gateway: { listen: "192.0.2.1:9", advertise: "http://192.0.2.1:9" } }\n')
        with self.assertRaisesRegex(LocalError, r"the worker of \S+ ends at each start .*\nworker ended .*192\.0\.2\.1"):
            local(folder=self.folder)


class Notebooks(Case):
    def notebook(self, *cells):
        nodes = [nbformat.v4.new_code_cell(textwrap.dedent(cell)) for cell in cells]
        book = nbformat.v4.new_notebook(cells=nodes)
        return nbclient.NotebookClient(book, timeout=200, kernel_name="python3", resources={"metadata": {"path": str(self.folder)}})

    def texts(self, client):
        outputs = [output for cell in client.nb.cells for output in cell.get("outputs", [])]
        return "".join(output.get("text", "") for output in outputs)

    def test_functions_of_cells_are_environments_and_a_cell_that_runs_again_serves_the_new_one(self):
        client = self.notebook(
            self.source(""),
            'client = local(environments={"mine": reward})',
            'print("first", [row["total_reward"] for row in client.start_batch(request, "b").rows()])',
            "def reward(reply, sample):\n    return 7",
            'client = local(environments={"mine": reward})',
            'print("second", [row["total_reward"] for row in client.start_batch(request, "c").rows()])',
            "class Game:\n    def step(self, logs, states):\n        return {'observations': [{'role': 'environment', 'content': ''}] * len(logs), 'rewards': [3] * len(logs), 'terminateds': [1] * len(logs)}",
            'client = local(environments={"game": Game})',
            'print("third", client.start_batch({"samples": [{**samples[0], "task_name": "game"}]}, "d").rows()[0]["total_reward"])',
            'import os\nos.chdir("/")\nclient.batch("b").show()',
        )
        client.execute()
        text = self.texts(client)
        [shown] = client.nb.cells[-1]["outputs"]
        self.assertRegex(shown["data"]["text/html"], "^<iframe sandbox='allow-scripts' title='b' ")
        self.assertIn('<base href="about:srcdoc">', shown["data"]["text/html"])
        self.assertIn(f"first {[1] * 12}", text)
        self.assertIn("environment mine: its code has changed; from now on the new one is served", text)
        self.assertIn(f"second {[7] * 12}", text)
        self.assertIn("third 3", text)
        until("the stack ends with the kernel", lambda: not (self.folder / ".rollouts" / "stack.lock").exists(), 60)

    def test_two_in_one_folder_share_a_stack_that_stays_until_both_have_left(self):
        one = self.notebook(self.source(""), 'client = local(environments={"mine": reward})', "rows = client.start_batch(request, 'one').rows()\nprint(len(rows))", "client.close()")
        other = self.notebook(
            self.source("", task="other"),
            'client = local(environments={"other": reward})',
            "batch = client.start_batch(request, 'other')",
            "print(len(batch.rows()), client)",
        )
        refused = self.notebook(self.source(""), 'local(environments={"mine": reward})')
        with one.setup_kernel():
            for index, cell in enumerate(one.nb.cells[:2]):
                one.execute_cell(cell, index)
            stack = what_runs(self.folder)
            with other.setup_kernel():
                for index, cell in enumerate(other.nb.cells[:3]):
                    other.execute_cell(cell, index)
                self.assertEqual(what_runs(self.folder).pid, stack.pid)
                self.assertIn(f"joined the stack of {self.folder}, serving other", self.texts(other))
                with self.assertRaisesRegex(nbclient.exceptions.CellExecutionError, "mine is served in .* by process .*another notebook"):
                    refused.execute()
                one.execute_cell(one.nb.cells[2], 2)
                self.assertIn("12\n", self.texts(one))
                one.execute_cell(one.nb.cells[3], 3)
                self.assertTrue(lives(stack.pid), "it ends although another notebook uses it")
                other.execute_cell(other.nb.cells[3], 3)
                self.assertIn("12 Local(", self.texts(other))
        until("the stack ends", lambda: not lives(stack.pid), 60)

    def test_a_kernel_that_is_killed_comes_back_and_plays_on(self):
        cells = (self.source("", seconds=0.5), 'client = local(environments={"mine": reward})', "batch = client.start_batch(request, 'b')")
        first = self.notebook(*cells)
        with first.setup_kernel():
            for index, cell in enumerate(first.nb.cells):
                first.execute_cell(cell, index)
            until("some rollouts", lambda: len(self.calls()) >= 2)
            stack = what_runs(self.folder)
            pid = first.km.provisioner.pid
            os.kill(pid, signal.SIGKILL)
            until("the kernel is dead", lambda: not lives(pid))
        again = self.notebook(*cells, "print(len(batch.rows()), [row['total_reward'] for row in batch.rows()])\nclient.close()")
        again.execute()
        self.assertIn(f"12 {[1] * 12}", self.texts(again))
        self.assertLessEqual(len(self.calls()), 12 + 2)
        self.assertFalse(lives(stack.pid))


class Pytest(Case):
    def test_a_fixture_of_pytest_has_a_stack_of_its_own_that_ends_with_it(self):
        (self.folder / "test_mine.py").write_text(
            self.source(
                """
                import pytest

                @pytest.fixture(scope="module")
                def client(tmp_path_factory):
                    with local(environments={"mine": reward}, folder=tmp_path_factory.mktemp("stack")) as client:
                        yield client

                def test_rewards(client):
                    rows = client.start_batch(request, "b").rows()
                    assert [row["total_reward"] for row in rows] == [1] * 12

                def test_again(client):
                    assert len(client.batch("b").rows()) == 12
                    print("stack", client.folder)
                """
            )
        )
        command = [sys.executable, "-m", "pytest", "-q", "-rP", "-p", "no:cacheprovider", "test_mine.py"]
        run = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=200)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        folder = Path(re.search(r"^stack (.+)$", run.stdout, re.M)[1])
        self.assertFalse((folder / ".rollouts" / "stack.lock").exists())
        self.assertEqual(os.listdir(folder / ".rollouts" / "users"), [])


if __name__ == "__main__":
    unittest.main()
