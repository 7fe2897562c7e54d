import { copyFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { bundlePath } from '../../src/workers/build-bundle.js';
import type { EmptyWorkerOptions } from './empty-worker.js';
import { startProcess } from './contender-process.js';
import { eventually } from '../bed/waiting.js';
import { median } from './measure.js';
import { cpuMs } from './process-usage.js';
import { table } from './report.js';
import type { Stack } from '../bed/stack.js';
import { startPuzzles, startWith, workerConfig } from './puzzles.js';

/**
 * `node tools/after-setup.mjs .lab/lab/bench/heartbeats.js [activities] [rounds]`: what heartbeats cost while so many
 * activities run on one worker and nothing else happens. Timeouts take turns in one run; with the longest one hardly any
 * beat falls into a window, so it shows what running activities cost without them.
 */
const TIMEOUTS_S = [10, 60, 600] as const;
type Timeout = (typeof TIMEOUTS_S)[number];
/** As `activities/attempt.ts` has it. */
const BEATS_A_TIMEOUT = 3;
const [ACTIVITIES = 1000, ROUNDS = 2] = process.argv.slice(2).map(Number);
const WINDOW_MS = 20_000;
const SETTLE_MS = 5000;

interface Window {
  server: number;
  worker: number;
}

/** CPU milliseconds a second of both processes, while the activities of one worker run. */
async function windowOf(
  timeout_s: Timeout,
  { stack, round }: { stack: Stack; round: number },
): Promise<Window> {
  const task_queue = `beats-${timeout_s}-${round}`;
  const config = workerConfig(stack, { task_queue, turn_slice: '0s', memory: '4GiB' });
  const options: EmptyWorkerOptions = {
    address: stack.server().address,
    config: { ...config, worker: { ...config.worker, max_generations: ACTIVITIES } },
    turns: 1,
    turns_a_call: 1,
    heartbeat_timeout_ms: timeout_s * 1000,
  };
  const module = new URL('./empty-worker.js', import.meta.url);
  const worker = await startProcess(module, [JSON.stringify(options)]);
  const batch = await startWith(stack.server().client, {
    id: task_queue,
    task_queue,
    request: {
      rollouts: ACTIVITIES,
      rollouts_per_slice: 128,
      max_in_flight: ACTIVITIES,
      turn_ms: 600_000,
    },
  });
  try {
    await eventually(
      `${ACTIVITIES} running activities`,
      async () => (await worker.ask({})) === ACTIVITIES,
    );
    await sleep(SETTLE_MS);
    const read = async (): Promise<Window> => ({
      server: await cpuMs(stack.ownServer().pid),
      worker: await cpuMs(worker.pid),
    });
    const before = await read();
    await sleep(WINDOW_MS);
    const after = await read();
    const perSecond = (part: keyof Window): number =>
      ((after[part] - before[part]) / WINDOW_MS) * 1000;
    return { server: perSecond('server'), worker: perSecond('worker') };
  } finally {
    await batch.terminate('measured');
    await worker.stop();
  }
}

const beatsASecond = (timeout_s: Timeout): number => (ACTIVITIES * BEATS_A_TIMEOUT) / timeout_s;

// The bench is compiled beside the project; the workflows come from the build.
await copyFile(path.join(PROJECT_ROOT, 'dist', 'src', 'workflow-bundle.js'), bundlePath);
const stack = await startPuzzles({ rollouts: 1 });
try {
  const windows = new Map<Timeout, Window[]>(TIMEOUTS_S.map((one) => [one, []]));
  for (let round = 1; round <= ROUNDS; round++)
    for (const timeout_s of TIMEOUTS_S) {
      const window = await windowOf(timeout_s, { stack, round });
      windows.get(timeout_s)?.push(window);
      console.log(
        `  round ${round}, ${timeout_s} s: server ${window.server.toFixed(0)}, worker ${window.worker.toFixed(0)} ms/s`,
      );
    }
  const mid = (timeout_s: Timeout, part: keyof Window): number =>
    median((windows.get(timeout_s) ?? []).map((one) => one[part]));
  console.log(`${ACTIVITIES} running activities, ${ROUNDS} rounds, medians`);
  const rows = TIMEOUTS_S.map((timeout_s) => {
    const more = beatsASecond(timeout_s) - beatsASecond(600);
    const each = (part: keyof Window): string =>
      more === 0 ? '-' : ((mid(timeout_s, part) - mid(600, part)) / more).toFixed(2);
    return [
      `${timeout_s} s`,
      beatsASecond(timeout_s).toFixed(0),
      mid(timeout_s, 'server').toFixed(0),
      mid(timeout_s, 'worker').toFixed(0),
      each('server'),
      each('worker'),
    ];
  });
  const head = ['timeout', 'beats/s', 'server ms/s', 'worker ms/s', 'ms a beat, server', 'worker'];
  console.log(table(head, rows));
} finally {
  await stack.end();
}
