import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { StepFact } from '../../../src/activities/contract/stream.js';
import type { Row } from '../../../src/model/results/row.js';
import { sum } from '../../../src/model/results/statistics.js';
import { linesOf, textsInFolder } from '../../bed/journal-texts.js';
import type { PolicyBed, PolicyBedOptions } from '../../bed/policy-bed.js';
import { startPolicyBed } from '../../bed/policy-bed.js';

/** One engine, and workers that notice a death late: nothing dies. */
export const startStreamBed = (
  name: string,
  { worker = {}, ...options }: Omit<PolicyBedOptions, 'name'>,
): Promise<PolicyBed> =>
  startPolicyBed({
    name: `stream-${name}`,
    own_server: true,
    replicas: 1,
    worker: { heartbeat_timeout: '10s', turn_slice: '2s', ...worker },
    ...options,
  });

export interface Trained {
  /** When each step came, in milliseconds of this process's clock. */
  came: number[];
  facts: StepFact[];
}

/** A trainer: requests a number of steps, works on each for a fixed time, and then has the next version. */
export async function trainOn(
  bed: PolicyBed,
  given: {
    id: string;
    request: Record<string, unknown>;
    train_ms: number;
    /** Whether versions are published; otherwise only the requests name them. */
    publishes: boolean;
    hasEnough: (trained: Trained) => boolean;
  },
): Promise<Trained> {
  const { id, request, train_ms, publishes, hasEnough } = given;
  const trained: Trained = { came: [], facts: [] };
  const stream = bed.stream(id);
  const next = async (version: number): Promise<void> => {
    if (publishes) await bed.publish(await bed.weights(version));
  };
  await next(0);
  await stream.start(request);
  for (let step = 0; ; step++) {
    await stream.step(step, step);
    trained.came.push(performance.now());
    trained.facts.push(await stream.fact(step));
    if (hasEnough(trained)) break;
    await sleep(train_ms);
    await next(step + 1);
  }
  await stream.handle().signal('stop');
  await stream.handle().result();
  return trained;
}

interface Arrived {
  group: number;
  at: number;
  tokens: number;
}

/** What the journals of a stream or a batch say about each piece of a generation. */
async function arrivedIn(journals: string): Promise<Arrived[]> {
  const arrived: Arrived[] = [];
  for (const [id, text] of await textsInFolder(journals))
    for (const line of linesOf(text))
      if (line.kind === 'chunk') {
        const group = parseInt(path.basename(id), 10);
        arrived.push({ group, at: line.at, tokens: line.token_ids.length });
      }
  return arrived;
}

/** Tokens a second, by when they were written. */
export async function pace(
  journals: string,
  { from_s, for_s }: { from_s: number; for_s: number },
): Promise<number> {
  const inside = (await arrivedIn(journals)).filter(
    ({ at }) => at >= from_s && at < from_s + for_s,
  );
  return sum(inside.map(({ tokens }) => tokens)) / for_s;
}

export async function tokensOf(
  journals: string,
  isWanted: (group: number) => boolean,
): Promise<number> {
  const wanted = (await arrivedIn(journals)).filter(({ group }) => isWanted(group));
  return sum(wanted.map(({ tokens }) => tokens));
}

export const now_s = (): number => Date.now() / 1000;

/** A turn has 8 to 780 tokens of thought, a rollout one to three turns: lengths vary by more than 1:50. */
export const THINKING_TOKENS: [number, number] = [8, 780];
export const ROLLOUT = {
  max_rollout_turns: 3,
  max_seq_len: 8192,
  rollout_timeout: '1h',
} as const;
export const MAX_NEW_TOKENS = 2048;

export const row = (cells: readonly (string | number)[]): string => `| ${cells.join(' | ')} |`;
export const heading = (cells: readonly string[]): string =>
  `${row(cells)}\n${row(cells.map(() => '---'))}`;

/** Tokens of each group's longest rollout. */
export function longestOf(rows: readonly Row[], groupOf: (row: Row) => number): number[] {
  const groups = new Map<number, number>();
  for (const one of rows) {
    const group = groupOf(one);
    groups.set(group, Math.max(groups.get(group) ?? 0, one.assistant_tokens));
  }
  return [...groups.values()];
}
