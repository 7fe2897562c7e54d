import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { WorkflowNotFoundError } from '@temporalio/client';
import { textOf } from '../../src/model/content.js';
import type { JournalLine } from '../../src/model/journal.js';
import { parseLine } from '../../src/model/journal.js';
import type { Row } from '../../src/model/results/row.js';
import { policyId } from '../../src/model/workflow-safe/policy.js';
import { createRandom } from '../../simulator/random.js';
import type { RecoveryBed } from '../../lab/bed/bed.js';
import { startRecoveryBed } from '../../lab/bed/bed.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { CountdownEnvironment } from '../servers/countdown-environment.js';
import { startCountdownEnvironment } from '../servers/countdown-environment.js';
import { KIND } from './engine.js';
import { LOGPROB_TOLERANCE, SPECIAL_TOKENS } from './play.js';

export const SIZE = { samples: 32, repeats: 1 };
export const BATCH = 'interop';
const TURNS = 3;

/** Greedy rollouts of three turns with different prompts, within the tiny model's 512 tokens. */
export const REQUEST = {
  samples: Array.from({ length: SIZE.samples }, (_, row) => ({
    message_log: [{ role: 'user', content: wordsOf(row) }],
    task_name: 'countdown',
    extra_env_info: { left: TURNS },
  })),
  generation: { greedy: true, max_new_tokens: 130 },
  max_seq_len: 512,
  // A turn that reaches its token limit does not end the rollout.
  semantics: 'nemo-rl-sync' as const,
  rollout_timeout: '30m',
};

function wordsOf(row: number): string {
  const random = createRandom(row);
  const letter = (): string => String.fromCharCode(97 + Math.floor(random() * 26));
  return Array.from({ length: 12 }, letter).join('');
}

export interface InteropBed {
  bed: RecoveryBed;
  environment: CountdownEnvironment;
  end: () => Promise<void>;
}

export async function startInteropBed({
  name,
  base_url,
  generation = {},
  shows,
}: {
  name: string;
  base_url: string;
  /** The picture of an observation. */
  shows?: Parameters<typeof startCountdownEnvironment>[1];
  generation?: Parameters<typeof startRecoveryBed>[0]['generation'];
}): Promise<InteropBed> {
  const environment = await startCountdownEnvironment(0, shows);
  try {
    const bed = await startRecoveryBed({
      name,
      generation: {
        ...{ kind: KIND, base_urls: [base_url], special_tokens: SPECIAL_TOKENS },
        ...generation,
      },
      // An engine on the same machine takes all of its time.
      worker: { heartbeat_timeout: '10s' },
      environments: { countdown: { kind: 'http', url: environment.url } },
    });
    return {
      bed,
      environment,
      end: async () => {
        await endPolicy(bed);
        await bed.end();
        await environment.close();
      },
    };
  } catch (error) {
    await environment.close();
    throw error;
  }
}

/** The next bed on this server is another deployment, with a service of the same name. */
async function endPolicy(bed: RecoveryBed): Promise<void> {
  const policy = bed.server().client.workflow.getHandle(policyId('default'));
  await policy.terminate().catch((error: unknown) => {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  });
}

/** Waits until this many more turns have been generated. */
export function turnClock({ environment }: InteropBed): (turns: number) => Promise<void> {
  const before = environment.steps.length;
  return async (turns) => {
    const wait = { what: `${turns} turns`, timeout_ms: 300_000 };
    await eventually(wait, () => environment.steps.length - before >= turns);
  };
}

/** Waits until several generations are half journalled, so that a kill forces them to resume. */
export async function midGeneration(
  { bed }: InteropBed,
  { store, batch = BATCH, least = 4 }: { store: string; batch?: string; least?: number },
): Promise<void> {
  const wait = { what: 'generations that are half journalled', timeout_ms: 300_000 };
  await eventually(wait, async () => {
    const last = await lastKinds(bed, { store, batch });
    return last.filter((kind) => kind === 'chunk').length >= least;
  });
}

/** What each journal of a batch ends with; none, before there are any. */
export async function lastKinds(
  bed: Pick<RecoveryBed, 'storeRoot'>,
  { store, batch }: { store: string; batch: string },
): Promise<(JournalLine['kind'] | undefined)[]> {
  const folder = path.join(bed.storeRoot(store), batch, 'journals');
  const names = await readdir(folder).catch(() => []);
  return await Promise.all(
    names.map(async (name) => {
      const lines = (await readFile(path.join(folder, name), 'utf8')).trimEnd().split('\n');
      return parseLine(lines.at(-1) ?? '')?.kind;
    }),
  );
}

/**
 * All columns except those that a retry may change (`test/harness/row-comparison.ts`); logprobs within a tolerance. A
 * random model samples malformed bytes, for which a stream has one U+FFFD and `/detokenize` two, so a run of them
 * counts as one.
 */
export function assertSameRollouts(actual: readonly Row[], expected: readonly Row[]): void {
  assert.equal(actual.length, expected.length);
  for (const [i, row] of actual.entries()) {
    const [ours, theirs] = [split(row), split(expected[i]!)];
    assert.deepEqual(ours.rest, theirs.rest);
    assert.equal(ours.logprobs.length, theirs.logprobs.length);
    const apart = ours.logprobs.map((logprob, k) => Math.abs(logprob - theirs.logprobs[k]!));
    const worst = apart.reduce((a, b) => Math.max(a, b), 0);
    assert.ok(worst <= LOGPROB_TOLERANCE, `${row.rollout_id}: a logprob differs by ${worst}`);
  }
}

function split({ message_log, ...row }: Row): { rest: object; logprobs: number[] } {
  const { timing, attempts, segments, ...rest } = row;
  assert.ok(timing.wall_s > 0 && attempts >= 1 && segments.length >= 1);
  const logprobs = message_log.flatMap(({ generation_logprobs }) => generation_logprobs ?? []);
  const messages = message_log.map(({ role, content, token_ids }) => ({
    role,
    content: textOf(content).replaceAll(/\uFFFD+/g, '\uFFFD'),
    token_ids,
  }));
  return { rest: { ...rest, messages }, logprobs };
}
