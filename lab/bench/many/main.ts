import { readFile, writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import path from 'node:path';
import { planned, planTable } from '../../../src/cli/plan/plan-command.js';
import { toMs } from '../../../src/model/workflow-safe/durations.js';
import { findTemporalCli } from '../../../tools/temporal-cli/find.js';
import { firstFreePort } from '../../../dev/free-port.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { readOptions, wrongUsage } from '../../options.js';
import { withReport } from '../page-text.js';
import { machine } from '../report.js';
import { startPuzzles } from '../puzzles.js';
import { figuresFile, figuresOf, postgresIn } from './figures.js';
import type { ManyOptions, ManyRun } from './phases.js';
import { REPEATS } from './play.js';
import { manyReport } from './report.js';
import { measureMany } from './run.js';

const USAGE = `node --import tsx lab/bench/many/main.ts [--rollouts N] [--workers N] …     after npm run build

Rollouts that are all in flight at once. Their first turns are held until the last rollout has begun, so that starting,
waiting, playing and ending are measured apart.

  --rollouts N    default 1000; a multiple of ${REPEATS}
  --workers N     processes; default 1
  --turns N       of each rollout, 4 or more; default 5
  --turn-time T   default 6s
  --tokens N      sent one by one over the turn; default: an answer of some 25, whole, at its end
  --memory SIZE   worker.memory of each; default 4GiB
  --turn-slice T  default 10m
  --heartbeats T  worker.heartbeat_timeout; default: that of workers
  --limit T       it fails if it has not ended by then; default 20m
  --json FILE     everything that was measured
  --figures       measures what temporal-rollout plan computes with, and writes it into src/cli/plan/figures.ts`;

function optionsOf(): ManyOptions & { json: string | null; figures: boolean } {
  const { turn_time, tokens, heartbeats, limit, ...options } = readOptions(
    { usage: USAGE },
    {
      rollouts: 1000,
      workers: 1,
      turns: 5,
      turn_time: '6s',
      tokens: 0,
      memory: '4GiB',
      turn_slice: '10m',
      heartbeats: null,
      limit: '20m',
      json: null,
      figures: false,
    },
  );
  const { rollouts, turns } = options;
  if (turns < 4 || rollouts === 0 || rollouts % REPEATS !== 0)
    wrongUsage(USAGE, `${rollouts} rollouts of ${turns} turns`);
  return {
    ...options,
    turn_ms: toMs(turn_time),
    tokens: tokens === 0 ? null : tokens,
    heartbeat_timeout: heartbeats,
    limit_ms: toMs(limit),
  };
}

/** Tokens of a move and its end, which follow an answer's thinking. */
const TOKENS_OF_MOVE = 25;

const paceOf = ({ tokens, turn_ms }: ManyOptions) =>
  tokens === null
    ? { thinking_tokens: 0, ms_to_first_token: turn_ms }
    : {
        thinking_tokens: Math.max(0, tokens - TOKENS_OF_MOVE),
        tokens_per_second: tokens / (turn_ms / 1000),
      };

const say = (line: string): void => {
  console.log(line);
};

async function playOne(options: ManyOptions): Promise<ManyRun> {
  const metrics_port = await firstFreePort(0);
  const scenario = { rollouts: options.rollouts / REPEATS };
  const simulator = { skill: 0, max_num_seqs: 100_000, max_model_len: 32_768, ...paceOf(options) };
  const stack = await startPuzzles(scenario, { in_memory: false, simulator, metrics_port });
  try {
    const run = await measureMany({ ...stack, metrics_port }, { ...options, say });
    say(`\n${manyReport(run)}\n`);
    return run;
  } finally {
    await stack.end();
  }
}

/** For `temporal-rollout plan`. */
const WHOLE = { rollouts: 256, tokens: null } as const;
const STREAMED = { rollouts: 40, tokens: 800 } as const;

/** Of docs/scale.md. */
const EXAMPLE = { rollouts: 50_000, turns: 20, turn_s: 6, tokens: 800, slice_s: 600 };

async function writeFigures(options: ManyOptions): Promise<void> {
  const whole = await playOne({ ...options, ...WHOLE });
  const streamed = await playOne({ ...options, ...STREAMED });
  const bench = await readFile(path.join(PROJECT_ROOT, 'lab/bench/TABLES.md'), 'utf8');
  const where = `${machine()}, Temporal CLI ${cli.version}`;
  const figures = figuresOf({ whole, streamed, postgres: postgresIn(bench), where });
  const file = path.join(PROJECT_ROOT, 'src', 'cli', 'plan', 'figures.ts');
  await writeFile(file, figuresFile(figures));
  const page = path.join(PROJECT_ROOT, 'docs/scale.md');
  const report = `\`\`\`text\n${planTable(planned(EXAMPLE, figures), figures).join('\n')}\n\`\`\``;
  await writeFile(page, withReport(await readFile(page, 'utf8'), { name: 'plan', report }));
  say(`${file} and ${page} have the new figures; \`npm run format\` formats them`);
}

const { json, figures, ...options } = optionsOf();
const cli = await findTemporalCli({ env: process.env, projectRoot: PROJECT_ROOT, say });
say(
  `${machine()}, Temporal CLI ${cli.version}, load average before it ${(loadavg()[0] ?? 0).toFixed(1)}`,
);
if (figures) await writeFigures(options);
else {
  const run = await playOne(options);
  if (json !== null) await writeFile(json, `${JSON.stringify(run, null, 2)}\n`);
}
