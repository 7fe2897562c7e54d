"""What batches and streams say of workflows that have ended, and what steps ask for: without a server."""

import asyncio
import errno
import inspect
import json
import tempfile
import traceback
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import durable_rollouts
from durable_rollouts import aio, connection
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.converter import default as default_converter
from temporalio.exceptions import ApplicationError, TerminatedError
from temporalio.service import RPCError, RPCStatusCode

RUNNING, COMPLETED = WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED
TERMINATED, FAILED = WorkflowExecutionStatus.TERMINATED, WorkflowExecutionStatus.FAILED
REFUSED = ApplicationError("num_repeats: expected at least 1, got 0", type="InvalidBatchRequest")


TYPES = {aio.Batch: "rolloutBatch", aio.Stream: "rolloutStream"}


class Workflow:
    """A workflow as Temporal has it. ``steps``: its answers to update ``next_step``."""

    def __init__(self, status, phase="running", cause=None, steps=(), of=aio.Stream):
        self.status, self.phase, self.cause, self.type = status, phase, cause, TYPES[of]
        self.steps, self.asked, self.runs = list(steps), [], []
        self.id = "run-7"
        self.attempts, self.kept = 0, {}

    def get_workflow_handle(self, id, run_id=None):
        self.runs.append(run_id)
        return self

    async def describe(self):
        if self.status == 8:
            WorkflowExecutionStatus(8)
        task = SimpleNamespace(pending_workflow_task=SimpleNamespace(attempt=self.attempts))
        return SimpleNamespace(id=self.id, status=self.status, run_id="a", workflow_type=self.type, raw_description=task)

    async def fetch_history_events(self):
        for message in ("an older reason", "Failed to initialize workflow"):
            event = HistoryEvent()
            event.workflow_task_failed_event_attributes.failure.message = message
            yield event
        yield HistoryEvent()

    async def query(self, name):
        return {"phase": self.phase, **self.kept}

    async def result(self):
        if self.cause is not None:
            raise WorkflowFailureError(cause=self.cause)
        return {}

    async def execute_update(self, name, request):
        if self.status is not RUNNING:
            raise RPCError("workflow execution already completed", RPCStatusCode.NOT_FOUND, b"")
        self.asked.append(json.loads(request.payload.data))
        return self.steps.pop(0)


class Progress(unittest.TestCase):
    def test_of_one_that_runs_or_is_done_is_its_answer(self):
        too_few = ApplicationError("3 of 8 are valid", type="TooFewValid")
        for cls in (aio.Batch, aio.Stream):
            for ended in ((RUNNING, "planning"), (COMPLETED, "done"), (FAILED, "done", too_few)):
                workflow = Workflow(*ended, of=cls)
                self.assertEqual(asyncio.run(cls(workflow, "run-7").progress()), {"phase": workflow.phase})

    def test_of_one_that_ended_without_being_done_is_its_fault(self):
        for cls in (aio.Batch, aio.Stream):
            with self.assertRaisesRegex(durable_rollouts.Terminated, "starting its id again continues it"):
                asyncio.run(cls(Workflow(TERMINATED, "running", TerminatedError("by hand"), of=cls), "run-7").progress())
            with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, "num_repeats: expected at least 1"):
                asyncio.run(cls(Workflow(FAILED, "planning", REFUSED, of=cls), "run-7").progress())


    def test_of_a_stream_that_reads_its_store_does_not_say_yet_what_was_delivered(self):
        workflow = Workflow(RUNNING)
        workflow.query = mock.AsyncMock(side_effect=[{"phase": "planning", "step": 0}, {"phase": "running", "step": 3}])
        with mock.patch.object(aio.stream, "BREATH_S", 0):
            self.assertEqual(asyncio.run(aio.Stream(workflow, "run-7").delivered()), 3)
        with self.assertRaisesRegex(durable_rollouts.InvalidBatchRequest, "num_repeats: expected at least 1"):
            asyncio.run(aio.Stream(Workflow(FAILED, "planning", REFUSED), "run-7").delivered())


