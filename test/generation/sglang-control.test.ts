import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test, type TestContext } from 'node:test';
import { promptLogprobs } from '../../simulator/weights.js';
import { createSglangControl } from '../../src/generation/sglang/control.js';
import { createSglangService } from '../../src/generation/sglang/sglang-service.js';
import type { GenerationRequest, VersionSpan } from '../../src/generation/generation-service.js';
import { eventually } from '../../lab/bed/waiting.js';
import { startBalancer } from '../servers/balancer.js';
import { call, simulator } from '../simulator/client.js';
import { assertFault, collector, fakeVllm, reply, REQUEST, untilAborted } from './fake-vllm.js';

/** The control of SGLang's weights on the simulator, whose answers its own tests compare with recorded ones. */

const BOUND = { within_ms: 20_000, signal: untilAborted() };
const SPEED = { tokens_per_second: 100, ms_to_first_token: 1 };

/** A hundred tokens of all that the policy may say. */
const PLAIN: GenerationRequest = {
  ...REQUEST,
  ...{ model: 'simulator', prompt_ids: [42, 71, 78], max_tokens: 100, min_tokens: 0 },
  ...{ temperature: 1, top_p: 1, top_k: -1, min_p: 0 },
  ...{ repetition_penalty: 1, presence_penalty: 0, frequency_penalty: 0 },
  ...{ ignore_eos: true, stop_strings: [], stop_token_ids: [] },
};

let folder = '';
before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'sglang-control-'));
});
after(() => rm(folder, { recursive: true }));

const weights = async (name: string) => {
  const file = path.join(folder, `${name}.json`);
  const content = { name, skill: 1, seed: name.length };
  await writeFile(file, JSON.stringify(content));
  return { path: file, logprobs: (ids: readonly number[]) => promptLogprobs(content, ids) };
};

const controlOf = (t: TestContext, base_url: string) => {
  const control = createSglangControl({
    replica: base_url,
    control_url: null,
    api_key: null,
    control_api_key: null,
    model: null,
  });
  t.after(() => control.close());
  return control;
};

async function bench(t: TestContext, settings: Parameters<typeof simulator>[0] = {}) {
  const { url } = await simulator({ dialect: 'sglang', max_loras: 4, ...SPEED, ...settings });
  const base_url = `${url}/v1`;
  const service = createSglangService({
    base_url,
    api_key: null,
    first_token_timeout_ms: 20_000,
    idle_timeout_ms: 20_000,
  });
  t.after(() => service.close());
  /** An answer of a hundred tokens that has begun. */
  const streaming = async () => {
    const { onDelta, got } = collector();
    const signal = untilAborted();
    const ended = service.generate(PLAIN, { signal, onDelta });
    const failed = ended.then(() => new Promise<never>(() => undefined));
    const begun = eventually('tokens', () => Promise.resolve(got.token_ids.length > 5));
    await Promise.race([failed, begun]);
    return { tokens: () => got.token_ids.length, ended };
  };
  return { url, base_url, service, control: controlOf(t, base_url), streaming };
}

