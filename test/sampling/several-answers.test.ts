/** Several answers of one journal, sampled at once, torn and resumed. */
import assert from 'node:assert/strict';
import { readFile, truncate } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { setImmediate as immediately } from 'node:timers/promises';
import fc from 'fast-check';
import type { GenerationService } from '../../src/generation/generation-service.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import type { Pool } from '../../src/sampling/call.js';
import { sample } from '../../src/sampling/sample.js';
import { tapeOf } from '../../src/sampling/tape.js';
import type { Journal } from '../../src/trajectories/trajectory-store.js';
import { askedCalls, author, entryOf, logprobOf } from '../fakes/journal-lines.js';
import { callOf, UNWATCHED } from '../fakes/sampled-call.js';
import { scriptedService } from '../fakes/scripted-service.js';
import type { TemporaryStore } from '../fakes/temporary-store.js';
import { REF, temporaryStore } from '../fakes/temporary-store.js';

/** An undisturbed answer: each prompt has its own, and each place in it its letter. */
const LENGTH = 300;
const promptOf = (turn: number): number[] => [9000 + turn];
const idAt = (turn: number, at: number): number =>
  at === LENGTH - 1 ? 182 : 97 + ((turn * 7 + at * at) % 26);
const answerOf = (turn: number): number[] =>
  Array.from({ length: LENGTH }, (_, at) => idAt(turn, at));

/** Continues any prefix of such an answer and refuses everything else. */
function service(pace: () => number): GenerationService {
  const engine = scriptedService([]);
  engine.generate = async ({ prompt_ids, max_tokens }, { signal, onDelta }) => {
    const turn = prompt_ids[0]! - 9000;
    const had = prompt_ids.slice(1);
    assert.deepEqual(had, answerOf(turn).slice(0, had.length), 'the answer of another prompt');
    assert.equal(max_tokens, LENGTH + 50 - had.length);
    for (let at = had.length; at < LENGTH;) {
      for (let wait = pace(); wait > 0; wait--) await immediately();
      signal.throwIfAborted();
      const to = Math.min(LENGTH, at + 64);
      const token_ids = answerOf(turn).slice(at, to);
      onDelta({
        token_ids,
        logprobs: token_ids.map(logprobOf),
        text: String.fromCodePoint(...token_ids).replace('¶', ''),
      });
      at = to;
    }
    return { finish_reason: 'stop', stop_reason: null, queue_s: 0, generate_s: 0 };
  };
  return engine;
}

const poolOf = (engine: GenerationService, waited_s = 0): Pool => ({
  special_tokens: [],
  request: (_, run) =>
    run(engine, {
      fence: null,
      policy: { latest: () => Promise.resolve(null), at: () => Promise.resolve(null) },
      waited_s,
      pauseOver: () => Promise.resolve(),
      logprobsMode: () => Promise.resolve('processed'),
    }),
  distrust: () => Promise.resolve(),
});

interface Life {
  /** In which order the answers are asked for. */
  order: number[];
  /** How many turns of the event loop each delta takes. */
  paces: number[];
  /** The attempt dies after so many lines, and of what it wrote so much is torn off, in thousandths. */
  lines: number;
  torn: number;
}

const livesOf = (answers: number): fc.Arbitrary<Life[]> =>
  fc.array(
    fc.record({
      order: fc.shuffledSubarray(
        Array.from({ length: answers }, (_, i) => i),
        { minLength: answers },
      ),
      paces: fc.array(fc.nat({ max: 6 }), { minLength: 5, maxLength: 20 }),
      lines: fc.noBias(fc.integer({ min: answers, max: 5 * answers })),
      torn: fc.noBias(fc.nat({ max: 1000 })),
    }),
    { minLength: 1, maxLength: 5 },
  );

/** One attempt: all answers at once, until it dies. */
async function live(
  { order, paces }: Pick<Life, 'order' | 'paces'>,
  { journal, lines }: { journal: Journal; lines: number },
): Promise<void> {
  const dead = new AbortController();
  let left = lines;
  let drawn = 0;
  const pool = poolOf(service(() => paces[drawn++ % paces.length]!));
  const one = async (turn: number): Promise<void> => {
    const tape = tapeOf(journal, turn);
    const dying = {
      ...tape,
      append: async (line: Parameters<typeof tape.append>[0]): Promise<void> => {
        if (left-- <= 0) dead.abort(new Error('killed'));
        dead.signal.throwIfAborted();
        await tape.append(line);
      },
    };
    const call = callOf({
      turn,
      prompt_ids: promptOf(turn),
      room: LENGTH + 50,
      request_id: `${turn}.${journal.writer}`,
    });
    const means = { tape: dying, pool, waits: UNWATCHED, signal: dead.signal };
    assert.equal(await sample(call, means), 'sampled');
  };
  const ended = await Promise.allSettled(order.map(one));
  for (const end of ended)
    if (end.status === 'rejected') assert.equal((end.reason as Error).message, 'killed');
}

