import contextlib
import http.client
import io
import json
import os
import socket
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rollout_environment import create_server  # noqa: E402
from rollout_environment.gate import is_loopback, take_token  # noqa: E402

STEP = json.dumps({"message_log_batch": [], "metadata": []}).encode()
MOST_BODY = 4096


class Quiet:
    calls = 0

    def step(self, message_log_batch, metadata):
        self.calls += 1
        return {"observations": [], "rewards": [], "terminateds": []}

    def begin(self, sample):
        self.calls += 1

    def end(self, metadata):
        self.calls += 1

    def global_post_process_and_metrics(self, batch):
        self.calls += 1
        return batch, {"count": len(batch)}


class Served(unittest.TestCase):
    settings = {}

    def setUp(self):
        self.object = Quiet()
        self.server = create_server(self.object, port=0, **self.settings)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        log = contextlib.redirect_stderr(io.StringIO())
        log.__enter__()
        self.addCleanup(log.__exit__, None, None, None)

    def tearDown(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    @property
    def address(self):
        return self.server.server_address[:2]

    def ask(self, path="/step", body=STEP, **headers):
        connection = http.client.HTTPConnection(*self.address, timeout=120)
        self.addCleanup(connection.close)
        connection.request("GET" if body is None else "POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, json.load(answer)

    def refusal(self, *arguments, **headers):
        status, answer = self.ask(*arguments, **headers)
        return status, answer["error"]["type"], answer["error"]["message"]

    def raw(self, text, wait=True):
        """What comes until the connection is closed."""
        with socket.create_connection(self.address, timeout=120) as connection:
            connection.sendall(text)
            got = b""
            with contextlib.suppress(ConnectionError):
                while wait and (piece := connection.recv(2**16)):
                    got += piece
            return got.decode()


class WithoutAToken(Served):
    settings = {"allow_hosts": ["envs"]}

    def test_addresses_and_names_of_the_server_are_asked_for(self):
        for host in ("127.0.0.1:9", "localhost", "LOCALHOST.", "[::1]:80", "10.0.0.3", "a.localhost", "envs:9000", socket.gethostname()):
            self.assertEqual(self.ask(Host=host)[0], 200, host)

    def test_a_name_that_leads_here_by_dns_alone_is_refused_on_every_route(self):
        for host in ("evil.example", "127.0.0.1.evil.example:9000", "", "[", "localhost@evil.example:x", "envs.evil.example"):
            for path in ("/step", "/begin", "/end", "/global_post_process_and_metrics"):
                self.assertEqual(self.refusal(path, Host=host)[:2], (421, "Misdirected"), host)
            self.assertEqual(self.refusal("/health", None, Host=host)[:2], (421, "Misdirected"), host)
        self.assertEqual(self.object.calls, 0)
        what = "Host: expected an address or a name of this server, got 'evil.example'; start this server with --token-env NAME, or with --allow-host evil.example"
        self.assertEqual(self.refusal(Host="evil.example")[2], what)

    def test_what_a_web_page_sends_is_refused(self):
        for origin in ("https://evil.example", "null", "http://127.0.0.1:9000"):
            self.assertEqual(self.refusal(Origin=origin)[:2], (403, "Forbidden"), origin)
        self.assertEqual(self.object.calls, 0)


class WithAToken(Served):
    settings = {"token": "correct-horse"}

    def test_it_is_wanted_on_every_route_and_never_quoted(self):
        routes = ("/step", "/begin", "/end", "/global_post_process_and_metrics", "/none")
        for path, body in (*((path, STEP) for path in routes), ("/health", None)):
            for wrong in ("", "Bearer", "Bearer correct-hors", "Bearer correct-horse2", "Basic correct-horse", "correct-horse", "Bearer caf\u00e9"):
                status, kind, message = self.refusal(path, body, Authorization=wrong)
                self.assertEqual((status, kind), (401, "Unauthorized"), wrong)
                self.assertNotIn("correct", message)
            self.assertEqual(self.refusal(path, body)[:2], (401, "Unauthorized"))
        self.assertEqual(self.object.calls, 0)

    def test_whoever_has_it_may_use_any_name(self):
        self.assertEqual(self.ask(Authorization="Bearer correct-horse", Host="envs.svc")[0], 200)
        self.assertEqual(self.ask("/health", None, Authorization="bearer correct-horse")[0], 200)

    def test_a_web_page_has_no_use_for_it(self):
        self.assertEqual(self.refusal(Authorization="Bearer correct-horse", Origin="http://a")[0], 403)

    def test_a_large_body_without_it_is_not_read_and_its_sender_hears_why(self):
        self.assertEqual(self.refusal("/step", b" " * 4_000_000)[0], 401)


class Tokens(unittest.TestCase):
    def test_one_is_taken_from_its_variable_and_is_not_left_there(self):
        os.environ["A_TOKEN"] = "correct-horse"
        self.assertEqual(take_token("A_TOKEN"), "correct-horse")
        self.assertNotIn("A_TOKEN", os.environ)

    def test_one_that_is_absent_short_or_unprintable_is_refused_without_quoting_it(self):
        for value, got in (("", "nothing"), ("short", "5 characters"), ("has a space", "11 characters"), ("caf\u00e9caf\u00e9", "8 characters")):
            os.environ["A_TOKEN"] = value
            with self.assertRaisesRegex(ValueError, f"^--token-env: expected A_TOKEN to hold .*, got {got}$"):
                take_token("A_TOKEN")

    def test_loopback_is_known(self):
        hosts = ("127.0.0.1", "127.8.8.8", "::1", "localhost", "0.0.0.0", "::", "10.0.0.1", "envs")
        self.assertEqual([is_loopback(host) for host in hosts], [True] * 4 + [False] * 4)


def request(*lines, body=b""):
    return "\r\n".join(("POST /step HTTP/1.1", "Host: localhost", *lines, "", "")).encode() + body


class Bodies(Served):
    settings = {"max_body": MOST_BODY}

    def test_that_are_too_long_are_refused_unread_whole_or_in_chunks(self):
        for text in (
            request(f"Content-Length: {MOST_BODY + 1}"),
            request("Content-Length: 300000000"),
            request("Transfer-Encoding: chunked", body=b"1001\r\n"),
            request("Transfer-Encoding: chunked", body=b"fff\r\n" + b" " * 4095 + b"\r\n2\r\n"),
        ):
            got = self.raw(text)
            self.assertIn(" 413 ", got)
            self.assertIn("expected at most 4096 bytes (--max-body), got", got)

    def test_whose_end_nobody_can_know_are_refused_by_name_and_nothing_behind_them_is_a_request(self):
        smuggled = b"POST /step HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(STEP) + STEP
        for lines in (
            ["Content-Length: -1"],
            ["Content-Length: +5"],
            ["Content-Length: 1_0"],
            ["Content-Length: x"],
            ["Content-Length: " + "9" * 5000],
            ["Content-Length: 5", "Content-Length: 6"],
            ["Content-Length: 5", "Transfer-Encoding: chunked"],
            ["Transfer-Encoding: gzip, chunked"],
        ):
            got = self.raw(request(*lines, body=smuggled))
            self.assertIn(" 400 ", got, lines)
            self.assertEqual(got.count("HTTP/1.1 "), 1, lines)
        for chunk in (b"-1\r\n", b"x\r\n", b"\r\n", b"0x5\r\n", b"1" * 5000, b"2\r\nabc\r\n0\r\n\r\n"):
            got = self.raw(request("Transfer-Encoding: chunked", body=chunk + smuggled))
            self.assertIn(" 400 ", got, chunk)
            self.assertEqual(got.count("HTTP/1.1 "), 1, chunk)
        self.assertEqual(self.object.calls, 0)

    def test_in_chunks_of_any_size_are_read(self):
        for size in (1, 7, len(STEP)):
            chunks = [STEP[i : i + size] for i in range(0, len(STEP), size)]
            body = b"".join(b"%x;a=b\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\nTrailer: x\r\n\r\n"
            got = self.raw(request("Transfer-Encoding: chunked", "Connection: close", body=body))
            self.assertIn(" 200 ", got)

    def test_of_metrics_may_be_longer(self):
        body = b'{"rollouts": []' + b" " * 2 * MOST_BODY + b"}"
        self.assertEqual(self.ask("/global_post_process_and_metrics", body), (200, {"count": 0}))
        self.assertEqual(self.refusal("/step", body)[:2], (413, "TooLarge"))

    def test_have_a_bound_together_and_give_back_what_they_had(self):
        self.server.room.left = len(STEP) - 1
        self.assertEqual(self.refusal()[:2], (503, "Busy"))
        self.server.room.left = len(STEP)
        for _ in range(3):
            self.assertEqual(self.ask()[0], 200)
            self.given_back()
        self.refusal("/step", b" " * (MOST_BODY + 1))
        self.given_back()

    def given_back(self):
        # Behind the answer, so its caller may look earlier.
        until = time.monotonic() + 120
        while self.server.room.left != len(STEP) and time.monotonic() < until:
            time.sleep(0.005)
        self.assertEqual(self.server.room.left, len(STEP))


class Connections(Served):
    settings = {"max_connections": 3}

    def setUp(self):
        super().setUp()
        self.server.idle_s = self.server.body_s = 0.5

    def open(self, text=b""):
        connection = socket.create_connection(self.address, timeout=120)
        self.addCleanup(connection.close)
        connection.sendall(text)
        return connection

    def is_empty(self):
        until = time.monotonic() + 120
        while self.server.until and time.monotonic() < until:
            time.sleep(0.02)
        return not self.server.until

    def test_that_send_half_a_request_are_closed_and_hold_no_thread(self):
        for half in (b"", b"POST /st", request()[:-2], request("Content-Length: 9", body=b"half"), request("Transfer-Encoding: chunked", body=b"5\r\nab")):
            connection = self.open(half)
            with contextlib.suppress(ConnectionError):
                while connection.recv(2**16):
                    pass
        self.assertTrue(self.is_empty())
        self.assertEqual(self.ask()[0], 200)

    def test_that_send_a_byte_now_and_then_are_closed(self):
        connection = self.open(request("Content-Length: 999"))
        with self.assertRaises(OSError):
            for _ in range(50):
                connection.sendall(b" ")
                time.sleep(0.1)
        self.assertTrue(self.is_empty())

    def test_above_their_number_are_told_to_come_later(self):
        self.server.idle_s = 60
        held = [self.open() for _ in range(3)]
        while len(self.server.until) < 3:
            time.sleep(0.01)
        status, kind, message = self.refusal("/health", None)
        self.assertEqual((status, kind, message), (503, "Busy", "expected at most 3 connections, got more"))
        for connection in held:
            connection.close()
        self.assertTrue(self.is_empty())
        self.assertEqual(self.ask()[0], 200)

    def test_whose_call_takes_longer_than_a_body_may_are_not_closed(self):
        self.object.step = lambda logs, metadata: time.sleep(1.5) or {"observations": [], "rewards": [], "terminateds": []}
        self.assertEqual(self.ask()[0], 200)


if __name__ == "__main__":
    unittest.main()
