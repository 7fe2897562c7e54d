"""Serves an object with `step(message_log_batch, metadata)` over the HTTP protocol of kind `http`."""

import sys

if sys.version_info < (3, 10):
    sys.exit("rollout_environment: expected Python 3.10 or newer, got %s (%s)" % (sys.version.split()[0], sys.executable))

from .answers import Unavailable, to_answer, to_json
from .processes import Isolated
from .server import create_server
from .wrapping import wrap

__all__ = ["Isolated", "Unavailable", "create_server", "to_answer", "to_json", "wrap"]
