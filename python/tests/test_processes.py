import contextlib
import io
import os
import sys
import tempfile
import textwrap
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rollout_environment import Isolated  # noqa: E402
from rollout_environment.calls import CallFailed  # noqa: E402

SOURCE = textwrap.dedent(
    """
    import os
    import signal
    import time

    class One:
        def __init__(self):
            print("made", flush=True)

        def step(self, message_log_batch, metadata):
            said = message_log_batch[0][-1]["content"]
            if said == "hang":
                while True:
                    time.sleep(0.01)
            if said == "slow":
                time.sleep(1)
            if said == "crash":
                time.sleep(0.3)
                os.kill(os.getpid(), signal.SIGSEGV)
                time.sleep(1)
            if said == "exit":
                os._exit(3)
            reward = metadata[0]["truth"] if said == "raise" else 1.0
            return {"observations": [{"role": "user", "content": str(os.getpid())}], "rewards": [reward], "terminateds": [1]}

    class Many(One):
        thread_safe = True

    class Four(One):
        processes = 4
        timeout = 3

    broken = 1 / 0 if os.environ.get("BROKEN") else None
    """
)


class Processes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        Path(self.folder.name, "mine.py").write_text(SOURCE)
        before = os.getcwd()
        os.chdir(self.folder.name)
        self.addCleanup(os.chdir, before)

    def isolated(self, name, **settings):
        environment = Isolated(f"mine:{name}", **settings)
        self.addCleanup(environment.close)
        return environment

    def step(self, environment, said):
        return environment.call("step", [[{"role": "assistant", "content": said}]], [{}])

    def fails(self, environment, said):
        with self.assertRaises(CallFailed) as caught:
            self.step(environment, said)
        return caught.exception

    def at_once(self, environment, *saids):
        seen = {}

        def call(said):
            try:
                seen[said] = self.step(environment, said)["observations"][0]["content"]
            except CallFailed as error:
                seen[said] = (error.status, error.kind)

        threads = [threading.Thread(target=call, args=(said,)) for said in saids]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return seen

    def test_what_is_raised_says_file_line_and_text_and_has_its_trace(self):
        error = self.fails(self.isolated("One"), "raise")
        self.assertEqual((error.status, error.kind), (500, "KeyError"))
        self.assertRegex(error.message, r"^'truth' \(at mine.py:\d+ in step: reward = metadata\[0\]\[\"truth\"\]")
        self.assertIn('mine.py", line', error.trace)
        self.assertNotIn("rollout_environment", error.trace)

    def test_a_call_that_hangs_is_ended_says_where_and_those_behind_it_are_answered(self):
        environment = self.isolated("One", timeout=1)
        error = self.fails(environment, "hang")
        self.assertEqual((error.status, error.kind), (500, "NoAnswer"))
        self.assertRegex(error.message, r"within 1 s, and its process was ended \(at mine.py:\d+ in step: time.sleep")
        self.assertEqual(self.step(environment, "hi")["rewards"], [1.0])

    def test_one_that_ends_its_process_is_named_with_how_and_where(self):
        environment = self.isolated("One")
        for said, how in (("crash", r"SIGSEGV \(at mine.py:\d+ in step: "), ("exit", "code 3")):
            error = self.fails(environment, said)
            self.assertEqual((error.status, error.kind), (500, "ProcessEnded"))
            self.assertRegex(error.message, how)
        self.assertEqual(self.step(environment, "hi")["rewards"], [1.0])

    def test_those_that_share_a_process_are_tried_again_alone_and_only_who_is_to_blame_fails(self):
        environment = self.isolated("Many")
        seen = self.at_once(environment, "slow", "crash")
        self.assertEqual(seen, {said: (503, "ProcessEnded") for said in ("slow", "crash")})
        self.assertEqual(self.step(environment, "slow")["rewards"], [1.0])
        error = self.fails(environment, "crash")
        self.assertEqual((error.status, error.kind), (500, "ProcessEnded"))

    def test_calls_of_a_class_with_several_processes_run_beside_one_that_hangs(self):
        environment = self.isolated("Four")
        seen = self.at_once(environment, "hang", "slow", "hi")
        self.assertEqual(seen["hang"], (500, "NoAnswer"))
        self.assertNotEqual(seen["slow"], seen["hi"])

    def test_one_that_crashes_again_and_again_is_set_aside_and_named(self):
        environment = self.isolated("One")
        for _ in range(5):
            self.assertEqual(self.fails(environment, "exit").kind, "ProcessEnded")
        error = self.fails(environment, "hi")
        self.assertEqual((error.status, error.kind), (503, "SetAside"))
        self.assertRegex(error.message, r"^mine:One is set aside for \d+ s: its process ended with code 3, 5 times in a row$")
        with self.assertRaises(CallFailed):
            environment.health()
        environment.aside_until = 0
        self.assertEqual(self.step(environment, "hi")["rewards"], [1.0])

    def test_one_that_cannot_be_loaded_says_why(self):
        os.environ["BROKEN"] = "1"
        self.addCleanup(os.environ.pop, "BROKEN")
        with contextlib.redirect_stdout(io.StringIO()), self.assertRaises(CallFailed) as caught:
            self.isolated("One")
        self.assertIn("ZeroDivisionError: division by zero", caught.exception.message)
        self.assertIn('mine.py", line', caught.exception.trace)


if __name__ == "__main__":
    unittest.main()
