"""Serves a program that owns its loop as an agent: `PUT`, `GET` and `DELETE /runs/<rollout>.<life>`."""

from .server import create_agent_server
from .task import Task

__all__ = ["Task", "create_agent_server"]
