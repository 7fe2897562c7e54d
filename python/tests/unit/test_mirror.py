import asyncio
import inspect
import os
import pickle
import unittest

import durable_rollouts
from durable_rollouts import aio, faults, loop, sync
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError

PAIRS = [(getattr(sync, name), getattr(aio, name)) for name in ("Client", "Batch", "Stream", "Policy", "Engines", "Transfer")]


def public(cls):
    return {name: member for name, member in inspect.getmembers(cls, callable) if not name.startswith("_")}


class Mirror(unittest.TestCase):
    def test_the_synchronous_objects_have_the_same_methods_parameters_defaults_and_docs(self):
        for mirror, original in PAIRS:
            self.assertEqual(public(mirror).keys(), public(original).keys(), original)
            for name, method in public(original).items():
                mine, theirs = inspect.signature(public(mirror)[name]), inspect.signature(method)
                parameters = lambda signature: [(p.name, p.kind, p.default, p.annotation) for p in signature.parameters.values()]  # noqa: E731
                self.assertEqual(parameters(mine), parameters(theirs), f"{original.__name__}.{name}")
                self.assertTrue(public(mirror)[name].__doc__, f"{original.__name__}.{name} has no docstring")
                self.assertEqual(public(mirror)[name].__doc__, method.__doc__)

    def test_everything_that_is_named_is_there(self):
        for name in durable_rollouts.__all__:
            self.assertTrue(hasattr(durable_rollouts, name), name)


class Fork(unittest.TestCase):
    def test_a_child_of_a_process_that_has_connected_is_refused_and_does_not_hang(self):
        loop.run(asyncio.sleep(0))
        child = os.fork()
        if child == 0:
            work = asyncio.sleep(0)
            try:
                loop.run(work)
            except RuntimeError:
                work.close()
                os._exit(7)
            os._exit(0)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)


def failure(cause):
    return WorkflowFailureError(cause=cause)


class Faults(unittest.TestCase):
    def test_are_raised_by_the_type_of_the_innermost_cause(self):
        told = ApplicationError("samples row 3: expected a prompt", type="InvalidBatchRequest")
        fault = faults.fault_of(failure(told))
        self.assertIs(type(fault), durable_rollouts.InvalidBatchRequest)
        self.assertEqual((fault.type, str(fault)), ("InvalidBatchRequest", "samples row 3: expected a prompt"))
        self.assertIsInstance(fault, durable_rollouts.RolloutFault)
        self.assertIs(type(faults.fault_of(failure(CancelledError()))), durable_rollouts.Cancelled)
        self.assertIs(type(faults.fault_of(failure(TerminatedError("by hand")))), durable_rollouts.Terminated)

    def test_of_a_type_that_is_not_known_keep_its_name_also_through_pickle(self):
        fault = pickle.loads(pickle.dumps(faults.fault_named("SomethingNew", "why")))
        self.assertIs(type(fault), durable_rollouts.RolloutFault)
        self.assertEqual((fault.type, str(fault)), ("SomethingNew", "why"))
