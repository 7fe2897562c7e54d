import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseLine } from '../../../src/model/journal.js';
import type { StepFact } from '../../../src/activities/contract/stream.js';
import type { Row } from '../../../src/model/results/row.js';
import { sum } from '../../../src/model/results/statistics.js';
import { generate } from '../../../src/environments/sliding-puzzle/board.js';
import { STOP_STRING, taskPrompt } from '../../../src/environments/sliding-puzzle/prompt.js';
import type { PolicyBed } from '../../bed/policy-bed.js';

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
  for (const file of await readdir(journals)) {
    const text = await readFile(path.join(journals, file), 'utf8');
    for (const line of text.split('\n').map(parseLine))
      if (line?.kind === 'chunk')
        arrived.push({ group: parseInt(file, 10), at: line.at, tokens: line.token_ids.length });
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

/** The same board again and again, so lengths depend only on the policy's draws. */
export function samplesOf(count: number): object[] {
  const game_state = generate({ size: 2, shuffle_moves: 1 }, () => 0);
  return Array.from({ length: count }, (_, idx) => ({
    message_log: [{ role: 'user', content: taskPrompt(game_state) }],
    task_name: 'sliding_puzzle',
    extra_env_info: { game_state, num_moves: 0, max_moves: 100 },
    idx,
    stop_strings: [STOP_STRING],
  }));
}

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
