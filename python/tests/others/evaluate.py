"""What the packages themselves say of rollouts: the same replies, without this project.

python evaluate.py < ROWS: prints a line for each, with its rewards by name and what was observed
"""

import asyncio
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import games
import gymnasium
import play
import verifiers.v1 as vf
from openenv.core.generic_client import GenericEnvClient


def of_lake(replies, info):
    lake = gymnasium.make("FrozenLake-v1")
    lake.reset(seed=info["seed"])
    steps = [lake.step(games.moves(reply)) for reply in replies]
    return {"rewards": {"reward": sum(step[1] for step in steps)}, "observed": [str(step[0]) for step in steps]}


def of_count(replies, info):
    with GenericEnvClient(os.environ["OPENENV_URL"]).sync() as client:
        client.reset(seed=info["seed"])
        steps = [client.step({"message": reply}) for reply in replies]
    return {"rewards": {"reward": sum(step.reward for step in steps)}, "observed": [step.observation["text"] for step in steps]}


class Said(BaseHTTPRequestHandler):
    """A model that says these replies, as a stream."""

    replies: list

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert asked["stream"], asked
        at = sum(message["role"] == "assistant" for message in asked["messages"])
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for delta, end in (({"role": "assistant", "content": self.replies[at]}, None), ({}, "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": end}
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "policy", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        """Nothing."""


def of_sums(replies, info):
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Of", (Said,), {"replies": replies}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["OPENAI_API_KEY"] = "none"
    client = vf.EvalClientConfig(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key_var="OPENAI_API_KEY")
    task = play.Task(play.Task.data_type().model_validate(info), play.env.taskset.config.task)

    async def episode():
        async with play.env.serving():
            return await play.env.run_episode(task, vf.ModelContext(client=client, model="policy", sampling=vf.SamplingConfig()))

    [trace] = asyncio.run(episode()).traces
    server.shutdown()
    assert trace.ok, trace.errors
    said = [message.content for message in trace.messages]
    return {"rewards": {name: reward.value for name, reward in trace.rewards.items()}, "observed": said[2::2]}


for line in sys.stdin:
    row = json.loads(line)
    log = row["message_log"]
    replies = [message["content"] for message in log if message["role"] == "assistant"]
    print(json.dumps({"lake": of_lake, "count": of_count, "sums": of_sums}[row["task_name"]](replies, row["info"])), flush=True)
