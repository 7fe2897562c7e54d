import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { release, tmpdir } from 'node:os';
import path from 'node:path';
import type { Conversation } from './recorded.js';
import { RECORDED } from './recorded.js';

/**
 * Writes recorded.jsonl: `node --import tsx lab/bench/agents/record.ts FOLDER OPENCODE`, with the folder of the programs
 * `mini` (mini-swe-agent) and `python` (openai-agents), and the program `opencode`. They mend a small program; a server
 * says what the model would.
 */
const [, , programs = '.', opencode = 'opencode'] = process.argv;

const CODE = `def mean(values):\n    return sum(values) / len(values)\n\n\ndef median(values):\n    ordered = sorted(values)\n    middle = len(ordered) // 2\n    return ordered[middle]\n`;
const TEST = `import unittest\nfrom stats import mean, median\n\n\nclass Stats(unittest.TestCase):\n    def test_mean(self):\n        self.assertEqual(mean([1, 2, 3]), 2)\n\n    def test_median(self):\n        self.assertEqual(median([4, 1, 3, 2]), 2.5)\n\n    def test_none(self):\n        self.assertEqual(mean([]), 0)\n\n\nif __name__ == "__main__":\n    unittest.main()\n`;
const TASK =
  'The tests of this folder fail. Mend stats.py so that they pass, and leave the tests as they are.';

/** What the model says, and the command that it wants run. */
const STEPS: readonly [says: string, runs: string][] = [
  ['I will look at what is here before I change anything.', 'ls -la'],
  ['There is one module and one file of tests. I read the module first.', 'cat stats.py'],
  [
    'The median takes the upper of the two middle values of an even list. Now the tests.',
    'cat test_stats.py',
  ],
  [
    'Three tests. I run them to see which of them fail, and with what message.',
    'python3 -m unittest test_stats 2>&1',
  ],
  [
    'Two fail: the median of an even list, and the mean of an empty one. I mend the median first, by the mean of both middle values.',
    'python3 - <<\'END\'\nimport pathlib\nfile = pathlib.Path("stats.py")\ntext = file.read_text()\ntext = text.replace("    return ordered[middle]", "    if len(ordered) % 2:\\n        return ordered[middle]\\n    return (ordered[middle - 1] + ordered[middle]) / 2")\nfile.write_text(text)\nEND',
  ],
  [
    'I check the change before I go on.',
    'cat stats.py && python3 -m unittest test_stats 2>&1 | tail -12',
  ],
  [
    'One is left: the mean of an empty list divides by zero. The test expects 0 there.',
    'python3 - <<\'END\'\nimport pathlib\nfile = pathlib.Path("stats.py")\ntext = file.read_text()\ntext = text.replace("    return sum(values) / len(values)", "    return sum(values) / len(values) if values else 0")\nfile.write_text(text)\nEND',
  ],
  ['Now all three should pass.', 'python3 -m unittest test_stats 2>&1'],
  [
    'They do. I look for other uses of these functions, which the change may concern.',
    'grep -rn "median\\|mean" --include=*.py . | head -20',
  ],
];
const LAST =
  'The median of an even list is the mean of its two middle values now, and the mean of an empty list is 0. All three tests pass; nothing else uses these functions.';
/** With which mini-swe-agent ends. */
const SUBMIT = 'echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat stats.py';

interface Body {
  messages: Record<string, unknown>[];
  tools?: unknown[];
  stream?: boolean;
}

const said = (step: number, ends: boolean) => {
  const [content = LAST, command = ends ? SUBMIT : null] = STEPS[step] ?? [];
  if (command === null) return { role: 'assistant', content };
  const given = JSON.stringify({ command, ...(!ends && { description: 'Runs a command' }) });
  const call = {
    id: `call_${step}_0`,
    type: 'function',
    function: { name: 'bash', arguments: given },
  };
  return { role: 'assistant', content, tool_calls: [call] };
};

function answer(response: ServerResponse, { body, ends }: { body: Body; ends: boolean }): void {
  const hasTools = (body.tools ?? []).length > 0;
  const step = body.messages.filter(({ role }) => role === 'assistant').length;
  const message = hasTools
    ? said(step, ends)
    : { role: 'assistant', content: 'Mend two functions' };
  const finish_reason = 'tool_calls' in message ? 'tool_calls' : 'stop';
  const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
  const head = { id: `chatcmpl-${step}`, created: 1, model: 'policy' };
  if (body.stream !== true) {
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({
        ...head,
        object: 'chat.completion',
        choices: [{ index: 0, message, finish_reason }],
        usage,
      }),
    );
    return;
  }
  response.setHeader('content-type', 'text/event-stream');
  const { tool_calls = [], ...text } = message as { tool_calls?: object[] };
  const deltas = [text, ...tool_calls.map((call, index) => ({ tool_calls: [{ index, ...call }] }))];
  for (const delta of deltas)
    response.write(
      `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`,
    );
  response.write(
    `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta: {}, finish_reason }] })}\n\n`,
  );
  response.end(
    `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices: [], usage })}\n\ndata: [DONE]\n\n`,
  );
}

