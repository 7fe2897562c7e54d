import { readFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { createCode } from '../../src/environments/code/environment.js';
import { LEVELS, type Level } from '../../src/sandbox/levels.js';
import { createLocalSandbox } from '../../src/environments/code/local-sandbox.js';
import { childrenOf } from '../../src/sandbox/watch/process-tree.js';
import type {
  Environment,
  EnvironmentMessage,
  Metadata,
} from '../../src/environments/environment.js';
import { EnvironmentSettings } from '../../src/environments/registry.js';
import { textLog } from '../../src/model/content.js';
import { median } from './measure.js';
import { table } from './report.js';

/**
 * The code environment, level by level: a rollout's first turn (which starts an interpreter), the following turns, and
 * a turn that rebuilds an interpreter of ten turns. `node --import tsx lab/bench/sandbox.ts`; it names the levels that this
 * machine lacks.
 */

const ROLLOUTS = 12;
const TURNS = 40;
const REBUILT_TURNS = 10;

interface Measured {
  level: Level;
  first_ms: number;
  turn_ms: number;
  rebuilt_ms: number;
  tree_mb: number;
}

async function timed(action: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await action();
  return performance.now() - began;
}

function rollout(environment: Environment, name: string) {
  const log: EnvironmentMessage[] = [{ role: 'user', content: 'question' }];
  let metadata: Metadata = {};
  const signal = new AbortController().signal;
  return async (code: string, key = name): Promise<void> => {
    log.push({ role: 'assistant', content: `<code>${code}</code>` });
    const answer = await environment.step(
      { message_log: log, metadata },
      { idempotency_key: `${key}/${log.length}`, signal },
    );
    if (answer.observation !== null) log.push(...textLog([answer.observation]));
    metadata = answer.metadata ?? metadata;
  };
}

async function measure(level: Level): Promise<Measured> {
  const settings = EnvironmentSettings.parse({ kind: 'code', unsafe: true });
  if (settings.kind !== 'code') throw new Error('not settings of the code environment');
  const sandbox = createLocalSandbox({ settings, report: console.log, levels: [level] });
  const environment = createCode(settings, sandbox);
  const firsts: number[] = [];
  const turns: number[] = [];
  const rebuilt: number[] = [];
  try {
    await sandbox.level(new AbortController().signal);
    for (let i = 0; i < ROLLOUTS; i++) {
      const say = rollout(environment, `${level}-${i}`);
      firsts.push(await timed(() => say('n = 0')));
      for (let turn = 1; turn < REBUILT_TURNS; turn++) turns.push(await timed(() => say('n += 1')));
      rebuilt.push(await timed(() => say('n', `${level}-${i}-again`)));
      for (let turn = 0; turn < TURNS; turn++) turns.push(await timed(() => say('n += 1')));
    }
    const trees = childrenOf(process.pid).map((pid) => residentBelow(pid));
    return {
      level,
      first_ms: median(firsts),
      turn_ms: median(turns),
      rebuilt_ms: median(rebuilt),
      tree_mb: median(trees.filter((bytes) => bytes > 0)) / 1e6,
    };
  } finally {
    await environment.close?.();
  }
}

/** Resident memory, shared pages counted in each process. */
function residentBelow(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const own = Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0) * 1024;
  return childrenOf(pid).reduce((total, child) => total + residentBelow(child), own);
}

console.log(`Node.js ${process.versions.node}, load average ${(loadavg()[0] ?? 0).toFixed(1)}`);
const rows: Measured[] = [];
for (const level of LEVELS) {
  try {
    rows.push(await measure(level));
  } catch (error) {
    console.log(`left out ${level}: ${String(error)}`);
  }
}
const head = [
  'level',
  'first turn ms',
  'later turn ms',
  `turn after ${REBUILT_TURNS} lost ones ms`,
  'resident MB',
];
const cells = rows.map(({ level, first_ms, turn_ms, rebuilt_ms, tree_mb }) => [
  level,
  first_ms.toFixed(0),
  turn_ms.toFixed(2),
  rebuilt_ms.toFixed(0),
  tree_mb.toFixed(0),
]);
console.log(`\n${table(head, cells)}`);
