import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import type { ApplicationFailure } from '@temporalio/common';
import { PICTURE } from '../../simulator/policy/tokenizer.js';
import type {
  GenerationRequest,
  GenerationService,
} from '../../src/generation/generation-service.js';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';
import type { Content } from '../../src/model/content.js';
import { pictureName } from '../../src/model/picture-names.js';
import type { Row } from '../../src/model/results/row.js';
import { simulator } from '../simulator/client.js';
import { activityBench, AT } from '../fakes/activity-bench.js';
import { pictureOf } from '../fakes/pictures.js';
import type { ScriptedAnswer } from '../fakes/scripted-environment.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { BATCH, REF, requestOf } from '../fakes/temporary-store.js';
import { cutService } from '../interop/cut-service.js';
import { turnsOf } from '../../src/model/journal/calls.js';

const [RED, GREEN, BLUE] = [0, 1, 2].map((n) =>
  pictureOf({
    width: 40 + n,
    height: 40,
    colour: [n === 0 ? 255 : 0, n === 1 ? 255 : 0, n === 2 ? 255 : 0],
  }),
) as [string, string, string];

const image = (url: string) => ({ type: 'image_url' as const, image_url: { url } });
const text = (said: string) => ({ type: 'text' as const, text: said });
/** With what the simulator is to answer. */
const QUESTION = 'Which?\nSay: A red and a green one.\nSay: This one is blue.\nSay: And so on.';
const SAMPLE = {
  message_log: [
    { role: 'system', content: 'Look.' },
    { role: 'user', content: [text(QUESTION), image(RED), image(GREEN)] },
  ],
  task_name: 'task',
};
const generation = { model: 'tiny', max_new_tokens: 40, greedy: true, observation_format: 'chat' };
const request = (more: object = {}) =>
  requestOf({
    samples: [SAMPLE],
    generation: { ...generation, ...more },
    max_seq_len: 4096,
  });

/** A replica that is the simulator, with the requests that it got. */
async function replica(scale_out = true) {
  const { url } = await simulator({ model: 'tiny', scale_out, skill: 0 });
  const options = { api_key: null, first_token_timeout_ms: 10_000, idle_timeout_ms: 10_000 };
  const service = createVllmService({ base_url: `${url}/v1`, ...options });
  const requests: GenerationRequest[] = [];
  const seen: GenerationService = {
    ...service,
    generate: (asked, context) => {
      requests.push(asked);
      return service.generate(asked, context);
    },
  };
  return { service: seen, requests };
}

async function benchOf(
  t: TestContext,
  given: { service: GenerationService; answers?: ScriptedAnswer[]; max_seq_len?: number },
) {
  const { service, answers = [], max_seq_len = 4096 } = given;
  const environment = scriptedEnvironment(answers);
  const bench = await activityBench(t, {
    images: 'engine',
    replicas: [service],
    environment,
    special_tokens: ['<|im_end|>'],
  });
  await bench.store.createBatch({
    batch_id: BATCH,
    request: { ...request(), max_seq_len },
    samples: [JSON.stringify(SAMPLE)],
  });
  return bench;
}

/** Two turns, the first of which shows a picture. */
const SHOWS: ScriptedAnswer[] = [
  { role: 'user', content: [text('And now?'), image(BLUE)] },
  { terminated: true },
];

async function rowIn(root: string): Promise<Row> {
  const rows = await readFile(path.join(root, BATCH, 'rollouts.jsonl'), 'utf8');
  return JSON.parse(rows) as Row;
}

/** Plays until it is over, through attempts that are cut. */
async function play(bench: Awaited<ReturnType<typeof benchOf>>, most = 1): Promise<number> {
  await bench.result('openRollout', REF);
  for (let attempt = 1; ; attempt++) {
    const { error } = await bench.run('playTurns', { input: AT });
    if (error === undefined) return attempt;
    assert.ok(attempt < most, (error as Error).message);
  }
}