class Waited(unittest.TestCase):
    def test_for_says_once_in_the_log_what_is_true_of_all_rollouts(self):
        workflow = Workflow(COMPLETED, "done", of=aio.Batch)
        workflow.result = mock.AsyncMock(return_value={"notes": ["all 18 valid rollouts are truncated"]})
        batch = aio.Batch(workflow, "run-7")
        with self.assertLogs("durable_rollouts", "WARNING") as log:
            for _ in range(2):
                self.assertIn("notes", asyncio.run(batch.wait()))
        self.assertEqual([record.getMessage() for record in log.records], ["all 18 valid rollouts are truncated (run-7)"])

    def test_for_one_with_too_few_valid_rollouts_raises_and_its_failures_are_read_all_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            files = {kind: str(Path(folder) / f"{kind}.jsonl") for kind in ("rollouts", "failures")}
            Path(files["failures"]).write_text('{"row": 0, "failure": {"type": "EnvironmentFailed"}}\n')
            result = {"counts": {"completed": 0, "failed": 1, "timed_out": 0, "stopped": 0, "cancelled": 0}, "files": files}
            few = ApplicationError("0 of 1 rollouts are valid", result, type="TooFewValid")
            batch = aio.Batch(Workflow(FAILED, "done", few, of=aio.Batch), "run-7")
            for raises in (batch.wait, batch.rows, batch.sequences):
                with self.assertRaisesRegex(durable_rollouts.TooFewValid, "^0 of 1 rollouts are valid$") as raised:
                    asyncio.run(raises())
                self.assertEqual(raised.exception.result, result)
            self.assertEqual(asyncio.run(batch.failures())[0]["failure"]["type"], "EnvironmentFailed")

    def test_for_one_that_an_older_worker_has_closed_raises_for_its_failures_too(self):
        few = ApplicationError("0 of 1 rollouts are valid", type="TooFewValid")
        with self.assertRaises(durable_rollouts.TooFewValid):
            asyncio.run(aio.Batch(Workflow(FAILED, "done", few, of=aio.Batch), "run-7").failures())


class WorkflowTask(unittest.TestCase):
    def test_that_fails_again_and_again_is_said_with_its_newest_reason(self):
        for cls in (aio.Batch, aio.Stream):
            workflow = Workflow(RUNNING, of=cls)
            workflow.attempts = 2
            asyncio.run(cls(workflow, "run-7").progress())
            workflow.attempts = 7
            with self.assertRaisesRegex(durable_rollouts.RolloutFault, r"^the workflow task of run-7 fails \(7 tries\): Failed to initialize workflow. A repaired worker continues it. Or end it"):
                asyncio.run(cls(workflow, "run-7").progress())


class Update(unittest.TestCase):
    def test_that_no_worker_has_processed_is_asked_for_again(self):
        workflow = Workflow(RUNNING)
        unprocessed = WorkflowUpdateFailedError(ApplicationError("not processed", type="UnprocessedUpdate"))
        workflow.execute_update = mock.AsyncMock(side_effect=[unprocessed, {"version": 1}])
        self.assertEqual(asyncio.run(connection.ask(workflow, "next_step", {"step": 3})), {"version": 1})


