import { loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { PublishResult } from '../../src/activities/contract/policy.js';
import type { PolicyBed } from '../bed/policy-bed.js';
import { startPolicyBed } from '../bed/policy-bed.js';
import { puzzleBatch } from '../bed/bed.js';
import { greatest, sum } from '../../src/model/results/statistics.js';
import { median } from './measure.js';

/**
 * `node --import tsx lab/bench/updates.ts [rounds] [updates] [mode …]`, after `npm run build`: the cost of policy updates
 * for rollouts in flight. For each mode, three stacks play the same batch at the same time and so share the machine
 * equally: one without updates, one on each wire. An update follows every 15 s.
 */
const MODES = ['keep', 'abort', 'wait'] as const;
const CONTENDERS = ['none', 'completions', 'generate'] as const;
type Mode = (typeof MODES)[number];
type Contender = (typeof CONTENDERS)[number];

const EVERY_MS = 15_000;
const SAMPLES = 16;
const REPEATS = 4;
const TURNS = 10;
/** A turn takes 30 s at this pace, as a long answer does. */
const TOKENS_PER_SECOND = 10;
const THINKING_TOKENS = 300;
const LIMIT_MS = 30 * 60_000;

interface Measured {
  wall_s: number;
  tokens: number;
  sampled_twice: number;
  wrong: number;
  failed: number;
  pauses_s: number[];
}

async function startBed(contender: Contender): Promise<PolicyBed> {
  return await startPolicyBed({
    name: `updates-${contender}`,
    own_server: true,
    skill: 0,
    simulator: {
      tokens_per_second: TOKENS_PER_SECOND,
      thinking_tokens: THINKING_TOKENS,
      skill: 0,
      max_model_len: 32_768,
      log_tokens: true,
    },
    generation: { wire: contender === 'generate' ? 'generate' : 'completions' },
    worker: { heartbeat_timeout: '30s', turn_slice: '2s' },
  });
}

async function play(
  bed: PolicyBed,
  {
    id,
    contender,
    mode,
    updates,
  }: { id: string; contender: Contender; mode: Mode; updates: number },
): Promise<Measured> {
  const batch = bed.batch(id);
  const began = performance.now();
  await batch.start(
    puzzleBatch({
      samples: SAMPLES,
      repeats: REPEATS,
      max_rollout_turns: TURNS,
      max_seq_len: 32_768,
      generation: { max_new_tokens: THINKING_TOKENS + 100 },
    }),
  );
  const results: PublishResult[] = [];
  let has_ended = false;
  const outcome = batch.outcome(LIMIT_MS).finally(() => (has_ended = true));
  if (contender !== 'none')
    results.push(...(await publishOften(bed, { mode, updates, isOver: () => has_ended })));
  const { failures } = await outcome;
  const wall_s = (performance.now() - began) / 1000;
  const { tokens, sampled_twice, wrong } = await bed.check(id);
  return {
    wall_s,
    tokens,
    sampled_twice,
    wrong: wrong.length,
    failed: failures.length,
    pauses_s: results.map(({ paused_s }) => paused_s),
  };
}

async function publishOften(
  bed: PolicyBed,
  { mode, updates, isOver }: { mode: Mode; updates: number; isOver: () => boolean },
): Promise<PublishResult[]> {
  const results: PublishResult[] = [];
  for (let version = 1; version <= updates; version++) {
    await sleep(EVERY_MS);
    if (isOver()) break;
    results.push(await bed.publish({ ...(await bed.weights(version)), mode, drain_limit: '5s' }));
  }
  return results;
}

const COLUMNS = [
  'mode',
  'wire',
  'updates',
  'wall s',
  'tokens/s beside none',
  'longest pause of an update s',
  'pauses s',
  'tokens',
  'sampled twice',
  'wrong labels',
  'failed',
];

function rowOf(of: {
  mode: Mode;
  contender: Contender;
  own: Measured[];
  none: Measured[];
}): string {
  const { mode, contender, own, none } = of;
  const pace = ({ tokens, wall_s }: Measured): number => tokens / wall_s;
  const ratios = own.flatMap((one, i) =>
    none[i] === undefined ? [] : [pace(one) / pace(none[i])],
  );
  const of_each = (value: (one: Measured) => number): number => median(own.map(value));
  return `| ${[
    mode,
    contender,
    of_each(({ pauses_s }) => pauses_s.length),
    of_each(({ wall_s }) => wall_s).toFixed(1),
    median(ratios).toFixed(3),
    of_each(({ pauses_s }) => greatest([0, ...pauses_s])).toFixed(2),
    of_each(({ pauses_s }) => sum(pauses_s)).toFixed(2),
    of_each(({ tokens }) => tokens),
    of_each(({ sampled_twice }) => sampled_twice),
    of_each(({ wrong }) => wrong),
    of_each(({ failed }) => failed),
  ].join(' | ')} |`;
}

const rounds = Number(process.argv[2] ?? 3);
const updates = Number(process.argv[3] ?? 20);
const wanted = process.argv.slice(4);
const modes = MODES.filter((mode) => wanted.length === 0 || wanted.includes(mode));
console.log(
  `${rounds} rounds, up to ${updates} updates each; load average ${loadavg()[0]?.toFixed(1) ?? '?'}`,
);
const measured = new Map<string, Measured[]>();
for (let round = 1; round <= rounds; round++)
  for (const mode of modes) {
    const stacks = await Promise.all(
      CONTENDERS.map(async (contender) => ({ contender, bed: await startBed(contender) })),
    );
    const runs = await Promise.all(
      stacks.map(async ({ contender, bed }) => {
        const run = await play(bed, { id: `round-${round}-${mode}`, contender, mode, updates });
        return { contender, run };
      }),
    );
    await Promise.all(stacks.map(({ bed }) => bed.end()));
    for (const { contender, run } of runs) {
      console.log(`round ${round} ${mode} ${contender}: ${JSON.stringify(run)}`);
      const key = `${mode} ${contender}`;
      measured.set(key, [...(measured.get(key) ?? []), run]);
    }
  }
console.log(`\n| ${COLUMNS.join(' | ')} |\n|${COLUMNS.map(() => ' --- ').join('|')}|`);
for (const mode of modes)
  for (const contender of CONTENDERS) {
    const own = measured.get(`${mode} ${contender}`) ?? [];
    const none = measured.get(`${mode} none`) ?? [];
    console.log(rowOf({ mode, contender, own, none }));
  }
