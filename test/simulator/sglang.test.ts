import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Simulator } from '../../simulator/server.js';
import { eventually } from '../../lab/bed/waiting.js';
import { call, simulator } from './client.js';

/** The simulator beside what SGLang 0.5.23 was recorded to answer. */

const FOLDER = new URL('../captures/sglang-0.5.23/', import.meta.url);

interface Recorded {
  request: { method: string; path: string; body: object };
  response: { status: number; body_raw?: string; sse_chunks_ms_text?: [number, string][] };
}

function recorded(number: string): Recorded {
  const file = readdirSync(FOLDER).find((name) => name.startsWith(`${number}-`)) ?? '';
  return JSON.parse(readFileSync(new URL(file, FOLDER), 'utf8')) as Recorded;
}

interface Event {
  output_ids: number[];
  text: string;
  meta_info: {
    weight_version: string;
    completion_tokens: number;
    finish_reason: { type: string; message?: string; matched?: unknown } | null;
    weight_versions?: { version: string; start: number; end: number }[];
    output_token_logprobs: [number, number, null][];
  };
  error?: { message: string; code: number };
}

const eventsOf = (text: string): Event[] =>
  text
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice('data: '.length)) as Event);

const IDS = [42, 71, 78, 36, 32, 27, 48];
const generation = (more: object = {}, sampling: object = {}) => ({
  input_ids: IDS,
  stream: true,
  return_logprob: true,
  sampling_params: { max_new_tokens: 40, ignore_eos: true, ...sampling },
  ...more,
});

let folder = '';
before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'sglang-simulator-'));
});
after(() => rm(folder, { recursive: true }));

const weights = async (name: string): Promise<string> => {
  const file = path.join(folder, `${name}.json`);
  await writeFile(file, JSON.stringify({ name, skill: 1, seed: name.length }));
  return file;
};

const SETTINGS = { dialect: 'sglang', max_loras: 4, tokens_per_second: 100 } as const;
const post = ({ url }: Simulator, ...[route, body = {}]: [route: string, body?: object]) =>
  call(`${url}${route}`, { body });

/** A stream of some tokens that goes on. */
async function streaming(engine: Simulator, more: object = {}) {
  const response = await fetch(`${engine.url}/generate`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(generation(more, { max_new_tokens: 100 })),
  });
  let text = '';
  const ended = (async () => {
    for await (const part of response.body!) text += Buffer.from(part as Uint8Array).toString();
    return eventsOf(text);
  })();
  await eventually('tokens', () => Promise.resolve(eventsOf(text).length > 1));
  return { soFar: () => eventsOf(text), ended };
}

