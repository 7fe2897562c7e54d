import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { StreamPlan } from '../../../src/activities/contract/stream.js';
import { findState } from '../../../src/activities/stream/find-stream.js';
import { streamFacts } from '../../../src/activities/stream/stream-facts.js';
import { StreamRequest } from '../../../src/model/stream/stream-request.js';
import type { TrajectoryStore } from '../../../src/trajectories/trajectory-store.js';
import type { Stream } from '../../../src/workflows/stream/stream-state.js';
import { openStream } from '../../../src/workflows/stream/stream-state.js';
import { stepActivities } from '../../../test/fakes/step-activities.js';
import { sampleOf } from '../../../test/fakes/temporary-store.js';
import { writeRollout } from '../../../test/fakes/written-rollout.js';
import { diskUsage } from '../disk-usage.js';
import type { Database, StorePlace } from '../stores/database.js';
import { SCHEMA, openBenchStore, startDatabase } from '../stores/database.js';
import { heading, row } from './play.js';

/**
 * A stream of many groups by its rules, its activities and its store alone, without Temporal, engine and environment:
 * what is left of a group, and what a step costs when the stream is old. Every fifth group is filtered.
 */
const TENTHS = 10;
const GROUPS_PER_STEP = 50;
const KEEP_STEPS = 3;
const FILTERED = 5;
const AT_ONCE = 16;
const stream_id = 'many';
const request = StreamRequest.parse({
  ...{ samples: { path: 'samples.jsonl' }, groups_per_step: GROUPS_PER_STEP },
  keep_steps: KEEP_STEPS,
});

export async function kept({ groups }: { groups: number }): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'bench-stream-'));
  const database = await startDatabase(path.join(folder, 'outputs'));
  const { url } = database;
  try {
    const root = path.join(folder, 'files');
    const ofFiles = async (): Promise<Left> => {
      const { mb, inodes } = await diskUsage(root);
      return { mb, things: inodes };
    };
    await keptIn(
      { kind: 'file', root, url },
      { groups, left: ofFiles, things: 'files and folders' },
    );
    const tables = { kind: 'postgres', root: path.join(folder, 'outputs'), url } as const;
    await keptIn(tables, { groups, left: () => ofTables(database), things: 'rows' });
  } finally {
    await database.end();
    await rm(folder, { recursive: true, force: true });
  }
}

/** What a store has of the stream. */
interface Left {
  mb: number;
  things: number;
}

async function ofTables({ query }: Database): Promise<Left> {
  const left: Left = { mb: 0, things: 0 };
  for (const table of ['journal', 'fact', 'batch', 'sample']) {
    const [row] = await query<{ mb: number; things: number }>(
      `select pg_total_relation_size('${SCHEMA}.${table}') / 1e6::float as mb, (select count(*)::int from ${SCHEMA}.${table}) as things`,
    );
    left.mb += row?.mb ?? 0;
    left.things += row?.things ?? 0;
  }
  return left;
}

async function keptIn(
  place: StorePlace,
  { groups, left, things }: { groups: number; left: () => Promise<Left>; things: string },
): Promise<void> {
  const { store, close } = openBenchStore(place);
  await store.createBatch({ batch_id: stream_id, request, samples: [sampleOf('one')] });
  const activities = stepActivities(store, { warn: console.error });
  const stream = openStream(await planOf(store));
  console.log(
    `\n${heading(['groups up to', 'a step, ms', 'the trainer waits, ms', 'the stream is found, ms', `${place.kind}: MB`, things, 'process MB'])}`,
  );
  for (let tenth = 1; tenth <= TENTHS; tenth++) {
    const since = performance.now();
    const before = stream.pacing().next_step;
    let waits_ms = 0;
    while (stream.pacing().admitted < (tenth * groups) / TENTHS)
      waits_ms += await playStep(stream, { store, activities });
    const steps = stream.pacing().next_step - before;
    const took_ms = performance.now() - since;
    const found_ms = await timeOf(() => planOf(store));
    const { mb, things: count } = await left();
    const times = [took_ms / steps, waits_ms / steps, found_ms].map((ms) => ms.toFixed(1));
    const process_mb = (process.memoryUsage().rss / 1e6).toFixed(0);
    console.log(row([stream.pacing().admitted, ...times, mb.toFixed(1), count, process_mb]));
  }
  await close();
}

async function planOf(store: TrajectoryStore): Promise<StreamPlan> {
  const { num_repeats } = request;
  const pacing = { ...request, samples: 1 };
  const found = await findState(streamFacts(stream_id, store.facts), { num_repeats });
  return {
    stream_id,
    service: null,
    pacing,
    limits: {},
    filter: null,
    max_replacements: 1,
    keep_steps: KEEP_STEPS,
    found,
  } as unknown as StreamPlan;
}

interface Playing {
  store: TrajectoryStore;
  activities: ReturnType<typeof stepActivities>;
}

/** As the workflow does. Returns the milliseconds that the trainer waits once the step's groups have ended. */
async function playStep(stream: Stream, { store, activities }: Playing): Promise<number> {
  const version = stream.pacing().next_step;
  stream.asked(version);
  let next = stream.next();
  while (!next.ready) {
    const first = stream.pacing().admitted;
    const count = stream.room();
    const born = stream.born();
    stream.admitted(await activities.admitGroups({ stream_id, first, count, born }));
    await inLanes(count, (i) => playGroup(first + i, { stream, store, activities }));
    next = stream.next();
  }
  const since = performance.now();
  const fact = stream.factOf(next);
  stream.put(await activities.putStep({ stream_id, fact }));
  await activities.closeStep({ stream_id, step: fact.step });
  const through = fact.step - KEEP_STEPS;
  if (through >= 0) await activities.forgetSteps({ stream_id, through });
  return performance.now() - since;
}

async function playGroup(
  group: number,
  { stream, store, activities }: Playing & { stream: Stream },
): Promise<void> {
  await writeRollout(store, { batch_id: stream_id, row: group, repeat: 0 });
  const outcome = group % FILTERED === 0 ? 'filtered' : 'complete';
  await activities.endGroup({ stream_id, group, outcome, valid: 1, members: 1 });
  if (outcome === 'filtered') stream.out(group, outcome);
  else stream.completed(group);
}

async function inLanes(count: number, each: (i: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) await each(next++);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}

async function timeOf(run: () => Promise<unknown>): Promise<number> {
  const since = performance.now();
  await run();
  return performance.now() - since;
}
