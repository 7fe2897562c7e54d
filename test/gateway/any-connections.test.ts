/** Of one answer, every connection that reads to the end has the same bytes, whatever engine and clients do meanwhile. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { idsOf } from '../../src/model/journal/calls.js';
import { saidIn } from '../../src/model/calls/parsers/read-answer.js';
import type { Fate } from '../fakes/erratic-engine.js';
import { erraticEngine } from '../fakes/erratic-engine.js';
import type { Life } from './gateway-bed.js';
import { eventsIn, readStream } from './asking.js';
import { CALLS, gatewayBed, poolFor } from './gateway-bed.js';
import { scriptedService } from '../fakes/scripted-service.js';

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
  fates: fc.array(fc.constantFrom(...FATES), { minLength: 1, maxLength: 5 }),
  seed: fc.integer({ min: 1, max: 2 ** 31 - 2 }),
  is_published: fc.boolean(),
  tells_text: fc.boolean(),
  names_spans: fc.boolean(),
  has_penalty: fc.boolean(),
  stream: fc.boolean(),
  max_version_span: fc.constantFrom(null, null, 1),
  stops: fc.constantFrom([], [';']),
  /** When each connection comes, in ms, and after how many bytes it goes; null: it stays. */
  clients: fc.array(
    fc.record({ after_ms: fc.integer({ min: 0, max: 12 }), bytes: fc.option(fc.nat(9000)) }),
    { minLength: 1, maxLength: 5 },
  ),
});
type World = typeof world extends fc.Arbitrary<infer T> ? T : never;

/** Lehmer's generator: the same draws for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

interface Read {
  text: string;
  isWhole: boolean;
}

async function client(
  life: Life,
  { body, after_ms, bytes }: World['clients'][number] & { body: object },
): Promise<Read> {
  await new Promise((resolve) => setTimeout(resolve, after_ms));
  const cut = new AbortController();
  const named = { headers: { 'idempotency-key': 'one' }, signal: cut.signal };
  const reply = await life.post(body, named);
  assert.equal(reply.status, 200);
  const reader = reply.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ''; ;) {
    const { value, done } = await reader.read();
    if (done) return { text: eventsIn(text), isWhole: true };
    text += value;
    if (bytes === null || text.length < bytes) continue;
    // Nothing reads on: some versions of Node.js never settle a read that is cut.
    reader.read().catch(() => undefined);
    cut.abort();
    return { text: eventsIn(text), isWhole: false };
  }
}

async function play(
  given: World,
  { open, row }: { open: (given: object) => Promise<Life>; row: number },
): Promise<number> {
  const { pool } = erraticEngine({
    ...given,
    fates: given.fates.values(),
    random: randomOf(given.seed),
  });
  const life = await open({
    row,
    pool,
    generation: { presence_penalty: given.has_penalty ? 0.5 : 0, max_new_tokens: 600 },
    rollout: { max_version_span: given.max_version_span },
  });
  const { stream, stops } = given;
  const body = {
    messages: [{ role: 'user', content: 'go' }],
    stream,
    ...(stops.length > 0 && { stop: stops }),
  };
  const last = { after_ms: 0, bytes: null };
  const reads = await Promise.all(given.clients.map((one) => client(life, { body, ...one })));
  reads.push(await client(life, { body, ...last }));
  await life.session.end('over');
  const { calls } = life.journal.trajectory;
  const [{ answer, sampled, line }] = calls as [(typeof calls)[number]];
  for (const { version_source, policy_version } of sampled.segments) {
    assert.notEqual(version_source, 'pending');
    if (given.is_published && !given.fates.includes('other weights'))
      assert.notEqual(policy_version, null);
  }
  const whole = reads.filter(({ isWhole }) => isWhole);
  const [{ text }] = whole as [Read];
  for (const read of reads) {
    if (read.isWhole) assert.equal(read.text, text);
    else if (stream) assert.ok(text.startsWith(read.text), 'a part is no beginning of the whole');
  }
  assert.equal(calls.length, 1);
  // The next life is given it from the journal alone.
  const next = await open({ row });
  assert.deepEqual(await client(next, { body, ...last }), { text, isWhole: true });
  await next.session.end('over');
  const said = stream
    ? readStream(text).content
    : (JSON.parse(text) as { choices: { message: { content: string } }[] }).choices[0]!.message
        .content;
  assert.equal(said, answer!.content);
  const { finish_reason, stop_reason } = sampled.generation!;
  const all = String.fromCodePoint(...sampled.token_ids);
  const shown = finish_reason === 'stop' && stop_reason === null ? all.slice(0, -1) : all;
  const at = stops.length === 0 ? -1 : shown.indexOf(';');
  const cut = at === -1 ? shown : shown.slice(0, at);
  assert.equal(saidIn(cut, { ...CALLS, turn: 0 }).content, answer!.content);
  assert.equal(idsOf(calls, 0).length, line.prompt_ids.length + sampled.token_ids.length);
  return reads.length - whole.length;
}

test('every connection of a call that reads to the end has the same bytes, those of the journal', async (t) => {
  const { open } = await gatewayBed(t, {
    pool: poolFor(scriptedService([])),
    times: { retry_ms: 2, linger_ms: 5 },
  });
  let row = 0;
  let cut = 0;
  await fc.assert(
    fc.asyncProperty(world, async (given) => {
      cut += await play(given, { open, row: row++ });
    }),
    { numRuns: Number(process.env['CONNECTION_RUNS'] ?? 100) },
  );
  t.diagnostic(`${cut} connections were cut`);
  assert.ok(cut > 20);
});
