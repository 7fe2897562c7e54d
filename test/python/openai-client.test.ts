/** OpenAI's Python client on the gateway's socket. OPENAI_PYTHON names a Python that has it, if python3 has not. */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { gatewayBed } from '../gateway/gateway-bed.js';

const PYTHON = process.env['OPENAI_PYTHON'] ?? 'python3';
const skip =
  spawnSync(PYTHON, ['-c', 'import openai']).status !== 0 &&
  `${PYTHON} has no package openai: pip install openai, or OPENAI_PYTHON=…/python`;

/** Prints what it was told, as JSON. Its library tries again by itself, twice. */
const PROGRAM = `
import json, sys
from openai import APIStatusError, BadRequestError, OpenAI
client = OpenAI(base_url=sys.argv[1], api_key=sys.argv[2])
TOOLS = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}]
say = lambda text: [{"role": "user", "content": "Say: " + text}]
ask = lambda **more: client.chat.completions.create(model="policy", **more)
said = {}

whole = ask(messages=say("é 🧩 yes"))
said["whole"] = whole.choices[0].message.content
said["usage"] = whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens

parts, usage = [], None
for event in ask(messages=say("one two three"), stream=True, stream_options={"include_usage": True}):
    parts += [choice.delta.content or "" for choice in event.choices]
    usage = event.usage or usage
said["streamed"], said["stream_usage"] = "".join(parts), usage.completion_tokens > 0

call = [{"role": "user", "content": 'Call: {"name": "run", "arguments": {"command": "ls"}}'}]
answer = ask(messages=call, tools=TOOLS)
made = answer.choices[0].message.tool_calls[0]
said["call"] = [answer.choices[0].finish_reason, made.function.name, json.loads(made.function.arguments)]
log = call + [answer.choices[0].message, {"role": "tool", "tool_call_id": made.id, "content": "a file"}]
said["after"] = ask(messages=log, tools=TOOLS).object
with client.chat.completions.stream(model="policy", messages=call, tools=TOOLS) as stream:
    final = stream.get_final_completion().choices[0]
said["streamed_call"] = [final.finish_reason, final.message.tool_calls[0].function.name]

try:
    ask(messages=say("x"), n=2)
except BadRequestError as error:
    said["refused"] = [error.status_code, error.code, error.param]
try:
    OpenAI(base_url=sys.argv[1], api_key="wrong").models.list()
except APIStatusError as error:
    said["key"] = error.status_code
said["models"] = [model.id for model in client.models.list()]
try:
    # Two tries that are too late each: the third one finds what the first has sampled.
    said["late"] = client.with_options(timeout=0.4, max_retries=20).chat.completions.create(model="policy", messages=say("word " * 12)).choices[0].message.content
except Exception as error:
    said["late"] = repr(error)
print(json.dumps(said))
`;

describe("OpenAI's Python client", { skip }, () => {
  test('reads answers whole and streamed, tools, errors, and gets what it was too early for', async (t) => {
    const { open, requests } = await gatewayBed(t, {
      simulator: { skill: 10, tokens_per_second: 60 },
    });
    const life = await open();
    const args = ['-c', PROGRAM, life.url, life.session.key];
    const { stdout } = await promisify(execFile)(PYTHON, args, { timeout: 280_000 });
    const { late, ...said } = JSON.parse(stdout) as { late: string } & Record<string, unknown>;
    assert.deepEqual(said, {
      whole: 'é 🧩 yes',
      usage: true,
      streamed: 'one two three',
      stream_usage: true,
      call: ['tool_calls', 'run', { command: 'ls' }],
      after: 'chat.completion',
      streamed_call: ['tool_calls', 'run'],
      refused: [400, 'invalid_request', 'n'],
      key: 401,
      models: ['simulator'],
    });
    assert.equal(late.trim(), 'word '.repeat(12).trim());
    const { calls } = life.journal.trajectory;
    assert.equal(calls.length, 6, 'a retry is no call');
    assert.equal(calls[3]!.line.parent, 2);
    assert.equal(requests.length, 6, 'and samples nothing');
  });
});
