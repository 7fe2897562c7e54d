/** What a transfer asks of a vLLM's control beside an update: one process, how it was started, a session that is over. */
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { createVllmControl } from '../../src/generation/vllm/control.js';
import { assertFault, fakeVllm, replay, reply, untilAborted } from './fake-vllm.js';

type Script = Parameters<typeof fakeVllm>[1];

const BOUND = { within_ms: 20_000, signal: untilAborted() };
const NOT_FOUND = replay('192');

async function controlled(t: TestContext, script: Script) {
  const { base_url, exchanges } = await fakeVllm(t, script);
  const options = { control_url: null, api_key: null, control_api_key: null, model: null };
  const control = createVllmControl({ replica: base_url, ...options });
  t.after(() => control.close());
  return { control, base_url, exchanges };
}

describe('a transfer that its sender has left', () => {
  const done = reply(200, '{"message":"done"}');
  const failed = reply(
    500,
    '{"error":{"message":"without a matching start_weight_update","code":500}}',
  );
  const closed = async (t: TestContext, script: Script): Promise<string[]> => {
    const { control, exchanges } = await controlled(t, script);
    await control.closeTransfer(BOUND);
    return exchanges.map(({ route }) => route.slice('POST /'.length));
  };

  test('is ended', async (t) => {
    assert.deepEqual(await closed(t, { 'POST /finish_weight_update': done }), [
      'finish_weight_update',
    ]);
  });

  test('and has broken is followed by an empty one, after which vLLM takes weights again', async (t) => {
    let asked = 0;
    const calls = await closed(t, {
      'POST /finish_weight_update': (exchange) => (asked++ === 0 ? failed : done)(exchange),
      'POST /start_weight_update': done,
    });
    assert.deepEqual(calls, [
      'finish_weight_update',
      'start_weight_update',
      'finish_weight_update',
    ]);
  });

  test('is none where the server has no transfer', async (t) => {
    const calls = await closed(t, {
      'POST /finish_weight_update': failed,
      'POST /start_weight_update': failed,
    });
    assert.deepEqual(calls, ['finish_weight_update', 'start_weight_update']);
  });
});

describe('the one engine at a URL', () => {
  const metrics = (started: number): string =>
    `# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds ${started}\n`;
  /** Answers one after the other. */
  const inTurn = (...bodies: string[]): Script[`GET /${string}`] => {
    let asked = 0;
    return (exchange) => reply(200, bodies[asked++ % bodies.length]!)(exchange);
  };
  const LABEL = '{"weight_version":"17"}';

  test('says its label, asked eight times on connections of their own', async (t) => {
    const ports: (number | undefined)[] = [];
    const { control } = await controlled(t, {
      'GET /weight_info': (exchange) => {
        ports.push(exchange.response.socket?.remotePort);
        return reply(200, LABEL)(exchange);
      },
      'GET /metrics': reply(200, metrics(1)),
    });
    assert.equal(await control.asOne({ starts: true }, BOUND), '17');
    assert.deepEqual([ports.length, new Set(ports).size], [8, 8]);
  });

  test('may have no label', async (t) => {
    const { control } = await controlled(t, { 'GET /weight_info': NOT_FOUND });
    assert.equal(await control.asOne({ starts: false }, BOUND), null);
  });

  test('is refused where two processes answer', async (t) => {
    const { control, base_url } = await controlled(t, {
      'GET /weight_info': reply(200, LABEL),
      'GET /metrics': inTurn(metrics(1), metrics(2)),
    });
    const two = {
      type: 'GenerationRejected' as const,
      message: /got 2 processes in 8 answers/,
      at: base_url,
    };
    await assertFault(control.asOne({ starts: true }, BOUND), two);
    assert.equal(await control.asOne({ starts: false }, BOUND), '17');
  });

  test('is refused behind a balancer that gives each next question to the other', async (t) => {
    let asked = 0;
    const next =
      (of: (engine: number) => string) => (exchange: Parameters<ReturnType<typeof reply>>[0]) =>
        reply(200, of(asked++ % 2))(exchange);
    const { control, base_url } = await controlled(t, {
      'GET /weight_info': next(() => LABEL),
      'GET /metrics': next(metrics),
    });
    await assertFault(control.asOne({ starts: true }, BOUND), {
      type: 'GenerationRejected',
      message: /got 2 processes in 8 answers/,
      at: base_url,
    });
  });

  test('is refused where one of two has not heard of its label', async (t) => {
    const { control, base_url } = await controlled(t, {
      'GET /weight_info': inTurn(LABEL, '{"weight_version":"18?a"}'),
    });
    const two = {
      type: 'GenerationRejected' as const,
      message: /expected one engine at the URL, got the weights .*17.* and .*18\?a/,
      at: base_url,
    };
    await assertFault(control.asOne({ starts: false }, BOUND), two);
  });
});

describe('how an engine was started', () => {
  const CACHE = 'vllm:cache_config_info{block_size="16",cache_dtype="fp8_e5m2",engine="0"} 1.0\n';
  const info = (config: object | null, more: object = {}): string =>
    JSON.stringify({ vllm_config: { weight_transfer_config: config, ...more } });
  const asked = async (
    t: TestContext,
    {
      server_info,
      metrics = reply(200, CACHE),
    }: { server_info: ReturnType<typeof reply>; metrics?: ReturnType<typeof reply> },
  ) => {
    const script = { 'GET /server_info?config_format=json': server_info, 'GET /metrics': metrics };
    return (await controlled(t, script)).control.settings(BOUND);
  };

  test('is the backend of its transfers and the numbers of its cache', async (t) => {
    assert.deepEqual(await asked(t, { server_info: reply(200, info({ backend: 'nccl' })) }), {
      backend: 'nccl',
      cache_dtype: 'fp8_e5m2',
      sleep_levels: null,
      adapter_places: null,
    });
  });

  test('is whether it can sleep', async (t) => {
    for (const enable_sleep_mode of [true, false]) {
      const server_info = reply(200, info(null, { model_config: { enable_sleep_mode } }));
      assert.deepEqual(
        (await asked(t, { server_info })).sleep_levels,
        enable_sleep_mode ? [1, 2] : [],
      );
    }
  });

  test('is said to be without a transfer', async (t) => {
    assert.equal((await asked(t, { server_info: reply(200, info(null)) })).backend, 'none');
  });

  test('is how many adapters it has room for, none without them', async (t) => {
    const placesOf = async (lora_config: object | null) =>
      (await asked(t, { server_info: reply(200, info(null, { lora_config })) })).adapter_places;
    assert.equal(await placesOf({ max_loras: 3, max_lora_rank: 16 }), 3);
    assert.equal(await placesOf(null), 0);
    // vLLM fails to list its packages where there is no pip.
    const metrics = reply(
      200,
      `${CACHE}vllm:lora_requests_info{max_lora="2",running_lora_adapters="a,b",waiting_lora_adapters=""} 1.79e9\n`,
    );
    const { adapter_places } = await asked(t, { server_info: reply(500, '{}'), metrics });
    assert.equal(adapter_places, 2);
  });

  test('is unknown where it does not answer', async (t) => {
    const failed = reply(500, '{"error":{"message":"no pip","code":500}}');
    assert.deepEqual(await asked(t, { server_info: failed, metrics: NOT_FOUND }), {
      backend: null,
      cache_dtype: null,
      sleep_levels: null,
      adapter_places: null,
    });
    assert.equal((await asked(t, { server_info: reply(200, '{}') })).backend, null);
  });
});
