/** The calls of an agent in its journal. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import v8 from 'node:v8';
import vm from 'node:vm';
import type { JournalLine } from '../../src/model/journal.js';
import { lineText, parseLine } from '../../src/model/journal.js';
import { idsOf, isKnown, promptOf } from '../../src/model/journal/calls.js';
import { lastGlanceOf } from '../../src/model/journal/last-glance.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import { glanceOf } from '../../src/model/journal/outcome.js';
import { applyLine } from '../../src/model/journal/trajectory.js';
import { readLastLines } from '../../src/trajectories/journal-end.js';
import { KeptJson } from '../../src/platform/json/kept.js';
import { author, foldOf, wholeCall } from '../fakes/journal-lines.js';

const a = author('a');
const begin = [a.claim(), a.start({ plays: 'agent', prompt: [] }), a.life()];

describe('the calls of a journal', () => {
  test('are a tree whose paths have the ids that were sent', () => {
    const { calls, assistant_tokens } = foldOf([
      ...begin,
      ...wholeCall(a, { prompt_ids: [1, 2], cause: 'first', ids: [3, 4] }),
      ...wholeCall(a, { turn: 1, parent: 0, prompt_ids: [5], ids: [6] }),
      ...wholeCall(a, {
        turn: 2,
        parent: 1,
        cause: 'resampled',
        fork: { call: 1, ids: 5 },
        prompt_ids: [],
        ids: [7],
      }),
      ...wholeCall(a, {
        turn: 3,
        parent: 1,
        message: 1,
        cause: 'edited',
        fork: { call: 1, ids: 3 - 1 },
        prompt_ids: [8],
        ids: [9],
      }),
      a.call({ turn: 4, parent: 2, prompt_ids: [10] }),
      a.chunk({ turn: 4, token_ids: [11] }),
    ]);
    assert.deepEqual(
      [0, 1, 2, 3, 4].map((turn) => idsOf(calls, turn)),
      [
        [1, 2, 3, 4],
        [1, 2, 3, 4, 5, 6],
        [1, 2, 3, 4, 5, 7],
        [1, 2, 8, 9],
        [1, 2, 3, 4, 5, 7, 10],
      ],
    );
    assert.deepEqual(promptOf(calls, 2), [1, 2, 3, 4, 5]);
    assert.equal(assistant_tokens, 5);
    assert.deepEqual(
      calls.map(({ answer }) => answer !== null),
      [true, true, true, true, false],
    );
  });

  test('begin in a life that runs, continue answers that are whole, and are cut in no answer', () => {
    const first = [...begin, ...wholeCall(a, { cause: 'first', ids: [3, 4] })];
    const ignored: Record<string, JournalLine> = {
      'of no life': a.call({ turn: 1, life: 2, parent: 0 }),
      'with a gap': a.call({ turn: 2, parent: 0 }),
      'of a later parent': a.call({ turn: 1, parent: 1 }),
      'with neither parent nor cause': a.call({ turn: 1 }),
      'cut inside an answer': a.call({
        turn: 1,
        parent: 0,
        cause: 'edited',
        fork: { call: 0, ids: 2 },
      }),
      'beyond an answer': a.call({
        turn: 1,
        parent: 0,
        cause: 'edited',
        fork: { call: 0, ids: 4 },
      }),
    };
    for (const [why, line] of Object.entries(ignored))
      assert.equal(foldOf([...first, line]).calls.length, 1, why);
    const ended = [...first, a.exit(), a.call({ turn: 1, parent: 0 })];
    assert.equal(foldOf(ended).calls.length, 1);
    const unfinished = [...begin, a.call({ cause: 'first' }), a.call({ turn: 1, parent: 0 })];
    assert.equal(foldOf(unfinished).calls.length, 1);
  });

  test('keep their answer, whatever is written behind it', () => {
    const whole = [...begin, ...wholeCall(a, { cause: 'first', ids: [3] })];
    const { calls } = foldOf([
      ...whole,
      a.chunk({ token_ids: [5] }),
      a.answer({ content: 'other' }),
    ]);
    assert.deepEqual(calls[0]?.sampled.token_ids, [3]);
    assert.equal(calls[0].answer?.content, 'said');
  });

  test('are known to the life that began them and to those that were given them', () => {
    const { calls, lives } = foldOf([
      ...begin,
      ...wholeCall(a, { cause: 'first' }),
      ...wholeCall(a, { turn: 1, parent: 0 }),
      a.exit({ code: null, signal: 'SIGKILL' }),
      a.life({ life: 2 }),
      a.served({ life: 2, whole: false }),
      a.served({ life: 2 }),
      a.served({ life: 2, whole: false }),
    ]);
    assert.deepEqual(
      calls.map((call) => [isKnown(call, 1), isKnown(call, 2)]),
      [
        [true, true],
        [true, false],
      ],
    );
    assert.equal(calls[0]?.given.get(2), true);
    assert.equal(lives[0]?.exit?.signal, 'SIGKILL');
  });

  test('have a verdict behind the end of the agent, once', () => {
    const played = [...begin, ...wholeCall(a, { cause: 'first' })];
    const verdict = a.observation({ turn: 1, reward: 1, terminated: true });
    assert.equal(foldOf([...played, verdict]).total_reward, 0);
    const judged = foldOf([...played, a.exit(), verdict, verdict]);
    assert.equal(judged.total_reward, 1);
    assert.deepEqual(judged.observations, [verdict]);
  });

  test('of any beginning of a journal are those of the whole journal', () => {
    const lines = [
      ...begin,
      ...wholeCall(a, { cause: 'first', prompt_ids: [1], ids: [2, 3] }),
      ...wholeCall(a, { turn: 1, parent: 0, prompt_ids: [4], ids: [5] }),
      a.exit(),
    ];
    const whole = foldOf(lines);
    for (let { length } = begin; length <= lines.length; length++) {
      const { calls } = foldOf(lines.slice(0, length));
      for (const [turn] of calls.entries())
        assert.deepEqual(promptOf(calls, turn), promptOf(whole.calls, turn));
    }
  });
});

test('tools come back as they came', () => {
  const text =
    '[{"type":"function","function":{"name":"f","parameters":{"2":1.0,"1":9007199254740993,"__proto__":0}}}]';
  const line = parseLine(lineText(a.material({ hash: 'h', tools: new KeptJson(text) })));
  assert.ok(line?.kind === 'material' && line.tools instanceof KeptJson);
  assert.equal(line.tools.text, text);
});

test('the last lines of an agent say what the whole journal says, or nothing', async () => {
  const played = [...begin, ...wholeCall(a, { cause: 'first', ids: [3, 4] })];
  const glance = glanceOf(foldOf(played));
  assert.deepEqual([glance.turn_count, glance.assistant_tokens], [1, 2]);
  const answered = [...played.slice(0, -1), a.answer({ glance })];
  const lastOf = async (lines: JournalLine[]) => {
    const bytes = Buffer.from(lines.map(lineText).join(''));
    return readLastLines((most) => ({
      bytes: bytes.subarray(Math.max(0, bytes.length - most)),
      is_whole: most >= bytes.length,
    }));
  };
  const last = await lastOf(answered);
  assert.deepEqual(
    last.map(({ kind }) => kind),
    ['answer'],
  );
  assert.deepEqual(lastGlanceOf(last)?.glance, glance);
  const asking = [...answered, a.call({ turn: 1, parent: 0 }), a.chunk({ turn: 1 })];
  assert.equal(lastGlanceOf(await lastOf(asking)), null);
});

test('a token of a call takes at most 30 bytes of memory', () => {
  v8.setFlagsFromString('--expose-gc');
  const gc = vm.runInNewContext('gc') as () => void;
  const trajectory = foldOf(begin);
  const [tokens, each, calls] = [200_000, 64, 4];
  gc();
  const before = process.memoryUsage().heapUsed;
  for (let turn = 0; turn < calls; turn++) {
    applyLine(
      trajectory,
      a.call({
        turn,
        parent: turn === 0 ? null : turn - 1,
        ...(turn === 0 && { cause: 'first' }),
        prompt_ids: [turn],
      }),
    );
    for (let offset = 0; offset < tokens / calls; offset += each) {
      const token_ids = Array.from({ length: each }, (_, i) => 100_000 + offset + i);
      applyLine(
        trajectory,
        a.chunk({ turn, offset, token_ids, logprobs: token_ids.map((id) => -1 / id) }),
      );
    }
    const token_count = openAnswer(trajectory, turn).token_ids.length;
    applyLine(trajectory, a.generation({ turn, token_count }));
    applyLine(trajectory, a.answer({ turn }));
  }
  gc();
  const held = (process.memoryUsage().heapUsed - before) / trajectory.assistant_tokens;
  assert.ok(trajectory.assistant_tokens >= tokens);
  assert.ok(held < 30, `${held.toFixed(1)} bytes`);
});
