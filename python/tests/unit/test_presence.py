"""Wrong names are answered at once, and start nothing: without a server."""

import asyncio
import unittest
from types import SimpleNamespace

from durable_rollouts import InvalidBatchRequest, StoreFault, aio, presence
from temporalio.client import WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.converter import default as default_converter
from temporalio.exceptions import ApplicationError, TerminatedError
from temporalio.service import RPCError, RPCStatusCode

UNPROCESSED = WorkflowUpdateFailedError(ApplicationError("not processed", type="UnprocessedUpdate"))
CUT_OFF = WorkflowUpdateFailedError(ApplicationError("ended", type="AcceptedUpdateCompletedWorkflow"))


class Server:
    """``workers``: the identities of those that poll; None: the server does not say. ``ends``: how each run of the
    policy that an update starts has ended before it answered; then it answers.
    """

    def __init__(self, workers=(), ends=(), namespaces=("ns",)):
        self.workers, self.ends, self.namespaces, self.starts = workers, list(ends), namespaces, 0
        self.namespace, self.data_converter = "ns", default_converter()
        self.service_client = SimpleNamespace(config=SimpleNamespace(target_host="host:7233"))
        self.workflow_service = self

    def get_workflow_handle(self, id):
        return SimpleNamespace(id=id)

    async def describe_task_queue(self, request, timeout):
        if self.workers is None:
            raise RPCError("not allowed", RPCStatusCode.PERMISSION_DENIED, b"")
        return SimpleNamespace(pollers=[SimpleNamespace(identity=identity) for identity in self.workers])

    async def describe_namespace(self, request, timeout):
        if request.namespace not in self.namespaces:
            raise RPCError("Namespace is not found", RPCStatusCode.NOT_FOUND, b"")

    async def execute_update_with_start_workflow(self, update, raw, start_workflow_operation):
        self.starts += 1
        if not self.ends:
            return {"version": 18}
        cause = self.ends.pop(0)
        if cause is UNPROCESSED:
            raise UNPROCESSED

        async def result(follow_runs):
            raise WorkflowFailureError(cause=cause)

        start_workflow_operation._workflow_handle.set_result(SimpleNamespace(result=result))
        raise CUT_OFF


def publish(server, service="other"):
    return asyncio.run(asyncio.wait_for(aio.Policy(server, service, "q").publish(18, "/ckpt/18"), 120))


class Service(unittest.TestCase):
    def test_that_no_worker_has_is_refused_by_name_and_nothing_is_started(self):
        server = Server(workers=("1@a/generation=default,learner", "2@b/generation=default,a%20%2Fb"))
        with self.assertRaisesRegex(InvalidBatchRequest, r"^policy: expected a generation service of temporal.yaml \(one of a /b, default, learner\), got 'other'; nothing was started$"):
            publish(server)
        self.assertEqual(server.starts, 0)
        for service in (7, None, ""):
            with self.assertRaisesRegex(InvalidBatchRequest, "^policy: expected the name of a generation service, got "):
                publish(server, service)

    def test_that_a_worker_has_or_may_have_is_published_to(self):
        for workers in (("1@a/generation=other",), ("1@a/generation=default", "2@older"), None):
            self.assertEqual(publish(Server(workers)), {"version": 18})

    def test_without_any_worker_waits_for_one_and_says_so(self):
        with self.assertLogs("durable_rollouts", "WARNING") as log:
            publish(Server())
        self.assertEqual([record.getMessage() for record in log.records], ["no worker polls task queue q on host:7233, namespace ns: publish waits for one"])

    def test_whose_policy_fails_by_itself_is_not_started_again_and_again(self):
        for cause, fault in ((ApplicationError("service: expected default, got other", type="InvalidBatchRequest"), InvalidBatchRequest), (ApplicationError("no space", type="StoreFault"), StoreFault)):
            server = Server(None, ends=[cause] * 9)
            with self.assertRaisesRegex(fault, cause.message):
                publish(server)
            self.assertEqual(server.starts, 1)

    def test_whose_policy_was_terminated_meanwhile_is_started_again(self):
        server = Server(None, ends=[TerminatedError("by hand")])
        self.assertEqual((publish(server), server.starts), ({"version": 18}, 2))

    def test_whose_worker_returned_the_task_without_a_word_of_the_update_is_asked_again(self):
        server = Server(None, ends=[UNPROCESSED])
        self.assertEqual((publish(server), server.starts), ({"version": 18}, 2))


class Namespace(unittest.TestCase):
    def test_that_the_server_does_not_have_is_named(self):
        asyncio.run(presence.check_namespace(Server()))
        with self.assertRaisesRegex(ConnectionError, "^the Temporal server at host:7233 has no namespace 'ns'; name another one"):
            asyncio.run(presence.check_namespace(Server(namespaces=())))
