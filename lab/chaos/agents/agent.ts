import { mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { request } from 'node:http';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/**
 * A deterministic agent: given the same answers, it asks the same. It calls a tool until the policy answers, asks for
 * two candidates once, gives an answer up once, and starts its conversation over once. What it gets it writes down as it
 * comes, into a log of each life (heard.ts). It starts in some hundredths of a second: nothing but Node.js is loaded.
 */
export interface AgentTask {
  base_url: string;
  key: string;
  prompt: string;
  /** A folder. */
  logs: string;
}
type Message = Record<string, unknown>;
interface ToolCall {
  id: string;
  function: { name: string; arguments: string };
}
interface Said {
  content: string;
  tool_calls: ToolCall[];
}
type Log = (entry: object) => void;
type How = 'streamed' | 'whole' | 'hurried' | 'twice';

/** How it asks, step after step. */
const STEPS: readonly How[] = ['streamed', 'twice', 'whole', 'hurried', 'streamed'];
/** Before this step it starts its conversation over. */
const SHORTENS_AT = 2;
const TOOLS = [
  {
    type: 'function',
    function: {
      name: 'add',
      description: 'Adds a number to the sum.',
      parameters: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
    },
  },
];
const HURRY_MS = 400;
const AGAIN_MS = 400;
const PATIENCE_MS = 10 * 60_000;

/** Returns the sum that its tool has made. */
export async function play(task: AgentTask): Promise<string> {
  const log = logOf(task);
  let messages: Message[] = [
    { role: 'system', content: 'Add, then answer.' },
    { role: 'user', content: task.prompt },
  ];
  let sum = 0;
  for (let step = 0; ; step++) {
    if (step === SHORTENS_AT)
      messages = [
        ...messages.slice(0, 1),
        { role: 'user', content: `The sum is ${sum}.\n${linesFrom(task.prompt, step)}` },
      ];
    const said = await answered({ task, log, step, messages });
    messages = [...messages, { role: 'assistant', ...said }];
    if (said.tool_calls.length === 0) return String(sum);
    for (const call of said.tool_calls) {
      sum += (JSON.parse(call.function.arguments) as { n: number }).n;
      messages = [
        ...messages,
        { role: 'tool', tool_call_id: call.id, content: `The sum is ${sum}.` },
      ];
    }
  }
}

/** What the prompt prescribes from a step on. */
const linesFrom = (prompt: string, step: number): string =>
  prompt
    .split('\n')
    .filter((line) => /^(Call|Answer): /.test(line))
    .slice(step)
    .join('\n');

/** How a request's answer comes. */
interface Asking {
  task: AgentTask;
  log: Log;
  step: number;
  messages: Message[];
}

async function answered(asking: Asking): Promise<Said> {
  const how = STEPS[asking.step % STEPS.length];
  const one = { ...asking, stream: how !== 'whole', hurries: how === 'hurried' };
  const asked = (how === 'twice' ? ['a', 'b'] : ['a']).map((name) =>
    ask({ ...one, name: `${asking.step}${name}` }),
  );
  const candidates = await Promise.all(asked);
  const [first] = candidates.sort((a, b) => (a.content < b.content ? -1 : 1));
  if (first === undefined) throw new Error('no candidate');
  return first;
}

/** Again until it has an answer. */
async function ask({
  task,
  log,
  messages,
  name,
  stream,
  hurries,
}: Asking & { name: string; stream: boolean; hurries: boolean }): Promise<Said> {
  const body = JSON.stringify({
    model: 'policy',
    messages,
    tools: TOOLS,
    ...(stream && { stream }),
  });
  const end = performance.now() + PATIENCE_MS;
  for (let number = 0; ; number++) {
    log({ asks: name, number, stream });
    const got = await post(
      { task, body, within_ms: hurries && number === 0 ? HURRY_MS : PATIENCE_MS },
      (status, part) => {
        log({ of: name, number, status, part });
      },
    ).catch((error: unknown) => ({ status: 0, text: String(error) }));
    const said = got.status === 200 ? saidIn(got.text, stream) : null;
    if (said !== null) {
      log({ of: name, number, whole: true });
      return said;
    }
    if (got.status >= 400 && got.status < 500) throw new Error(`${got.status} ${got.text}`);
    if (performance.now() > end)
      throw new Error(`no answer: ${got.status} ${got.text.slice(-200)}`);
    await sleep(AGAIN_MS);
  }
}

/** Bytes as characters: a part may end inside of one. */
function post(
  { task, body, within_ms }: { task: AgentTask; body: string; within_ms: number },
  came: (status: number, part: string) => void,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${task.key}`,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    };
    const asked = request(
      `${task.base_url}/chat/completions`,
      { method: 'POST', headers },
      (reply) => {
        const { statusCode: status = 0 } = reply;
        let text = '';
        reply.setEncoding('latin1').on('data', (part: string) => {
          text += part;
          came(status, part);
        });
        reply
          .on('end', () => {
            resolve({ status, text });
          })
          .on('error', reject);
      },
    ).on('error', reject);
    asked.end(body);
    const late = setTimeout(() => asked.destroy(new Error('given up')), within_ms);
    asked.once('close', () => {
      clearTimeout(late);
    });
  });
}

/** null: it broke off. */
function saidIn(bytes: string, stream: boolean): Said | null {
  const text = Buffer.from(bytes, 'latin1').toString();
  if (stream && !text.endsWith('data: [DONE]\n\n')) return null;
  const events = stream
    ? text
        .split('\n')
        .filter((line) => line.startsWith('data: {'))
        .map((line) => line.slice(6))
    : [text];
  const deltas = events.flatMap((event) =>
    (
      JSON.parse(event) as { choices: { delta?: Partial<Said>; message?: Partial<Said> }[] }
    ).choices.map(({ delta, message }) => delta ?? message ?? {}),
  );
  const tool_calls = deltas
    .flatMap((delta) => delta.tool_calls ?? [])
    .map(({ id, function: { name, arguments: given } }) => ({
      id,
      type: 'function',
      function: { name, arguments: given },
    }));
  return { content: deltas.map(({ content }) => content ?? '').join(''), tool_calls };
}

/** A key names the rollout, the life and its writer: so does the log. Each line is with the system at once. */
function logOf({ key, logs }: AgentTask): Log {
  mkdirSync(logs, { recursive: true });
  const file = openSync(
    path.join(logs, `${key.split('.').slice(1, 4).join('.')}.${process.pid}.jsonl`),
    'a',
  );
  return (entry) => writeSync(file, `${JSON.stringify(entry)}\n`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { OPENAI_BASE_URL: base_url = '', OPENAI_API_KEY: key = '', LOGS: logs = '' } = process.env;
  writeFileSync('said.txt', await play({ base_url, key, prompt: process.argv[2] ?? '', logs }));
}
