"""Starting batches and streams, and the result of a batch whose newest start was refused: without a server."""

import asyncio
import json
import unittest
from datetime import datetime
from types import SimpleNamespace
from unittest import mock

from durable_rollouts import InvalidBatchRequest, aio, single, starting
from durable_rollouts.requests import BATCH_DEFAULTS, STREAM_DEFAULTS
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.converter import default as default_converter
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

FILE = {"samples": {"path": "samples.jsonl"}}


class Run:
    """A run as Temporal has it: what it was started with, and how it ended."""

    def __init__(self, run_id, request=FILE, *, hour=0, refused=None, type="rolloutBatch"):
        self.id, self.run_id, self.request, self.refused, self.type = "b", run_id, request, refused, type
        self.start_time = datetime(2026, 1, 1, hour)

    async def fetch_history_events(self, page_size):
        payloads = await default_converter().encode([self.request])
        started = SimpleNamespace(input=SimpleNamespace(payloads=payloads), workflow_type=SimpleNamespace(name=self.type))
        yield SimpleNamespace(workflow_execution_started_event_attributes=started)

    async def describe(self):
        """Has no result, so one is searched for."""
        return SimpleNamespace(workflow_type=self.type, run_id=self.run_id, status=WorkflowExecutionStatus.FAILED)

    async def result(self):
        if self.refused is not None:
            raise WorkflowFailureError(cause=ApplicationError(self.refused, type="InvalidBatchRequest"))
        return {"of": self.run_id, "counts": {"requested": 20, "completed": 19}}


class Nothing:
    """The handle of an id that was never used."""

    async def describe(self):
        raise RPCError("workflow not found", RPCStatusCode.NOT_FOUND, b"")


class Server:
    """``newest``: the run that a handle without ``run_id`` means. ``completed``: those that a search finds. ``workers``:
    the identities of those that poll the task queue.
    """

    def __init__(self, *, newest=None, completed=(), start_workflow=None, searches=True, workers=("1@host",)):
        self.data_converter = default_converter()
        self.service_client = SimpleNamespace(config=SimpleNamespace(target_host="host:7233"))
        self.namespace = "ns"
        self.newest, self.completed, self.searches = newest, completed, searches
        self.started = []
        self.workflow_service = SimpleNamespace(describe_task_queue=self.describe_task_queue)
        self.workers = workers
        if start_workflow is not None:
            self.start_workflow = start_workflow

    def config(self):
        return {"interceptors": []}

    async def describe_task_queue(self, request, timeout):
        assert (request.namespace, request.task_queue.name) == ("ns", "q"), request
        return SimpleNamespace(pollers=[SimpleNamespace(identity=identity) for identity in self.workers])

    async def start_workflow(self, workflow, *, args, id, **options):
        if self.newest is not None and self.newest.run_id is None:
            raise WorkflowAlreadyStartedError(id, workflow)
        self.started.append(sent(workflow, args))

    async def list_workflows(self, query):
        if not self.searches:
            raise RPCError("not allowed", RPCStatusCode.PERMISSION_DENIED, b"")
        assert query == "WorkflowId = 'b' AND WorkflowType = 'rolloutBatch' AND ExecutionStatus = 'Completed'", query
        for run in self.completed:
            yield run

    def get_workflow_handle(self, id, run_id=None):
        assert id == "b", id
        if run_id is None:
            return self.newest or Nothing()
        return next(run for run in self.completed if run.run_id == run_id)


def sent(workflow, args):
    """What the server gets of the arguments."""
    assert all(raw.payload.metadata == {"encoding": b"json/plain"} for raw in args), args
    given = [json.loads(raw.payload.data, parse_constant=lambda text: unittest.TestCase().fail(f"no JSON: {text}")) for raw in args]
    return (workflow, *given)


def start(server, request=FILE, id="b", **options):
    return starting.start_once(server, "rolloutBatch", request, id=id, task_queue="q", defaults=BATCH_DEFAULTS, **options)


