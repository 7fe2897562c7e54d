import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rollout_environment import Isolated, create_server  # noqa: E402
from rollout_environment.answers import CallFailed  # noqa: E402
from rollout_environment.traces import place_in_dump  # noqa: E402
from rollout_environment.turns import Caller  # noqa: E402
from rollout_environment.watch import Watch, write  # noqa: E402

SOURCE = textwrap.dedent(
    """
    import os
    import signal
    import subprocess
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
            if said.startswith("starts"):
                # One of its group, one with a session of its own, and one whose parent has gone.
                started = [subprocess.Popen(["sleep", "600"]), subprocess.Popen(["sleep", "600"], start_new_session=True)]
                orphan = subprocess.run("setsid sleep 600 >/dev/null 2>&1 & echo $!", shell=True, stdout=subprocess.PIPE)
                pids = [process.pid for process in started] + [int(orphan.stdout)]
                with open("started", "w") as file:
                    file.write(" ".join(map(str, pids)))
                return self.step([[{"content": said.partition(" ")[2]}]], metadata)
            reward = metadata[0]["truth"] if said == "raise" else 1.0
            return {"observations": [{"role": "user", "content": str(os.getpid())}], "rewards": [reward], "terminateds": [1]}

    class Many(One):
        thread_safe = True

    class Four(One):
        processes = 4
        timeout = 3

    class Holds(One):
        def begin(self, sample):
            return None

    class Single(One):
        processes = 1

    if os.path.exists("hangs"):
        time.sleep(60)

    broken = 1 / 0 if os.environ.get("BROKEN") else None
    """
)


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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

    def started(self):
        return [int(pid) for pid in Path("started").read_text().split()]

    def assert_ended(self, pids):
        latest = time.monotonic() + 120
        while any(map(runs, pids)) and time.monotonic() < latest:
            time.sleep(0.02)
        self.assertEqual([pid for pid in pids if runs(pid)], [])

    def served(self, name, **settings):
        """A server looks at its calls all the time."""
        environment = self.isolated(name, **settings)
        environment.least_patience = 0.3
        server = create_server(environment, port=0)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        return environment

    def hanging(self, environment, times, seconds):
        """That many calls that hang, and how each of them fails."""
        failures = []

        def hang(i):
            failures.append(self.fails(environment, "hang", Caller(f"b/3-{i}/2", seconds)))

        threads = [threading.Thread(target=hang, args=(i,)) for i in range(times)]
        for thread in threads:
            thread.start()
        self.addCleanup(lambda: [thread.join() for thread in threads])
        self.addCleanup(environment.close)
        deadline = time.monotonic() + 120
        while not environment.running and time.monotonic() < deadline:
            time.sleep(0.01)
        return threads, failures

    def test_calls_behind_one_that_hangs_are_answered_while_it_keeps_its_process_until_its_limit(self):
        environment = self.served("One")
        (hangs,), failures = self.hanging(environment, 1, 12)
        for _ in range(6):
            self.assertEqual(self.step(environment, "hi", Caller("b/0-0/0", 8))["rewards"], [1.0])
        self.assertTrue(hangs.is_alive())
        hangs.join()
        self.assertEqual([error.kind for error in failures], ["NoAnswer"])
        self.assertRegex(failures[0].message, r"within \d+\.\d s")

    def test_calls_behind_more_that_hang_than_there_may_be_processes_are_answered_too(self):
        environment = self.served("One")
        _, failures = self.hanging(environment, 7, 60)
        for _ in range(4):
            self.assertEqual(self.step(environment, "hi", Caller("b/0-0/0", 40))["rewards"], [1.0])
        self.assertGreaterEqual(len(failures), 1)
        self.assertLessEqual(len(environment.outside), 4)
        for error in failures:
            self.assertEqual((error.status, error.kind), (503, "MadeRoom"))
            self.assertRegex(error.message, r"^step was ended after \d+\.\d s, because other calls waited \(at mine.py:\d+ in step: ")
        self.assertEqual(environment.deaths, 0)

    def test_one_that_did_not_answer_has_its_own_process_the_next_time(self):
        environment = self.isolated("One", timeout=3)
        self.assertEqual(self.fails(environment, "hang").kind, "NoAnswer")
        before = self.step(environment, "hi")
        (hangs,), failures = self.hanging(environment, 1, 60)
        self.assertEqual(self.step(environment, "hi"), before)
        self.assertEqual(failures, [])
        hangs.join()
        self.assertEqual([error.kind for error in failures], ["NoAnswer"])

    def test_a_class_that_may_hold_something_in_memory_stays_in_one_process(self):
        for name in ("Holds", "Single"):
            environment = self.served(name)
            before = self.step(environment, "hi")
            slow = threading.Thread(target=self.step, args=(environment, "slow"))
            slow.start()
            time.sleep(0.2)
            self.assertEqual(self.step(environment, "hi"), before)
            slow.join()

    def test_a_call_that_waits_for_long_behind_one_that_hangs_fails_with_its_name_before_its_caller_gives_up(self):
        environment = self.isolated("Single")
        environment.turns.behind_s, environment.turns.long_s = 0.6, 0.3
        (hangs,), _ = self.hanging(environment, 1, 20)
        error = self.fails(environment, "hi", Caller("b/0-0/0", 60))
        self.assertTrue(hangs.is_alive())
        self.assertEqual((error.status, error.kind), (503, "NoTurn"))
        text = r"^waited \d+\.\d s for its turn: step b/3-0/2 has been running for \d+\.\d s \(at mine.py:\d+ in step: "
        self.assertRegex(error.message, text)

    def test_a_call_behind_others_that_answer_waits_for_as_long_as_its_caller_does(self):
        environment = self.isolated("Single")
        environment.turns.behind_s, environment.turns.long_s = 0.2, 30
        slow = threading.Thread(target=self.step, args=(environment, "slow"))
        slow.start()
        time.sleep(0.1)
        self.assertEqual(self.step(environment, "hi", Caller("b/0-0/0", 60))["rewards"], [1.0])
        slow.join()

    def test_a_class_whose_calls_take_long_is_given_the_time_that_they_take(self):
        environment = self.served("One")
        environment.took.append(5)
        before = self.step(environment, "hi")
        slow = threading.Thread(target=self.step, args=(environment, "slow"))
        slow.start()
        time.sleep(0.2)
        self.assertEqual(self.step(environment, "hi"), before)
        slow.join()

    def test_all_that_are_late_in_one_process_say_where(self):
        environment = self.isolated("Many")
        threads, failures = self.hanging(environment, 3, 2)
        for thread in threads:
            thread.join()
        late = [error.message for error in failures if error.kind == "NoAnswer"]
        self.assertGreaterEqual(len(late), 2)
        for message in late:
            self.assertRegex(message, r"\(at mine.py:\d+ in step: ")

    def test_one_that_runs_for_long_is_in_the_log_ever_more_seldom_and_in_the_health(self):
        environment = self.isolated("One")
        watch = Watch(environment, long_s=0.4)
        self.hanging(environment, 1, 12)
        text = r"step b/3-0/2 has been running for \d+\.\d s \(at mine.py:\d+ in step: .+\)"
        with contextlib.redirect_stderr(io.StringIO()) as log:
            self.assertEqual(watch.long(), [])
            until = time.monotonic() + 120
            while log.getvalue().count("\n") < 2 and time.monotonic() < until:
                watch.look()
                time.sleep(0.05)
        lines = log.getvalue().splitlines()
        for line in [*lines, *watch.long()]:
            self.assertRegex(line, f"^{text}$")
        seconds = [float(line.split(" for ")[1].split(" s ")[0]) for line in lines]
        self.assertGreaterEqual(len(seconds), 2)
        for earlier, later in zip(seconds, seconds[1:]):
            self.assertGreaterEqual(later, 2 * earlier - 0.2)
        self.assertEqual(len(watch.long()), 1)

    def test_a_line_of_the_log_is_one_write(self):
        writes = []

        class Log(io.StringIO):
            def write(self, text):
                writes.append(text)

        with contextlib.redirect_stderr(Log()):
            write("one\ntwo\x1b")
        self.assertEqual(writes, ["one\ntwo\\x1b\n"])

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
        self.assertRegex(error.message, r"within \d+\.\d s, and its process was ended \(at mine.py:\d+ in step: time.sleep")
        self.assertEqual(self.step(environment, "hi")["rewards"], [1.0])

    def test_a_call_that_hangs_is_ended_before_its_caller_gives_up(self):
        environment = self.isolated("One")
        caller = Caller("b/0-0/3", 2)
        error = self.fails(environment, "hang", caller)
        self.assertEqual((error.status, error.kind), (500, "NoAnswer"))
        self.assertRegex(error.message, r"within \d+\.\d s, and its process was ended \(at mine.py:\d+ in step: time.sleep")
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
        self.assertRegex(error.message, r"^its process was ended because a call did not answer within \d+\.\d s, and this")
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
        environment = self.isolated("One", timeout=5)
        environment.load_within = 1
        self.assertEqual(self.fails(environment, "exit").kind, "ProcessEnded")
        Path("hangs").touch()
        error = self.fails(environment, "hi")
        self.assertEqual((error.status, error.message), (503, "mine:One cannot be loaded: it was not loaded within 1 s"))
        Path("hangs").unlink()
        environment.load_within = 120
        self.assertEqual(self.step(environment, "hi")["rewards"], [1.0])

    def test_one_that_cannot_be_loaded_says_why(self):
        os.environ["BROKEN"] = "1"
        self.addCleanup(os.environ.pop, "BROKEN")
        with contextlib.redirect_stdout(io.StringIO()), self.assertRaises(CallFailed) as caught:
            self.isolated("One")
        self.assertIn("ZeroDivisionError: division by zero", caught.exception.message)
        self.assertIn('mine.py", line', caught.exception.trace)

    @unittest.skipUnless(sys.platform == "linux", "its processes are found in /proc")
    def test_what_a_call_started_ends_with_its_process_however_that_ends(self):
        environment = self.isolated("One", timeout=8)
        for said, kind in [("hang", "NoAnswer"), ("exit", "ProcessEnded"), ("crash", "ProcessEnded"), ("leave", None)]:
            with self.subTest(said):
                failure = self.fails(environment, f"starts {said}")
                if kind is not None:
                    self.assertEqual(failure.kind, kind)
                pids = self.started()
                self.assertEqual(len(pids), 3)
                environment.close() if kind is None else None
                self.assert_ended(pids)
                os.unlink("started")

    @unittest.skipUnless(sys.platform == "linux", "its processes are found in /proc")
    def test_what_a_call_started_goes_on_while_its_process_does_and_ends_with_the_server(self):
        for how in ["close", "SIGTERM", "SIGKILL"]:
            with self.subTest(how):
                if how == "close":
                    environment = self.isolated("One")
                    self.step(environment, "starts well")
                    self.assertTrue(all(map(runs, self.started())))
                    self.step(environment, "again")
                    self.assertTrue(all(map(runs, self.started())))
                    environment.close()
                else:
                    self.ends_server(getattr(signal, how))
                self.assert_ended(self.started())
                os.unlink("started")

    def ends_server(self, number):
        arguments = [sys.executable, "-m", "rollout_environment", "mine:One", "--port", "0"]
        path = str(Path(__file__).resolve().parents[1])
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}) as server:
            url = server.stdout.readline().split()[-1]
            body = {"message_log_batch": [[{"role": "assistant", "content": "starts well"}]], "metadata": [{}]}
            asked = urllib.request.Request(f"{url}/step", json.dumps(body).encode(), {"content-type": "application/json"})
            urllib.request.urlopen(asked, timeout=120).read()
            self.assertTrue(all(map(runs, self.started())))
            server.send_signal(number)


if __name__ == "__main__":
    unittest.main()