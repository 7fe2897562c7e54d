"""An environment that holds a file for each session, from its beginning to its end.

The file stays when the process is killed, as a container does. `events.jsonl` has a line for each call that arrived.
Metadata: `left` turns are to be played; a file `over` ends each rollout at its next turn.
"""
import json
import os
import time
from pathlib import Path
from urllib.parse import quote

BEGIN_S = 0.3
STEP_S = 0.05


class Holding:
    thread_safe = True

    def __init__(self):
        folder = Path(os.environ["HOLDING_FOLDER"])
        self.held = folder / "held"
        self.over = folder / "over"
        self.held.mkdir(parents=True, exist_ok=True)
        self.events = os.open(folder / "events.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def file(self, session):
        return self.held / quote(session, safe="")

    def say(self, event, session):
        line = {"event": event, "session": session, "held": self.file(session).exists()}
        os.write(self.events, (json.dumps(line) + "\n").encode())

    def begin(self, sample):
        session = sample["session"]
        self.say("begin", session)
        time.sleep(BEGIN_S)
        self.file(session).touch()
        return {**sample["metadata"], "session": session}

    def end(self, metadata, session):
        self.say("end", session)
        self.file(session).unlink(missing_ok=True)

    def step(self, message_log_batch, metadata):
        [state] = metadata
        self.say("step", state["session"])
        time.sleep(STEP_S)
        left = state["left"] - 1
        return {
            "observations": [{"role": "environment", "content": f"{left} left"}],
            "metadata": [{**state, "left": left}],
            "rewards": [1.0],
            "terminateds": [left == 0 or self.over.exists()],
        }
