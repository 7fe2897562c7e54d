"""Serves an object with `step(message_log_batch, metadata)` over the HTTP protocol of kind `http`."""

from .answers import Unavailable, to_answer, to_json
from .server import create_server

__all__ = ["Unavailable", "create_server", "to_answer", "to_json"]
