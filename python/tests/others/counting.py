"""A server of OpenEnv's whose environment rewards a reply by its length and a number that the seed decides.

python counting.py: prints its URL, and serves until its standard input ends
"""

import random
import socket
import sys
import threading

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

TURNS = 3


class Said(Action):
    message: str


class Counted(Observation):
    text: str


class Counting(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **_):
        self._drawn = random.Random(seed)
        self._state = State(episode_id=episode_id, step_count=0)
        return Counted(text=f"Say something of about {self._drawn.randint(1, 90)} letters.", done=False)

    def step(self, action, timeout_s=None, **_):
        self._state.step_count += 1
        drawn = self._drawn.randint(1, 90)
        return Counted(text=f"Now {drawn}.", reward=len(action.message) / drawn, done=self._state.step_count == TURNS)

    @property
    def state(self):
        return self._state


if __name__ == "__main__":
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(create_fastapi_app(Counting, Said, Counted, max_concurrent_envs=64), log_level="warning"))
        threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True).start()
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        sys.stdin.read()
