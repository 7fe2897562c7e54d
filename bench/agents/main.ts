/**
 * `npm run build && node --import tsx bench/agents/main.ts [rounds]`: what the gateway costs
 * a call, beside a plain proxy and the engine alone. 64 agents at once ask the simulator, streamed; the contenders take
 * turns.
 */
import { startSimulatorProcess } from '../../test/harness/simulator-process.js';
import { makeTemporaryDirectory } from '../../test/harness/temporary-directory.js';
import type { ContenderProcess } from '../contender-process.js';
import { startProcess } from '../contender-process.js';
import { median } from '../measure.js';
import { cpuMs } from '../process-usage.js';
import type { Said } from './conversation.js';
import { AGENTS, beginning, CALLS, continued } from './conversation.js';

const ROUNDS = Number(process.argv[2] ?? 3);

interface Address {
  url: string;
  headers: Record<string, string>;
}

interface Asked {
  answer: string;
  first_ms: number;
  whole_ms: number;
}

/** Reads a stream of `/v1/chat/completions`. */
async function ask({ url, headers }: Address, messages: readonly Said[]): Promise<Asked> {
  const body = JSON.stringify({ model: 'policy', messages, stream: true });
  const began = performance.now();
  const given = await fetch(`${url}/chat/completions`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body,
  });
  if (given.status !== 200 || given.body === null) throw new Error(`${given.status} ${await given.text()}`); // prettier-ignore
  let text = '';
  let first_ms: number | null = null;
  const decoder = new TextDecoder();
  for await (const part of given.body) {
    text += decoder.decode(part as Uint8Array, { stream: true });
    if (first_ms === null && /"content":"[^"]/.test(text)) first_ms = performance.now() - began;
  }
  const answer = text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)) as { choices: { delta: { content?: string } }[] })
    .map(({ choices }) => choices[0]?.delta.content ?? '')
    .join('');
  if (first_ms === null) throw new Error(`an answer without text: ${text.slice(0, 300)}`);
  return { answer, first_ms, whole_ms: performance.now() - began };
}

async function play(agent: number, address: Address): Promise<Asked[]> {
  const all: Asked[] = [];
  let messages = beginning(agent);
  for (let call = 1; call <= CALLS; call++) {
    const one = await ask(address, messages);
    all.push(one);
    messages = continued(messages, { agent, call, answer: one.answer });
  }
  return all;
}

interface Round {
  cpu_ms: number;
  engine_ms: number;
  wall_ms: number;
  asked: Asked[];
}

async function round(
  contender: ContenderProcess<object>,
  { engine_pid, agents }: { engine_pid: number; agents: number },
): Promise<Round> {
  const addresses = (await contender.ask({})) as Address[];
  const before = [await cpuMs(contender.pid), await cpuMs(engine_pid)] as const;
  const began = performance.now();
  const asked = await Promise.all(addresses.slice(0, agents).map((one, agent) => play(agent, one)));
  return {
    wall_ms: performance.now() - began,
    cpu_ms: (await cpuMs(contender.pid)) - before[0],
    engine_ms: (await cpuMs(engine_pid)) - before[1],
    asked: asked.flat(),
  };
}

const { path: directory, remove } = await makeTemporaryDirectory('bench-agents');
const settings = {
  thinking_tokens: 0,
  seed: 7,
  skill: 6,
  max_model_len: 100_000,
  max_num_seqs: 256,
};
const simulator = await startSimulatorProcess({ directory, port: 0, settings, logs: false });
const start = (name: string) =>
  startProcess<object>(new URL(`./${name}.js`, import.meta.url), [`${simulator.url}/v1`]);
const contenders = { proxy: await start('proxy'), gateway: await start('gateway') };

for (const agents of [1, AGENTS]) {
  const rounds: Record<string, Round[]> = { proxy: [], gateway: [] };
  for (let k = -1; k < ROUNDS * (agents === 1 ? 8 : 1); k++)
    for (const [name, contender] of Object.entries(contenders)) {
      const one = await round(contender, { engine_pid: simulator.pid, agents });
      if (k >= 0) rounds[name]?.push(one);
    }
  const rows = Object.entries(rounds).map(([name, all]) => {
    const asked = all.flatMap((one) => one.asked);
    const per = (of: (one: Round) => number): number =>
      all.reduce((sum, one) => sum + of(one), 0) / asked.length;
    return {
      contender: name,
      calls: asked.length,
      characters: asked.reduce((sum, { answer }) => sum + answer.length, 0),
      'CPU ms a call': Number(per(({ cpu_ms }) => cpu_ms).toFixed(2)),
      'engine CPU ms': Number(per(({ engine_ms }) => engine_ms).toFixed(2)),
      'first ms': Number(median(asked.map(({ first_ms }) => first_ms)).toFixed(1)),
      'whole ms': Number(median(asked.map(({ whole_ms }) => whole_ms)).toFixed(1)),
      'wall ms': Math.round(all.reduce((sum, { wall_ms }) => sum + wall_ms, 0) / all.length),
    };
  });
  console.log(`${agents} agents at once, ${CALLS} calls each`);
  console.table(rows);
}
await Promise.all(Object.values(contenders).map((one) => one.stop()));
await simulator.stop();
await remove();
