"""Rollouts as trainers' loops play them: one coroutine a sample, all of them gathered, everything in memory.

    python asyncio_loop.py BASE_URL TURNS      needs `pip install openai`

Each line of stdin is a number of rollouts; the answer is the number of turns that were played. Answers are streamed by
the `openai` package with token ids and logprobs, and the ids are the next prompt, so the engine is asked for the same
tokens as by the bench's other contenders. The environment is a fixed text of as many tokens as a board has.
"""

import asyncio
import json
import sys

from openai import AsyncOpenAI

BASE_URL, TURNS = sys.argv[1], int(sys.argv[2])
TASK = "Solve the puzzle:\n" + "\n".join("1 2 3 4".split() * 4)
BOARD = "\n".join(["| 1 | 2 | 3 | 4 |"] * 4) + "\nmoves: 12\n"


async def tokenize(client: AsyncOpenAI, text: str) -> list[int]:
    # Beside /v1, as vLLM has it.
    url = BASE_URL.removesuffix("/v1") + "/tokenize"
    answer = await client.post(url, body={"model": "simulator", "prompt": text}, cast_to=object)
    return answer["tokens"]


async def generate(client: AsyncOpenAI, prompt: list[int], seed: int) -> dict:
    ids: list[int] = []
    logprobs: list[float] = []
    text = ""
    stream = await client.completions.create(
        model="simulator",
        prompt=prompt,
        max_tokens=2048,
        stream=True,
        logprobs=0,
        seed=seed,
        stop=["</action>"],
        extra_body={"return_token_ids": True, "include_stop_str_in_output": True},
    )
    async for event in stream:
        for choice in event.choices:
            text += choice.text
            ids += choice.model_extra.get("token_ids") or []
            if choice.logprobs is not None:
                logprobs += choice.logprobs.token_logprobs or []
    return {"role": "assistant", "content": text, "token_ids": ids, "logprobs": logprobs}


async def play(client: AsyncOpenAI, row: int) -> int:
    log = [{"role": "user", "content": TASK, "token_ids": await tokenize(client, TASK)}]
    for turn in range(TURNS):
        prompt = [token for message in log for token in message["token_ids"]]
        log.append(await generate(client, prompt, 1000 * row + turn))
        ids = await tokenize(client, BOARD)
        log.append({"role": "environment", "content": BOARD, "token_ids": ids})
    return TURNS


async def main() -> None:
    async with AsyncOpenAI(base_url=BASE_URL, api_key="none", timeout=600) as client:
        print(json.dumps({"ready": True}), flush=True)
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            turns = await asyncio.gather(*(play(client, row) for row in range(int(line))))
            print(json.dumps({"turns": sum(turns)}), flush=True)


asyncio.run(main())
