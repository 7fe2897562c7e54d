/**
 * `npm run build && node --import tsx lab/bench/agents/saved.ts [agents]`: what replay saves an agent that is killed after a
 * third, half and nine tenths of its run, beside one that begins anew, and one that prints another id in each life.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { divergenceText } from '../../../src/client/show/divergence-text.js';
import type { Trajectory } from '../../../src/model/journal/trajectory.js';
import { sequencesOf } from '../../../src/model/results/sequences.js';
import { hash32 } from '../../../src/model/workflow-safe/hash32.js';
import type { Life } from '../../../test/gateway/gateway-bed.js';
import { readStream } from '../../../test/gateway/asking.js';
import { kill } from '../../../test/gateway/gateway-bed.js';
import { median } from '../measure.js';
import { agentsBed } from './bed.js';

const AGENTS = Number(process.argv[2] ?? 8);
const CALLS = 8;
const TOKENS = 250;
const TOKENS_PER_SECOND = 200;
/** An answer ends with a token of its own. */
const WHOLE = CALLS * (TOKENS + 1);
const SHARES = [1 / 3, 1 / 2, 9 / 10];

const ARMS = {
  replay: { restart: 'replay', prints: false },
  'begins anew': { restart: 'fresh', prints: false },
  'replay, prints random ids': { restart: 'replay', prints: true },
} as const;
type Arm = (typeof ARMS)[keyof typeof ARMS];

const settings = { tokens_per_second: TOKENS_PER_SECOND, thinking_tokens: TOKENS };
const { engine, open, end } = await agentsBed(settings);
const bed = await open({ engine });

/** A program: one call after the other, streamed. */
async function play(
  life: Life,
  { prints, signal }: { prints: boolean; signal: AbortSignal },
): Promise<void> {
  const messages = [{ role: 'user', content: 'Task.' }];
  for (let call = 0; call < CALLS; call++) {
    const reply = await life.post({ messages, stream: true }, { signal });
    const text = await reply.text();
    const { content, isDone } = readStream(text);
    if (!isDone) throw new Error(`${reply.status}: the stream broke off: ${text.slice(-200)}`);
    const seen = prints ? `Chunk ${randomUUID()}` : `Chunk ${call}`;
    messages.push({ role: 'assistant', content }, { role: 'user', content: seen });
  }
}

function tokensOf(trajectory: Trajectory): number {
  const answers = trajectory.calls.map(({ sampled }) => sampled);
  return answers.reduce((sum, { token_ids }) => sum + token_ids.length, 0);
}

let row = 0;
/** One life is killed after a share of its run, and another one ends. */
async function twoLives({ restart, prints }: Arm, share: number) {
  const opening = {
    row: row++,
    restart,
    generation: { max_new_tokens: 1000 },
    rollout: { max_seq_len: 8000 },
  };
  const seed = hash32([opening.row]);
  const first = await bed.open({ ...opening, seed });
  const gone = new AbortController();
  const cut = play(first, { prints, signal: gone.signal }).catch(() => undefined);
  while (tokensOf(first.journal.trajectory) < share * WHOLE) await sleep(5);
  gone.abort();
  await cut;
  await kill(first);
  const before = tokensOf(first.journal.trajectory);
  const began = performance.now();
  const second = await bed.open({ ...opening, seed });
  await play(second, { prints, signal: new AbortController().signal });
  const seconds = (performance.now() - began) / 1000;
  await second.session.end('over');
  await second.journal.release();
  const { trajectory } = second.journal;
  const diverged = trajectory.calls.flatMap(({ line }, call) =>
    line.cause === 'diverged' ? [divergenceText(trajectory, call) ?? ''] : [],
  );
  return { sampled: tokensOf(trajectory) - before, seconds, diverged, ...trainedIn(trajectory) };
}

/** What trains, and how often a token stands in more than one sequence. */
function trainedIn(trajectory: Trajectory): { trained: number; twice: number } {
  const { sequences = [], all_tokens } = sequencesOf(trajectory) ?? {};
  const calls = sequences.flatMap((sequence) => sequence.calls);
  return { trained: all_tokens?.trained ?? 0, twice: calls.length - new Set(calls).size };
}

const rows = [];
let example: string | undefined;
try {
  for (const share of SHARES)
    for (const [name, arm] of Object.entries(ARMS)) {
      const all = await Promise.all(Array.from({ length: AGENTS }, () => twoLives(arm, share)));
      const mid = (of: (one: (typeof all)[number]) => number): number => median(all.map(of));
      example ??= all[0]?.diverged[0];
      rows.push({
        'killed after': share.toFixed(2),
        arm: name,
        'sampled after it': mid(({ sampled }) => sampled),
        'saved tokens': WHOLE - mid(({ sampled }) => sampled),
        'seconds to the end': Number(mid(({ seconds }) => seconds).toFixed(1)),
        'divergences named': all.reduce((sum, { diverged }) => sum + diverged.length, 0),
        'trained tokens': mid(({ trained }) => trained),
        'calls trained twice': all.reduce((sum, { twice }) => sum + twice, 0),
      });
    }
  console.log(
    `${AGENTS} agents at once, ${CALLS} calls of ${TOKENS} tokens at ${TOKENS_PER_SECOND} tokens/s`,
  );
  console.table(rows);
  console.log(example);
} finally {
  await end();
}
