/**
 * `node --import tsx lab/bench/agents/large-bodies.ts [rounds]`: how much later a call begins because of its large body, and
 * how long the event loop is held meanwhile; read in a thread, and on the loop. The two take turns.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { CHAT } from '../../../src/gateway/dialects/dialects.js';
import { createRequestReader } from '../../../src/gateway/request/request-reader.js';
import { median } from '../measure.js';

const ROUNDS = Number(process.argv[2] ?? 5);
const MB = 1024 * 1024;
const LIMITS = { structured: 'refuse', role_map: {}, kwargs: {} } as const;
const LINE = 'def look(at):  # a line as programs print it, with "quotes" and more\n';

/** Messages of some 2 kB, as tools' results are. */
const bodyOf = (megabytes: number): Buffer => {
  const messages = Array.from({ length: megabytes * 500 }, (_, k) => ({
    role: 'user',
    content: `${k} ${LINE.repeat(30)}`,
  }));
  return Buffer.from(JSON.stringify({ model: 'policy', messages }));
};

interface Read {
  ms: number;
  cpu_ms: number;
  longest_ms: number;
}

async function measured(read: (body: Buffer) => Promise<unknown>, body: Buffer): Promise<Read> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  await sleep(20);
  delay.reset();
  const [cpu, began] = [process.cpuUsage(), performance.now()];
  await read(body);
  const ms = performance.now() - began;
  const { user, system } = process.cpuUsage(cpu);
  await sleep(10);
  delay.disable();
  return { ms, cpu_ms: (user + system) / 1000, longest_ms: delay.max / 1e6 };
}

const [thread, loop] = [createRequestReader(), createRequestReader({ large: Infinity })];
const readers = { thread, loop };
const sizes = [1, 4, 8];
const took = new Map<string, Read[]>();
for (let k = -3; k < ROUNDS; k++)
  for (const size of sizes)
    for (const [name, reader] of Object.entries(readers)) {
      const one = await measured(
        (body) => reader.read(body, { dialect: CHAT, limits: LIMITS }),
        bodyOf(size),
      );
      const key = `${size} ${name}`;
      if (k >= 0) took.set(key, [...(took.get(key) ?? []), one]);
      else await sleep(500);
    }
await thread.close();
console.table(
  Array.from(took, ([key, all]) => {
    const [size = '', name = ''] = key.split(' ');
    const mid = (of: (one: Read) => number): number => Math.round(10 * median(all.map(of))) / 10;
    const megabytes = bodyOf(Number(size)).length / MB;
    return {
      MB: megabytes.toFixed(1),
      'read by': name,
      'later by ms': mid(({ ms }) => ms),
      'CPU ms a MB': Math.round((10 * mid(({ cpu_ms }) => cpu_ms)) / megabytes) / 10,
      'longest block, ms': mid(({ longest_ms }) => longest_ms),
    };
  }),
);
