/** What of an answer somebody has seen, whatever happens to it afterwards. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import fc from 'fast-check';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import type { Outcome, Tape } from '../../src/sampling/call.js';
import { sample } from '../../src/sampling/sample.js';
import { tapeOf } from '../../src/sampling/tape.js';
import type { Journal, TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import type { Fate } from '../fakes/erratic-engine.js';
import { erraticEngine } from '../fakes/erratic-engine.js';
import { GENERATION } from '../fakes/journal-lines.js';
import { callOf, UNWATCHED } from '../fakes/sampled-call.js';
import { REF, temporaryStore } from '../fakes/temporary-store.js';

const FATES: Fate[] = [
  'whole',
  'cut',
  'breaks',
  'breaks at its end',
  'claims a stop string',
  'update',
  'update, then cut',
  'other weights',
];

const world = fc.record({
  fates: fc.array(fc.constantFrom(...FATES), { minLength: 1, maxLength: 8 }),
  seed: fc.integer({ min: 1, max: 2 ** 31 - 2 }),
  is_published: fc.boolean(),
  tells_text: fc.boolean(),
  names_spans: fc.boolean(),
  has_penalty: fc.boolean(),
  max_version_span: fc.constantFrom(null, null, 1, 2),
  stops: fc.constantFrom([], [';']),
  /** Says also what the journal marks as not yet to be said, and what lies behind a stop string. */
  is_rude: fc.boolean(),
  /** How often somebody looks, in [0, 1]. */
  looks: fc.constantFrom(0, 0.1, 0.5, 1),
});
type World = typeof world extends fc.Arbitrary<infer T> ? T : never;

/** Lehmer's generator: the same draws for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

const PROMPT = [901, 902];

class Reader {
  readonly seen: { token_ids: number[]; logprobs: number[] } = { token_ids: [], logprobs: [] };
  private readonly random: () => number;
  private readonly world: World;

  constructor(given: World, random: () => number) {
    this.world = given;
    this.random = random;
  }

  check(tape: Tape): void {
    const count = this.seen.token_ids.length;
    const { token_ids, logprobs } = tape.open();
    assert.deepEqual(token_ids.slice(0, count), this.seen.token_ids, 'a said token was dropped');
    assert.deepEqual(logprobs.slice(0, count), this.seen.logprobs);
  }

  look(tape: Tape): void {
    this.check(tape);
    if (this.random() >= this.world.looks) return;
    const { token_ids, logprobs, segments } = tape.open();
    const pending = segments.find(({ version_source }) => version_source === 'pending');
    const may = this.world.is_rude ? token_ids.length : (pending?.start ?? token_ids.length);
    const until = Math.floor(this.random() * (may + 1));
    for (let i = this.seen.token_ids.length; i < until; i++) {
      this.seen.token_ids.push(token_ids[i]!);
      this.seen.logprobs.push(logprobs[i]!);
    }
  }
}

/** Every line is followed by a look. */
const readAlong = (journal: Journal, reader: Reader): Tape => {
  const tape = tapeOf(journal, 0);
  return {
    ...tape,
    append: async (line) => {
      await tape.append(line);
      reader.look(tape);
    },
  };
};

interface Counts {
  said: number;
  moved: number;
  started_over: number;
  failed: number;
}

async function play(
  given: World,
  { store, row, counts }: { store: TrajectoryStore; row: number; counts: Counts },
): Promise<void> {
  const random = randomOf(given.seed);
  const { service, pool } = erraticEngine({ ...given, fates: given.fates.values(), random });
  const reader = new Reader(given, random);
  const generation = { ...GENERATION, presence_penalty: given.has_penalty ? 0.5 : 0 };
  const call = callOf({
    prompt_ids: PROMPT,
    stops: given.stops,
    settings: {
      generation,
      model: 'policy',
      policy_version: null,
      max_version_span: given.max_version_span,
    },
    said: () => reader.seen.token_ids.length,
  });
  const ref = { ...REF, row };
  let journal = await store.claim(ref, { activity: 'playTurns' });
  let tape = readAlong(journal, reader);
  const generate = service.generate.bind(service);
  service.generate = (request, context) => {
    const { token_ids } = tape.open();
    assert.deepEqual(request.prompt_ids, [...PROMPT, ...token_ids], 'it continues other tokens');
    reader.check(tape);
    return generate(request, context);
  };
  const { signal } = new AbortController();
  for (let tries = 0; ; tries++) {
    assert.ok(tries < 40, 'it does not end');
    const { writer } = journal;
    const outcome: Outcome = await sample(
      { ...call, request_id: `r.${writer}.${tries}` },
      { tape, pool, waits: UNWATCHED, signal },
    );
    reader.check(tape);
    if (outcome === 'sampled') break;
    if (outcome !== 'moved' && outcome !== 'starts_over') counts.failed += 1;
    if (outcome === 'moved') counts.moved += 1;
    if (outcome === 'starts_over') counts.started_over += 1;
    if (random() < 0.5) continue;
    await journal.release();
    journal = await store.claim(ref, { activity: 'playTurns' });
    tape = readAlong(journal, reader);
  }
  const { generation: line, token_ids } = tape.open();
  assert.equal(line?.token_count, token_ids.length);
  const text = String.fromCodePoint(...token_ids);
  assert.equal(line.content, line.stop_reason === null ? text.replace(/¶$/, '') : text);
  await journal.commit();
  assert.deepEqual(openAnswer(await store.readTrajectory(ref)).token_ids, token_ids);
  reader.check(tape);
  counts.said += reader.seen.token_ids.length;
}

test('no said token is dropped, and what follows continues it, whatever happens', async (t: TestContext) => {
  const { store } = await temporaryStore(t);
  const counts: Counts = { said: 0, moved: 0, started_over: 0, failed: 0 };
  let row = 0;
  await fc.assert(
    fc.asyncProperty(world, (given) => play(given, { store, row: row++, counts })),
    { numRuns: Number(process.env['SAID_RUNS'] ?? 250) },
  );
  t.diagnostic(JSON.stringify(counts));
  assert.ok(counts.said > 1000 && counts.moved > 10 && counts.failed > 100, JSON.stringify(counts));
});