class Paused(unittest.TestCase):
    def test_is_said_with_the_command_that_ends_it(self):
        ends = r"run-7 is paused; temporal workflow unpause --workflow-id run-7 ends the pause"
        for cls in (aio.Batch, aio.Stream):
            with self.assertRaisesRegex(durable_rollouts.RolloutFault, ends) as raised:
                asyncio.run(cls(Workflow(8, of=cls), "run-7").progress())
            self.assertEqual(raised.exception.type, "Paused")
        with self.assertRaisesRegex(ValueError, "9 is not a valid"):
            workflow = Workflow(RUNNING)
            workflow.describe = mock.AsyncMock(side_effect=ValueError("9 is not a valid WorkflowExecutionStatus"))
            asyncio.run(aio.Stream(workflow, "run-7").progress())


    def test_is_no_end_for_who_waits_and_what_it_is_sent_arrives(self):
        signals = []
        for cls, call in (
            (aio.Batch, lambda it: it.wait()),
            (aio.Batch, lambda it: it.stop()),
            (aio.Stream, lambda it: it.stop()),
        ):
            workflow = Workflow(8, of=cls)
            workflow.signal = mock.AsyncMock(side_effect=signals.append)
            workflow.result = mock.AsyncMock(return_value={"files": {}})
            with self.assertLogs("durable_rollouts", "WARNING") as logged:
                asyncio.run(call(cls(workflow, "run-7")))
            self.assertIn("temporal workflow unpause --workflow-id run-7 ends the pause", logged.output[0])
        self.assertEqual(signals, ["stop", "stop"])

    def test_is_waited_for_by_who_needs_an_answer_of_its_run(self):
        workflow = Workflow(8)
        unpause = mock.AsyncMock(side_effect=lambda _: setattr(workflow, "status", RUNNING))
        with mock.patch.object(connection.asyncio, "sleep", unpause), self.assertLogs("durable_rollouts", "WARNING"):
            self.assertEqual(asyncio.run(connection.running_run(workflow)), "a")
        unpause.assert_awaited_once()

    def test_is_waited_for_where_a_step_or_a_publish_is_asked_for(self):
        paused = RPCError("Workflow is paused. Cannot update the workflow.", RPCStatusCode.FAILED_PRECONDITION, b"")
        for call in (
            lambda workflow: connection.ask(workflow, "next_step", {"step": 3}),
            lambda workflow: connection.ask_or_start(
                workflow, ("policy", {}), id="run-7", task_queue="q", update="publish", request={}
            ),
        ):
            workflow = Workflow(8)
            answers = mock.AsyncMock(side_effect=[paused, {"version": 1}])
            workflow.execute_update = workflow.execute_update_with_start_workflow = answers
            workflow.data_converter = default_converter()
            unpause = mock.AsyncMock(side_effect=lambda _: setattr(workflow, "status", RUNNING))
            with mock.patch.object(connection.asyncio, "sleep", unpause), self.assertLogs("durable_rollouts", "WARNING"):
                self.assertEqual(asyncio.run(call(workflow)), {"version": 1})


class Fault(unittest.TestCase):
    def test_is_shown_without_the_errors_of_temporal_that_it_came_in(self):
        for call in (
            aio.Batch(Workflow(FAILED, "planning", REFUSED, of=aio.Batch), "run-7").progress,
            aio.Stream(Workflow(FAILED, "planning", REFUSED), "run-7").progress,
            lambda: aio.Stream(Workflow(FAILED, cause=REFUSED), "run-7").next_step(3),
        ):
            with self.assertRaises(durable_rollouts.InvalidBatchRequest) as raised:
                asyncio.run(call())
            shown = "".join(traceback.format_exception(None, raised.exception, raised.exception.__traceback__))
            self.assertEqual(shown.count("\n"), 1, shown)

    def test_of_a_policy_that_was_never_published_says_so(self):
        workflow = Workflow(RUNNING)
        workflow.query = mock.AsyncMock(side_effect=RPCError("workflow not found", RPCStatusCode.NOT_FOUND, b""))
        with self.assertRaisesRegex(durable_rollouts.NotFound, "^default: no policy workflow runs on this server. Nothing was published"):
            asyncio.run(aio.Policy(workflow, "default", "rollouts").status())
        self.assertEqual(asyncio.run(aio.Policy(workflow, "default", "rollouts").next_version()), 1)

    def test_of_a_policy_has_a_version_above_that_which_was_tried_last(self):
        workflow = Workflow(RUNNING)
        workflow.query = mock.AsyncMock(return_value={"record": {"version": 3, "target": 4}})
        self.assertEqual(asyncio.run(aio.Policy(workflow, "default", "rollouts").next_version()), 5)


