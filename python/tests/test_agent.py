import http.client
import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock
from urllib.parse import quote

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from rollout_environment.agent import create_agent_server  # noqa: E402
from rollout_environment.agent import runs as runs_module  # noqa: E402

BODY = {"base_url": "http://127.0.0.1:1/v1", "key": "dr1.key-of-this-life", "prompt": "task"}


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(holds, seconds=120):
    latest = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > latest:
            raise AssertionError("it did not come to pass")
        time.sleep(0.02)


class Served(unittest.TestCase):
    program = "echoes"
    most = 4
    token = None

    def setUp(self):
        program = f"agent_programs:{self.program}"
        self.server = create_agent_server(program, port=0, runs=self.most, token=self.token, logs_failures=False)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def tearDown(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
        self.server.runs.close()

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(*self.server.server_address[:2], timeout=120)
        self.addCleanup(connection.close)
        text = body if isinstance(body, (bytes, type(None))) else json.dumps(body)
        connection.request(method, path, text, headers or {})
        answer = connection.getresponse()
        return answer.status, json.load(answer)

    def play(self, name="b/0-0.1", **more):
        path = f"/runs/{quote(name, safe='')}"
        status, answer = self.ask("PUT", path, {**BODY, **more})
        self.assertEqual((status, answer["state"] in ("running", "ended")), (200, True), answer)
        return self.ask("GET", f"{path}?wait=20")[1]

    def file(self, name="file"):
        return os.path.join(self.folder.name, name)


class BehindAProxy(Served):
    program = "asks_the_model"

    def test_a_program_asks_the_model_itself(self):
        """NousResearch/hermes-agent#5834, github/gh-aw-firewall#1032."""

        class Model(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"0.5")

            def log_message(self, *_):
                pass

        model = http.server.HTTPServer(("127.0.0.1", 0), Model)
        self.addCleanup(model.server_close)
        threading.Thread(target=model.handle_request, daemon=True).start()
        proxied = {**dict.fromkeys(("http_proxy", "HTTP_PROXY"), "http://127.0.0.1:9"), "no_proxy": "", "NO_PROXY": ""}
        with mock.patch.dict(os.environ, proxied):
            answer = self.play(base_url=f"http://127.0.0.1:{model.server_port}/v1")
        self.assertEqual(answer.get("reward"), 0.5, answer)


class Strays(unittest.TestCase):
    def test_folders_of_servers_that_were_killed_go_with_the_next_start(self):
        """openclaw/openclaw#152852."""
        ended = subprocess.Popen(["true"])
        ended.wait()
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(tempfile, "tempdir", folder):
            for name in (f"rollout-agent-{ended.pid}-a", f"rollout-agent-{os.getpid()}-b", "rollout-agent-x-c", "other"):
                os.makedirs(os.path.join(folder, name, "repository"))
            runs_module.Runs("agent_programs:echoes", 1)
            self.assertEqual(sorted(os.listdir(folder)), ["other", f"rollout-agent-{os.getpid()}-b", "rollout-agent-x-c"])


class Echoes(Served):
    def test_a_run_is_given_its_task_and_answers_what_the_program_returns(self):
        answer = self.play(metadata={"n": 2**70, "ä": None})
        self.assertEqual(
            answer,
            {
                "state": "ended",
                "exit": {"code": 0, "signal": None, "tail": "hello (key)\n"},
                "reward": 0.5,
                "metadata": {"prompt": "task", "given": {"n": 2**70, "ä": None}, "id": "b/0-0.1"},
            },
        )

    def test_the_same_life_is_begun_once_and_another_key_is_refused(self):
        first = self.play()
        run = self.server.runs.find("b/0-0.1")
        self.assertEqual(self.play(base_url="http://other/v1"), first)
        self.assertIs(self.server.runs.find("b/0-0.1"), run)
        status, answer = self.ask("PUT", "/runs/b%2F0-0.1", {**BODY, "key": "another"})
        self.assertEqual((status, answer["error"]["type"]), (409, "Conflict"))

    def test_what_is_wrong_with_a_request_is_named(self):
        refused = [
            ("PUT", "/runs/x", {**BODY, "prompt": 1}, "prompt: expected a str, got int"),
            ("PUT", "/runs/x", {"key": "k"}, "base_url: expected a str, got NoneType"),
            ("PUT", "/runs/x", {**BODY, "key": ""}, "key: expected the key of this life, got nothing"),
            ("PUT", "/runs/x", {**BODY, "base_url": "file:///etc"}, "base_url: expected http://… or https://…, got 'file:///etc'"),
            ("PUT", "/runs/x", {**BODY, "metadata": []}, "metadata: expected a dict, got list"),
            ("PUT", "/runs/x", b"[" * 100_000, "(body): expected JSON"),
            ("PUT", "/runs/x", b"3", "(body): expected an object, got int"),
            ("PUT", "/runs/%0a", BODY, "expected a name of at most 1000 printable characters, got '\\n'"),
            ("GET", "/runs/x?wait=1e9", None, "wait: expected whole seconds, 60 at most, got '1e9'"),
        ]
        for method, path, body, expected in refused:
            with self.subTest(expected):
                status, answer = self.ask(method, path, body)
                self.assertEqual(status, 400)
                self.assertIn(expected, answer["error"]["message"])
        for method, path in (("GET", "/runs/x"), ("GET", "/runs/"), ("PUT", "/other"), ("DELETE", "/")):
            self.assertEqual(self.ask(method, path)[0], 404)
        self.assertEqual(self.ask("GET", "/health"), (200, {"status": "ok"}))


class Ends(Served):
    def test_each_end_of_a_program_is_told_apart(self):
        expected = {
            "awaits": (0, None, "", {"reward": 3.0}),
            "submits": (0, None, "", {"submission": "diff --git"}),
            "nothing": (0, None, "", {}),
            "raises": (1, None, "KeyError: 'absent'", {}),
            "leaves": (7, None, "", {}),
            "is_killed": (None, "SIGKILL", "", {}),
            "returns_nan": (1, None, "the returned value: expected a finite number, got nan", {}),
            "returns_too_much": (1, None, "expected at most 1048576 bytes of JSON, got 1048", {}),
            "returns_other": (1, None, "got 'score'", {}),
        }
        for program, (code, number, tail, said) in expected.items():
            with self.subTest(program):
                self.server.runs.program = f"agent_programs:{program}"
                answer = self.play(program, prompt="3")
                ended = answer.pop("exit")
                self.assertEqual((ended["code"], ended["signal"], answer), (code, number, {"state": "ended", **said}))
                self.assertIn(tail, ended["tail"])

    def test_large_outcomes_and_much_output_do_not_hold_a_run(self):
        self.server.runs.program = "agent_programs:returns_large"
        self.assertEqual(len(self.play("large")["metadata"]["text"]), 900_000)
        self.server.runs.program = "agent_programs:prints_much"
        tail = self.play("much")["exit"]["tail"]
        self.assertTrue(tail.endswith("é\nthe end\n"), tail[-100:])
        self.assertLessEqual(len(tail.encode()), runs_module.MOST_TAIL + 8)

    def test_clients_of_models_find_the_gateway_by_themselves(self):
        self.server.runs.program = "agent_programs:is_pointed_at_the_model"
        found = self.play()["metadata"]
        self.assertEqual(found["OPENAI_BASE_URL"], BODY["base_url"])
        self.assertEqual(found["ANTHROPIC_BASE_URL"], "http://127.0.0.1:1")
        self.assertEqual({found["OPENAI_API_KEY"], found["ANTHROPIC_API_KEY"]}, {BODY["key"]})
        self.assertNotIn("OPENAI_API_KEY", os.environ)


class Sleeps(Served):
    program = "sleeps"

    def begun(self, name):
        file = self.file(name)
        self.assertEqual(self.ask("PUT", f"/runs/{name}", {**BODY, "prompt": file})[1], {"state": "running"})
        until(lambda: os.path.exists(file) and Path(file).read_text())
        return json.loads(Path(file).read_text())

    def test_delete_ends_all_that_a_run_has_started_and_its_folder(self):
        pid, child, folder = self.begun("a")
        self.assertTrue(lives(pid) and lives(child) and os.path.isdir(folder))
        self.assertEqual(self.ask("DELETE", "/runs/a"), (200, {"state": "deleted"}))
        self.assertEqual((lives(pid), lives(child), os.path.isdir(folder)), (False, False, False))
        self.assertEqual(self.ask("GET", "/runs/a")[0], 404)
        self.assertEqual(self.ask("DELETE", "/runs/a")[0], 200)

    def test_a_run_that_nobody_asks_about_is_ended(self):
        pid, child, _ = self.begun("b")
        self.server.runs.find("b").asked -= runs_module.UNATTENDED_S + 1
        until(lambda: not lives(pid) and not lives(child))
        self.assertEqual(self.ask("GET", "/runs/b?wait=10")[1]["exit"]["signal"], "SIGKILL")

    def test_more_than_so_many_at_once_wait_outside(self):
        for number in range(self.most):
            self.begun(f"n{number}")
        status, answer = self.ask("PUT", "/runs/more", BODY)
        self.assertEqual((status, answer["error"]["type"]), (503, "Busy"))
        self.ask("DELETE", "/runs/n0")
        self.begun("more")


class Waits(Served):
    program = "waits"

    def test_a_long_poll_ends_with_the_run_and_others_are_answered_meanwhile(self):
        file = self.file()
        self.ask("PUT", "/runs/w", {**BODY, "prompt": file})
        self.assertEqual(self.ask("GET", "/runs/w?wait=0")[1], {"state": "running"})
        answers = []
        polls = [threading.Thread(target=lambda: answers.append(self.ask("GET", "/runs/w?wait=30")[1])) for _ in range(8)]
        for poll in polls:
            poll.start()
        time.sleep(0.2)
        self.assertEqual((answers, self.ask("GET", "/health")[0]), ([], 200))
        Path(file).touch()
        for poll in polls:
            poll.join()
        self.assertEqual([answer["reward"] for answer in answers], [1.0] * 8)


class WithToken(Served):
    token = "a-token-of-eight"

    def test_nobody_starts_a_run_without_the_token(self):
        self.assertEqual(self.ask("PUT", "/runs/x", BODY)[0], 401)
        self.assertEqual(self.ask("GET", "/runs/x", None, {"Authorization": f"Bearer {self.token}"})[0], 404)


class AsProgram(unittest.TestCase):
    def begin(self, program):
        path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "rollout_environment.agent", program, "--port", "0"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, cwd=HERE, env={**os.environ, "PYTHONPATH": path}, **pipes)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_the_end_of_the_server_ends_its_runs_however_it_ends(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number), tempfile.TemporaryDirectory() as folder:
                process = self.begin("agent_programs:sleeps")
                host, port = process.stdout.readline().rpartition("http://")[2].strip().split(":")
                connection = http.client.HTTPConnection(host, int(port), timeout=120)
                file = os.path.join(folder, "pids")
                connection.request("PUT", "/runs/x", json.dumps({**BODY, "prompt": file}))
                self.assertEqual(connection.getresponse().status, 200)
                connection.close()
                until(lambda: os.path.exists(file) and Path(file).read_text())
                pid, child, _ = json.loads(Path(file).read_text())
                process.send_signal(number)
                process.wait(120)
                until(lambda: not lives(pid) and not lives(child))

    def test_a_program_that_cannot_be_loaded_is_named_at_the_start(self):
        for program, expected in (
            ("agent_programs:absent", "cannot load agent_programs:absent: module 'agent_programs' has no attribute 'absent'"),
            ("agent_programs", "cannot load agent_programs: expected module:name, a class or a function, got agent_programs"),
            ("agent_programs:os", "cannot load agent_programs:os: expected a function of a Task"),
        ):
            with self.subTest(program):
                process = self.begin(program)
                self.assertIn(expected, process.communicate(timeout=120)[1])
                self.assertEqual(process.returncode, 1)


if __name__ == "__main__":
    unittest.main()