describe('the weights of SGLang', () => {
  for (const cache of ['keep', 'reset'] as const)
    test(`change under an open stream that goes on, with its cache: ${cache}`, async (t) => {
      const { control, streaming } = await bench(t);
      await control.label('17', BOUND);
      const stream = await streaming();
      await control.pause({ mode: 'keep', cache }, BOUND);
      const at = stream.tokens();
      assert.equal(await control.paused(BOUND), true);
      await control.label('18?abc', BOUND);
      const { path: file, logprobs } = await weights(`new-${cache}`);
      await control.load({ kind: 'checkpoint', path: file }, BOUND);
      await control.label('18', BOUND);
      if (cache === 'reset') await control.resetCache(BOUND);
      await control.resume(BOUND);
      assert.equal(await control.paused(BOUND), false);
      const { spans = [], finish_reason } = await stream.ended;
      assert.equal(finish_reason, 'length');
      const border = spans[0]?.end ?? 0;
      const expected: VersionSpan[] = [
        { version: '17', start: 0, end: border },
        { version: '18', start: border, end: 100 },
      ];
      assert.deepEqual(spans, expected);
      assert.ok(border >= at);
      assert.equal(await control.said(BOUND), '18');
      const ids = [1, 2, 3, 4];
      assert.deepEqual(await control.promptLogprobs(ids, BOUND), logprobs(ids));
    });

  test('change while its requests are cut off, also those that a pause has frozen', async (t) => {
    const { url, base_url: at, control, streaming } = await bench(t);
    const stream = await streaming();
    await call(`${url}/pause_generation`, { body: { mode: 'in_place' } });
    const tokens = stream.tokens();
    await control.cutOff(BOUND);
    const message = /the engine aborted the request/;
    await assertFault(stream.ended, { type: 'GenerationUnavailable', message, at });
    assert.equal(stream.tokens(), tokens);
    assert.equal(await control.paused(BOUND), true);
  });

  test('change once all requests have ended, where the pause waits', async (t) => {
    const { control, streaming } = await bench(t);
    const stream = await streaming();
    await control.pause({ mode: 'wait', cache: 'keep' }, BOUND);
    assert.equal((await stream.ended).finish_reason, 'length');
    const another = await bench(t);
    await another.streaming();
    const late = another.control.pause(
      { mode: 'wait', cache: 'keep' },
      { ...BOUND, within_ms: 50 },
    );
    await assertFault(late, { type: 'GenerationUnavailable', message: /./, at: another.base_url });
  });

  test('are what they were if a file cannot be read, and the fault says why', async (t) => {
    const { control, base_url: at } = await bench(t);
    await control.pause({ mode: 'abort', cache: 'reset' }, BOUND);
    const loading = control.load({ kind: 'checkpoint', path: '/nowhere' }, BOUND);
    await assertFault(loading, { type: 'GenerationRejected', message: /nowhere/, at });
  });

  test('have a label that is read back, and that no request is aborted for', async (t) => {
    const { control, streaming } = await bench(t);
    const stream = await streaming();
    await control.label('17', BOUND);
    assert.equal(await control.said(BOUND), '17');
    assert.equal(await control.asOne({ starts: true }, BOUND), '17');
    assert.equal((await stream.ended).finish_reason, 'length');
  });

  test('are frozen in place only where no token comes out behind their label', async (t) => {
    const ok = reply(200, '{"status":"ok"}');
    for (const [disable_overlap_schedule, mode] of [
      [true, 'in_place'],
      [false, 'retract'],
    ] as const) {
      const { base_url, exchanges } = await fakeVllm(t, {
        'GET /server_info': reply(200, JSON.stringify({ disable_overlap_schedule })),
        'POST /pause_generation': ok,
      });
      await controlOf(t, base_url).pause({ mode: 'keep', cache: 'keep' }, BOUND);
      assert.deepEqual(exchanges.at(-1)?.body, { mode });
    }
  });
});

describe('a transfer to SGLang', () => {
  const sent = { skill: 1, seed: 9, name: 'sent' };

  test('by a trainer of its own is ended by the control, whole or not', async (t) => {
    const { url, control } = await bench(t);
    const begin = () => call(`${url}/begin_weight_update`, { body: {} });
    await control.pause({ mode: 'abort', cache: 'reset' }, BOUND);
    assert.equal((await begin()).status, 200);
    assert.equal((await begin()).status, 400);
    const body = { weights: sent, weight_version: '5' };
    await call(`${url}/update_weights_from_distributed`, { body });
    assert.equal(await control.said(BOUND), '5');
    await control.closeTransfer(BOUND);
    await control.closeTransfer(BOUND);
    assert.equal((await begin()).status, 200);
  });

  test('in which it hangs leaves it up, and its scheduler silent', async (t) => {
    const { url, control } = await bench(t, { faults: [{ fault: 'hang' }] });
    await call(`${url}/begin_weight_update`, { body: {} });
    const update = call(`${url}/update_weights_from_distributed`, { body: { weights: sent } });
    await eventually('a hang', async () => {
      const paused = control.paused({ ...BOUND, within_ms: 200 });
      return await paused.then(
        () => false,
        () => true,
      );
    });
    assert.equal(await control.isUp(BOUND), true);
    await call(`${url}/simulator/faults`, { method: 'DELETE' });
    assert.equal((await update).status, 400);
    assert.equal(await control.paused(BOUND), false);
  });
});

describe('an adapter of SGLang', () => {
  test('is loaded and unloaded by name, and again does nothing', async (t) => {
    const { control } = await bench(t);
    const { path: file, logprobs } = await weights('adapter');
    await control.loadAdapter({ name: 'actor.1', path: file }, BOUND);
    assert.deepEqual(await control.adapters(BOUND), ['actor.1']);
    const ids = [1, 2, 3];
    const told = await control.promptLogprobs(ids, { ...BOUND, adapter: 'actor.1' });
    assert.deepEqual(told, logprobs(ids));
    await control.unloadAdapter('actor.1', BOUND);
    await control.unloadAdapter('actor.1', BOUND);
    assert.deepEqual(await control.adapters(BOUND), []);
  });

  test('has no place where the server was started without them', async (t) => {
    const { control } = await bench(t, { max_loras: null });
    assert.equal((await control.settings(BOUND)).adapter_places, 0);
  });
});