describe('the simulator of SGLang', () => {
  test('answers each call as was recorded: with its status and its members', async () => {
    const engine = await simulator(SETTINGS);
    const [one, two] = [await weights('one'), await weights('two')];
    const stream = await streaming(engine);
    const bodies: Record<string, object> = {
      '05': { model_path: two, flush_cache: false, weight_version: 'v2' },
      '07': { model_path: one, weight_version: 'v2' },
      '16': { lora_name: 'actor-v1', lora_path: one },
      '17': { lora_name: 'actor-v1', lora_path: two },
    };
    for (const number of ['04', '05', '07', '06', '16', '17', '19', '13', '10', '09']) {
      const { request, response } = recorded(number);
      const url = `${engine.url}${request.path}`;
      const isGet = request.method === 'GET';
      const got = await call(url, isGet ? {} : { body: bodies[number] ?? request.body });
      assert.equal(got.status, response.status, `${number}: ${got.text}`);
      const expected = JSON.parse(response.body_raw || '{}') as Record<string, unknown>;
      const body = JSON.parse(got.text || '{}') as Record<string, unknown>;
      if (isGet) assert.ok(Object.keys(body).every((key) => key in expected));
      else assert.deepEqual(Object.keys(body).sort(), Object.keys(expected).sort(), number);
      if ('message' in expected) assert.equal(body['message'], expected['message']);
    }
    assert.equal((await stream.ended).at(-1)?.meta_info.finish_reason?.type, 'abort');
  });

  test('repeats in each event of a stream all before it, with the members that were recorded', async () => {
    const engine = await simulator(SETTINGS);
    const { text } = await post(engine, '/generate', generation());
    const events = eventsOf(text);
    const known = eventsOf(
      recorded('02')
        .response.sse_chunks_ms_text!.map(([, one]) => one)
        .join(''),
    );
    assert.ok(events.length > 2);
    for (const [i, { output_ids, meta_info }] of events.entries()) {
      assert.equal(output_ids.length, meta_info.completion_tokens);
      assert.deepEqual(
        meta_info.output_token_logprobs.map(([, id]) => id),
        output_ids,
      );
      assert.ok(Object.keys(meta_info).every((key) => key in known.at(-1)!.meta_info));
      const isLast = i === events.length - 1;
      assert.equal(meta_info.weight_versions === undefined, !isLast);
    }
    const spans = [{ version: 'default', start: 0, end: 40 }];
    assert.deepEqual(events.at(-1)?.meta_info.weight_versions, spans);
    assert.match(text, /data: \[DONE\]\n\n$/);
  });

  test('with incremental streams says only what is new', async () => {
    const engine = await simulator({ ...SETTINGS, incremental_streaming: true });
    const { text } = await post(engine, '/generate', generation());
    const all = eventsOf(text).flatMap(({ output_ids }) => output_ids);
    assert.equal(all.length, 40);
  });

  test('has new weights where it says that the update failed, and tells so only at the end of a stream', async () => {
    const engine = await simulator(SETTINGS);
    await post(engine, '/update_weight_version', { new_version: 'v1' });
    const stream = await streaming(engine);
    await post(engine, '/pause_generation', { mode: 'in_place' });
    const at = stream.soFar().at(-1)!.meta_info.completion_tokens;
    const update = { model_path: await weights('new'), weight_version: 'v2' };
    const { status, text } = await post(engine, '/update_weights_from_disk', update);
    assert.equal(status, 400);
    assert.match(text, /Weights were updated, but the cache was not flushed/);
    await post(engine, '/continue_generation');
    const events = await stream.ended;
    assert.ok(events.every(({ meta_info }) => meta_info.weight_version === 'v1'));
    const [before, behind] = events.at(-1)!.meta_info.weight_versions!;
    assert.deepEqual([before!.version, behind!.version], ['v1', 'v2']);
    assert.ok(before!.end >= at && before!.end === behind!.start);
  });

  test('aborts all requests whose ids begin with that of one, and a frozen one once it goes on', async () => {
    const engine = await simulator(SETTINGS);
    const [one, two] = [
      await streaming(engine, { rid: 'ab-1' }),
      await streaming(engine, { rid: 'ab-10' }),
    ];
    await post(engine, '/abort_request', { rid: 'ab-' });
    await post(engine, '/pause_generation', { mode: 'in_place' });
    await post(engine, '/abort_request', { rid: 'ab-1' });
    assert.equal(one.soFar().at(-1)?.meta_info.finish_reason, null);
    await post(engine, '/continue_generation');
    for (const { ended } of [one, two])
      assert.equal((await ended).at(-1)?.meta_info.finish_reason?.message, 'Aborted');
  });

  test('keeps a request that comes during a pause to itself, whatever is aborted', async () => {
    const engine = await simulator(SETTINGS);
    await post(engine, '/pause_generation', { mode: 'retract' });
    const waiting = post(engine, '/generate', generation({ stream: false }));
    await post(engine, '/abort_request', { abort_all: true });
    assert.equal((await call(`${engine.url}/ready`)).status, 503);
    await post(engine, '/continue_generation');
    const { meta_info } = JSON.parse((await waiting).text) as Event;
    assert.equal(meta_info.finish_reason?.type, 'length');
  });

  test('says what is wrong with a request inside a stream with status 200', async () => {
    const engine = await simulator({ ...SETTINGS, max_model_len: 64 });
    const long = (length: number, stream: boolean) =>
      post(
        engine,
        '/generate',
        generation({ stream, input_ids: Array.from({ length }, () => 42) }, { max_new_tokens: 1 }),
      );
    const known = eventsOf(
      recorded('12')
        .response.sse_chunks_ms_text!.map(([, one]) => one)
        .join(''),
    );
    const early = await long(64, true);
    assert.equal(early.status, 200);
    assert.deepEqual(Object.keys(eventsOf(early.text)[0]!.error!), Object.keys(known[0]!.error!));
    assert.equal((await long(64, false)).status, 400);
    const [late] = eventsOf((await long(60, true)).text);
    assert.deepEqual(late?.output_ids, [0]);
    assert.equal(late.meta_info.finish_reason?.type, 'abort');
  });

  test('loads an adapter again when a request names it after it was unloaded', async () => {
    const engine = await simulator(SETTINGS);
    const adapter = { lora_name: 'actor', lora_path: await weights('adapter') };
    const ask = () => post(engine, '/generate', generation({ stream: false, lora_path: 'actor' }));
    assert.equal((await ask()).status, 400);
    await post(engine, '/load_lora_adapter', adapter);
    await post(engine, '/unload_lora_adapter', { lora_name: 'actor' });
    const models = async (): Promise<string> => (await call(`${engine.url}/v1/models`)).text;
    assert.doesNotMatch(await models(), /"actor"/);
    assert.equal((await ask()).status, 200);
    assert.match(await models(), /"actor"/);
  });

  const TOKEN = generation({ stream: false }, { max_new_tokens: 1 });
  const DEATHS: [what: string, calls: [string, object][]][] = [
    ['a negative id', [['/generate', { ...TOKEN, input_ids: [42, -1] }]]],
    [
      'a second sleep',
      [
        ['/release_memory_occupation', {}],
        ['/release_memory_occupation', { tags: ['weights'] }],
      ],
    ],
    ['a waking of what is awake', [['/resume_memory_occupation', {}]]],
    [
      'a request without memory',
      [
        ['/release_memory_occupation', {}],
        ['/resume_memory_occupation', { tags: ['weights'] }],
        ['/generate', TOKEN],
      ],
    ],
  ];
  for (const [what, calls] of DEATHS)
    test(`ends at ${what}`, async () => {
      const program = `
        import { startSimulator } from '${import.meta.resolve('../../simulator/server.js')}';
        const settings = { dialect: 'sglang' };
        console.log((await startSimulator({ settings, port: 0 })).url);`;
      const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const exited = once(child, 'exit');
      const [line] = (await once(child.stdout.setEncoding('utf8'), 'data')) as [string];
      const url = line.trim();
      for (const [route, body] of calls.slice(0, -1))
        assert.equal((await call(`${url}${route}`, { body })).status, 200, route);
      const [route, body] = calls.at(-1)!;
      await assert.rejects(call(`${url}${route}`, { body }));
      assert.deepEqual(await exited, [1, null]);
    });
});
