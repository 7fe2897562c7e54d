/** The end of a rollout, from its journal's last lines: what the fold of the whole says, or nothing. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { JournalLine } from '../../src/model/journal.js';
import { applyToStanding, newStanding } from '../../src/model/journal/standing.js';
import { author } from '../fakes/journal-lines.js';
import { onEachStore } from '../fakes/stores.js';
import { REF } from '../fakes/temporary-store.js';
import { plainly } from '../fakes/plainly.js';

const GLANCE = {
  task_name: 'task',
  total_reward: 1,
  turn_count: 2,
  assistant_tokens: 3,
  started_at: 100,
  attempts: 1,
  faults: 0,
};
const [a, b] = [author('a'), author('b')];
const FAILED = { stop_reason: 'failed', failure: { type: 'X', message: 'x', turn: 0 } } as const;

onEachStore((open) => {
  describe('the end of a journal', () => {
    const cases: [string, (JournalLine | string)[], string | null][] = [
      ['is found with what lists show', [a.claim(), a.start(), a.end({ glance: GLANCE })], 'a'],
      ['is nobody’s while the rollout goes on', [a.claim(), a.start()], null],
      ['is no zombie’s', [a.claim(), b.claim(), a.end({ glance: GLANCE })], null],
      [
        'stands before claims that found it valid',
        [a.claim(), a.end({ glance: GLANCE }), b.claim({ reopen: true })],
        'a',
      ],
      [
        'does not stand where a claim has opened the rollout again',
        [a.claim(), a.end({ ...FAILED, glance: GLANCE }), b.claim({ reopen: true })],
        null,
      ],
      ['is left to the fold where it says too little', [a.claim(), a.end()], null],
      ['is left to the fold where it is torn', [a.claim(), '{"kind":"end","wri'], null],
      [
        'is found far behind its claim',
        [a.claim(), a.fault({ message: 'x'.repeat(200_000) }), a.end({ glance: GLANCE })],
        'a',
      ],
    ];
    for (const [claim, lines, writer] of cases) {
      test(claim, async (t) => {
        const { elsewhere, putLines } = await open(t);
        await putLines(lines);
        const end = await elsewhere().findEnd(REF);
        const last = await elsewhere().readLastLines(REF);
        assert.deepEqual(await elsewhere().findEndOrLastLines(REF), end ?? last);
        assert.equal(end?.writer ?? null, writer);
        if (end !== null) assert.deepEqual(end.glance, GLANCE);
      });
    }

    test('of a rollout without a journal is none', async (t) => {
      const { store } = await open(t);
      assert.equal(await store.findEnd(REF), null);
    });

    test('is always that of the whole journal, whoever writes and tears', async (t) => {
      const { store, putLines, most_runs } = await open(t);
      const move = fc.record({
        what: fc.constantFrom('claim', 'reopen', 'fault', 'end', 'failed', 'torn'),
        by: fc.nat({ max: 5 }),
      });
      await fc.assert(
        fc.asyncProperty(fc.array(move, { maxLength: 14 }), async (moves) => {
          const lines: (JournalLine | string)[] = [author('w0').claim()];
          const mayEnd = new Set([0]);
          let writers = 1;
          for (const { what, by } of moves) {
            const writer = by % writers;
            const one = author(`w${writer}`);
            if (what === 'claim' || what === 'reopen') {
              lines.push(author(`w${writers}`).claim({ reopen: what === 'reopen' }));
              await putLines(lines);
              // An attempt that finds an end returns it.
              if ((await store.readTrajectory(REF)).end === null) mayEnd.add(writers);
              writers += 1;
            } else if (what === 'fault') lines.push(one.fault());
            else if (what === 'torn') lines.push('{"kind":"end","writer":"w');
            // An attempt writes one end at most.
            else if (mayEnd.delete(writer)) {
              lines.push(one.end({ glance: GLANCE, ...(what === 'failed' && FAILED) }));
            }
          }
          await putLines(lines);
          const found = await store.findEnd(REF);
          if (found !== null) assert.deepEqual(found, (await store.readTrajectory(REF)).end);
        }),
        { numRuns: Math.min(500, most_runs) },
      );
    });
  });

  describe('the last lines of a journal', () => {
    const standingOf = (lines: readonly JournalLine[]) => {
      const standing = newStanding();
      for (const line of lines) applyToStanding(standing, line);
      return standing;
    };

    test('say of a rollout what all its lines say, however long the turn in progress is', async (t) => {
      const { elsewhere, putLines } = await open(t);
      const text = 'x'.repeat(1000);
      const chunks = Array.from({ length: 200 }, (_, i) => a.chunk({ turn: 1, offset: i, text }));
      const played = [
        ...[a.claim(), a.start(), a.chunk(), a.generation(), a.observation({ total_tokens: 2 })],
        ...[...chunks, a.fault({ message: 'cut' })],
      ];
      await putLines(played);
      const last = await elsewhere().readLastLines(REF);
      assert.deepEqual(standingOf(last), standingOf(played));
      assert.ok(last.length <= 3, `${last.length} lines`);
    });

    test('say what all say of several answers at once', async (t) => {
      const { elsewhere, putLines, most_runs } = await open(t);
      const text = 'it says "turn":7, or {"kind":"chunk","turn":8';
      const line = fc.nat({ max: 3 }).chain((turn) =>
        fc.oneof(
          fc.nat({ max: 9 }).map((offset) => a.chunk({ turn, offset, text })),
          fc.constant(a.generation({ turn, token_count: 5 })),
          fc.constant(a.fault({ turn, message: text })),
        ),
      );
      await fc.assert(
        fc.asyncProperty(fc.array(line, { maxLength: 30, size: 'max' }), async (lines) => {
          const timed = lines.map((one, i) => ({ ...one, at: i }));
          const all = [a.claim(), a.start({ plays: 'agent', prompt: [] }), ...timed];
          await putLines(all);
          const last = await elsewhere().readLastLines(REF);
          assert.deepEqual(standingOf(last), standingOf(all));
          const answers = new Set(
            timed.flatMap(({ kind, turn }) => (kind === 'chunk' ? turn : [])),
          );
          assert.equal(last.filter(({ kind }) => kind === 'chunk').length, answers.size);
        }),
        { numRuns: Math.min(200, most_runs) },
      );
    });

    test('begin with the last answer, prompt or end, whatever lines and texts lie around it', async (t) => {
      const { elsewhere, putLines, most_runs } = await open(t);
      // Each has all the words that begin a line, where no line begins.
      const words = '\n{"kind":"observation"\n{"kind":"start"\n{"kind":"end"';
      const long = 'x'.repeat(40_000);
      const lines = {
        start: a.start({ prompt: [{ role: 'user', content: words, token_ids: [1] }] }),
        observation: a.observation({ message: { role: 'environment', content: words } }),
        end: a.end({ failure: { type: 'X', message: words, turn: 0 }, stop_reason: 'failed' }),
        chunk: a.chunk({ text: words }),
        long: a.fault({ message: long }),
        claim: b.claim(),
      };
      const kinds = Object.keys(lines) as (keyof typeof lines)[];
      await fc.assert(
        fc.asyncProperty(fc.array(fc.constantFrom(...kinds), { maxLength: 12 }), async (chosen) => {
          const all = [a.claim(), ...chosen.map((kind) => lines[kind])];
          await putLines(all);
          const at = all.findLastIndex(({ kind }) =>
            ['start', 'observation', 'end'].includes(kind),
          );
          const behind = all.slice(Math.max(0, at));
          const chunk = behind.findLastIndex(({ kind }) => kind === 'chunk');
          const expected = behind.filter(({ kind }, i) => kind !== 'chunk' || i === chunk);
          assert.deepEqual(plainly(await elsewhere().readLastLines(REF)), expected);
        }),
        { numRuns: Math.min(200, most_runs) },
      );
    });

    test('begin there wherever the reading of a block ends', async (t) => {
      const { elsewhere, putLines, most_runs } = await open(t);
      const block = 1 << 16;
      const padded = (bytes: number) => {
        const fault = (message: string) => a.fault({ message });
        return fault('x'.repeat(Math.max(0, bytes - JSON.stringify(fault('')).length)));
      };
      const near = fc.integer({ min: block - 40, max: block + 40 });
      const journal = fc.record({
        line: fc.constantFrom(a.observation(), a.start(), a.end()),
        after: near,
        next: near,
      });
      await fc.assert(
        fc.asyncProperty(journal, async ({ line, after, next }) => {
          const behind = [line, padded(after), padded(next)];
          await putLines([a.claim(), a.start(), ...behind]);
          assert.deepEqual(plainly(await elsewhere().readLastLines(REF)), behind);
        }),
        { numRuns: Math.min(200, most_runs) },
      );
    });

    test('are none where there is no journal', async (t) => {
      const { elsewhere } = await open(t);
      assert.deepEqual(await elsewhere().findEndOrLastLines(REF), []);
      assert.deepEqual(await elsewhere().readLastLines(REF), []);
    });
  });
});
