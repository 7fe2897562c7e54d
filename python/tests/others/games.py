"""Environments of Gymnasium and OpenEnv, wrapped as docs/python-environments.md says."""

import os

import gymnasium
from openenv.core.generic_client import GenericEnvClient
from rollout_environment import wrap


def moves(reply):
    """Any text is a move."""
    return len(reply) % 4


# It is slippery: where a move leads is drawn.
lake = wrap(lambda info: gymnasium.make("FrozenLake-v1"), action=moves)
count = wrap(
    lambda info: GenericEnvClient(os.environ["OPENENV_URL"]).sync(),
    action=lambda reply: {"message": reply},
    show=lambda observation: observation["text"],
)