class WrongType(unittest.TestCase):
    def calls(self, cls, workflow):
        """Every call of an object that was made with the id of something else."""
        one = cls(workflow, "run-7")
        names = [name for name in vars(cls) if not name.startswith("_") and callable(getattr(cls, name))]
        for name in names:
            given = {"next_step": (0,), "forget": (0,), "set_max_in_flight": (1,)}.get(name, ())
            called = getattr(one, name)(*given)
            yield name, called if inspect.isawaitable(called) else anext(called)

    def test_of_an_id_is_answered_by_name_and_nothing_is_sent(self):
        for cls, other, said in ((aio.Batch, aio.Stream, "no batch has the id run-7: it is a stream: client.stream\\('run-7'\\)"), (aio.Stream, aio.Batch, "no stream has the id run-7: it is a batch: client.batch\\('run-7'\\)")):
            # It has neither signal nor cancel: a call of these would be an AttributeError.
            for name, call in self.calls(cls, Workflow(RUNNING, of=other)):
                with self.subTest(f"{cls.__name__}.{name}"), self.assertRaisesRegex(durable_rollouts.NotFound, said):
                    asyncio.run(asyncio.wait_for(call, 120))


class NextStep(unittest.TestCase):
    def test_of_a_stream_that_was_stopped_is_not_taken_for_one_whose_epochs_are_used_up(self):
        with self.assertRaisesRegex(durable_rollouts.Stopped, "stream run-7 was stopped; client.stream.* continues it"):
            asyncio.run(aio.Stream(Workflow(COMPLETED, "done"), "run-7").next_step(3))
        with self.assertRaises(durable_rollouts.Terminated):
            asyncio.run(aio.Stream(Workflow(TERMINATED, cause=TerminatedError("by hand")), "run-7").next_step(3))

    def test_of_a_stream_that_has_ended_returns_the_steps_that_it_keeps(self):
        with tempfile.TemporaryDirectory() as folder:
            for step in (0, 1, 2):
                (Path(folder) / str(step)).mkdir()
                (Path(folder) / str(step) / "metrics.json").write_text(json.dumps({"metrics": {"step": step}}))
            for ended in ((COMPLETED, "done"), (TERMINATED, "running", TerminatedError("by hand"))):
                workflow = Workflow(*ended)
                workflow.kept = {"steps_dir": folder, "kept_from": 1, "step": 4}
                stream = aio.Stream(workflow, "run-7")
                self.assertEqual([asyncio.run(stream.next_step(step)).metrics for step in (1, 2)], [{"step": 1}, {"step": 2}])
                # Forgotten; put, but not written; the next one.
                for step in (0, 3, 4):
                    with self.assertRaises((durable_rollouts.Stopped, durable_rollouts.Terminated)):
                        asyncio.run(stream.next_step(step))

    def test_takes_the_fault_of_the_run_that_has_ended_and_not_of_one_that_was_started_after_it(self):
        workflow = Workflow(TERMINATED, cause=TerminatedError("by hand"))
        with self.assertRaises(durable_rollouts.Terminated):
            asyncio.run(aio.Stream(workflow, "run-7").next_step(3))
        self.assertEqual(workflow.runs[-1], "a")

    def waits(self, timeout, answers=1, on_wait=None, **result):
        steps = [{"ready": False, "why": "1 of 2 groups is complete"}] * (answers - 1) + [{"ready": True, **result}]
        workflow = Workflow(RUNNING, steps=steps)
        stream = aio.Stream(workflow, "run-7")
        with mock.patch.object(aio.stream, "BREATH_S", 1.0 if on_wait is None else 0.0):
            asyncio.run(stream.next_step(0, version=1, timeout=timeout, on_wait=on_wait))
        self.assertTrue(all((asked["step"], asked["version"]) == (0, 1) for asked in workflow.asked))
        return [asked["wait"] for asked in workflow.asked]

    def test_waits_on_the_server_ten_minutes_and_no_longer_than_its_caller(self):
        self.assertEqual(self.waits(None), ["10m"])
        self.assertEqual(self.waits(3600), ["10m"])
        [wait] = self.waits(0.5)
        self.assertRegex(wait, r"^[1-9]\d*ms$")
        self.assertLessEqual(int(wait[:-2]), 500)

    def test_with_on_wait_is_answered_soon_and_then_ever_more_rarely(self):
        said = []
        polls = self.waits(None, answers=9, on_wait=said.append)
        doubling = [f"{seconds}000ms" for seconds in (4, 8, 16, 32, 64, 128, 256, 512)]
        self.assertEqual(polls, doubling + ["10m"])
        self.assertEqual(said, ["1 of 2 groups is complete"] * 8)

    def test_says_what_its_result_notes_to_on_wait_and_to_the_log(self):
        said, notes = [], ["step 0: group 3 has tokens up to 5 versions behind version 9, max_lag is 1"]
        with self.assertLogs("durable_rollouts", "WARNING") as log:
            self.waits(None, answers=2, on_wait=said.append, notes=notes)
            self.waits(None, notes=notes)
        self.assertEqual(said, ["1 of 2 groups is complete", *notes])
        self.assertEqual([record.getMessage() for record in log.records], [f"{notes[0]} (run-7)"] * 2)
        self.assertEqual(durable_rollouts.Step(0, {"notes": notes}).notes, notes)
        self.assertEqual(durable_rollouts.Step(0, {}).notes, [])

    def test_that_is_asked_again_waits_only_for_the_time_that_its_caller_has_left(self):
        first, second = (int(wait[:-2]) for wait in self.waits(5, answers=2))
        self.assertLessEqual(second, first - 900)


