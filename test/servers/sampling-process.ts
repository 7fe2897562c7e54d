/**
 * Samples two answers of one rollout at once: `node sampling-process.js <store> <engine>`. Each attempt is
 * another process, or another call.
 */
import { pathToFileURL } from 'node:url';
import { createReplicas } from '../../src/generation/replicas/replicas.js';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import type { Outcome } from '../../src/sampling/call.js';
import { sample } from '../../src/sampling/sample.js';
import { tapeOf } from '../../src/sampling/tape.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import { GENERATION, askedCalls, author, entryOf } from '../fakes/journal-lines.js';
import { callOf, UNWATCHED } from '../fakes/sampled-call.js';
import { REF } from '../fakes/temporary-store.js';

const PROMPTS = ['left', 'right'];
const model = 'simulator';

/** Returns the journal as it found it, and as it left it. */
export async function sampleTwo(
  root: string,
  engine: string,
): Promise<{ before: Trajectory; after: Trajectory; outcomes: Outcome[] }> {
  const store = createFileStore({ root, max_cached_bytes: 0 });
  const before = await store.readTrajectory(REF);
  const service = createVllmService({
    base_url: engine,
    api_key: null,
    first_token_timeout_ms: 10_000,
    idle_timeout_ms: 10_000,
  });
  const probe = () => Promise.resolve('processed' as const);
  const { request, close } = createReplicas([service], { max_concurrent: 2, probe });
  const journal = await store.claim(REF, { activity: 'playTurns' });
  if (before.start === null)
    for (const line of askedCalls(author(''), PROMPTS.length)) await journal.append(entryOf(line));
  const { signal } = new AbortController();
  const pool = { request, special_tokens: [], distrust: () => Promise.resolve() };
  const generation = { ...GENERATION, greedy: true };
  try {
    const outcomes = await Promise.all(
      PROMPTS.map(async (text, turn) => {
        const prompt_ids = await service.tokenize(
          { model, text, add_special_tokens: false },
          signal,
        );
        const settings = { generation, model, policy_version: null, max_version_span: null };
        const request_id = `batch/0-0.${turn}.${journal.writer}`;
        const call = callOf({ turn, prompt_ids, settings, request_id, room: 60 });
        return sample(call, { tape: tapeOf(journal, turn), pool, waits: UNWATCHED, signal });
      }),
    );
    await journal.commit();
    return { before, after: await store.readTrajectory(REF), outcomes };
  } finally {
    await close();
  }
}

/** How many tokens of each answer are journalled. */
export const countsOf = (trajectory: Trajectory): number[] =>
  PROMPTS.map((_, turn) => openAnswer(trajectory, turn).token_ids.length);

const [, main = '', root = '', engine = ''] = process.argv;
if (import.meta.url === pathToFileURL(main).href) await sampleTwo(root, engine);
