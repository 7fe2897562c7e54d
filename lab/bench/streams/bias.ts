import { loadavg } from 'node:os';
import type { PolicyBed } from '../../bed/policy-bed.js';
import type { Row } from '../../../src/model/results/row.js';
import { mean } from '../../../src/model/results/statistics.js';
import { ksTest } from '../kolmogorov-smirnov.js';
import { equalSamples } from '../samples.js';
import type { Trained } from './play.js';
import {
  heading,
  longestOf,
  MAX_NEW_TOKENS,
  ROLLOUT,
  row,
  startStreamBed,
  THINKING_TOKENS,
  tokensOf,
  trainOn,
} from './play.js';

/**
 * What a stream delivers, compared with what its policy plays: groups 0 … N-1 of a stream that runs until each of them
 * has left it. A group gives one value, its longest member, because the group waits for that one. The reference is a
 * batch of as many groups.
 */
const REPEATS = 2;
/** How many values, each a group of a stream, one group of the batch gives. */
const VALUES = 10;
const MAX_LAG = 2;
const GROUPS_PER_STEP = 12;
const TRAIN_MS = 0;
const LIMIT_MS = 60 * 60_000;

interface Arm {
  name: string;
  /** One value per delivered group. */
  lengths: number[];
  dropped: number;
  failed: number;
  /** Rows with a token that is too old. */
  over_lag: number;
  /** Share of the tokens that were never delivered. */
  wasted: number;
  steps: number;
}

const startBed = (name: string): Promise<PolicyBed> =>
  startStreamBed(name, {
    skill: 0,
    simulator: { tokens_per_second: 200, thinking_tokens: THINKING_TOKENS, skill: 0 },
  });

async function playLaw(bed: PolicyBed, { groups, seed }: Size): Promise<Arm> {
  const batch = bed.batch('law');
  await batch.start({
    ...ROLLOUT,
    // Each group gives several values, because inline samples are limited.
    samples: equalSamples(groups / VALUES),
    num_repeats: VALUES * REPEATS,
    generation: { max_new_tokens: MAX_NEW_TOKENS, seed },
    max_in_flight: (MAX_LAG + 1) * GROUPS_PER_STEP * REPEATS,
  });
  const { rollouts, failures, failure } = await batch.outcome(LIMIT_MS);
  if (failure !== null) throw new Error(failure.message);
  const lengths = longestOf(
    rollouts,
    ({ row, repeat }) => VALUES * row + Math.floor(repeat / REPEATS),
  );
  return {
    name: 'law',
    lengths,
    dropped: 0,
    failed: failures.length,
    over_lag: 0,
    wasted: 0,
    steps: 1,
  };
}

async function playStream(
  bed: PolicyBed,
  { when_stale, groups, seed }: Size & { when_stale: 'wait' | 'drop' },
): Promise<Arm> {
  const outOf = ({ facts }: Trained): number =>
    facts
      .flatMap(({ groups: delivered, out }) => [...delivered, ...out.map(({ group }) => group)])
      .filter((group) => group < groups).length;
  const { facts } = await trainOn(bed, {
    id: when_stale,
    request: {
      ...ROLLOUT,
      samples: equalSamples(8),
      num_repeats: REPEATS,
      generation: { max_new_tokens: MAX_NEW_TOKENS, seed: seed + 1 },
      groups_per_step: GROUPS_PER_STEP,
      max_lag: MAX_LAG,
      when_stale,
    },
    train_ms: TRAIN_MS,
    publishes: true,
    hasEnough: (trained) => outOf(trained) >= groups,
  });
  const delivered = new Set(facts.flatMap((fact) => fact.groups));
  const out = facts.flatMap((fact) => fact.out).filter(({ group }) => group < groups);
  const rows: Row[] = [];
  let over_lag = 0;
  for (const { step, version } of facts)
    for (const one of await bed.stream(when_stale).rows(step)) {
      rows.push(one);
      const oldest = Math.min(...one.policy_versions.map((run) => Number(run.version)));
      if (Number(version) - oldest > MAX_LAG) over_lag += 1;
    }
  const journals = bed.journals(when_stale);
  const all = await tokensOf(journals, (group) => group < groups);
  const kept = await tokensOf(journals, (group) => group < groups && delivered.has(group));
  return {
    name: when_stale,
    lengths: longestOf(
      rows.filter((one) => one.row < groups),
      (one) => one.row,
    ),
    dropped: out.filter(({ as }) => as === 'dropped').length,
    failed: out.filter(({ as }) => as === 'failed').length,
    over_lag,
    wasted: 1 - kept / all,
    steps: facts.length,
  };
}

interface Size {
  groups: number;
  seed: number;
}

const COLUMNS = [
  'groups of',
  'out',
  'delivered',
  'dropped',
  'failed',
  'rows over max_lag',
  'mean length',
  'KS p beside the law',
  'tokens never delivered',
  'steps',
];

export async function bias(size: Size): Promise<void> {
  console.log(
    `${size.groups} groups of ${REPEATS}, seed ${size.seed}; load average ${loadavg()[0]?.toFixed(1) ?? '?'}`,
  );
  const arms: Arm[] = [];
  for (const name of ['law', 'wait', 'drop'] as const) {
    const bed = await startBed(name);
    try {
      arms.push(
        name === 'law'
          ? await playLaw(bed, size)
          : await playStream(bed, { ...size, when_stale: name }),
      );
    } finally {
      await bed.end();
    }
    console.log(`${name}: ${JSON.stringify({ ...arms.at(-1), lengths: undefined })}`);
  }
  console.log(`\n${heading(COLUMNS)}`);
  for (const { name, lengths, dropped, failed, over_lag, wasted, steps } of arms)
    console.log(
      row([
        name,
        lengths.length + dropped + failed,
        lengths.length,
        dropped,
        failed,
        over_lag,
        mean(lengths).toFixed(0),
        name === 'law' ? '' : ksTest(arms[0]?.lengths ?? [], lengths).p.toPrecision(2),
        `${(100 * wasted).toFixed(1)} %`,
        steps,
      ]),
    );
}
