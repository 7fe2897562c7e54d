"""What can go wrong, by name: the faults that rows, batches, streams and policies report (design of each: README).

Every class is a ``RolloutFault``; ``fault.type`` is its name and ``str(fault)`` its message. A fault whose name this
package does not know is a plain ``RolloutFault`` with that ``type``. Beside them, calls raise ``ConnectionError`` where
no Temporal server answers, and ``TimeoutError`` where the caller's own ``timeout`` has passed.
"""

from __future__ import annotations

from typing import Dict, Optional, Type

from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError


class RolloutFault(Exception):
    """A fault of the project's vocabulary. ``type``: its name."""

    type: str

    def __init__(self, message: str, type: Optional[str] = None) -> None:
        super().__init__(message)
        self.type = type or self.__class__.__name__


class GenerationUnavailable(RolloutFault):
    """The generation service refused, was cut off, or was too late; it is asked again until ``rollout_timeout``."""


class GenerationRejected(RolloutFault):
    """The generation service rejected the request."""


class ProtocolError(RolloutFault):
    """A reply of the generation service breaks its protocol."""


class EnvironmentUnavailable(RolloutFault):
    """The environment refused, or was too late; it is asked again until ``rollout_timeout``."""


class EnvironmentRejected(RolloutFault):
    """The environment rejected its input, or its answer is malformed."""


class EnvironmentFailed(RolloutFault):
    """The environment raised an exception for one turn, as often as ``attempts.environment`` says."""


class EnvironmentStateLost(RolloutFault):
    """An environment behind a service lost its session, again and again."""


class AgentFailed(RolloutFault):
    """An agent gave a result that says that it failed, or that its reward means nothing."""


class StateLost(RolloutFault):
    """An environment's state could not be made again as the journal has it."""


class StoreFault(RolloutFault):
    """The trajectory store."""


class PolicyVersionMismatch(RolloutFault):
    """An engine's label is not the one on record."""


class PolicyUpdateFailed(RolloutFault):
    """Too few replicas have the new weights; the message says which ones lack them, and why."""


class StepOutOfOrder(RolloutFault):
    """A step was asked for that is neither the next one nor one that is kept."""


class StreamEnded(RolloutFault):
    """The stream's epochs are used up, or it was stopped: no step comes any more."""


class StreamStarved(RolloutFault):
    """Too many groups in a row gave no rows; the message names the reasons. Asking again tries as many more."""


class PromptTooLong(RolloutFault):
    """The prompt leaves no room for a generation."""


class InvalidBatchRequest(RolloutFault):
    """The request does not parse, names what is not there, or its id belongs to another request."""


class TooFewValid(RolloutFault):
    """Fewer rollouts are valid than the request's ``min_valid``; the batch's files are written."""


class UpdateRefused(RolloutFault):
    """The workflow refused to be steered so; the message says why."""


class TimedOut(RolloutFault):
    """``rollout_timeout`` passed."""


class Stopped(RolloutFault):
    """It was stopped before there was anything to give."""


class Cancelled(RolloutFault):
    """It was cancelled. A cancelled batch has its files all the same."""


class Terminated(RolloutFault):
    """It was terminated, which writes nothing; started again under its id it goes on."""


class NotFound(RolloutFault):
    """Temporal knows nothing under this id (any more)."""


def _subclasses() -> Dict[str, Type[RolloutFault]]:
    return {cls.__name__: cls for cls in RolloutFault.__subclasses__()}


def fault_named(type: str, message: str) -> RolloutFault:
    """The fault of that name; a plain ``RolloutFault`` for a name that is not known here."""
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
        return fault_named(innermost.type or "Error", innermost.message)
    if isinstance(innermost, CancelledError):
        return Cancelled("it was cancelled")
    if isinstance(innermost, TerminatedError):
        return Terminated("it was terminated; started again under its id it goes on")
    return fault_named(innermost.__class__.__name__, str(innermost))