class StepOfAStream(unittest.TestCase):
    def step(self, folder, *files, step=3):
        folder = Path(folder) / str(step)
        folder.mkdir()
        for name in files:
            (folder / name).write_text('{"row": 1}\n')
        kinds = ("rollouts", "failures")
        return durable_rollouts.Step(step, {"files": {kind: str(folder / f"{kind}.jsonl") for kind in kinds}})

    def test_has_its_rows_and_the_failed_rollouts_of_its_groups(self):
        with tempfile.TemporaryDirectory() as folder:
            step = self.step(folder, "rollouts.jsonl", "failures.jsonl", "metrics.json")
            self.assertEqual((step.rows(), step.failures()), ([{"row": 1}], [{"row": 1}]))

    def test_that_was_forgotten_names_the_setting_and_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            # As a stream forgets it: the step's own fact stays.
            step = self.step(folder, "step.json")
            for read in (step.rows, step.failures):
                with self.assertRaisesRegex(durable_rollouts.StepOutOfOrder, "^step 3 was forgotten after it was delivered: keep_steps of the request .*; read a step before you ask for the next one, or raise keep_steps by one for each"):
                    read()

    def test_whose_store_is_out_of_reach_or_lost_a_file_is_not_called_forgotten(self):
        with tempfile.TemporaryDirectory() as folder:
            step = self.step(folder, "metrics.json")
            elsewhere = durable_rollouts.Step(3, {"files": {"rollouts": "/nowhere/steps/3/rollouts.jsonl"}})
            for one in (step, elsewhere):
                with self.assertRaises(FileNotFoundError):
                    one.rows()

    def test_that_is_deleted_while_it_is_read_over_a_network_is_forgotten(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch("durable_rollouts.results.read_rows", side_effect=OSError(errno.ESTALE, "stale")):
            with self.assertRaises(durable_rollouts.StepOutOfOrder):
                self.step(folder, "step.json").rows()
            with self.assertRaisesRegex(OSError, "stale"):
                self.step(folder, "metrics.json", step=4).rows()


class Failures(unittest.TestCase):
    def test_of_a_stream_are_those_since_its_last_step_by_type(self):
        workflow = Workflow(RUNNING)
        self.assertEqual(asyncio.run(aio.Stream(workflow, "run-7").failures()), {})
        failures = {"EnvironmentFailed": {"rollouts": 7, "message": "no such table", "example": "run-7/12-3"}}
        workflow.kept = {"failures": failures}
        self.assertEqual(asyncio.run(aio.Stream(workflow, "run-7").failures()), failures)
