"""An agent of a few lines: it asks, looks at the answer, and asks again. `pip install openai` if you like; any client does."""

import json
import os
import time
import urllib.request
from http.client import HTTPException

# Longer than a worker is away.
PAUSES = [0.5, 1, 2, 4, 8, 8, 8, 8]


def run(task):
    messages = [{"role": "user", "content": task.prompt}]
    for tries in range(3):
        answer = ask(messages)
        if task.metadata["expected"] in answer:
            return {"reward": 1.0 / (1 + tries), "submission": answer}
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "That is not it. Try again."}]
    return {"reward": 0.0, "submission": answer}


def ask(messages):
    """As OpenAI(max_retries=8).chat.completions.create(model="policy", messages=messages).choices[0].message.content"""
    request = urllib.request.Request(
        f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
        json.dumps({"model": "policy", "messages": messages}).encode(),
        {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"},
    )
    for pause in [*PAUSES, None]:
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return json.load(answer)["choices"][0]["message"]["content"] or ""
        except (OSError, HTTPException) as error:
            # Refused for good, as at a limit of the rollout.
            if pause is None or getattr(error, "code", 503) < 500:
                raise
            time.sleep(pause)