describe('SGLang that sleeps', () => {
  test('keeps its label, is not resumed, and wakes in parts; each again does nothing', async (t) => {
    const { url, base_url: at, service, control } = await bench(t);
    const twice = async (run: () => Promise<void>): Promise<void> => {
      await run();
      await run();
    };
    await control.label('17', BOUND);
    await control.cutOff(BOUND);
    await twice(() => control.sleep(2, BOUND));
    assert.equal(await control.isAsleep(BOUND), true);
    assert.equal(await service.isAsleep(), true);
    assert.equal(await control.said(BOUND), '17');
    const asleep = { type: 'GenerationRejected', message: /it is asleep/, at } as const;
    await assertFault(control.resume(BOUND), asleep);
    await assertFault(control.examine({ cache: 'reset' }, BOUND), asleep);
    await control.examine({ cache: 'reset', sleep: 'ours' }, BOUND);
    await twice(() => control.wakeUp('weights', BOUND));
    await control.label('18?abc', BOUND);
    await control.load({ kind: 'checkpoint', path: (await weights('woken')).path }, BOUND);
    await control.label('18', BOUND);
    assert.equal(await control.isAsleep(BOUND), true);
    await twice(() => control.wakeUp(null, BOUND));
    await control.resetCache(BOUND);
    await twice(() => control.resume(BOUND));
    assert.match((await call(`${url}/model_info`)).text, /"weight_version":"18"/);
    assert.equal((await control.promptLogprobs([1, 2, 3], BOUND)).length, 2);
  });

  test('sleeps again after its weights alone were woken', async (t) => {
    const { control } = await bench(t);
    await control.cutOff(BOUND);
    await control.sleep(1, BOUND);
    await control.wakeUp('weights', BOUND);
    await control.sleep(1, BOUND);
    await control.wakeUp(null, BOUND);
    await control.resume(BOUND);
    assert.equal(await control.isAsleep(BOUND), false);
  });

  test('can keep its weights only with a copy of them', async (t) => {
    const levels = async (weights_backup: boolean) =>
      (await (await bench(t, { weights_backup })).control.settings(BOUND)).sleep_levels;
    assert.deepEqual(await levels(true), [1, 2]);
    assert.deepEqual(await levels(false), [2]);
  });
});

describe('a server of SGLang', () => {
  test('is what it is, whatever its weights are called', async (t) => {
    const { control, base_url: at } = await bench(t);
    const before = await control.identify({ model: null }, BOUND);
    assert.equal(before.model, 'simulator');
    await control.cutOff(BOUND);
    await control.load({ kind: 'checkpoint', path: (await weights('other')).path }, BOUND);
    assert.deepEqual(await control.identify({ model: 'simulator' }, BOUND), before);
    await assertFault(control.identify({ model: 'another' }, BOUND), {
      ...{ type: 'GenerationRejected', at },
      message: /expected an engine that serves "another"/,
    });
  });

  test('has all routes that an update needs, and tells its process from others', async (t) => {
    const [one, two] = [await bench(t), await bench(t)];
    const whole = { lacks: [], tells_label: true };
    for (const kind of ['checkpoint', 'lora'] as const)
      assert.deepEqual(
        await one.control.examine({ cache: 'reset', weights: { kind } }, BOUND),
        whole,
      );
    const [first, again, other] = [
      await one.control.processSign(BOUND),
      await one.control.processSign(BOUND),
      await two.control.processSign(BOUND),
    ];
    assert.deepEqual(first, again);
    assert.notEqual(first?.started, other?.started);
    assert.equal(await one.control.worldSize(BOUND), 1);
    assert.equal(await one.control.logprobsMode('simulator', BOUND), 'processed');
  });

  test('lacks what an older one has not, by name', async (t) => {
    const { base_url } = await fakeVllm(t, {
      'GET /model_info': reply(200, '{"weight_version":"default"}'),
      'GET /pause_generation': reply(404, '{"detail":"Not Found"}'),
      'GET /continue_generation': reply(404, '{"detail":"Not Found"}'),
      'GET /update_weights_from_disk': reply(405, '{"detail":"Method Not Allowed"}'),
      'GET /update_weight_version': reply(405, '{"detail":"Method Not Allowed"}'),
    });
    const { lacks } = await controlOf(t, base_url).examine({ cache: 'reset' }, BOUND);
    assert.deepEqual(lacks, ['/pause_generation', '/continue_generation']);
  });

  test('behind a balancer is refused', async (t) => {
    const [one, two] = [await bench(t), await bench(t)];
    const balancer = await startBalancer(
      [one.url, two.url].map((url) => Number(new URL(url).port)),
    );
    t.after(() => balancer.close());
    const at = `${balancer.url}/v1`;
    await assertFault(controlOf(t, at).asOne({ starts: true }, BOUND), {
      ...{ type: 'GenerationRejected', at },
      message: /expected one engine at the URL, got 2 processes/,
    });
  });
});
