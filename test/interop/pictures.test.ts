import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { createVllmControl } from '../../src/generation/vllm/control.js';
import type { Row } from '../../src/model/results/row.js';
import { pictureUrls } from '../../src/model/pictures.js';
import { pictureOf } from '../fakes/pictures.js';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import { playUndisturbed } from '../harness/recovery-runs.js';
import { assertComplete } from '../harness/row-comparison.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import type { InteropBed } from './batch-bed.js';
import {
  assertSameRollouts,
  BATCH,
  midGeneration,
  SIZE,
  startInteropBed,
  turnClock,
} from './batch-bed.js';
import type { KeptEngine } from './engine-process.js';
import { keepEngine } from './engine-process.js';
import { openEngine, suite, WITHOUT_START } from './engine.js';
import { LOGPROB_TOLERANCE } from './play.js';
import { makeVisionModel, torchLogprobs } from './torch-logprobs.js';

const TURNS = 2;
const MOST_TOKENS = 130;
/** A random model hits one of them before long, so that its turn ends and another one follows. */
const STOPS = Array.from({ length: 24 }, (_, i) => 20 + 24 * i);
const TEMPERATURE = 0.7;
const ENDED_WITHIN_MS = 600_000;

/** Of other sizes and colours, so that they have other ids and other meanings. */
const pictureFor = (n: number): string =>
  pictureOf({
    width: 56 + 28 * (n % 4),
    height: 56 + 28 * (n % 3),
    colour: [(n * 37) % 256, (n * 91) % 256, (n * 151) % 256],
  });

/** One or two pictures in each prompt, and one in the observation. */
const messageLog = (row: number) => {
  const image = (n: number) => ({ type: 'image_url' as const, image_url: { url: pictureFor(n) } });
  const text = (said: string) => ({ type: 'text' as const, text: said });
  const content =
    row % 2 === 0
      ? [text(`row ${row}: `), image(row)]
      : [image(row), text('and'), image(row + 7), text('?')];
  return [{ role: 'user', content }];
};

const requestWith = (generation: object) => ({
  samples: Array.from({ length: SIZE.samples }, (_, row) => ({
    message_log: messageLog(row),
    task_name: 'countdown',
    extra_env_info: { left: TURNS },
  })),
  generation: { max_new_tokens: MOST_TOKENS, stop_token_ids: STOPS, ...generation },
  max_seq_len: 512,
  rollout_timeout: '30m',
});

/** Each turn of the rows as torch takes it. */
function turnsOf(rows: readonly Row[]) {
  return rows.flatMap(({ message_log }) =>
    message_log.flatMap(({ role, token_ids, generation_logprobs = [] }, k) => {
      const before = message_log.slice(0, k);
      const prompt_ids = before.flatMap((message) => message.token_ids);
      const turn = {
        prompt_ids,
        token_ids,
        temperature: TEMPERATURE,
        pictures: pictureUrls(before),
      };
      return role === 'assistant' ? [{ ...turn, logprobs: generation_logprobs }] : [];
    }),
  );
}

/** The largest difference between the rows' logprobs and torch's. */
function furthest(rows: readonly Row[], model: string): { tokens: number; apart: number } {
  const turns = turnsOf(rows);
  const expected = torchLogprobs(turns, model);
  const apart = turns.flatMap(({ logprobs }, i) =>
    logprobs.map((got, k) => Math.abs(got - expected[i]![k]!)),
  );
  return { tokens: apart.length, apart: apart.reduce((a, b) => Math.max(a, b), 0) };
}

