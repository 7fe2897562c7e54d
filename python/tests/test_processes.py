import contextlib
import io
import os
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rollout_environment import Isolated  # noqa: E402
from rollout_environment.answers import CallFailed  # noqa: E402
from rollout_environment.traces import place_in_dump  # noqa: E402
from rollout_environment.turns import Caller  # noqa: E402

SOURCE = textwrap.dedent(
    """
    import os
    import signal
    import sys
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
            if said == "leave":
                sys.exit("no data")
            if said == "exit":
                os._exit(3)
            reward = metadata[0]["truth"] if said == "raise" else 1.0
            return {"observations": [{"role": "user", "content": str(os.getpid())}], "rewards": [reward], "terminateds": [1]}

    class Many(One):
        thread_safe = True

    class Four(One):
        processes = 4
        timeout = 3

    if os.path.exists("hangs"):
        time.sleep(60)

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

    def step(self, environment, said, caller=None):
        return environment.call("step", [[{"role": "assistant", "content": said}]], [{}], caller=caller)

    def fails(self, environment, said, caller=None):
        with self.assertRaises(CallFailed) as caught:
            self.step(environment, said, caller)
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
        self.assertRegex(error.message, r"within 1\.\d s, and its process was ended \(at mine.py:\d+ in step: time.sleep")
        self.assertEqual(self.step(environment, "hi")["rewards"], [1.0])

    def test_a_call_that_hangs_is_ended_before_its_caller_gives_up(self):
        environment = self.isolated("One")
        caller = Caller("b/0-0/3", 2)
        error = self.fails(environment, "hang", caller)
        self.assertEqual((error.status, error.kind), (500, "NoAnswer"))
        self.assertRegex(error.message, r"within 1\.\d s, and its process was ended \(at mine.py:\d+ in step: time.sleep")
        self.assertGreaterEqual(caller.until - caller.since, 2)

    def test_a_call_that_began_late_has_all_of_its_time(self):
        environment = self.isolated("One")
        first = threading.Thread(target=self.step, args=(environment, "slow"))
        first.start()
        time.sleep(0.3)
        self.assertEqual(self.step(environment, "slow", Caller("late", 2))["rewards"], [1.0])
        first.join()

    def test_those_that_share_the_process_of_one_that_hangs_are_tried_again_together(self):
        environment = self.isolated("Many")
        self.step(environment, "hi")
        hanging = threading.Thread(target=self.fails, args=(environment, "hang", Caller("b/0-0/3", 3)))
        hanging.start()
        time.sleep(0.5)
        error = self.fails(environment, "hang")
        hanging.join()
        self.assertEqual((error.status, error.kind), (503, "ProcessEnded"))
        self.assertRegex(error.message, r"^its process was ended because a call did not answer within 2\.\d s, and this")
        self.assertEqual(len(environment.suspects), 0)
        self.assertEqual(self.step(environment, "hi")["rewards"], [1.0])

    def test_one_that_leaves_python_fails_alone(self):
        environment = self.isolated("Many")
        before = self.step(environment, "hi")
        error = self.fails(environment, "leave")
        self.assertEqual((error.status, error.kind), (500, "SystemExit"))
        self.assertRegex(error.message, r"^no data \(at mine.py:\d+ in step: sys.exit")
        self.assertEqual(self.step(environment, "hi"), before)

    def test_a_place_is_the_current_threads_or_one_of_those_that_it_may_be(self):
        dump = 'Thread 0x1 (most recent call first):\n  File "a.py", line 1 in f\n\nThread 0x2:\n  File "b.py", line 2 in g\n'
        self.assertEqual(place_in_dump(dump), "a.py:1 in f or b.py:2 in g")
        self.assertEqual(place_in_dump(dump.replace("Thread 0x2", "Current thread 0x2")), "b.py:2 in g")
        self.assertIsNone(place_in_dump("Thread 0x1:\n"))

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

    def test_one_that_hangs_while_it_is_loaded_again_holds_its_turn_for_a_while_only(self):
        environment = self.isolated("One", timeout=0.5)
        environment.load_within = 1
        self.assertEqual(self.fails(environment, "exit").kind, "ProcessEnded")
        Path("hangs").touch()
        error = self.fails(environment, "hi")
        self.assertEqual((error.status, error.message), (503, "mine:One cannot be loaded: it was not loaded within 1 s"))
        Path("hangs").unlink()
        environment.load_within = 30
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
