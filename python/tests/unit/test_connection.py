import asyncio
import unittest

from types import SimpleNamespace
from unittest import mock

from durable_rollouts import InvalidBatchRequest, PolicyUpdateFailed, connection
from temporalio.converter import default as default_converter
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode


def failing(*errors):
    """A call that fails with one error after the other, and then answers how often it was made."""
    calls = []

    async def call():
        calls.append(None)
        if len(calls) <= len(errors):
            raise errors[len(calls) - 1]
        return len(calls)

    return call


class Away(unittest.TestCase):
    def test_a_server_that_is_away_or_dies_within_the_call_is_asked_again(self):
        for error in (
            RPCError("connection refused", RPCStatusCode.UNAVAILABLE, b""),
            RPCError("transport error", RPCStatusCode.UNKNOWN, b""),
        ):
            self.assertEqual(asyncio.run(connection.patiently(failing(error))), 2)

    def test_what_the_server_answers_is_the_callers(self):
        for error in (
            RPCError("no such workflow", RPCStatusCode.NOT_FOUND, b""),
            RPCError("panic", RPCStatusCode.UNKNOWN, b""),
            RPCError("grpc: received message after decompression larger than max 4194304", RPCStatusCode.RESOURCE_EXHAUSTED, b""),
        ):
            with self.assertRaises(RPCError):
                asyncio.run(connection.patiently(failing(error)))


class StartOnce(unittest.TestCase):
    def logged(self, error=None):
        client = SimpleNamespace(data_converter=default_converter(), start_workflow=mock.AsyncMock(side_effect=error))
        same = mock.patch.object(connection, "_check_same", mock.AsyncMock())
        with same, self.assertLogs("durable_rollouts", "INFO") as log:
            asyncio.run(connection.start_once(client, "rolloutBatch", {}, id="b", task_queue="q", defaults={}))
        return [record.getMessage() for record in log.records]

    def test_logs_whether_it_started_or_joined(self):
        self.assertEqual(self.logged(), ["started rolloutBatch b"])
        error = WorkflowAlreadyStartedError("b", "rolloutBatch")
        self.assertEqual(self.logged(error), ["joined rolloutBatch b, which runs"])


class TooMuch(unittest.TestCase):
    def test_more_arguments_than_a_workflow_can_refuse_are_refused_here(self):
        client = SimpleNamespace(data_converter=default_converter())
        request = {"weights": {"path": "/" * 2**21}}
        asked = connection.ask_or_start(
            client, ("policy", {}), id="policy/default", task_queue="q", update="publish", request=request
        )
        with self.assertRaisesRegex(PolicyUpdateFailed, "publish: expected at most 1048576 bytes of arguments, got 2097"):
            asyncio.run(asked)

    def start(self, request):
        started = []

        async def start_workflow(*args, **options):
            started.append(args)

        client = SimpleNamespace(data_converter=default_converter(), start_workflow=start_workflow)
        asyncio.run(connection.start_once(client, "rolloutBatch", request, id="b", task_queue="q", defaults={}))
        return started

    def test_more_inline_samples_than_a_worker_takes_are_refused_before_they_are_sent(self):
        for count in (2**18, 5 * 2**20):
            with self.assertRaisesRegex(
                InvalidBatchRequest,
                f"^samples: expected at most 256 kB of inline samples, got {count + 4} bytes; write them to a JSONL file",
            ):
                self.start({"samples": ["x" * count]})

    def test_inline_samples_are_counted_as_the_worker_counts_them(self):
        sample = "語" * ((2**18 - 4) // 3)
        self.assertEqual(self.start({"samples": [sample]}), [("rolloutBatch", {"samples": [sample]})])

    def test_other_fields_are_refused_where_no_server_would_take_them(self):
        request = {"samples": {"path": "samples.jsonl"}, "generation": {"stop_strings": ["x" * 2**22]}}
        with self.assertRaisesRegex(
            InvalidBatchRequest, "^rolloutBatch: expected at most 1048576 bytes of arguments, got 4194"
        ):
            self.start(request)