class StartOnce(unittest.TestCase):
    def logged(self, server):
        with self.assertLogs("durable_rollouts", "INFO") as log:
            asyncio.run(start(server))
        return [record.getMessage() for record in log.records]

    def test_logs_whether_it_started_or_joined_and_where(self):
        self.assertEqual(self.logged(Server()), ["started rolloutBatch b on host:7233, namespace ns, task queue q"])
        running = Server(newest=Run(None))
        self.assertEqual(self.logged(running), ["joined rolloutBatch b, which runs on host:7233, namespace ns"])

    def test_of_an_ended_batch_is_called_so(self):
        terminated = Run("a")
        [said, *_] = self.logged(Server(newest=terminated))
        self.assertEqual(said, "continued rolloutBatch b on host:7233, namespace ns, task queue q")

    def test_of_a_batch_that_has_rows_says_how_many_and_how_they_are_played_again(self):
        ended = Run("a")
        said = self.logged(Server(newest=ended, completed=[ended]))
        self.assertEqual(
            said,
            [
                "continued rolloutBatch b on host:7233, namespace ns, task queue q",
                "b continues: its last result has 19 of 20 rows; those that the store still has are not played again. "
                "If the code of the reward has changed: another id, or restart=True",
            ],
        )

    def test_restarts_an_ended_batch_and_says_no_more_of_its_rows(self):
        ended = Run("a")
        server = Server(newest=ended, completed=[ended])
        with self.assertLogs("durable_rollouts", "INFO") as log:
            asyncio.run(start(server, restart=True))
        self.assertEqual([record.getMessage() for record in log.records], ["restarted rolloutBatch b on host:7233, namespace ns, task queue q"])
        self.assertEqual(server.started, [("rolloutBatch", FILE, {"restart": True})])

    def test_refuses_to_restart_a_batch_that_runs_or_that_has_another_request(self):
        with self.assertRaisesRegex(InvalidBatchRequest, r"^b runs: restart plays a batch again that has ended; end it first, with client.batch\('b'\).stop\(\)$"):
            asyncio.run(start(Server(newest=Run(None)), restart=True))
        ended = Server(completed=[Run("a", {**FILE, "limit": 4})])
        with self.assertRaisesRegex(InvalidBatchRequest, "^b has another request: limit: 4 there, 3 here; use another id$"):
            asyncio.run(start(ended, {**FILE, "limit": 3}, restart=True))
        self.assertEqual(ended.started, [])

    def test_says_that_no_worker_polls_the_task_queue(self):
        with self.assertLogs("durable_rollouts", "WARNING") as log:
            asyncio.run(start(Server(workers=())))
        self.assertEqual([record.getMessage() for record in log.records], ["no worker polls task queue q on host:7233, namespace ns: b waits for one"])

    def test_of_the_id_of_something_else_is_refused_before_anything_is_started(self):
        for run_id in (None, "ended"):
            server = Server(newest=Run(run_id, type="rolloutStream"))
            with self.assertRaisesRegex(InvalidBatchRequest, r"^b is a stream: client.stream\('b'\); use another id$"):
                asyncio.run(start(server))
            self.assertEqual(server.started, [])

    def test_of_another_request_than_that_of_a_running_batch_is_refused(self):
        with self.assertRaisesRegex(InvalidBatchRequest, "^b runs with another request: limit: 4 there, 3 here; use another id$"):
            asyncio.run(start(Server(newest=Run(None, {**FILE, "limit": 4})), {**FILE, "limit": 3}))

    def test_of_another_request_than_that_of_an_ended_batch_is_refused_before_anything_is_started(self):
        ended = [Run("old", hour=1), Run("new", {**FILE, "limit": 4}, hour=2)]
        server = Server(completed=ended)
        with self.assertRaisesRegex(InvalidBatchRequest, "^b has another request: limit: 4 there, 3 here; use another id$"):
            asyncio.run(start(server, {**FILE, "limit": 3}))
        self.assertEqual(server.started, [])

    def test_of_the_same_request_continues_an_ended_batch_also_with_tuples_and_defaults(self):
        k = {"policy": "min_k", "k": 2}
        server = Server(completed=[Run("a", {**FILE, "completion": k, "generation": {"stop_strings": ["x"]}})])
        same = {**FILE, "limit": None, "completion": {**k, "deadline": None}, "generation": {"stop_strings": ("x",)}}
        asyncio.run(start(server, same))
        self.assertEqual(len(server.started), 1)


    def test_leaves_the_check_to_the_store_where_the_server_cannot_search(self):
        server = Server(completed=[Run("a", {**FILE, "limit": 4})], searches=False)
        asyncio.run(start(server))
        self.assertEqual(len(server.started), 1)

    def test_of_an_invalid_id_is_refused_before_it_is_sent(self):
        for id in ("a b/c", "", "-a", "a" * 121, "policy", "a\n", 7, None, b"a", ("a",)):
            server = Server()
            with self.assertRaisesRegex(InvalidBatchRequest, "^id: expected letters, digits and ._:-"):
                asyncio.run(start(server, id=id))
            self.assertEqual(server.started, [])


