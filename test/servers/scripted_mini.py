"""Stands in for `mini` of mini-swe-agent where examples/agent plays: the same options, calls and end, no dependencies."""

import json
import subprocess
import sys
import urllib.request

TOOL = {
    "type": "function",
    "function": {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}},
}
END = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

given = dict(option.lstrip("-").removeprefix("cmodel.").removeprefix("model_kwargs.").partition("=")[::2] for option in sys.argv[1:])
messages = [{"role": "system", "content": "You run commands."}, {"role": "user", "content": given["task"]}]
while True:
    body = json.dumps({"model": given["model"], "messages": messages, "tools": [TOOL]}).encode()
    headers = {"Authorization": f"Bearer {given['api_key']}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{given['api_base']}/chat/completions", body, headers)) as answer:
        said = json.load(answer)["choices"][0]["message"]
    messages.append(said)
    for call in said["tool_calls"]:
        command = json.loads(call["function"]["arguments"])["command"]
        run = subprocess.run(command, shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": run.stdout})
        if run.stdout.strip() == END:
            sys.exit()
