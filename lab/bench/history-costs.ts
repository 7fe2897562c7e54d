import { writeFile } from 'node:fs/promises';
import type { Client } from '@temporalio/client';
import { ROLLOUTS_PER_SLICE } from '../../src/model/workflow-safe/slices.js';
import type { PolicyBed } from '../bed/policy-bed.js';
import type { Histories, HistoryCost } from './history-cost.js';
import { historyCosts, less, over } from './history-cost.js';
import { median } from './measure.js';
import { table } from './report.js';
import { puzzleSamples } from './samples.js';
import { GENERATION, MAX_SEQ_LEN, TURNS } from './scenario.js';
import { startStreamBed, trainOn } from './streams/play.js';

/**
 * `node --import tsx lab/bench/history-costs.ts [--json FILE]`, after `npm run build`: events, bytes and Temporal Cloud's
 * actions of rollouts, batches and streams, read from the histories of a few.
 */

const ROLLOUTS = 32;
const SLICES = 2;
const STEPS = 10;
const GROUPS_PER_STEP = 4;
const REPEATS = 2;

/** What each of these costs. A rollout is a workflow of its own in all of them. */
interface HistoryCosts {
  /** Played by one activity, however many turns. */
  rollout: HistoryCost;
  /** Each further one of a rollout. */
  activity: HistoryCost;
  /** Of a batch of at most a slice: for each of its rollouts. */
  batch_rollout: HistoryCost;
  /** Likewise of a slice. */
  slice_rollout: HistoryCost;
  /** Of a batch with several: for each. */
  batch_slice: HistoryCost;
  /** Its own history. */
  group: HistoryCost;
  /** Of a stream: for each of its groups. */
  stream_group: HistoryCost;
}

const LONG_SLICE = '10m';

async function inBed<T>(
  turn_slice: string,
  run: (bed: PolicyBed, client: Client) => Promise<T>,
): Promise<T> {
  const bed = await startStreamBed('history-costs', {
    simulator: { tokens_per_second: 0, thinking_tokens: 8, skill: 0 },
    worker: { turn_slice },
  });
  try {
    return await run(bed, bed.server().client);
  } finally {
    await bed.end();
  }
}

const requestOf = (rollouts: number, turns: number) => ({
  samples: puzzleSamples(rollouts),
  generation: GENERATION,
  max_seq_len: MAX_SEQ_LEN,
  max_rollout_turns: turns,
});

async function playBatch(
  { batch }: PolicyBed,
  { id, turns, num_repeats = 1 }: { id: string; turns: number; num_repeats?: number },
): Promise<void> {
  await batch(id).start({ ...requestOf(ROLLOUTS, turns), num_repeats });
  await batch(id).handle().result();
}

async function playStream(bed: PolicyBed, id: string): Promise<void> {
  await trainOn(bed, {
    id,
    request: {
      ...requestOf(STEPS * GROUPS_PER_STEP, 1),
      num_repeats: REPEATS,
      groups_per_step: GROUPS_PER_STEP,
      epochs: 1,
    },
    train_ms: 0,
    publishes: false,
    hasEnough: ({ facts }) => facts.length === STEPS,
  });
}

/** The median of the workflows of a type whose ids begin so. */
async function costOf(client: Client, which: Histories): Promise<HistoryCost> {
  const costs = await historyCosts(client, which);
  const of = (value: (cost: HistoryCost) => number): number => median(costs.map(value));
  return {
    events: of(({ events }) => events),
    bytes: of(({ bytes }) => bytes),
    actions: of(({ actions }) => actions),
  };
}

async function measureHistories(): Promise<HistoryCosts> {
  const long = await inBed(LONG_SLICE, async (bed, client) => {
    await playBatch(bed, { id: 'batch', turns: TURNS });
    await playBatch(bed, {
      id: 'large',
      turns: 1,
      num_repeats: (SLICES * ROLLOUTS_PER_SLICE) / ROLLOUTS,
    });
    await playStream(bed, 'stream');
    const groups = STEPS * GROUPS_PER_STEP;
    return {
      rollout: await costOf(client, { type: 'rollout', begin: 'batch' }),
      batch_rollout: over(await costOf(client, { type: 'rolloutBatch', begin: 'batch' }), ROLLOUTS),
      slice_rollout: over(
        await costOf(client, { type: 'rolloutSlice', begin: 'large' }),
        ROLLOUTS_PER_SLICE,
      ),
      batch_slice: over(await costOf(client, { type: 'rolloutBatch', begin: 'large' }), SLICES),
      group: await costOf(client, { type: 'rolloutGroup', begin: 'stream' }),
      stream_group: over(await costOf(client, { type: 'rolloutStream', begin: 'stream' }), groups),
    };
  });
  const by_turns = await inBed('0s', async (bed, client) => {
    await playBatch(bed, { id: 'turns', turns: TURNS });
    return await costOf(client, { type: 'rollout', begin: 'turns' });
  });
  return { ...long, activity: over(less(by_turns, long.rollout), TURNS - 1) };
}

const NAMES: Record<keyof HistoryCosts, string> = {
  rollout: `a rollout of ${TURNS} turns in one activity`,
  activity: 'each further activity of it',
  batch_rollout: `a batch of ${ROLLOUTS} rollouts, for each`,
  slice_rollout: `a slice of ${ROLLOUTS_PER_SLICE} rollouts, for each`,
  batch_slice: `a batch of ${SLICES} slices, for each slice`,
  group: `a group of ${REPEATS} rollouts, without them`,
  stream_group: `a stream of ${GROUPS_PER_STEP} groups a step, for each group`,
};

const costs = await measureHistories();
const rows = (Object.keys(NAMES) as (keyof HistoryCosts)[]).map((name) => {
  const { events, bytes, actions } = costs[name];
  return [NAMES[name], events.toFixed(1), (bytes / 1024).toFixed(2), actions.toFixed(1)];
});
console.log(`\n${table(['history of', 'events', 'kB', 'actions'], rows)}`);
const [flag, file] = process.argv.slice(2);
if (flag === '--json' && file !== undefined)
  await writeFile(file, `${JSON.stringify(costs, null, 2)}\n`);
