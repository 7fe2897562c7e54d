/** Programs that ask the same on purpose, and are killed once: as many samples as without, or one fewer. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Life } from './gateway-bed.js';
import { askAlone, says } from './asking.js';
import { gatewayBed, kill } from './gateway-bed.js';
import { eventually } from '../../lab/bed/waiting.js';

const N = 4;
const LONG = 'word '.repeat(40).trim();
const CANDIDATE = says(LONG);
const NOTES = says('notes of all that was said');

const samplesOf = ({ journal }: Life): number => journal.trajectory.calls.length;
const keysOf = ({ journal }: Life): Set<string> =>
  new Set(journal.trajectory.calls.map(({ line }) => line.key));

/** What a program asks, up to a kill after so many answers (`behind`: their delivery is known). */
interface Program {
  play: (life: Life) => Promise<void>;
  /** Until it is killed. */
  begin: (life: Life, kills: { after: number; behind: boolean }) => Promise<void>;
}

const inSequence = (bodies: readonly object[]): Program => ({
  play: async (life) => {
    for (const body of bodies) assert.equal((await askAlone(life, { body })).status, 200);
  },
  begin: async (life, { after, behind }) => {
    for (const [k, body] of bodies.slice(0, after).entries())
      // The last answer has come, and nothing says so yet.
      if (behind || k < after - 1) await askAlone(life, { body });
      else await (await life.post(body)).text();
  },
});

const atOnce: Program = {
  play: async (life) => {
    await Promise.all(Array.from({ length: N }, () => askAlone(life, { body: CANDIDATE })));
  },
  begin: async (life, { after }) => {
    const gone = new AbortController();
    const { signal } = gone;
    const asked = Array.from({ length: N }, () =>
      life.post({ ...CANDIDATE, stream: true }, { signal }).catch(() => null),
    );
    const { calls } = life.journal.trajectory;
    await eventually(
      'tokens of all',
      () =>
        calls.length === N && calls.some(({ sampled }) => sampled.token_ids.length > 20 * after),
    );
    gone.abort();
    await Promise.all(asked);
  },
};

const programs: [what: string, program: Program, samples: number, keys: number][] = [
  ['four candidates in sequence', inSequence(Array.from({ length: N }, () => CANDIDATE)), N, 1],
  ['four candidates at once', atOnce, N, 1],
  ['a compaction that repeats its request', inSequence([CANDIDATE, NOTES, NOTES, NOTES]), 4, 2],
];

describe('a program that asks for', () => {
  for (const [what, program, samples, keys] of programs) {
    test(`${what} gets as many samples without kills`, async (t) => {
      const { open, requests } = await gatewayBed(t);
      const life = await open();
      await program.play(life);
      assert.deepEqual(
        [samplesOf(life), requests.length, keysOf(life).size],
        [samples, samples, keys],
      );
    });

    for (const after of [1, 3])
      for (const behind of program === atOnce ? [true] : [true, false])
        test(`${what}, killed after ${after} ${behind ? 'that arrived' : 'of which the last may have'}, gets one fewer at most`, async (t) => {
          const { open } = await gatewayBed(t, { simulator: { tokens_per_second: 1000 } });
          const first = await open();
          await program.begin(first, { after, behind });
          await kill(first);
          const second = await open();
          await program.play(second);
          const all = samplesOf(second);
          assert.ok(all === samples || all === samples - 1, `${all} samples of ${samples}`);
          assert.equal(keysOf(second).size, keys);
          assert.ok(second.journal.trajectory.calls.every(({ answer }) => answer !== null));
        });
  }
});
