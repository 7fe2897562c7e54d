import asyncio
import os
import socket
import unittest

from types import SimpleNamespace
from unittest.mock import patch

from durable_rollouts import PolicyUpdateFailed, connection
from temporalio.converter import default as default_converter
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


class Proxy(unittest.TestCase):
    def test_no_connection_goes_through_the_proxy_of_the_shell(self):
        with socket.socket() as proxy, socket.socket() as closed:
            for each in (proxy, closed):
                each.bind(("127.0.0.1", 0))
            proxy.listen()
            proxy.settimeout(0.2)
            url = "http://127.0.0.1:%d" % proxy.getsockname()[1]
            names = ("grpc_proxy", "https_proxy", "http_proxy", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
            with patch.dict(os.environ, {**{name: url for name in names}, "no_proxy": "", "NO_PROXY": ""}):
                with self.assertRaisesRegex(ConnectionError, "Connection refused"):
                    asyncio.run(connection.connect("127.0.0.1:%d" % closed.getsockname()[1], None, None))
            with self.assertRaises(socket.timeout):
                proxy.accept()


class TooMuch(unittest.TestCase):
    def test_more_arguments_than_a_workflow_can_refuse_are_refused_here(self):
        client = SimpleNamespace(data_converter=default_converter())
        request = {"weights": {"path": "/" * 2**21}}
        asked = connection.ask_or_start(
            client, ("policy", {}), id="policy/default", task_queue="q", update="publish", request=request
        )
        with self.assertRaisesRegex(PolicyUpdateFailed, "publish: expected at most 1048576 bytes of arguments, got 2097"):
            asyncio.run(asked)
