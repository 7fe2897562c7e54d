import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { after, before, test } from 'node:test';
import type { GenerationService } from '../../src/generation/generation-service.js';
import type { GenerationSettings } from '../../src/model/generation-settings.js';
import { createRandom } from '../../simulator/random.js';
import { openEngine, servedModel, suite, WITHOUT_ENGINE } from './engine.js';
import type { Outcome, Turn } from './play.js';
import { assertSame, atOnce, play, promptOf } from './play.js';

const SEEDS = Array.from({ length: 60 }, (_, seed) => seed);
const MAX_NEW_TOKENS = 100;
/** How many turns are played concurrently. */
const AT_ONCE = 24;

interface Whole {
  seed: number;
  turn: Turn;
  outcome: Outcome;
}

suite('a greedy turn of a real engine that is cut and resumed', {
  skip: WITHOUT_ENGINE,
  timeout: 600_000,
  tests: () => {
    let service: GenerationService;
    let model: string;
    let wholes: Whole[];

    before(async () => {
      service = openEngine();
      model = await servedModel(service);
      const folders: (() => unknown)[] = [];
      const t = { after: (end: () => unknown) => void folders.push(end) } as Pick<
        TestContext,
        'after'
      >;
      wholes = await each(SEEDS, (seed) => wholeTurn(t, { seed }));
      for (const end of folders) await end();
    });
    after(() => service.close());

    async function wholeTurn(
      t: Pick<TestContext, 'after'>,
      { seed, generation = {} }: { seed: number; generation?: Partial<GenerationSettings> },
    ): Promise<Whole> {
      const settings = { max_new_tokens: MAX_NEW_TOKENS, ...generation };
      const turn = { model, prompt_ids: promptOf(seed), generation: settings };
      return { seed, turn, outcome: await play(t, { service, turn }) };
    }

    const each = <T, R>(items: readonly T[], run: (item: T) => Promise<R>): Promise<R[]> =>
      atOnce(items, { limit: AT_ONCE, run });
    const sameWhenAllCut = (
      t: TestContext,
      plans: readonly { whole: Whole; cuts: readonly number[] }[],
    ): Promise<unknown> => each(plans, (plan) => sameWhenCut(t, plan));

    async function sameWhenCut(
      t: TestContext,
      { whole: { turn, outcome }, cuts }: { whole: Whole; cuts: readonly number[] },
    ): Promise<void> {
      const resumed = await play(t, { service, turn, cuts });
      try {
        assertSame(resumed, outcome);
      } catch (error) {
        throw new Error(`prompt ${JSON.stringify(turn)}, cuts ${JSON.stringify(cuts)}`, {
          cause: error,
        });
      }
    }

    const textOf = (token_ids: readonly number[]): Promise<string> =>
      service.detokenize({ model, token_ids }, AbortSignal.timeout(30_000));

    test('is one that ends in several ways, and holds characters of several tokens', () => {
      const ends = new Set(
        wholes.map(({ outcome }) => `${outcome.finish_reason} ${outcome.stop_reason ?? ''}`),
      );
      assert.ok(ends.has('length ') && ends.has('stop '), [...ends].join());
      assert.ok(wholes.some(({ outcome }) => /[\u00a0-\ufffc]/.test(outcome.content)));
    });

    test('at random points, one to four times, is the uninterrupted one', async (t) => {
      const plans = wholes.flatMap((whole) =>
        [0, 1, 2].map((n) => ({ whole, cuts: randomCuts(whole, n) })),
      );
      await sameWhenAllCut(t, plans);
    });

    test('before and behind its first token is the uninterrupted one', async (t) => {
      const plans = wholes.flatMap((whole) => [[0], [1], [1, 1]].map((cuts) => ({ whole, cuts })));
      await sameWhenAllCut(t, plans);
    });

    test('before its last token, an end of sequence too, is the uninterrupted one', async (t) => {
      const plans = wholes.map((whole) => ({ whole, cuts: [whole.outcome.token_ids.length - 1] }));
      await sameWhenAllCut(t, plans);
    });

    test('behind the last token that it had room for is the uninterrupted one', async (t) => {
      const full = wholes.filter(({ outcome }) => outcome.finish_reason === 'length');
      assert.ok(full.length > 10);
      await sameWhenAllCut(
        t,
        full.map((whole) => ({ whole, cuts: [MAX_NEW_TOKENS] })),
      );
    });

    test('inside a character is the uninterrupted one', async (t) => {
      const plans: { whole: Whole; cuts: number[] }[] = [];
      for (const whole of wholes.slice(0, 30)) {
        const { token_ids } = whole.outcome;
        const texts = await Promise.all(token_ids.map((_, i) => textOf(token_ids.slice(0, i + 1))));
        const inside = texts.flatMap((text, i) => {
          const next = texts[i + 1] ?? '';
          // One more token completes another character; other bytes are no text at all.
          return text.endsWith('\uFFFD') && !next.startsWith(text) ? [i + 1] : [];
        });
        for (const cut of inside.slice(0, 3)) plans.push({ whole, cuts: [cut] });
      }
      assert.ok(plans.length >= 5, `${plans.length} cuts`);
      await sameWhenAllCut(t, plans);
    });

    test('in the middle of a stop string is the uninterrupted one', async (t) => {
      const found = await each(wholes, (whole) => spanning(t, whole));
      const plans = found.flatMap((plan) => plan ?? []);
      assert.ok(plans.length >= 10, `${plans.length} stop strings`);
      await sameWhenAllCut(t, plans);
    });

    test('before a stop string is the uninterrupted one, also where that ends inside a token', async (t) => {
      const found = await each(wholes.slice(0, 24), (whole) => insideToken(t, whole));
      const plans = found.flatMap((whole, n) =>
        whole === null
          ? []
          : [
              { whole, cuts: [1] },
              { whole, cuts: randomCuts(whole, n) },
              { whole, cuts: [whole.outcome.token_ids.length] },
            ],
      );
      assert.ok(plans.length >= 30, `${plans.length} cuts`);
      await sameWhenAllCut(t, plans);
    });

    test('before or behind a stop token is the uninterrupted one', async (t) => {
      const long = wholes.filter(({ outcome }) => outcome.token_ids.length > 20).slice(0, 20);
      const stopped = await each(long, ({ seed, outcome }) =>
        wholeTurn(t, { seed, generation: { stop_token_ids: outcome.token_ids.slice(10, 11) } }),
      );
      const plans = stopped.flatMap((whole, n) => {
        const { length } = whole.outcome.token_ids;
        return [[length - 1], [length], randomCuts(whole, n)].map((cuts) => ({ whole, cuts }));
      });
      assert.ok(stopped.every(({ outcome }) => outcome.finish_reason === 'stop'));
      await sameWhenAllCut(t, plans);
    });

    /** The turn with a stop string that begins in one token and ends in another, and a cut between the two. */
    async function spanning(t: TestContext, { seed, outcome }: Whole) {
      const { token_ids, content } = outcome;
      for (let cut = 20; cut < token_ids.length - 2; cut++) {
        const text = await textOf(token_ids.slice(0, cut));
        const stop = content.slice(text.length - 2, text.length + 2);
        const isPlain = /^[!-~]{4}$/.test(stop) && content.startsWith(text);
        if (!isPlain) continue;
        const whole = await wholeTurn(t, { seed, generation: { stop_strings: [stop] } });
        const { stop_reason, token_ids: ids } = whole.outcome;
        if (stop_reason === stop && ids.length > cut) return { whole, cuts: [cut] };
      }
      return null;
    }

    /** The turn with a stop string of two characters, followed by more of the same token. */
    async function insideToken(t: TestContext, { seed, outcome }: Whole): Promise<Whole | null> {
      const { token_ids, content } = outcome;
      for (let at = 15; at < token_ids.length; at++) {
        const [text, longer] = [
          await textOf(token_ids.slice(0, at)),
          await textOf(token_ids.slice(0, at + 1)),
        ];
        const token = longer.slice(text.length);
        const stop = token.slice(0, 2);
        if (!/^[!-~]{3,}$/.test(token) || content.indexOf(stop) !== text.length) continue;
        const whole = await wholeTurn(t, {
          seed,
          generation: { stop_strings: [stop, 'never said'] },
        });
        assert.equal(whole.outcome.content, content.slice(0, text.length + 2));
        return whole;
      }
      return null;
    }
  },
});

/** One to four attempts that are cut, and one that completes the rest, which is at least one token. */
function randomCuts({ seed, outcome }: Whole, n: number): number[] {
  const random = createRandom(seed * 1000 + n);
  const points = Array.from({ length: 1 + Math.floor(random() * 4) }, () =>
    Math.floor(random() * outcome.token_ids.length),
  ).toSorted((a, b) => a - b);
  return points.map((point, i) => point - (points[i - 1] ?? 0));
}
