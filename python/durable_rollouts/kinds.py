"""What has an id on a Temporal server: a batch, a stream, or something else."""

from __future__ import annotations

from temporalio.client import WorkflowExecutionDescription

from .faults import NotFound

_KINDS = {
    "rolloutBatch": "a batch: client.batch({id!r})",
    "rolloutStream": "a stream: client.stream({id!r})",
    "policy": "a policy: client.policy({service!r})",
    "rollout": "a single rollout: client.rollout(sample, {id!r})",
    "rolloutSlice": "a part of a batch",
    "rolloutGroup": "a group of a stream",
}


def kind_of(type: str, id: str) -> str:
    """By its type of workflow, with how to reach it."""
    return _KINDS.get(type, f"a workflow of type {type}").format(id=id, service=id.partition("/")[2])


def check_type(described: WorkflowExecutionDescription, id: str, type: str) -> None:
    """Raises ``NotFound`` for a workflow of another type, which would misunderstand every call."""
    if described.workflow_type != type:
        wanted = {"rolloutBatch": "batch", "rolloutStream": "stream"}.get(type, type)
        raise NotFound(f"no {wanted} has the id {id}: it is {kind_of(described.workflow_type, id)}")
