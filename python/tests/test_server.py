import asyncio
import contextlib
import dataclasses
import io
import json
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request
from collections import namedtuple
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rollout_environment import Unavailable, create_server, to_answer  # noqa: E402

Return = namedtuple("Return", "observations metadata next_stop_strings rewards terminateds answers")


class Tensor:
    """What torch and numpy have in common."""

    def __init__(self, values):
        self.values = values

    def tolist(self):
        return self.values


def nested(levels):
    value = {}
    for _ in range(levels):
        value = {"a": value}
    return value


class Counter:
    def __init__(self):
        self.steps = 0
        self.inside = 0
        self.most_inside = 0
        self.gate = None

    def step(self, message_log_batch, metadata):
        self.steps += 1
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            if self.gate is not None:
                self.gate.wait(120)
            said = message_log_batch[0][-1]["content"]
            if said == "away":
                raise Unavailable("later")
            if said == "wrong":
                assert not said
            if said == "broken":
                raise KeyError("ground_truth")
            if said == "deep":
                return Return([{"role": "environment", "content": ""}], [nested(2000)], [None], [1.0], [1], None)
            if said == "acts":
                raise ValueError("no move: \x1b]0;owned\x07 \u202egnp.exe")
            reward = {"nan": float("nan"), "huge": 10**5000}.get(said, 1.0)
            seen = [{"role": "environment", "content": said}]
            return Return(seen, [None], [None], Tensor([reward]), Tensor([1]), [said])
        finally:
            self.inside -= 1

    def global_post_process_and_metrics(self, batch):
        return batch, {"count": len(batch)}


class Asynchronous:
    """Keeps what belongs to the event loop that it began in."""

    def __init__(self):
        self.loop = None

    async def step(self, message_log_batch, metadata):
        self.loop = self.loop or asyncio.get_running_loop()
        same = self.loop is asyncio.get_running_loop() and not self.loop.is_closed()
        seen = [{"role": "environment", "content": ""}]
        return Return(seen, [None], [None], [1.0 if same else 0.0], [1], None)


class Bare:
    def step(self, message_log_batch, metadata):
        return {"observations": [], "rewards": [], "terminateds": []}