describe('a rollout with pictures in its prompt and in an observation', () => {
  test('sends the engine all pictures that the log has ids for, in order', async (t) => {
    const { service, requests } = await replica();
    const bench = await benchOf(t, { service, answers: SHOWS });
    await play(bench);
    const [first, second] = requests;
    assert.deepEqual(
      first!.pictures!.map(({ url }) => url),
      [RED, GREEN],
    );
    assert.deepEqual(
      second!.pictures!.map(({ url }) => url),
      [RED, GREEN, BLUE],
    );
    for (const { prompt_ids, pictures } of requests)
      for (const { offset, length } of pictures!)
        assert.ok(prompt_ids.slice(offset, offset + length).every((id) => id === PICTURE));
    const count = second!.prompt_ids.filter((id) => id === PICTURE).length;
    assert.equal(
      count,
      second!.pictures!.reduce((sum, { length }) => sum + length, 0),
    );
  });

  test('has each picture in the store once, and journals that name it', async (t) => {
    const { service } = await replica();
    const bench = await benchOf(t, { service, answers: SHOWS });
    await play(bench);
    const journal = await readFile(bench.journalFile(), 'utf8');
    assert.ok(!journal.includes('base64'));
    for (const url of [RED, GREEN, BLUE]) assert.ok(journal.includes(pictureName(url)));
    // Those of the sample are in the manifest.
    const shown = await readdir(path.join(bench.root, BATCH, 'pictures'));
    assert.deepEqual(shown, [pictureName(BLUE).slice('sha256:'.length)]);
  });

  test('has a row with the pictures themselves, and the places of their ids', async (t) => {
    const { service } = await replica();
    const bench = await benchOf(t, { service, answers: SHOWS });
    await play(bench);
    await bench.result('closeBatch', { batch_id: BATCH, stopped: false });
    const { message_log } = await rowIn(bench.root);
    assert.deepEqual(message_log[1]!.content, SAMPLE.message_log[1]!.content);
    assert.deepEqual(message_log[3]!.content, SHOWS[0]!.content);
    for (const [k, urls] of [
      [1, [RED, GREEN]],
      [3, [BLUE]],
    ] as const) {
      const { token_ids, pictures } = message_log[k]!;
      assert.deepEqual(
        pictures!.map(({ url }) => url),
        urls.map(pictureName),
      );
      for (const { offset, length } of pictures!)
        assert.ok(token_ids.slice(offset, offset + length).every((id) => id === PICTURE));
    }
  });

  test('that is cut in both turns has the row of an undisturbed one', async (t) => {
    const rows = await Promise.all(
      [[], [3, 5, null, 4]].map(async (cuts) => {
        const { service } = await replica();
        const bench = await benchOf(t, { service: cutService(service, cuts), answers: SHOWS });
        const attempts = await play(bench, 6);
        assert.equal(attempts, 1 + cuts.filter((cut) => cut !== null).length);
        await bench.result('closeBatch', { batch_id: BATCH, stopped: false });
        return await rowIn(bench.root);
      }),
    );
    const [whole, cut] = rows.map(({ message_log }) => message_log);
    assert.deepEqual(cut, whole);
  });

  test('shows the environment its texts alone', async (t) => {
    const { service } = await replica();
    const bench = await benchOf(t, { service, answers: SHOWS });
    await play(bench);
    const [, second] = bench.environment.steps;
    const said = second!.message_log.map(({ content }) => content);
    assert.deepEqual([said[0], said[1], said[3]], ['Look.', QUESTION, 'And now?']);
  });

  test('that has no room for a picture has none of its ids', async (t) => {
    const { service } = await replica();
    const whole = await benchOf(t, { service, answers: SHOWS });
    await play(whole);
    const played = await whole.elsewhere().readTrajectory(REF);
    const { start } = played;
    const turns = turnsOf(played);
    const before = [...start!.prompt, turns[0]!].flatMap(({ token_ids }) => token_ids).length;
    const [shown] = turns[0]!.observation.pictures!;
    for (const some of [0, 1, shown!.length - 1]) {
      const max_seq_len = before + shown!.offset + some;
      const bench = await benchOf(t, { service, answers: SHOWS.slice(0, 1), max_seq_len });
      await play(bench);
      const { observation } = turnsOf(await bench.elsewhere().readTrajectory(REF))[0]!;
      assert.equal(observation.truncated, true);
      assert.equal(observation.pictures, undefined);
      assert.equal(observation.token_ids.length, shown!.offset);
    }
  });

  test('takes the same picture again without storing it again', async (t) => {
    const { service, requests } = await replica();
    const again = { role: 'user', content: [image(BLUE), image(RED)] satisfies Content };
    const bench = await benchOf(t, { service, answers: [SHOWS[0]!, again, SHOWS[1]!] });
    await play(bench);
    const urls = requests.at(-1)!.pictures!.map(({ url }) => url);
    assert.deepEqual(urls, [RED, GREEN, BLUE, BLUE, RED]);
  });
});

describe('a batch with pictures', () => {
  const plan = async (t: TestContext, given: { scale_out: boolean; request: object }) => {
    const { service } = await replica(given.scale_out);
    const bench = await activityBench(t, { images: 'engine', replicas: [service] });
    return await bench.run('planBatch', { input: given.request, workflow_id: BATCH });
  };
  const REQUEST = { samples: [SAMPLE], generation: { ...generation, include_logprobs: false } };

  test('is planned where the engine takes them', async (t) => {
    const { error, result } = await plan(t, { scale_out: true, request: REQUEST });
    assert.equal(error, undefined);
    assert.equal(result?.samples, 1);
  });

  for (const [what, scale_out, request, message] of [
    [
      'an engine that cannot take them',
      false,
      REQUEST,
      /row 0: message_log\.1\.content: expected an engine that takes its image: http.*--enable-scale-out/s,
    ],
    [
      'ids of the sample',
      true,
      {
        ...REQUEST,
        samples: [
          { ...SAMPLE, message_log: SAMPLE.message_log.map((one) => ({ ...one, token_ids: [1] })) },
        ],
      },
      /row 0: message_log\.1\.content: expected no token_ids beside an image/,
    ],
    [
      'logprobs of the prompt',
      true,
      { ...REQUEST, generation: { ...generation, prompt_logprobs: true } },
      /message_log\.1\.content: expected text with generation\.prompt_logprobs, got an image/,
    ],
  ] as const)
    test(`is refused by row, field and replica with ${what}`, async (t) => {
      const { error } = await plan(t, { scale_out, request });
      const { type, nonRetryable, message: said } = error as ApplicationFailure;
      assert.deepEqual([type, nonRetryable], ['InvalidBatchRequest', true]);
      assert.match(said, message);
    });
});

test('an observation with a picture is refused by name without a chat template', async (t) => {
  const { service } = await replica();
  const bench = await activityBench(t, {
    images: 'engine',
    replicas: [service],
    environment: scriptedEnvironment(SHOWS.slice(0, 1)),
  });
  await bench.store.createBatch({
    batch_id: BATCH,
    request: request({ observation_format: 'bare' }),
    samples: [JSON.stringify(SAMPLE)],
  });
  await bench.result('openRollout', REF);
  const { error } = await bench.run('playTurns', { input: AT });
  assert.match(
    (error as Error).message,
    /observations\.0\.content: expected a text with generation\.observation_format bare, got an image/,
  );
});
