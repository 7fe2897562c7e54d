"""Objects of a bucket that is away for a moment: with boto3, and a server that stands for one."""

import http.server
import os
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from durable_rollouts import objects

try:
    import boto3  # noqa: F401
except ImportError:
    boto3 = None

BODY = b'{"row": 0}\n'


class Bucket(http.server.BaseHTTPRequestHandler):
    """Answers in this way until a moment, then with the object, and that it has what is put."""

    away = ""
    until = 0.0

    def do_HEAD(self):
        self.send_response(404)
        self.end_headers()

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.answer(b"")

    def do_GET(self):
        self.answer(BODY)

    def answer(self, body):
        away = self.away if time.monotonic() < Bucket.until else ""
        body = b"<Error><Code>InternalError</Code><Message>not now</Message></Error>" if away == "500" else body
        self.send_response(int(away) if away.isdigit() else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:3] if away == "cut" else body)

    def log_message(self, *_):
        pass


@unittest.skipIf(boto3 is None, "boto3 is not installed")
class AwayForAMoment(unittest.TestCase):
    def setUp(self):
        objects._s3.cache_clear()
        self.addCleanup(objects._s3.cache_clear)
        # A port that nobody listens on before it is opened.
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket, bind_and_activate=False)
        self.server.server_bind()
        names = {"AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{self.server.server_port}", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "eu"}
        environment = mock.patch.dict(os.environ, {**names, "AWS_DEFAULT_REGION": "eu"})
        environment.start()
        self.addCleanup(environment.stop)
        self.addCleanup(self.server.server_close)

    def serve(self, after_s=0.0):
        def serve():
            time.sleep(after_s)
            self.server.server_activate()
            self.server.serve_forever(poll_interval=0.05)

        threading.Thread(target=serve, daemon=True).start()
        self.addCleanup(self.server.shutdown)

    def read(self, away, seconds=2.5):
        Bucket.away, Bucket.until = away, time.monotonic() + seconds
        with self.assertLogs("durable_rollouts", "WARNING") as log:
            self.assertEqual(objects.content_of("s3://team/rollouts.jsonl"), BODY)
        self.assertEqual(len(log.records), 1, log.output)
        self.assertRegex(log.output[0], "waiting for s3://team/rollouts.jsonl: ")

    def test_is_waited_for_where_nothing_listens(self):
        self.serve(after_s=2.5)
        self.read("", 0)

    def test_is_waited_for_where_it_answers_that_it_cannot_now_or_breaks_off(self):
        self.serve()
        for away in ("500", "503", "cut"):
            with self.subTest(away):
                self.read(away)

    def test_is_waited_for_by_what_is_put_there(self):
        self.serve()
        with tempfile.NamedTemporaryFile() as file:
            for put in (lambda: objects.upload("s3://team/samples.jsonl", Path(file.name)), lambda: objects.put_object("s3://team/samples.jsonl", b"")):
                Bucket.away, Bucket.until = "503", time.monotonic() + 2.5
                with self.assertLogs("durable_rollouts", "WARNING") as log:
                    put()
                self.assertRegex(log.output[0], "waiting for s3://team/samples.jsonl: 503")

    def test_is_an_error_that_names_the_object_where_it_stays_away_and_at_once_where_it_is_refused(self):
        self.serve()
        Bucket.away, Bucket.until = "503", time.monotonic() + 60
        with mock.patch.object(objects, "AWAY_S", 0.2), self.assertLogs("durable_rollouts", "WARNING"):
            with self.assertRaisesRegex(OSError, r"^s3://team/rollouts.jsonl: 503: .*\(0 s\)$"):
                objects.content_of("s3://team/rollouts.jsonl")
        Bucket.away = "403"
        began = time.monotonic()
        with self.assertRaisesRegex(OSError, "^s3://team/rollouts.jsonl: 403"):
            objects.content_of("s3://team/rollouts.jsonl")
        self.assertLess(time.monotonic() - began, 5)


if __name__ == "__main__":
    unittest.main()