class Served(unittest.TestCase):
    environment = Counter
    most = 2

    def setUp(self):
        self.object = self.environment()
        self.server = create_server(self.object, port=0, max_answers=self.most)
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def tearDown(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def post(self, path, body, key=None, seconds=None, deployment=None, play=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Idempotency-Key": key} if key else {}
        headers |= {"Rollout-Call-Timeout": str(seconds)} if seconds else {}
        headers |= {"Rollout-Deployment": deployment} if deployment else {}
        headers |= {"Rollout-Play": play} if play else {}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=120) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def step(self, said, key=None, seconds=None, deployment=None, play=None):
        log = [{"role": "assistant", "content": said}]
        return self.post("/step", {"message_log_batch": [log], "metadata": [{}]}, key, seconds, deployment, play)


class AsynchronousSteps(Served):
    environment = Asynchronous

    def test_run_in_one_event_loop(self):
        for _ in range(3):
            status, answer = self.step("hi")
            self.assertEqual((status, answer["rewards"]), (200, [1.0]))


class Steps(Served):
    def test_a_named_tuple_with_tensors_is_answered_as_json(self):
        status, answer = self.step("hi")
        self.assertEqual(status, 200)
        self.assertEqual((answer["rewards"], answer["terminateds"], answer["answers"]), ([1.0], [1], ["hi"]))

    def test_what_an_environment_raises_is_its_failure(self):
        status, answer = self.step("broken")
        self.assertEqual((status, answer["error"]["type"]), (500, "KeyError"))

    def test_a_failure_without_a_text_says_where(self):
        place = r"^\(at test_server.py:\d+ in step: assert not said\)$"
        self.assertRegex(self.step("wrong")[1]["error"]["message"], place)

    def test_unavailable_says_where(self):
        place = r"^later \(at test_server.py:\d+ in step: raise Unavailable"
        self.assertRegex(self.step("away")[1]["error"]["message"], place)

    def test_unavailable_is_for_trying_again_and_is_not_kept(self):
        self.assertEqual(self.step("away", "k")[0], 503)
        self.assertEqual(self.step("away", "k")[0], 503)
        self.assertEqual(self.object.steps, 2)

    def test_a_key_with_another_body_is_another_request(self):
        for said in ("one", "two", "one"):
            self.assertEqual(self.step(said, "k")[1]["answers"], [said])
        self.assertEqual(self.object.steps, 2)

    def test_a_key_of_another_deployment_is_another_request(self):
        for deployment in ("aa", "bb", "aa", "bb"):
            self.assertEqual(self.step("one", "k", deployment=deployment)[0], 200)
        self.assertEqual(self.object.steps, 2)

    def test_a_key_in_another_play_of_its_batch_is_another_request(self):
        for play in ("w1", "w2", "w1", "w2"):
            self.assertEqual(self.step("one", "k", play=play)[0], 200)
        self.assertEqual(self.object.steps, 2)

    def test_nan_and_what_no_number_of_json_holds_are_no_answer(self):
        for said in ("nan", "huge"):
            status, answer = self.step(said)
            self.assertEqual((status, answer["error"]["type"]), (422, "BadAnswer"))

    def test_more_levels_than_can_be_written_are_no_answer(self):
        status, answer = self.step("deep")
        self.assertEqual((status, answer["error"]["type"]), (422, "BadAnswer"))

    def test_more_levels_than_can_be_read_are_bad_input(self):
        for body in (b"[" * 200_000, b"{\"a\":" * 200_000):
            self.assertEqual(self.post("/step", body)[0], 400)

    def test_what_a_policy_said_does_not_act_on_the_logs_terminal(self):
        with contextlib.redirect_stderr(io.StringIO()) as log:
            self.step("acts")
        self.assertIn("no move: \\x1b]0;owned\\x07 \\u202egnp.exe", log.getvalue())
        self.assertNotRegex(log.getvalue(), "[\x1b\x07\u202e]")

    def test_bad_input_is_named(self):
        for body, text in (
            (b"{", "expected JSON"),
            ([], "expected an object"),
            ({"message_log_batch": [[]]}, "metadata: expected a list"),
            ({"message_log_batch": [[]], "metadata": []}, "expected 1"),
            ({"message_log_batch": [["x"]], "metadata": [{}]}, "message_log_batch.0"),
        ):
            status, answer = self.post("/step", body)
            self.assertEqual((status, answer["error"]["type"]), (400, "BadRequest"))
            self.assertIn(text, answer["error"]["message"])

    def test_a_key_is_answered_once_and_the_oldest_answers_go(self):
        for key in ("a", "a", "b", "c", "c"):
            self.assertEqual(self.step(key, key)[0], 200)
        self.assertEqual(self.object.steps, 3)
        self.step("a", "a")
        self.assertEqual(self.object.steps, 4)

    def test_a_concurrent_duplicate_waits_for_the_first_and_others_for_their_turn(self):
        self.object.gate = threading.Event()
        seen = []
        calls = [threading.Thread(target=lambda k=k: seen.append(self.step(k, k)[0])) for k in ("a", "a", "b")]
        for call in calls:
            call.start()
        self.object.gate.set()
        for call in calls:
            call.join()
        self.assertEqual((seen, self.object.steps, self.object.most_inside), ([200] * 3, 2, 1))

    def hang(self, key, seconds=None):
        """Until `gate` is set."""
        self.object.gate = threading.Event()
        hanging = threading.Thread(target=self.step, args=(key, key, seconds))
        hanging.start()
        self.addCleanup(hanging.join)
        self.addCleanup(self.object.gate.set)
        while not self.object.inside:
            time.sleep(0.01)

    def test_a_call_whose_caller_gives_up_before_its_turn_says_what_it_waited_for_and_is_never_run(self):
        self.hang("b/0-0/3")
        status, answer = self.step("hi", "k", 0.5)
        self.assertEqual((status, answer["error"]["type"]), (503, "NoTurn"))
        self.assertRegex(answer["error"]["message"], r"^waited \d+\.\d s for its turn: step b/0-0/3 has been running for \d+\.\d s \(at test_server.py:\d+ in step: ")
        self.object.gate.set()
        self.assertEqual(self.step("ho", "l", 5)[0], 200)
        self.assertEqual(self.object.steps, 2)

    def test_a_repeat_that_joins_a_waiting_call_is_not_given_up_with_the_first_caller(self):
        self.hang("a")
        seen = []
        callers = [threading.Thread(target=lambda s=s: seen.append(self.step("hi", "k", s)[0])) for s in (1, 9)]
        for caller in callers:
            caller.start()
            time.sleep(0.3)
        time.sleep(1)
        self.object.gate.set()
        for caller in callers:
            caller.join()
        self.assertEqual((seen, self.object.steps), ([200, 200], 2))

    def test_while_a_call_hangs_longer_than_its_caller_waits_all_else_fails_at_once_with_its_place(self):
        self.hang("b/0-0/3", 0.2)
        time.sleep(0.3)
        where = r"^step b/0-0/3 has been running for \d+\.\d s \(at test_server.py:\d+ in step: self.gate.wait\(120\)\)$"
        status, answer = self.step("hi", "k", 60)
        self.assertEqual((status, answer["error"]["type"]), (503, "Hanging"))
        self.assertRegex(answer["error"]["message"], where)
        with self.assertRaises(urllib.error.HTTPError) as ill:
            urllib.request.urlopen(self.url + "/health", timeout=120)
        with ill.exception as health:
            self.assertRegex(json.load(health)["error"]["message"], where)
        self.object.gate.set()
        self.assertEqual(self.step("b/0-0/3", "b/0-0/3")[0], 200)
        self.assertEqual(self.step("hi", "k", 60)[0], 200)

    def test_a_limit_that_is_no_number_of_seconds_is_bad_input(self):
        for text in ("soon", "0", "-1", "nan"):
            status, answer = self.step("hi", "k", text)
            self.assertEqual((status, answer["error"]["message"]), (400, f"Rollout-Call-Timeout: expected seconds, got '{text}'"))

    def test_metrics_of_upstreams_pair_are_answered(self):
        self.assertEqual(self.post("/global_post_process_and_metrics", {"rollouts": [{}, {}]}), (200, {"count": 2}))

    def test_health(self):
        with urllib.request.urlopen(self.url + "/health", timeout=120) as answer:
            self.assertEqual(answer.status, 200)


class Sessions(Served):
    most = 16

    class environment(Bare):
        def __init__(self):
            self.gate = None
            self.begun = []
            self.ended = []

        def begin(self, sample):
            self.begun.append(sample["session"])
            return {**sample["metadata"], "handle": len(self.begun)}

        def end(self, metadata):
            if self.gate is not None:
                self.gate.wait(120)
            self.ended.append(metadata)
            if metadata.get("bad"):
                raise KeyError("bad")

    def begin(self):
        return self.post("/begin", {"session": "b/0-0/0", "message_log": [], "metadata": {"a": 1}}, "b/0-0/begin-0")

    def end(self, **metadata):
        return self.post("/end", {"session": "b/0-0/0", "metadata": metadata}, "b/0-0/end-0")

    def test_a_repeat_begins_and_ends_nothing_twice(self):
        for _ in range(2):
            self.assertEqual(self.begin(), (200, {"metadata": {"a": 1, "handle": 1}}))
        for _ in range(2):
            self.assertEqual(self.end(a=2, handle=1), (200, {}))
        self.assertEqual((self.object.begun, self.object.ended), (["b/0-0/0"], [{"a": 2, "handle": 1}]))

    def test_one_whose_beginning_nobody_heard_of_is_ended_with_what_it_returned(self):
        self.begin()
        self.end(a=1)
        self.assertEqual(self.object.ended, [{"a": 1, "handle": 1}])

    def begun(self, **metadata):
        """The first state of a session of the same name as all others here."""
        status, answer = self.post("/begin", {"session": "b/0-0/0", "message_log": [], "metadata": metadata}, "b/0-0/begin-0")
        self.assertEqual(status, 200)
        return answer["metadata"]

    def test_those_of_two_deployments_with_one_name_have_states_and_ends_of_their_own(self):
        for _ in range(2):
            self.assertEqual(self.begun(truth="4"), {"truth": "4", "handle": 1})
            self.assertEqual(self.begun(truth="9"), {"truth": "9", "handle": 2})
        # One of each: its answer to `begin` was lost, or was heard.
        self.assertEqual(self.end(truth="4"), (200, {}))
        self.assertEqual(self.end(truth="9", handle=2, turns=[1]), (200, {}))
        self.assertEqual(self.object.ended, [{"truth": "4", "handle": 1}, {"truth": "9", "handle": 2, "turns": [1]}])
        self.assertEqual(self.begun(truth="9"), {"truth": "9", "handle": 3})

    def test_those_of_two_deployments_with_one_name_and_one_sample_are_two(self):
        """As workers name them."""
        def post(path, deployment, metadata, **more):
            body = {"session": f"b/0-0/0/{deployment}", "metadata": metadata, **more}
            status, answer = self.post(path, body, f"b/0-0{path}-0", deployment=deployment)
            self.assertEqual(status, 200)
            return answer.get("metadata")

        for _ in range(2):
            for handle, deployment in ((1, "aa"), (2, "bb")):
                self.assertEqual(post("/begin", deployment, {"a": 1}, message_log=[]), {"a": 1, "handle": handle})
        self.assertEqual(self.object.begun, ["b/0-0/0/aa", "b/0-0/0/bb"])
        # Neither has heard of its beginning, and each is asked for twice.
        for deployment in ("bb", "bb", "aa", "aa"):
            post("/end", deployment, {"a": 1})
        self.assertEqual(self.object.ended, [{"a": 1, "handle": 2}, {"a": 1, "handle": 1}])

    def test_what_one_began_is_not_merged_into_the_last_state_of_another(self):
        self.begun(truth="9")
        self.assertEqual(self.end(truth="4", turns=1), (200, {}))
        self.assertEqual(self.end(truth="9"), (200, {}))
        self.assertEqual(self.object.ended, [{"truth": "4", "turns": 1}, {"truth": "9", "handle": 1}])

    def test_one_that_cannot_be_told_from_another_of_its_name_is_not_ended(self):
        for log in ([], [{"role": "user", "content": "hi"}]):
            self.post("/begin", {"session": "b/0-0/0", "message_log": log, "metadata": {}}, "b/0-0/begin-0")
        status, answer = self.end()
        self.assertEqual((status, answer["error"]["type"], self.object.ended), (409, "Ambiguous", []))
        self.assertEqual(self.end(handle=2), (200, {}))
        self.assertEqual(self.end(), (200, {}))
        self.assertEqual(self.object.ended, [{"handle": 2}, {"handle": 1}])

    def test_ends_of_two_with_one_name_are_two(self):
        for last in ({"a": 1, "handle": 1}, {"a": 1, "handle": 2}, {"a": 1, "handle": 1}):
            self.end(**last)
        self.assertEqual([state["handle"] for state in self.object.ended], [1, 2])

    def test_one_whose_end_waits_for_its_turn_is_ended_though_nobody_waits_for_it(self):
        self.object.gate = threading.Event()
        seen = []

        def end(key):
            body = {"session": key, "metadata": {"key": key}}
            seen.append(self.post("/end", body, f"{key}/end-0", 0.1))

        ending = [threading.Thread(target=end, args=(key,)) for key in ("a", "b")]
        for thread in ending:
            thread.start()
        time.sleep(0.5)
        self.object.gate.set()
        for thread in ending:
            thread.join()
        self.assertEqual(seen, [(200, {})] * 2)
        self.assertEqual(sorted(state["key"] for state in self.object.ended), ["a", "b"])

    def test_one_of_the_same_name_that_begins_after_the_end_is_another(self):
        for _ in range(2):
            self.begin()
            self.end(a=1)
        self.assertEqual([state["handle"] for state in self.object.ended], [1, 2])

    def test_a_failed_end_is_not_kept_and_bad_input_is_named(self):
        self.assertEqual(self.end(bad=True)[0], 500)
        self.assertEqual(self.end(bad=True)[0], 500)
        status, answer = self.post("/begin", {"session": "s", "message_log": []})
        self.assertEqual((status, answer["error"]["message"]), (400, "metadata: expected a dict, got NoneType"))


class Holding(Bare):
    """Begins slowly, several at once, and forgets what it holds when its process ends."""

    thread_safe = True

    def __init__(self):
        self.begins = threading.Event()
        self.gate = threading.Event()
        self.held = set()

    def begin(self, sample):
        self.begins.set()
        self.gate.wait(120)
        self.held.add(sample["session"])

    def end(self, metadata, session):
        self.held.discard(session)


class NamedSessions(Served):
    environment = Holding

    def post_end(self):
        return self.post("/end", {"session": "b/0-0/0", "metadata": {}}, "b/0-0/end-0")

    def test_one_that_is_ended_while_it_begins_is_ended_behind_its_beginning(self):
        begin = {"session": "b/0-0/0", "message_log": [], "metadata": {}}
        beginning = threading.Thread(target=self.post, args=("/begin", begin, "b/0-0/begin-0"))
        beginning.start()
        self.assertTrue(self.object.begins.wait(5))
        ending = threading.Thread(target=self.post_end)
        ending.start()
        ending.join(0.3)
        self.object.gate.set()
        beginning.join()
        ending.join()
        self.assertEqual(self.object.held, set())

    def test_one_whose_beginning_another_process_answered_is_ended_by_its_name(self):
        self.object.held.add("b/0-0/0")
        self.assertEqual(self.post_end(), (200, {}))
        self.assertEqual(self.object.held, set())


class WithoutMetrics(Served):
    environment = Bare

    def test_begin_and_end_are_404(self):
        for path in ("/begin", "/end"):
            self.assertEqual(self.post(path, {"session": "s", "metadata": {}})[0], 404)

    def test_metrics_are_404(self):
        self.assertEqual(self.post("/global_post_process_and_metrics", {"rollouts": []})[0], 404)


class Answers(unittest.TestCase):
    def test_dataclasses_dicts_and_plain_tuples_are_read(self):
        @dataclasses.dataclass
        class Returned:
            observations: list
            rewards: dict
            terminateds: list

        seen = [{"role": "user", "content": "x"}]
        self.assertEqual(to_answer(Returned(seen, {"a": Tensor([1])}, [0]))["rewards"], {"a": [1]})
        self.assertEqual(to_answer((seen, [None], None, [1], [0]))["terminateds"], [0])

    def test_what_an_environment_truncated_is_passed_on(self):
        answer = {"observations": [{"role": "user", "content": "x"}], "rewards": [0], "terminateds": [0]}
        self.assertEqual(to_answer({**answer, "truncateds": Tensor([1])})["truncateds"], [1])
        self.assertNotIn("truncateds", to_answer({**answer, "truncateds": None}))
        self.assertNotIn("truncateds", to_answer(answer))

    def test_what_lacks_a_field_or_is_no_json_is_refused(self):
        for returned in (None, {"observations": []}, {"observations": [object()]}):
            with self.assertRaises(TypeError):
                to_answer(returned)


if __name__ == "__main__":
    unittest.main()
