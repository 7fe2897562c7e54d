"""An agent of a few lines: it asks, looks at the answer, and asks again. `pip install openai` if you like; any client does."""

import json
import os
import urllib.request


def run(task):
    messages = [{"role": "user", "content": task.prompt}]
    for tries in range(3):
        answer = ask(messages)
        if task.metadata["expected"] in answer:
            return {"reward": 1.0 / (1 + tries), "submission": answer}
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "That is not it. Try again."}]
    return {"reward": 0.0, "submission": answer}


def ask(messages):
    """As OpenAI().chat.completions.create(model="policy", messages=messages).choices[0].message.content"""
    request = urllib.request.Request(
        f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
        json.dumps({"model": "policy", "messages": messages}).encode(),
        {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)["choices"][0]["message"]["content"] or ""
