import type { Parting } from '../client/diff/parting.js';
import { isParted, partingOf } from '../client/diff/parting.js';
import type { Pair } from '../client/diff/pairs.js';
import { pairsOf } from '../client/diff/pairs.js';
import { difference } from '../client/show/divergence-text.js';
import type { RolloutRef } from '../model/batch-request.js';
import { BatchId } from '../model/batch-request.js';
import { placeOfRollout, rolloutId } from '../model/workflow-safe/rollout-id.js';
import { UsageError } from '../platform/command.js';
import { plain, plainJson } from '../platform/plain.js';
import type { TrajectoryStore } from '../trajectories/trajectory-store.js';
import { FLAG, TEXT, optionsAndWordsIn } from '../platform/arguments.js';
import { meantBatch, withStoreThatAnswers } from './store.js';

/** Where the rollouts of two batches part, or two rollouts, from their journals. Exit code 1: they do. */
export async function diffCommand(args: string[]): Promise<number> {
  const options = { config: TEXT, json: FLAG };
  const { values, positionals } = optionsAndWordsIn(args, options);
  const [a, b] = positionals;
  if (a === undefined || b === undefined || positionals.length > 2)
    throw new UsageError(`expected two batches or two rollouts, got ${positionals.length}`);
  return await withStoreThatAnswers(values.config, async ({ store }) => {
    const pairs = await pairsFor({ a, b }, store);
    const counts = { parted: 0, alone: 0 };
    for (const pair of pairs) {
      const found = await compared(pair, store);
      if (found === null) continue;
      counts[pair.a === null || pair.b === null ? 'alone' : 'parted'] += 1;
      console.log(values.json ? plainJson(JSON.stringify(found)) : plain(textOf(found)));
    }
    if (!values.json) console.log(plain(sumOf(counts, pairs.length)));
    return counts.parted + counts.alone > 0 ? 1 : 0;
  });
}

interface Compared extends Parting {
  a: string | null;
  b: string | null;
}

/** null: they are the same. */
async function compared(
  { a, b }: Pair,
  store: Pick<TrajectoryStore, 'readTrajectory'>,
): Promise<Compared | null> {
  const ids = { a: a && rolloutId(a), b: b && rolloutId(b) };
  if (a === null || b === null) return ids;
  const [ours, theirs] = await Promise.all([store.readTrajectory(a), store.readTrajectory(b)]);
  const parting = partingOf(ours, theirs);
  return isParted(parting) ? { ...ids, ...parting } : null;
}

async function pairsFor(
  { a, b }: { a: string; b: string },
  store: TrajectoryStore,
): Promise<Pair[]> {
  const [ours, theirs] = [await placeIn(a, store), await placeIn(b, store)];
  if (typeof ours === 'string' && typeof theirs === 'string')
    return await pairsOf({ a: ours, b: theirs }, store);
  if (typeof ours === 'object' && typeof theirs === 'object') return [{ a: ours, b: theirs }];
  throw new UsageError(`expected two batches or two rollouts, got one of each: ${a}, ${b}`);
}

/** A batch by its id, or a rollout. */
async function placeIn(text: string, store: TrajectoryStore): Promise<string | RolloutRef> {
  const place = placeOfRollout(text);
  const batch_id = place?.batch_id ?? text;
  if (!BatchId.safeParse(batch_id).success)
    throw new UsageError(`expected BATCH or BATCH/ROW-REPEAT, got ${JSON.stringify(text)}`);
  const request = await store.findRequest(batch_id);
  if (request === null)
    throw new UsageError(
      `no batch ${batch_id} in ${store.name}${await meantBatch(batch_id, store)}`,
    );
  if (place === null) {
    if (request.stream === undefined) return batch_id;
    throw new UsageError(`expected a batch, got ${batch_id}, which is a stream: name two rollouts`);
  }
  if ((await store.journalSize(place)) > 0) return place;
  throw new UsageError(`rollout ${text} has no journal in ${store.name}`);
}

function textOf({ a, b, token, text, reward, stop_reason }: Compared): string {
  if (a === null || b === null) return `${a ?? b ?? ''}: only in ${a === null ? 'B' : 'A'}`;
  const parts = [
    token &&
      `turn ${token.turn}, id ${token.index} of its ${token.of}: ${token.a ?? 'none'} / ${token.b ?? 'none'}`,
    text && `turn ${text.turn}, ${text.of}: ${difference(text.a ?? '', text.b ?? '')}`,
    reward && `reward ${reward.a} / ${reward.b}`,
    stop_reason && `${stop_reason.a} / ${stop_reason.b}`,
  ];
  return `${a}, ${b}: ${parts.filter((part) => part !== undefined).join('; ')}`;
}

function sumOf({ parted, alone }: { parted: number; alone: number }, pairs: number): string {
  const without = alone === 0 ? '' : `; ${alone} rollouts have no other`;
  return `${parted} of ${pairs - alone} pairs differ${without}`;
}
