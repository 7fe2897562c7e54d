"""A program that a worker starts: it does what `setup` wrote into its folder."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

does, marks = open("does").read(), os.environ["MARKS"]


def ask(messages):
    request = urllib.request.Request(
        f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
        json.dumps({"model": "policy", "messages": messages}).encode(),
        {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


messages = [{"role": "user", "content": sys.argv[1]}]
said = ask(messages)
with open("said.txt", "w") as file:
    file.write(said)
helpers = [subprocess.Popen(["sleep", "300"]), subprocess.Popen(["setsid", "sleep", "300"])]
with open(f"{marks}/{does}.{os.getpid()}.part", "w") as file:
    json.dump([os.getpid(), *(helper.pid for helper in helpers)], file)
os.rename(file.name, file.name.removesuffix(".part"))
is_first = len([name for name in os.listdir(marks) if name.startswith(f"{does}.")]) == 1
print(f"the key is {os.environ['OPENAI_API_KEY']}")
if does == "dies once" and is_first:
    os.kill(os.getpid(), signal.SIGKILL)
if does == "sleeps" or (does == "waits" and is_first):
    time.sleep(300)
if does == "fails":
    sys.exit("boom")
if does == "loses":
    os.remove("said.txt")