class OneGroup(unittest.TestCase):
    def test_has_its_members_valid_or_not_unless_its_caller_asks_for_valid_ones(self):
        for settings, sent in (({}, 0), ({"min_valid": 2}, 2)):
            asked = mock.AsyncMock(side_effect=InterruptedError)
            with mock.patch.object(single.Single, "_asked", asked), self.assertRaises(InterruptedError):
                asyncio.run(aio.Client(Server(), "q").group({"message_log": []}, 2, "b", **settings))
            self.assertEqual(asked.await_args.args[1]["min_valid"], sent)


class RefusedStart(unittest.TestCase):
    SERVER = Server(newest=Run("c", refused="limit: the batch of this id has 4, got 3"), completed=[Run("a", hour=1), Run("b", hour=2)])

    def test_leaves_the_result_of_the_newest_run_before_it_and_logs_the_refusal(self):
        with self.assertLogs("durable_rollouts", "WARNING") as log:
            result = asyncio.run(aio.Batch(self.SERVER, "b").wait())
        self.assertEqual(result["of"], "b")
        self.assertRegex(log.output[0], "the newest start of batch b was refused: limit: the batch of this id has 4, got 3")

    def test_raises_for_the_process_that_started_it_and_where_nothing_was_before(self):
        for batch in (aio.Batch(self.SERVER, "b", is_own=True), aio.Batch(Server(newest=self.SERVER.newest), "b")):
            with self.assertRaisesRegex(InvalidBatchRequest, "^limit: the batch of this id has 4, got 3$"):
                asyncio.run(batch.wait())


class Asked(Exception):
    """What a worker is asked where samples that no request has room for are put."""


class TooMuch(unittest.TestCase):
    def start(self, request):
        started = []

        async def start_workflow(workflow, *, args, **options):
            started.append(sent(workflow, args))

        async def execute_workflow(workflow, *args, **options):
            raise Asked(workflow)

        server = Server(start_workflow=start_workflow)
        server.execute_workflow = execute_workflow
        asyncio.run(start(server, request))
        return started

    def test_inline_samples_are_counted_as_the_worker_counts_them(self):
        sample = "語" * ((2**18 - 4) // 3)
        self.assertEqual(self.start({"samples": [sample]}), [("rolloutBatch", {"samples": [sample]})])
        with self.assertRaisesRegex(Asked, "inputs"):
            self.start({"samples": [sample, 1]})

    def test_other_fields_are_refused_where_no_server_would_take_them(self):
        request = {"samples": {"path": "samples.jsonl"}, "generation": {"stop_strings": ["x" * 2**22]}}
        for workflow, defaults in (("rolloutBatch", BATCH_DEFAULTS), ("rolloutStream", STREAM_DEFAULTS)):
            with self.assertRaisesRegex(
                InvalidBatchRequest, f"^{workflow}: expected at most 1048576 bytes of arguments, got 4194"
            ):
                # Of which nothing can be asked.
                server = SimpleNamespace(data_converter=default_converter())
                asyncio.run(starting.start_once(server, workflow, request, id="b", task_queue="q", defaults=defaults))
