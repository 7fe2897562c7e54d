import asyncio
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rollout_environment import Isolated  # noqa: E402
from rollout_environment.answers import CallFailed  # noqa: E402
from rollout_environment.calls import Direct  # noqa: E402
from rollout_environment.child import load  # noqa: E402
from rollout_environment.template import Copies, Template  # noqa: E402

FACTOR = 2


def log(said):
    return [[{"role": "user", "content": "?"}, {"role": "assistant", "content": said}]]


def step(found, said="5", state=None):
    return Direct(load(found)).call("step", log(said), [state or {"answer": "5"}])


class Functions(unittest.TestCase):
    def test_gets_the_reply_and_the_sample_and_its_number_ends_the_rollout(self):
        answer = step(lambda reply, sample: reply == sample["answer"])
        self.assertEqual(json.dumps(answer["rewards"]), "[1]")
        self.assertEqual((answer["terminateds"], answer["metadata"]), ([True], [{"answer": "5"}]))
        self.assertEqual(answer["observations"], [{"role": "environment", "content": ""}])

    def test_gets_the_text_of_a_reply_in_parts(self):
        parts = [{"type": "text", "text": "4"}, {"type": "text", "text": "2"}]
        self.assertEqual(step(lambda reply, sample: float(reply), parts)["rewards"], [42.0])

    def test_may_name_the_parts_of_its_reward(self):
        self.assertEqual(step(lambda reply, sample: {"right": 1, "short": -0.5})["rewards"], {"right": [1], "short": [-0.5]})

    def test_plays_several_turns_with_a_state(self):
        def count(reply, state):
            left = state["left"] - 1
            return {"reward": 0, "observation": f"{left} left", "metadata": {"left": left}, "terminated": left == 0}

        first = step(count, state={"left": 2})
        self.assertEqual((first["terminateds"], first["metadata"]), ([False], [{"left": 1}]))
        self.assertEqual(first["observations"][0]["content"], "1 left")
        self.assertEqual(step(count, state=first["metadata"][0])["terminateds"], [True])

    def test_may_be_asynchronous(self):
        async def slow(reply, sample):
            await asyncio.sleep(0.01)
            return 1

        self.assertEqual(step(slow)["rewards"], [1])

    def test_of_trls_form_gets_one_completion_as_messages_and_the_samples_columns(self):
        def chat(completions, answer, **columns):
            return [float(answer == [completions[0][0]["content"]] and columns["prompts"][0][0]["content"] == "?")]

        def bare(prompts, completions):
            return [len(completions[0][0]["content"]) / len(prompts)]

        async def later(completions, **kw):
            return [kw["level"][0]]

        self.assertEqual(step(chat, "5")["rewards"], [1])
        self.assertEqual(step(bare, "555")["rewards"], [3])
        self.assertEqual(step(later, "5", {"level": 2})["rewards"], [2])
        with self.assertRaisesRegex(CallFailed, "chat: expected answer in the sample's extra_env_info, got level"):
            step(chat, "5", {"level": 2})
        for returned in (1.0, [], [1, 2], [None], [float("nan")]):
            with self.subTest(returned), self.assertRaisesRegex(CallFailed, "expected a (list with|number|finite)") as caught:
                step(lambda completions: returned)  # noqa: B023
            self.assertEqual(caught.exception.status, 422)

    def test_of_verifiers_form_gets_the_names_that_it_has(self):
        def judged(prompt, completion, answer, info, state):
            return float(answer == completion[-1]["content"] and state["answer"] == answer and info["level"] == 2 and len(prompt) == 1)

        self.assertEqual(step(judged, "5", {"ground_truth": "5", "level": 2})["rewards"], [1])
        self.assertEqual(step(lambda completion, answer: completion[0]["content"] == answer, "5")["rewards"], [1])
        with self.assertRaisesRegex(CallFailed, "judged: expected answer in the sample's extra_env_info, got level"):
            step(judged, "5", {"level": 2})

    def test_of_verifiers_form_gets_the_columns_of_its_data_sets_where_the_sample_has_them(self):
        def worth(completion, answer, info, task, **rest):
            return info["points"] * (answer == completion[0]["content"]) * (task == "sums") * ("state" in rest)

        sample = {"answer": "5", "ground_truth": "6", "info": {"points": 3}, "task": "sums"}
        self.assertEqual(step(worth, "5", sample)["rewards"], [3])

    def test_of_another_form_is_refused_when_it_is_given_with_what_a_reward_takes(self):
        def three(text, truth, more):
            return 1

        def counts(completions, trainer_state):
            return [1]

        for function, said in (
            (lambda r: 1, r"expected a function of two, reward\(reply, info\), .*, got <lambda>\(r\)"),
            (three, r"got three\(text, truth, more\)"),
            (counts, r"got trainer_state of counts\(completions, trainer_state\), which only TRL's trainer has"),
        ):
            with self.subTest(said), self.assertRaisesRegex(TypeError, said):
                load(function)

    def test_that_cannot_be_loaded_from_a_copy_says_its_reason_alone(self):
        def unmade():
            raise RuntimeError("no such file")

        with tempfile.NamedTemporaryFile("w+") as log:
            for _ in range(4):
                template = Template(unmade, log.name)
                with self.assertRaisesRegex(CallFailed, "RuntimeError: no such file"):
                    Isolated("unmade", copies=Copies(os.dup(template.control.fileno())))
                template.close()
            self.assertEqual(log.read(), "")

    def test_what_is_no_reward_is_a_malformed_answer_that_names_the_function(self):
        def forgets(reply, sample):
            reply.strip()

        for returned, what in (
            (None, "got None"),
            ("1", "got '1'"),
            ({"reward": 1, "short": 2}, "beside reward, got short"),
            (float("nan"), "finite"),
            # What a policy's arithmetic comes to (NovaSky-AI/SkyThought#28).
            (10**400, "at most 1024 bits, got one of 1329"),
            ({"reward": 1, "metadata": {"value": 10**5000}}, "metadata.value: expected an integer of at most 1024 bits"),
        ):
            with self.subTest(returned), self.assertRaisesRegex(CallFailed, what) as caught:
                step(lambda reply, sample: returned)  # noqa: B023
            self.assertEqual(caught.exception.status, 422)
        with self.assertRaisesRegex(CallFailed, "^.*forgets: expected a number"):
            step(forgets)

    def test_a_field_of_a_turn_is_no_component_of_a_reward(self):
        for returned, field in (
            ({"rewards": 1.0, "terminated": True}, "rewards, terminated"),
            ({"correct": True, "terminated": False}, "terminated"),
            ({"score": 1, "done": True}, "done"),
            ({"score": 1, "truncateds": 0}, "truncateds"),
            ({"right": 1, "answer": 2}, "answer"),
        ):
            with self.subTest(returned), self.assertRaisesRegex(CallFailed, f"expected reward beside {field}, or other names") as caught:
                step(lambda reply, sample: returned)  # noqa: B023
            self.assertEqual(caught.exception.status, 422)

    def test_a_field_of_a_turn_is_checked_by_the_rule_of_all_turns(self):
        for returned, what in (({"reward": None, "terminated": True}, "reward, got None"), ({"reward": 1, "terminated": "False"}, "terminated.*got 'False'"), ({"reward": 1, "truncated": 2}, "truncated.*got 2")):
            with self.subTest(returned), self.assertRaisesRegex(CallFailed, what):
                step(lambda reply, sample: returned)  # noqa: B023

    def test_whose_judge_is_away_are_tried_again_later_whatever_library_asks_it(self):
        """THUDM/slime#1582, TideDra/lmm-r1#30, Visual-Agent/DeepEyes#27."""

        def kind(module, name, base=Exception, **has):
            return type(name, (base,), {"__module__": module, **has})

        def answered(status):
            return SimpleNamespace(status_code=status)

        away = [
            kind("requests.exceptions", "ConnectTimeout", kind("requests.exceptions", "ConnectionError", OSError)),
            kind("requests.exceptions", "ReadTimeout", kind("requests.exceptions", "Timeout", OSError)),
            kind("requests.exceptions", "HTTPError", OSError, response=answered(429)),
            kind("httpx", "RemoteProtocolError", kind("httpx", "TransportError")),
            kind("httpx", "HTTPStatusError", response=answered(503)),
            kind("openai", "APITimeoutError", kind("openai", "APIConnectionError")),
            kind("openai", "RateLimitError", status_code=429, code="rate_limit_exceeded"),
            kind("anthropic", "OverloadedError", status_code=529),
            kind("aiohttp.client_exceptions", "ServerDisconnectedError", kind("aiohttp.client_exceptions", "ClientConnectionError")),
            kind("aiohttp.client_exceptions", "ClientResponseError", status=502),
            kind("urllib.error", "URLError", OSError),
        ]
        failed = [
            kind("requests.exceptions", "HTTPError", OSError, response=answered(404)),
            kind("openai", "BadRequestError", status_code=400),
            kind("urllib.error", "HTTPError", kind("urllib.error", "URLError", OSError), code=401),
            kind("playwright", "TimeoutError"),
            KeyError,
        ]
        for status, kinds in ((503, away), (500, failed)):
            for raised in kinds:

                def reward(reply, sample):
                    raise raised("of the judge")  # noqa: B023

                with self.subTest(raised), self.assertRaisesRegex(CallFailed, "of the judge") as caught:
                    step(reward)
                self.assertEqual(caught.exception.status, status)

    def test_one_without_arguments_makes_an_environment_as_before(self):
        class Made:
            def step(self, message_log_batch, metadata):
                return {"observations": [], "rewards": [], "terminateds": []}

        self.assertIsInstance(load(lambda: Made()), Made)
        self.assertIsInstance(load(lambda first=1, second=2: Made()), Made)
        self.assertIsInstance(load(Made), Made)


