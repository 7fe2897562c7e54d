/** A turn that a stop string ends: its ids and its content end at the same place, disturbed or not. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import fc from 'fast-check';
import type { Delta } from '../../src/generation/generation-service.js';
import type { Finish } from '../../src/model/journal.js';
import type { Sampled } from '../../src/model/journal/open-answers.js';
import { findStop } from '../../src/sampling/seam.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { GENERATION } from '../fakes/journal-lines.js';
import { CUT } from '../fakes/resumed-turn.js';
import type { ScriptedReply, ScriptedService } from '../fakes/scripted-service.js';
import { deltaOf, idsOf, says, scriptedService } from '../fakes/scripted-service.js';
import { REF } from '../fakes/temporary-store.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';

const stoppedBy = (stop_reason: string): Finish => ({ finish_reason: 'stop', stop_reason });

/** As an engine with speculative decoding: the text ends with the stop string, the ids run on. */
function overrun(
  sampled: string,
  { text, stop, at = [] }: { text: string; stop: string; at?: number[] },
): ScriptedReply {
  const chars = Array.from(sampled);
  const said = Array.from(text);
  const inner = at.filter((one) => one > 0 && one < chars.length).sort((a, b) => a - b);
  const deltas = [0, ...inner].map((from, i): Delta => {
    const to = inner[i] ?? chars.length;
    const delta = deltaOf(chars.slice(from, to).join(''));
    return { ...delta, text: said.slice(from, to).join('') };
  });
  const finish = stoppedBy(stop);
  return { deltas: [...deltas.slice(0, -1), { ...deltas.at(-1)!, finish }], then: finish };
}

interface Played {
  service: ScriptedService;
  open: Sampled;
  wasted: number;
}

/** Attempts follow one another until the turn is whole. */
async function played(
  t: Pick<TestContext, 'after'>,
  {
    script,
    stop_strings,
    ...given
  }: {
    script: readonly ScriptedReply[];
    stop_strings: string[];
    special_tokens?: string[];
    min_tokens?: number;
    max_attempts?: number;
  },
): Promise<Played> {
  const { special_tokens = [], min_tokens = 0, max_attempts = 2 } = given;
  const service = scriptedService(script);
  const bench = await activityBench(t, { service, special_tokens });
  const generation = { ...GENERATION, stop_strings, min_tokens };
  await bench.started({ settings: { generation } });
  for (let attempt = 1; attempt <= max_attempts; attempt++) {
    const { error } = await bench.run('generateTurn', { input: AT });
    if (error === undefined) break;
  }
  bench.checkPlayed();
  const read = await bench.elsewhere().readTrajectory(REF);
  const open = openAnswer(read);
  const { wasted_tokens } = read;
  assert.notEqual(open.generation, null, 'the turn is not whole');
  return { service, open, wasted: wasted_tokens };
}

const endOf = ({ open }: Played): unknown => {
  const { content, finish_reason, stop_reason, token_count } = open.generation ?? assert.fail();
  return { content, finish_reason, stop_reason, token_count, token_ids: open.token_ids };
};

