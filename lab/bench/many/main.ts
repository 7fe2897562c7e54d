import { readFile, writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { planned } from '../../../src/cli/plan/plan-command.js';
import { planTable } from '../../../src/cli/plan/plan-table.js';
import { toMs } from '../../../src/model/workflow-safe/durations.js';
import { findTemporalCli } from '../../../tools/temporal-cli/find.js';
import { firstFreePort } from '../../../src/platform/process/free-port.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { withReport } from '../page-text.js';
import { machine } from '../report.js';
import { startStack } from '../stack.js';
import { figuresFile, figuresOf, postgresIn } from './figures.js';
import { REPEATS } from './play.js';
import { manyReport } from './report.js';
import type { ManyOptions, ManyRun } from './run.js';
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

function readOptions(): ManyOptions & { json: string | null; figures: boolean } {
  const { values } = parseArgs({
    options: {
      rollouts: { type: 'string', default: '1000' },
      workers: { type: 'string', default: '1' },
      turns: { type: 'string', default: '5' },
      'turn-time': { type: 'string', default: '6s' },
      tokens: { type: 'string' },
      memory: { type: 'string', default: '4GiB' },
      'turn-slice': { type: 'string', default: '10m' },
      heartbeats: { type: 'string' },
      limit: { type: 'string', default: '20m' },
      json: { type: 'string' },
      figures: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  const [rollouts, workers, turns] = [values.rollouts, values.workers, values.turns].map(Number);
  const tokens = values.tokens === undefined ? null : Number(values.tokens);
  const isWrong = [rollouts, workers, turns, tokens ?? 1].some(
    (one) => !(Number.isInteger(one) && Number(one) > 0),
  );
  if (values.help || isWrong || Number(turns) < 4 || Number(rollouts) % REPEATS !== 0) {
    console.log(USAGE);
    process.exit(values.help ? 0 : 2);
  }
  return {
    rollouts: Number(rollouts),
    workers: Number(workers),
    turns: Number(turns),
    turn_ms: toMs(values['turn-time']),
    tokens,
    memory: values.memory,
    turn_slice: values['turn-slice'],
    heartbeat_timeout: values.heartbeats ?? null,
    limit_ms: toMs(values.limit),
    json: values.json ?? null,
    figures: values.figures,
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

async function playOne(options: ManyOptions, cliPath: string): Promise<ManyRun> {
  const folder = path.join(PROJECT_ROOT, '.rollouts', `many-${process.pid}`);
  const metrics_port = await firstFreePort(0);
  const scenario = { rollouts: options.rollouts / REPEATS };
  const settings = { skill: 0, max_num_seqs: 100_000, max_model_len: 32_768, ...paceOf(options) };
  const dbFile = path.join(folder, 'temporal.db');
  const stack = await startStack(scenario, { cliPath, folder, dbFile, settings, metrics_port });
  try {
    const run = await measureMany({ ...stack, metrics_port }, { ...options, say });
    say(`\n${manyReport(run)}\n`);
    return run;
  } finally {
    await stack.stop();
  }
}

/** For `temporal-rollout plan`. */
const WHOLE = { rollouts: 256, tokens: null } as const;
const STREAMED = { rollouts: 40, tokens: 800 } as const;

/** Of docs/scale.md. */
const EXAMPLE = { rollouts: 50_000, turns: 20, turn_s: 6, tokens: 800, slice_s: 600 };

async function writeFigures(options: ManyOptions, cliPath: string): Promise<void> {
  const whole = await playOne({ ...options, ...WHOLE }, cliPath);
  const streamed = await playOne({ ...options, ...STREAMED }, cliPath);
  const bench = await readFile(path.join(PROJECT_ROOT, 'lab', 'bench', 'README.md'), 'utf8');
  const where = `${machine()}, Temporal CLI ${cli.version}`;
  const figures = figuresOf({ whole, streamed, postgres: postgresIn(bench), where });
  const file = path.join(PROJECT_ROOT, 'src', 'cli', 'plan', 'figures.ts');
  await writeFile(file, figuresFile(figures));
  const page = path.join(PROJECT_ROOT, 'docs/scale.md');
  const report = `\`\`\`text\n${planTable(planned(EXAMPLE, figures), figures).join('\n')}\n\`\`\``;
  await writeFile(page, withReport(await readFile(page, 'utf8'), { name: 'plan', report }));
  say(`${file} and ${page} have the new figures; \`npm run format\` formats them`);
}

const { json, figures, ...options } = readOptions();
const cli = await findTemporalCli({ env: process.env, projectRoot: PROJECT_ROOT, say });
say(
  `${machine()}, Temporal CLI ${cli.version}, load average before it ${(loadavg()[0] ?? 0).toFixed(1)}`,
);
if (figures) await writeFigures(options, cli.path);
else {
  const run = await playOne(options, cli.path);
  if (json !== null) await writeFile(json, `${JSON.stringify(run, null, 2)}\n`);
}