class Copied(unittest.TestCase):
    """Functions of this process, in copies of it."""

    def served(self, found, **settings):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = Path(folder.name) / "log"
        template = Template(found, str(self.log))
        self.template = template
        copies = Copies(os.dup(template.control.fileno()))
        environment = Isolated("mine", copies=copies, **settings)
        self.addCleanup(template.close)
        self.addCleanup(copies.control.close)
        self.addCleanup(environment.close)
        return environment

    def rewards(self, environment, said="5"):
        return environment.call("step", log(said), [{"answer": "5"}])["rewards"]

    def test_run_in_another_process_with_what_they_close_over_and_print_into_the_log(self):
        here, offset = os.getpid(), 3

        def reward(reply, sample):
            print("asked for", reply)
            return {"value": FACTOR * offset, "elsewhere": os.getpid() != here}

        environment = self.served(reward)
        self.assertEqual(self.rewards(environment), {"value": [6], "elsewhere": [True]})
        self.assertIn("asked for 5\n", self.log.read_text())

    def test_have_the_code_that_there_was_also_in_processes_that_are_made_later(self):
        table = {"5": 1}

        def reward(reply, sample):
            if reply == "die":
                os._exit(3)
            return table[sample["answer"]]

        environment = self.served(reward)
        self.assertEqual(self.rewards(environment), [1])
        table["5"] = 2
        with self.assertRaisesRegex(CallFailed, "ended its process with code 3"):
            self.rewards(environment, "die")
        self.assertEqual(self.rewards(environment), [1])

    def test_that_hang_are_ended_at_their_limit_with_their_line(self):
        def reward(reply, sample):
            while reply == "hang":
                time.sleep(0.01)
            return 1

        environment = self.served(reward, timeout=1)
        with self.assertRaisesRegex(CallFailed, r"did not answer within \d+\.\d s, and its process was ended \(at test_functions\.py:\d+ in reward"):
            self.rewards(environment, "hang")
        self.assertEqual(self.rewards(environment), [1])

    def test_hold_no_connection_of_the_process_that_they_are_from(self):
        reading, writing = os.pipe()
        environment = self.served(lambda reply, sample: 1)
        self.assertEqual(self.rewards(environment), [1])
        os.close(writing)
        self.assertEqual(os.read(reading, 1), b"", "a copy still holds the other end")
        os.close(reading)

    def test_draw_other_random_numbers_in_each_process(self):
        import random

        def reward(reply, sample):
            if reply == "die":
                os._exit(0)
            return random.random()

        environment = self.served(reward)
        first = self.rewards(environment)
        with self.assertRaises(CallFailed):
            self.rewards(environment, "die")
        self.assertNotEqual(self.rewards(environment), first)

    @unittest.skipIf(shutil.which("gcc") is None, "needs gcc")
    def test_compute_with_openmp_which_has_threads_in_the_process_that_they_are_from(self):
        """pytorch/pytorch#26447, #41197, #89693."""
        source = '''
        int work(int n) {
            int sum = 0;
            #pragma omp parallel for reduction(+: sum)
            for (int i = 0; i < n; i++) sum += i;
            return sum;
        }
        '''
        with tempfile.TemporaryDirectory() as folder:
            built = f"{folder}/work.so"
            subprocess.run(["gcc", "-fopenmp", "-shared", "-fPIC", "-xc", "-", "-o", built], input=source, text=True, check=True)
            library = ctypes.CDLL(built)
        library.omp_set_num_threads(2)
        self.assertEqual(library.work(100), 4950)
        self.assertEqual(self.rewards(self.served(lambda reply, sample: library.work(100), timeout=20)), [4950])

    def test_are_copied_while_other_threads_hold_locks_and_run(self):
        over = threading.Event()
        threads = [threading.Thread(target=over.wait) for _ in range(4)]
        for thread in threads:
            thread.start()
        self.addCleanup(over.set)
        self.assertEqual(self.rewards(self.served(lambda reply, sample: 1)), [1])

    def test_whose_copy_has_ended_say_so_and_what_to_do(self):
        environment = self.served(lambda reply, sample: os._exit(1))
        os.kill(self.template.pid, 9)
        with self.assertRaises(CallFailed):
            self.rewards(environment)
        with self.assertRaisesRegex(CallFailed, "give them again") as caught:
            self.rewards(environment)
        self.assertEqual(caught.exception.status, 503)


if __name__ == "__main__":
    unittest.main()