suite('pictures on a real engine', {
  skip: WITHOUT_START,
  timeout: 1_800_000,
  tests: () => {
    let engine: KeptEngine;
    let interop: InteropBed;
    let folders: Awaited<ReturnType<typeof makeTemporaryDirectory>>;
    const model = (seed: number): string => path.join(folders.path, `vision-${seed}`);

    before(async () => {
      folders = await makeTemporaryDirectory('interop-vision');
      for (const seed of [0, 1]) makeVisionModel(model(seed), seed);
      engine = await keepEngine('interop-pictures', { env: { MODEL: model(0) } });
      interop = await startInteropBed({
        name: 'interop-pictures',
        base_url: engine.base_url,
        generation: { role_map: { environment: 'user' } },
        shows: (left) => (left === 0 ? null : pictureFor(100 + left)),
      });
    });
    after(async () => {
      await interop.end();
      await engine.end();
      await folders.remove();
    });

    /** Its worker is killed twice, while generations are half journalled. */
    async function playKilled(store: string, request: ReturnType<typeof requestWith>) {
      const worker = await interop.bed.startWorker(store);
      const batch = interop.bed.batch(store, BATCH);
      const untilTurns = turnClock(interop);
      await batch.start(request);
      for (const turns of [SIZE.samples / 4, SIZE.samples]) {
        await untilTurns(turns);
        await midGeneration(interop, { store });
        await worker.kill();
      }
      const outcome = await batch.outcome(ENDED_WITHIN_MS);
      await worker.stop();
      assertComplete(outcome, SIZE);
      assert.ok(outcome.result!.metrics['inherited_tokens']! > 0, 'no generation was hit');
      return outcome;
    }

    test('32 greedy rollouts whose worker is killed have the rows of undisturbed ones, and first turns that are those of /v1/chat/completions', () =>
      interop.bed.observed(async () => {
        const request = requestWith({ greedy: true });
        const undisturbed = await playUndisturbed(interop.bed, {
          batch_id: BATCH,
          request,
          timeout_ms: ENDED_WITHIN_MS,
        });
        assertComplete(undisturbed, SIZE);
        const killed = await playKilled('killed', request);
        assertSameRollouts(killed.rollouts, undisturbed.rollouts);
        const played = killed.rollouts.filter(({ turn_count }) => turn_count === TURNS);
        assert.ok(played.length >= SIZE.samples / 2, `${played.length} rollouts of two turns`);
        for (const row of killed.rollouts) await assertEnginesOwn(row);
      }));

    test('32 sampled rollouts whose worker is killed have the logprobs that torch computes of ids and pictures', (t) =>
      interop.bed.observed(async () => {
        const outcome = await playKilled('sampled', requestWith({ temperature: TEMPERATURE }));
        const { tokens, apart } = furthest(outcome.rollouts, model(0));
        t.diagnostic(`${tokens} tokens, at most ${apart} apart`);
        assert.ok(tokens > 20 * SIZE.samples);
        assert.ok(apart <= LOGPROB_TOLERANCE, `a logprob is ${apart} from torch's`);
        // Other weights, as an engine has them after an update, are far off.
        assert.ok(furthest(outcome.rollouts.slice(0, 4), model(1)).apart > 0.1);
      }));

    test('after an update of the weights are seen with the new ones', (t) =>
      interop.bed.observed(async () => {
        const control = createVllmControl({
          replica: engine.base_url,
          control_url: null,
          api_key: null,
          control_api_key: null,
          model: null,
        });
        const bound = { within_ms: 60_000, signal: AbortSignal.timeout(120_000) };
        await control.pause({ mode: 'abort', cache: 'reset' }, bound);
        await control.load({ kind: 'checkpoint', path: model(1) }, bound);
        await control.resetCache(bound);
        await control.resume(bound);
        await control.close();
        const worker = await interop.bed.startWorker('updated');
        const batch = interop.bed.batch('updated', BATCH);
        await batch.start(requestWith({ temperature: TEMPERATURE }));
        const outcome: BatchOutcome = await batch.outcome(ENDED_WITHIN_MS);
        await worker.stop();
        assertComplete(outcome, SIZE);
        const { tokens, apart } = furthest(outcome.rollouts, model(1));
        t.diagnostic(`${tokens} tokens, at most ${apart} apart`);
        assert.ok(apart <= LOGPROB_TOLERANCE, `a logprob is ${apart} from torch's`);
      }));

    /** The same prompt and answer through another route, which takes messages and no ids. */
    async function assertEnginesOwn({ row, message_log }: Row): Promise<void> {
      const [prompt, generated] = message_log;
      const service = openEngine(engine.base_url);
      const { models } = await service.describe(AbortSignal.timeout(10_000));
      await service.close();
      const response = await fetch(`${engine.base_url}/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          model: models[0]!.id,
          messages: messageLog(row),
          max_tokens: MOST_TOKENS,
          stop_token_ids: STOPS,
          temperature: 0,
          logprobs: true,
          return_token_ids: true,
        }),
      });
      assert.equal(response.status, 200);
      const own = (await response.json()) as {
        prompt_token_ids: number[];
        choices: [{ token_ids: number[]; logprobs: { content: { logprob: number }[] } }];
      };
      assert.deepEqual(prompt!.token_ids, own.prompt_token_ids);
      const [choice] = own.choices;
      assert.deepEqual(generated!.token_ids, choice.token_ids);
      for (const [i, { logprob }] of choice.logprobs.content.entries())
        assert.ok(Math.abs(logprob - generated!.generation_logprobs![i]!) <= LOGPROB_TOLERANCE);
    }
  },
});