async function play(
  lives: readonly Life[],
  { answers, row, files }: { answers: number; row: number; files: TemporaryStore },
): Promise<number> {
  const { elsewhere, journalFile } = files;
  const ref = { ...REF, row };
  const first = await elsewhere().claim(ref, { activity: 'playTurns' });
  for (const line of askedCalls(author(''), answers)) await first.append(entryOf(line));
  await first.commit();
  const { length: begun } = await readFile(journalFile(row));
  let tears = 0;
  for (const life of lives) {
    const journal = await elsewhere().claim(ref, { activity: 'playTurns', attempt: 2 });
    const { length: claimed } = await readFile(journalFile(row));
    await live(life, { journal, lines: life.lines });
    await journal.release();
    const { length } = await readFile(journalFile(row));
    const kept = length - Math.floor((life.torn / 1000) * (length - claimed));
    assert.ok(kept > begun);
    if (kept < length) tears += 1;
    await truncate(journalFile(row), kept);
  }
  const last = await elsewhere().claim(ref, { activity: 'playTurns', attempt: 2 });
  await live(lives[0]!, { journal: last, lines: Infinity });
  await last.commit();
  const read = await elsewhere().readTrajectory(ref);
  for (let turn = 0; turn < answers; turn++) {
    const { token_ids, logprobs, generation: line } = openAnswer(read, turn);
    assert.deepEqual(token_ids, answerOf(turn));
    assert.deepEqual(logprobs, answerOf(turn).map(logprobOf));
    assert.equal(line?.content, String.fromCodePoint(...answerOf(turn).slice(0, -1)));
  }
  assert.equal(read.wasted_tokens, 0);
  return tears;
}

test('an attempt that has lost its journal while it waited asks no engine', async (t) => {
  const { store, elsewhere } = await temporaryStore(t);
  const journal = await store.claim(REF, { activity: 'playTurns' });
  const means = {
    tape: tapeOf(journal, 0),
    waits: UNWATCHED,
    signal: new AbortController().signal,
  };
  await elsewhere().claim(REF, { activity: 'playTurns', attempt: 2 });
  const engine = scriptedService([]);
  const outcome = await sample(callOf(), { ...means, pool: poolOf(engine, 60) });
  assert.ok(typeof outcome === 'object' && outcome.failed.type === 'StoreFault');
  assert.equal(engine.asked.generate, 0);
});

test('only an interrupted answer asks which tokens have ended earlier ones: the question costs the whole log', async (t) => {
  const { store } = await temporaryStore(t);
  const { signal } = new AbortController();
  let asked = 0;
  const eos_ids = () => {
    asked += 1;
    return new Set<number>();
  };
  const pool = poolOf(service(() => 0));
  const answered = async (turn: number): Promise<void> => {
    const journal = await store.claim({ ...REF, row: turn }, { activity: 'playTurns' });
    const call = callOf({ prompt_ids: promptOf(0), room: LENGTH + 50, eos_ids });
    const tape = tapeOf(journal, 0);
    if (turn === 1) {
      const [id] = answerOf(0);
      await journal.append(entryOf(author('').chunk({ token_ids: [id!] })));
    }
    assert.equal(await sample(call, { tape, pool, waits: UNWATCHED, signal }), 'sampled');
    await journal.commit();
  };
  await answered(0);
  assert.equal(asked, 0);
  await answered(1);
  assert.equal(asked, 1);
});

describe('answers that are sampled at once into one journal', () => {
  for (const answers of [2, 5])
    test(`${answers} of them, torn at any byte and resumed in any order, are those of an undisturbed run`, async (t) => {
      const files = await temporaryStore(t);
      let row = 0;
      let tears = 0;
      await fc.assert(
        fc.asyncProperty(livesOf(answers), async (lives) => {
          tears += await play(lives, { answers, row: row++, files });
        }),
        { numRuns: 60 },
      );
      assert.ok(tears > 60, `only ${tears} were torn: they prove little`);
    });
});
