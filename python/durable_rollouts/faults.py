"""The faults that rows, batches, streams and policies report, by name (docs/failures.md explains them).

Every class is a ``RolloutFault``; ``fault.type`` is its name and ``str(fault)`` its message. A fault whose name this
package does not know is a plain ``RolloutFault`` with that ``type``. Calls also raise ``ConnectionError`` if no
Temporal server answers, and ``TimeoutError`` after the caller's own ``timeout``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, Optional, Type

from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError

if TYPE_CHECKING:
    from .answers import BatchResult


class RolloutFault(Exception):
    """A fault of the project. The others are its subclasses; one whose name this package does not know is of this class.

    type: its name, which a row has as ``failure.type``

        except RolloutFault as fault:
            print(fault.type, fault)
    """

    type: str

    def __init__(self, message: str, type: Optional[str] = None) -> None:
        super().__init__(message)
        self.type = type or self.__class__.__name__


class GenerationUnavailable(RolloutFault):
    """The generation service refused, was cut off, or was too late; retried until ``rollout_timeout``."""


class GenerationRejected(RolloutFault):
    """The generation service rejected the request."""


class ProtocolError(RolloutFault):
    """A reply of the generation service breaks its protocol."""


class EnvironmentUnavailable(RolloutFault):
    """The environment refused, or was too late; retried until ``rollout_timeout``."""


class EnvironmentRejected(RolloutFault):
    """The environment rejected its input, or its answer is malformed."""


class EnvironmentFailed(RolloutFault):
    """The environment raised an exception for one turn, as often as ``attempts.environment`` allows."""


class EnvironmentStateLost(RolloutFault):
    """A service lost the rollout's session again and again."""


class AgentFailed(RolloutFault):
    """An agent's result says that it failed, or that its reward is invalid."""


class StateLost(RolloutFault):
    """An environment's state could not be rebuilt as the journal has it."""


class ReplayDiffers(RolloutFault):
    """A fork's environment answers a turn otherwise than before."""


class JournalLost(RolloutFault):
    """The journal lost what was in it: the store was restored to an earlier moment, or workers have different stores."""


class StoreFault(RolloutFault):
    """The trajectory store failed."""


class PolicyVersionMismatch(RolloutFault):
    """An engine reports other weights than the record."""


class PolicyUpdateFailed(RolloutFault):
    """Too few replicas have the new weights; the message says which ones lack them, and why."""


class ForeignWeights(RolloutFault):
    """A row of weights that another training has brought, or of none that anybody knows: trained, it would pull this one
    astray.
    """


class StepOutOfOrder(RolloutFault):
    """The requested step is neither the next one nor a kept one, or it was forgotten before its rows were read."""


class StreamEnded(RolloutFault):
    """The stream's epochs are used up: it has no further steps."""


class StreamStarved(RolloutFault):
    """Too many groups in a row gave no rows; the message says why, with the most frequent failures. The next request tries
    as many more.
    """


class PromptTooLong(RolloutFault):
    """The prompt leaves no room for a generation."""


class InvalidBatchRequest(RolloutFault):
    """The request does not parse, names something that does not exist, or its id belongs to another request."""


class TooFewValid(RolloutFault):
    """Fewer rollouts are valid than the request's ``min_valid``; the batch's files are written.

    result: that of the batch, with the paths of its files; None: an older worker has closed it
    """

    result: Optional[BatchResult] = None


class UpdateRefused(RolloutFault):
    """The workflow refused the update; the message says why."""


class TimedOut(RolloutFault):
    """``rollout_timeout`` passed."""


class Stopped(RolloutFault):
    """It was stopped before there was a result. A stopped stream continues when it is started again."""


class Cancelled(RolloutFault):
    """It was cancelled. A cancelled batch still has its files."""


class Terminated(RolloutFault):
    """It was terminated, which writes nothing; started again under its id, it continues."""


class OtherDeployment(RolloutFault):
    """The id is that of a workflow of another deployment in the namespace: it has another task queue, or another store."""


class NotFound(RolloutFault):
    """Temporal does not know this id, or no longer."""


def _subclasses() -> Dict[str, Type[RolloutFault]]:
    return {cls.__name__: cls for cls in RolloutFault.__subclasses__()}


def fault_named(type: str, message: str) -> RolloutFault:
    """The fault of that name; a plain ``RolloutFault`` for an unknown name."""
    cls = _subclasses().get(type)
    return RolloutFault(message, type) if cls is None else cls(message)


def fault_of(error: BaseException) -> RolloutFault:
    """The innermost cause of a failed workflow or update, as a fault."""
    innermost = error
    while True:
        cause = getattr(innermost, "cause", None)
        if not isinstance(cause, BaseException):
            break
        innermost = cause
    if isinstance(innermost, ApplicationError):
        fault = fault_named(innermost.type or "Error", innermost.message)
        if isinstance(fault, TooFewValid) and innermost.details:
            fault.result = innermost.details[0]
        return fault
    if isinstance(innermost, CancelledError):
        return Cancelled("it was cancelled")
    if isinstance(innermost, TerminatedError):
        return Terminated("it was terminated; starting its id again continues it")
    return fault_named(innermost.__class__.__name__, str(innermost))
