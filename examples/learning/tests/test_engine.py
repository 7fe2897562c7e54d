"""The engine behind its wire: what it samples, what it says of it, and what becomes of that when weights change."""

import http.client
import json
import socket
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np
import policy
from engine import Engine
from model import logprobs_of
from policy import END, VOCABULARY, next_logprobs, untrained, window_before
from run import lines_of, put
from test_policy import chi_square
from trainer import packed
from wire import MODEL, request_of, serve

from task import LETTERS

PROMPT = list(map(ord, "abcdefgh="))
BASE, OTHER = untrained(1, LETTERS), untrained(2, LETTERS)
SENT = {
    **{"model": MODEL, "prompt": PROMPT, "max_tokens": 12, "n": 1, "temperature": 1, "top_p": 1, "top_k": -1, "min_p": 0},
    **{"repetition_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0, "min_tokens": 0, "ignore_eos": False},
    **{"skip_special_tokens": True, "include_stop_str_in_output": True, "return_token_ids": True, "logprobs": 0, "seed": 7},
}


class Wire(unittest.TestCase):
    tick_s = 0.0

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.log = self.folder / "engine.jsonl"
        self.server = serve(Engine(BASE, log=self.log, tick_s=self.tick_s), 0)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.weights = self.folder / "18.npz"
        put(self.weights, {**OTHER, "version": np.array(18), "step": np.array(18)})

    def connect(self):
        self.connection = http.client.HTTPConnection(*self.server.server_address, timeout=20)
        self.addCleanup(self.connection.close)
        return self.connection

    def ask(self, method, path, body=None, *, status=200, **headers):
        connection = self.connect()
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
        self.assertEqual(response.status, status, text)
        return json.loads(text)

    def stream(self, **change):
        """Events as they come."""
        connection = self.connect()
        body = {**SENT, **change, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"X-Request-Id": "batch/0-0.0.w"})
        with connection.getresponse() as response:
            yield from self.events_of(response)

    def events_of(self, response):
        for line in response:
            if line.startswith(b"data: ") and line != b"data: [DONE]\n":
                yield json.loads(line[6:])

    def sampled(self, events):
        choices = [event["choices"][0] for event in events if event["choices"]]
        ids = [id for choice in choices for id in choice["token_ids"]]
        return ids, [p for choice in choices for p in choice["logprobs"]["token_logprobs"]], choices[-1]["finish_reason"]

    def logged(self):
        """Ids, logprobs and versions by sequence."""
        found = {}
        for line in lines_of(self.log):
            for name, *token in line.get("tokens", []):
                found.setdefault(name, []).append((*token, line["version"]))
        return list(found.values())

    def update(self, pause="keep"):
        self.ask("POST", f"/pause?mode={pause}&clear_cache=true")
        self.ask("POST", "/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(self.weights)}})
        self.ask("POST", "/update_weight_version", {"new_version": "18"})
        self.assertEqual(self.ask("GET", "/weight_info"), {"weight_version": "18"})
        self.assertEqual(self.ask("POST", "/reset_prefix_cache?reset_running_requests=true"), {"success": True})
        self.assertEqual(self.ask("GET", "/is_paused"), {"is_paused": True})
        self.ask("POST", "/resume")


class Completions(Wire):
    def test_stream_ids_whose_logprobs_are_the_policys_own_and_stand_in_the_log(self):
        *events, usage = self.stream()
        ids, logprobs, reason = self.sampled(events)
        self.assertEqual(events[0]["choices"][0]["prompt_token_ids"], PROMPT)
        self.assertEqual(reason, "stop" if ids[-1] == END else "length")
        np.testing.assert_allclose(logprobs, logprobs_of(policy, BASE, PROMPT + ids)[len(PROMPT) - 1 :], atol=1e-5)
        self.assertEqual(usage["usage"]["completion_tokens"], len(ids))
        self.assertNotIn("usage", events[0])
        self.assertEqual(self.logged(), [[(*pair, "base") for pair in zip(ids, logprobs)]])
        [come] = [line for line in lines_of(self.log) if "request" in line]
        self.assertEqual((come["request"], come["prompt"]), ("batch/0-0.0.w", PROMPT))

    def test_count_their_tokens_in_each_event_where_they_are_asked_to(self):
        asked = {"include_usage": True, "continuous_usage_stats": True}
        *events, _ = self.stream(stream_options=asked)
        counts = [len(event["choices"][0]["token_ids"]) for event in events]
        self.assertEqual([event["usage"]["completion_tokens"] for event in events], list(np.cumsum(counts)))

    def test_of_one_seed_are_the_same_and_of_many_are_what_the_logprobs_say(self):
        ids = [self.sampled(list(self.stream(seed=seed))[:-1])[0] for seed in (7, 7, 8)]
        self.assertEqual(ids[0], ids[1])
        self.assertNotEqual(ids[1], ids[2])
        engine = Engine(BASE, log=self.log, tick_s=0)
        counts = np.zeros(VOCABULARY)
        threading.Thread(target=engine.run, daemon=True).start()
        request = {**SENT, "max_tokens": 1}
        def count(tokens, *_):
            counts[tokens[0].id] += 1
            return True

        sequences = [engine.submit(request_of({**request, "seed": seed}, str(seed)), count) for seed in range(4000)]
        for one in sequences:
            one.done.wait()
        [logprobs] = next_logprobs(BASE, window_before(PROMPT, len(PROMPT))[None])
        self.assertLess(chi_square(counts, np.exp(logprobs) * len(sequences)), 1)

    def test_end_at_a_stop_string_and_without_temperature_are_the_likeliest(self):
        [greedy, *_] = self.sampled(list(self.stream(temperature=0))[:-1])
        [logprobs] = next_logprobs(BASE, window_before(PROMPT, len(PROMPT))[None])
        self.assertEqual(greedy[0], logprobs.argmax())
        ids, _, reason = self.sampled(list(self.stream(temperature=0, stop=[chr(greedy[0])]))[:-1])
        self.assertEqual((ids, reason), (greedy[:1], "stop"))

    def test_name_the_likeliest_ids_and_the_prompts_logprobs_where_they_are_asked_for(self):
        body = {**SENT, "max_tokens": 1, "logprobs": 5, "return_tokens_as_token_ids": True, "prompt_logprobs": 0}
        [choice] = self.ask("POST", "/v1/completions", body)["choices"]
        [top] = choice["logprobs"]["top_logprobs"]
        self.assertIn(len(top), (5, 6))
        self.assertTrue(all(name.startswith("token_id:") for name in top))
        said = [list(one.values())[0]["logprob"] for one in choice["prompt_logprobs"][1:]]
        np.testing.assert_allclose(said, logprobs_of(policy, BASE, PROMPT), atol=1e-5)

    def test_that_it_does_not_do_are_refused_by_name(self):
        for field, value in (("top_p", 0.9), ("top_k", 5), ("min_tokens", 3), ("prompt", [300]), ("prompt", "é")):
            error = self.ask("POST", "/v1/completions", {**SENT, field: value}, status=400)["error"]
            self.assertTrue(error["message"].startswith(f"{field}: "), error)

    def test_that_make_no_sense_are_refused_and_end_no_engine(self):
        nonsense = {"stop": [5], "max_tokens": "many", "seed": -1, "logprobs": 0.5, "temperature": -1}
        for field, value in nonsense.items():
            error = self.ask("POST", "/v1/completions", {**SENT, field: value}, status=400)["error"]
            self.assertIn(f"{field}: expected", error["message"])
        self.assertEqual(self.ask("POST", "/v1/completions", {**SENT, "stream": False})["object"], "text_completion")

    def test_text_and_ids_are_each_others(self):
        self.assertEqual(self.ask("POST", "/tokenize", {"prompt": "ab="})["tokens"], [97, 98, 61])
        self.assertEqual(self.ask("POST", "/detokenize", {"tokens": [97, 98, END]}), {"prompt": "ab"})
        self.assertEqual(self.ask("GET", "/v1/models")["data"][0]["id"], MODEL)
        self.ask("GET", "/pause", status=405)
        self.ask("GET", "/metrics", status=404)


class Sleep(Wire):
    tick_s = 0.05

    def test_at_level_one_keeps_the_weights_and_at_level_two_loses_them(self):
        for level, kept in ((1, True), (2, False)):
            self.ask("POST", f"/sleep?level={level}&mode=abort")
            self.assertTrue(self.ask("GET", "/is_sleeping")["is_sleeping"])
            self.assertEqual(self.ask("POST", "/wake_up?tags=weights")["status"], "sleeping")
            self.assertTrue(self.ask("GET", "/is_paused")["is_paused"])
            if not kept:
                self.ask("POST", "/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(self.weights)}})
            self.assertEqual(self.ask("POST", "/wake_up")["status"], "awake")
            asked = self.ask("POST", "/v1/completions", {**SENT, "max_tokens": 1, "prompt_logprobs": 0})
            said = [p[str(id)]["logprob"] for id, p in zip(PROMPT[1:], asked["choices"][0]["prompt_logprobs"][1:])]
            np.testing.assert_allclose(said, logprobs_of(policy, BASE if kept else OTHER, PROMPT), atol=1e-6)

    def test_cuts_what_runs_and_samples_nothing_until_it_is_awake(self):
        events = self.stream(max_tokens=200, stop=[])
        next(events)
        self.ask("POST", "/sleep?level=1&mode=abort")
        self.assertEqual(self.sampled(list(events))[2], "abort")


class Sent(Wire):
    def part(self, **arrays):
        return {"update_info": {"names": list(arrays), "npz": packed(arrays)}}

    def test_weights_arrive_in_parts_and_count_once_all_are_there(self):
        self.ask("POST", "/start_weight_update")
        self.ask("POST", "/start_weight_update", status=500)
        for name, array in OTHER.items():
            self.ask("POST", "/update_weights", self.part(**{name: array}))
        self.ask("POST", "/update_weights", self.part(version=np.array(18)))
        self.ask("POST", "/finish_weight_update", {})
        self.ask("POST", "/finish_weight_update", {}, status=500)
        list(self.stream())
        self.assertEqual({version for tokens in self.logged() for _, _, version in tokens}, {"18"})


class Updates(Wire):
    tick_s = 0.05

    def started(self, **change):
        events = self.stream(**change)
        return [next(events), next(events)], events

    def test_a_stream_that_was_frozen_goes_on_with_the_new_weights_and_the_log_says_which_sampled_what(self):
        # A seed whose answer is long.
        begun, rest = self.started(seed=11, max_tokens=200, temperature=0.05)
        self.update()
        ids, logprobs, _ = self.sampled([*begun, *rest][:-1])
        [logged] = self.logged()
        self.assertEqual([token[:2] for token in logged], list(zip(ids, logprobs)))
        versions = [token[2] for token in logged]
        seam = versions.index("18")
        self.assertEqual(versions, ["base"] * seam + ["18"] * (len(ids) - seam))
        for weights, part in ((BASE, slice(0, seam)), (OTHER, slice(seam, None))):
            windows = np.stack([window_before(PROMPT + ids, len(PROMPT) + k) for k in range(len(ids))[part]])
            expected = next_logprobs(weights, windows, 0.05)
            said = [expected[row, id] for row, id in enumerate(ids[part])]
            np.testing.assert_allclose(logprobs[part], said, atol=1e-4)

    def test_while_it_is_paused_nothing_is_sampled_and_requests_wait(self):
        self.ask("POST", "/pause?mode=keep")
        got = []
        thread = threading.Thread(target=lambda: got.extend(self.stream()))
        thread.start()
        time.sleep(0.2)
        self.assertEqual((got, self.logged()), ([], []))
        self.ask("POST", "/resume")
        thread.join()
        self.assertGreater(len(got), 1)

    def test_a_pause_that_cuts_ends_streams_as_aborted_and_one_that_waits_returns_when_they_have_ended(self):
        begun, rest = self.started(seed=11, max_tokens=200)
        self.ask("POST", "/pause?mode=abort")
        self.assertEqual(self.sampled([*begun, *rest][:-1])[2], "abort")
        self.ask("POST", "/resume")
        begun, rest = self.started(seed=12)
        self.ask("POST", "/pause?mode=wait")
        self.assertIn(self.sampled([*begun, *rest][:-1])[2], ("stop", "length"))
        self.ask("POST", "/resume")

    def test_a_client_that_leaves_ends_its_sequence(self):
        events = self.stream(seed=11, max_tokens=200)
        next(events)
        self.connection.sock.shutdown(socket.SHUT_RDWR)
        before = sum(map(len, self.logged()))
        time.sleep(1)
        self.assertLess(sum(map(len, self.logged())), before + 6)

    def test_a_file_that_is_none_leaves_the_weights_as_they_are(self):
        bad = self.folder / "bad.npz"
        bad.write_text("no weights")
        order = {"method": "reload_weights", "kwargs": {"weights_path": str(bad)}}
        error = self.ask("POST", "/collective_rpc", order, status=500)["error"]
        self.assertIn("Call to collective_rpc method failed", error["message"])
        self.assertEqual(self.ask("GET", "/weight_info"), {"weight_version": "default"})
        list(self.stream())
        self.assertEqual({token[2] for one in self.logged() for token in one}, {"base"})


if __name__ == "__main__":
    unittest.main()