describe('an undisturbed turn', () => {
  test('whose ids run past its stop string ends with it, ids and text alike', async (t) => {
    const script = [overrun('<a>up</a> and on', { text: '<a>up</a>', stop: '</a>' })];
    const turn = await played(t, { script, stop_strings: ['</a>'] });
    assert.deepEqual(endOf(turn), {
      content: '<a>up</a>',
      finish_reason: 'stop',
      stop_reason: '</a>',
      token_count: 9,
      token_ids: idsOf('<a>up</a>'),
    });
    assert.deepEqual(turn.open.logprobs, deltaOf('<a>up</a>').logprobs);
    assert.equal(turn.wasted, 7);
  });

  test('whose engine knows no stop strings ends with the first one', async (t) => {
    const script = [says('x;y end¶', { stop_reason: null })];
    const turn = await played(t, { script, stop_strings: ['end', ';'] });
    assert.deepEqual(
      [turn.open.generation?.content, turn.open.generation?.stop_reason],
      ['x;', ';'],
    );
    assert.deepEqual(turn.open.token_ids, idsOf('x;'));
  });

  test('has the stop string in its content where the engine cuts it off', async (t) => {
    const script = [overrun('up</a>', { text: 'up', stop: '</a>' })];
    const turn = await played(t, { script, stop_strings: ['</a>'] });
    assert.deepEqual(
      [turn.open.generation?.content, turn.open.generation?.token_count],
      ['up</a>', 6],
    );
  });

  test('keeps the text of its stream where the ids say no more, without what the decoder adds', async (t) => {
    const script = [overrun('u⟨p;', { text: 'up;', stop: ';' })];
    const turn = await played(t, { script, stop_strings: [';'] });
    assert.deepEqual(
      [turn.open.generation?.content, turn.open.generation?.token_count],
      ['up;', 4],
    );
  });

  test('asks no decoder where no stop string is near', async (t) => {
    const { service } = await played(t, { script: [says('left¶')], stop_strings: ['</a>'] });
    assert.equal(service.asked.detokenize, 0);
  });

  test('asks no decoder where its last token comes alone and completes the stop string', async (t) => {
    const script = [overrun('up;', { text: 'up;', stop: ';', at: [2] })];
    const { service, open } = await played(t, { script, stop_strings: [';'] });
    assert.deepEqual([open.generation?.content, open.token_ids], ['up;', idsOf('up;')]);
    assert.equal(service.asked.detokenize, 0);
  });

  test('may say its stop string within its least length', async (t) => {
    const script = [says('a;b')];
    const turn = await played(t, { script, stop_strings: [';'], min_tokens: 3 });
    assert.equal(turn.open.generation?.content, 'a;b');
  });

  test('is refused where its ids do not say the stop string that ended it, and none of them stays', async (t) => {
    const script = [
      overrun('up and', { text: 'up;', stop: ';' }),
      overrun('on;', { text: 'on;', stop: ';' }),
    ];
    const service = scriptedService(script);
    const bench = await activityBench(t, { service });
    await bench.started({ settings: { generation: { ...GENERATION, stop_strings: [';'] } } });
    const { type, message } = await bench.failure('generateTurn', AT);
    assert.equal(type, 'ProtocolError');
    assert.match(message, /stop string ";" that ended it, got 6 ids without it/);
    await bench.result('generateTurn', AT);
    bench.checkPlayed();
    assert.deepEqual(service.requests[1]?.prompt_ids, [901, 902]);
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const { wasted_tokens } = read;
    assert.deepEqual(
      [open.generation?.content, open.token_ids, wasted_tokens],
      ['on;', idsOf('on;'), 6],
    );
  });

  test('is refused by the next attempt, too, if this one dies before it has asked', async (t) => {
    const reply = { ...overrun('up and', { text: 'up;', stop: ';' }), then: CUT };
    const script = [reply, overrun('on;', { text: 'on;', stop: ';' })];
    const { service, open } = await played(t, { script, stop_strings: [';'], max_attempts: 3 });
    assert.equal(service.asked.generate, 2);
    assert.deepEqual([open.generation?.content, open.token_ids], ['on;', idsOf('on;')]);
  });
});

/** Some text with a stop string in it, in pieces, and where a stream of it is cut. */
const stopped = fc.constantFrom(['</a>'], [';', '</'], ['>', '<'], ['😀;', 'b']).chain((stops) => {
  const piece = fc.constantFrom('a', 'b', '<', '/', '>', ';', 'é', '😀');
  const word = fc.array(piece, { maxLength: 12 }).map((some) => some.join(''));
  return fc.record({
    stop_strings: fc.constant<string[]>([...stops]),
    chars: fc.tuple(word, word).map(([before, past]) => Array.from(before + stops[0] + past)),
    at: fc.array(fc.nat(30)),
    cut: fc.nat(),
  });
});

test('whatever an engine samples past a stop string, and wherever it is cut, the turn ends as if sampled token by token', async (t) => {
  let ran_on = 0;
  await fc.assert(
    fc.asyncProperty(stopped, async ({ stop_strings, chars, at, cut }) => {
      const textOf = (count: number): string => chars.slice(0, count).join('');
      // Token by token, the earliest end counts.
      const isOver = (count: number): boolean => findStop(textOf(count), { stop_strings }) !== null;
      const token_count = chars.findIndex((_, i) => isOver(i + 1)) + 1;
      const content = textOf(token_count);
      const { stop: stop_reason } = findStop(content, { stop_strings }) ?? assert.fail();
      const token_ids = idsOf(content);
      const expected = { content, finish_reason: 'stop', stop_reason, token_count, token_ids };
      // An engine that matches over all that it has sampled at once names the first of its list.
      const sampled = textOf(chars.length);
      const said = findStop(sampled, { stop_strings }) ?? assert.fail();
      const reply = overrun(sampled, { text: sampled.slice(0, said.end), stop: said.stop, at });
      assert.deepEqual(endOf(await played(t, { script: [reply], stop_strings })), expected);
      const cut_at = cut % token_count;
      const begun = { deltas: cut_at === 0 ? [] : [deltaOf(textOf(cut_at))], then: CUT };
      const rest: ScriptedReply = { deltas: [deltaOf(sampled.slice(textOf(cut_at).length))] };
      assert.deepEqual(endOf(await played(t, { script: [begun, rest], stop_strings })), expected);
      ran_on += Number(token_count < chars.length);
    }),
    { numRuns: 60 },
  );
  assert.ok(ran_on > 20);
});