async function bodyOf(request: IncomingMessage): Promise<Body> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return JSON.parse(Buffer.concat(parts).toString()) as Body;
}

/** Each request goes on with a conversation of this agent, or begins one. */
function take(conversations: Conversation[], { agent, body }: { agent: string; body: Body }): void {
  const { messages, ...head } = body;
  const text = JSON.stringify(head);
  const before = conversations.find(
    (one) =>
      one.agent === agent &&
      JSON.stringify(one.head) === text &&
      JSON.stringify(messages.slice(0, one.messages.length)) === JSON.stringify(one.messages),
  );
  if (before === undefined) conversations.push({ agent, head, messages, asked: [messages.length] });
  else {
    before.asked.push(messages.length);
    before.messages = messages;
  }
}

const OPENAI_AGENT = `
import asyncio, subprocess, sys, openai
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
set_tracing_disabled(True)
@function_tool
def bash(command: str, description: str) -> str:
    """Runs a command in a shell and returns its output."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    return done.stdout + done.stderr
client = openai.AsyncOpenAI(base_url=sys.argv[1], api_key="none")
agent = Agent(name="mender", instructions="You mend programs. Run commands, look at what they say, and be brief.", model=OpenAIChatCompletionsModel("policy", client), tools=[bash])
print(asyncio.run(Runner.run(agent, sys.argv[2], max_turns=20)).final_output)
`;

const conversations: Conversation[] = [];
let agent = '';
const server = createServer((request, response) => {
  void bodyOf(request).then((body) => {
    take(conversations, { agent, body });
    answer(response, { body, ends: agent === 'mini-swe-agent' });
  });
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;

const base = await realpath(await mkdtemp(path.join(tmpdir(), 'record-')));
async function run(
  name: string,
  { command: [command = '', ...args], env = {} }: { command: readonly string[]; env?: object },
): Promise<void> {
  agent = name;
  const cwd = path.join(base, 'task');
  await rm(cwd, { recursive: true, force: true });
  await mkdir(cwd);
  await writeFile(path.join(cwd, 'stats.py'), CODE);
  await writeFile(path.join(cwd, 'test_stats.py'), TEST);
  const home = path.join(base, 'home');
  const child = spawn(command, args, {
    cwd,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { PATH: process.env['PATH'], HOME: home, TZ: 'UTC', PYTHONDONTWRITEBYTECODE: '1', ...env },
  });
  const code = await new Promise((resolve) => child.once('close', resolve));
  if (code !== 0) throw new Error(`${name} ended with ${String(code)}`);
}

const mini = [
  'mini',
  '--model',
  'policy',
  '--model-class',
  'litellm',
  '--task',
  TASK,
  '--exit-immediately',
  '--yolo',
  '-c',
  'mini',
  ...[
    'agent.cost_limit=0',
    'model.cost_tracking=ignore_errors',
    'model.model_kwargs.custom_llm_provider=openai',
    `model.model_kwargs.api_base=${url}`,
    'model.model_kwargs.api_key=none',
  ].flatMap((one) => ['-c', one]),
];
await run('mini-swe-agent', {
  command: [path.join(programs, mini[0] ?? ''), ...mini.slice(1)],
  env: { MSWEA_CONFIGURED: 'true', MSWEA_SILENT_STARTUP: 'true' },
});
await run('openai-agents', {
  command: [path.join(programs, 'python'), '-c', OPENAI_AGENT, url, TASK],
});
const config = path.join(base, 'opencode.json');
await writeFile(
  config,
  JSON.stringify({
    provider: {
      gw: {
        npm: '@ai-sdk/openai-compatible',
        name: 'gw',
        options: { baseURL: url, apiKey: 'none' },
        models: { policy: { name: 'policy', limit: { context: 100_000, output: 4096 } } },
      },
    },
    model: 'gw/policy',
    small_model: 'gw/policy',
    permission: 'allow',
  }),
);
await run('opencode', {
  command: [opencode, 'run', '--format', 'json', TASK],
  env: {
    OPENCODE_CONFIG: config,
    OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_DISABLE_AUTOUPDATE: '1',
  },
});
server.close();
server.closeAllConnections();

const lines = conversations.map(
  (one) =>
    `${JSON.stringify(one).replaceAll(base, '').replaceAll(release(), '6.1.0').replaceAll(path.dirname(opencode), '/bin')}\n`,
);
await writeFile(RECORDED, lines.join(''));
await rm(base, { recursive: true, force: true });
for (const { agent: name, asked, messages } of conversations)
  console.log(
    `${name}: ${asked.length} requests, ${JSON.stringify(messages).length} characters of messages at the end`,
  );
