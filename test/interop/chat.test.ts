import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { after, before, test } from 'node:test';
import type { ChatMessage, GenerationService } from '../../src/generation/generation-service.js';
import { describeError } from '../../src/platform/errors.js';
import { createRandom } from '../../simulator/random.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { BATCH, REF, requestOf, sampleOf } from '../fakes/temporary-store.js';
import { cutService } from './cut-service.js';
import { openEngine, servedModel, suite, WITHOUT_ENGINE } from './engine.js';
import { atOnce, SPECIAL_TOKENS } from './play.js';
import { turnsOf } from '../../src/model/journal/calls.js';

const TURNS = 3;
const NEWS = ['It is warm.', 'Now it rains, and "quotes" stand in it.'];
/** Letters that a random model soon samples, because it hardly ever ends a turn by itself. */
const STOP_STRINGS = ['e', 'a', 't', 's'];
const OPTIONS = { add_generation_prompt: true, chat_template_kwargs: {} };

suite('a chat of three turns on a real engine', {
  skip: WITHOUT_ENGINE,
  timeout: 600_000,
  tests: () => {
    let service: GenerationService;
    let model: string;
    const { signal } = new AbortController();

    before(async () => {
      service = openEngine();
      model = await servedModel(service);
    });
    after(() => service.close());

    /** The prompt of each request, and the policy's tokens of each turn. */
    async function played(
      t: Pick<TestContext, 'after'>,
      { question, cuts }: { question: string; cuts: (number | null)[] },
    ) {
      const sent: { turn: number; prompt_ids: number[] }[] = [];
      const watched: GenerationService = {
        ...service,
        generate: (request, context) => {
          const turn = Number(request.request_id.split('.').at(-2));
          sent.push({ turn, prompt_ids: [...request.prompt_ids] });
          return service.generate(request, context);
        },
      };
      const news = [...NEWS, 'The end.'];
      const bench = await activityBench(t, {
        replicas: [cutService(watched, cuts)],
        special_tokens: SPECIAL_TOKENS,
        environment: scriptedEnvironment(
          news.map((content, k) => ({ content, role: 'user', terminated: k === TURNS - 1 })),
        ),
      });
      const generation = { model, greedy: true, max_new_tokens: 100, stop_strings: STOP_STRINGS };
      const request = requestOf({ generation, max_seq_len: 512 });
      await bench.store.createBatch({ batch_id: BATCH, request, samples: [sampleOf(question)] });
      const attempt = async (name: 'openRollout' | 'generateTurn' | 'stepEnvironment') => {
        for (let left = cuts.length + 5; ; left--) {
          const { error } = await bench.run(name, { input: name === 'openRollout' ? REF : AT });
          if (error === undefined) return;
          assert.ok(left > 0, describeError(error));
        }
      };
      await attempt('openRollout');
      for (let turn = 0; turn < TURNS; turn++) {
        await attempt('generateTurn');
        await attempt('stepEnvironment');
      }
      const turns = turnsOf(await bench.elsewhere().readTrajectory(REF));
      const answers = turns.map(({ token_ids, generation }) => ({ token_ids, ...generation }));
      return { sent, answers };
    }

    /** The engine's own rendering of the whole conversation, with the policy's ids in place of a placeholder. */
    async function rendered(question: string, answers: readonly (readonly number[])[]) {
      const placeholder = await service.tokenize(
        { model, text: 'one', add_special_tokens: false },
        signal,
      );
      const [end = -1] = await service.tokenize(
        { model, text: '<|im_end|>', add_special_tokens: false },
        signal,
      );
      const messages: ChatMessage[] = [{ role: 'user', content: question }];
      let ids = await service.renderChat({ model, messages, ...OPTIONS }, signal);
      let whole = ids;
      for (const [k, answer] of answers.entries()) {
        messages.push(
          { role: 'assistant', content: 'one' },
          { role: 'user', content: NEWS[k] ?? '' },
        );
        const longer = await service.renderChat({ model, messages, ...OPTIONS }, signal);
        assert.deepEqual(longer.slice(0, whole.length + placeholder.length), [
          ...whole,
          ...placeholder,
        ]);
        const said = answer.at(-1) === end ? answer.slice(0, -1) : answer;
        ids = [...ids, ...said, ...longer.slice(whole.length + placeholder.length)];
        whole = longer;
      }
      return ids;
    }

    test('is sent the engine’s own rendering at each turn, cut anywhere or not', async (t) => {
      const folders: (() => unknown)[] = [];
      const kept = { after: (end: () => unknown) => void folders.push(end) } as Pick<
        TestContext,
        'after'
      >;
      const finishes = new Set<string>();
      let exact = 0;
      const resumed: number[] = [];
      await atOnce(
        Array.from({ length: 24 }, (_, seed) => seed),
        {
          limit: 8,
          run: async (seed) => {
            const random = createRandom(seed);
            const question = `Question ${seed}?`;
            const whole = await played(kept, { question, cuts: [] });
            const lengths = whole.answers.map(({ token_ids }) => token_ids.length);
            const cuts = lengths.flatMap((length) => [...cutsIn(length, random), null]);
            const cut = await played(kept, { question, cuts });
            assert.deepEqual(
              cut.answers.map(({ token_ids }) => token_ids),
              whole.answers.map(({ token_ids }) => token_ids),
            );
            assert.equal(cut.sent.length, cuts.length);
            for (const { turn, prompt_ids } of cut.sent) {
              const { prompt_ids: first = [] } = whole.sent[turn] ?? {};
              const inherited = prompt_ids.length - first.length;
              const expected = [
                ...first,
                ...(whole.answers[turn]?.token_ids.slice(0, inherited) ?? []),
              ];
              assert.deepEqual(
                prompt_ids,
                expected,
                `prompt ${seed}, turn ${turn}, behind ${inherited} tokens`,
              );
              if (inherited > 0) resumed[turn] = (resumed[turn] ?? 0) + 1;
            }
            for (const turn of whole.answers.keys()) {
              const before = whole.answers.slice(0, turn);
              const expected = await rendered(
                question,
                before.map(({ token_ids }) => token_ids),
              );
              assert.deepEqual(
                whole.sent[turn]?.prompt_ids,
                expected,
                `prompt ${seed}, turn ${turn}`,
              );
              const messages = [
                { role: 'user', content: question },
                ...before.flatMap(({ content }, k) => [
                  { role: 'assistant', content },
                  { role: 'user', content: NEWS[k] ?? '' },
                ]),
              ];
              const again = await service.renderChat({ model, messages, ...OPTIONS }, signal);
              if (JSON.stringify(again) === JSON.stringify(whole.sent[turn].prompt_ids)) exact += 1;
            }
            for (const { finish_reason, stop_reason } of whole.answers)
              finishes.add(`${finish_reason} ${stop_reason}`);
          },
        },
      );
      assert.ok(finishes.size > 1, [...finishes].join());
      assert.equal(
        resumed.filter((count) => count > 0).length,
        TURNS,
        `resumed in each turn: ${resumed.join()}`,
      );
      t.diagnostic(
        `${exact} of ${24 * TURNS} prompts are also what rendering the texts again gives; resumed in each turn: ${resumed.join()}`,
      );
      for (const end of folders) await end();
    });
  },
});

/** Up to two cuts of a turn, none after its last token: how many tokens each request passes. */
function cutsIn(length: number, random: () => number): number[] {
  const points = Array.from({ length: Math.floor(random() * 3) }, () =>
    Math.floor(random() * length),
  ).toSorted((a, b) => a - b);
  return points.map((point, i) => point - (points[i - 1] ?? 0));
}
