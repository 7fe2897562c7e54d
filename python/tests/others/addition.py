"""A taskset of verifiers, and an environment of it that talks: it asks again, twice at most."""

import random

import verifiers.v1 as vf


class AdditionData(vf.TaskData):
    numbers: list[int]


def is_right(reply, data):
    return str(sum(data.numbers)) in reply.split()


class AdditionTask(vf.Task[AdditionData]):
    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        return float(is_right(trace.last_reply, self.data))

    @vf.reward(weight=0.5)
    async def soon(self, trace: vf.Trace) -> float:
        return 1 / len(trace.assistant_messages)


class AdditionConfig(vf.TasksetConfig):
    count: int = 4


class AdditionTaskset(vf.Taskset[AdditionTask, AdditionConfig]):
    def load(self):
        for seed in range(self.config.count):
            numbers = random.Random(seed).sample(range(10), 2)
            prompt = f"What is {numbers[0]} + {numbers[1]}?\nAnswer: {sum(numbers)}"
            yield AdditionTask(AdditionData(prompt=prompt, numbers=numbers), self.config.task)


class AdditionEnv(vf.SingleAgentEnv):
    async def run(self, task, agents):
        async with agents.agent.interaction(task) as interaction:
            segment = await interaction.turn()
            for _ in range(2):
                if segment.terminated or is_right(segment.last_reply, task.data):
                    break
                segment = await interaction.turn("That is wrong. Try again.")


__all__ = ["AdditionEnv", "AdditionTaskset"]
