import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { createVllmControl } from '../../src/generation/vllm/control.js';
import type { WeightControl } from '../../src/generation/weight-control.js';
import { capture } from './captures.js';
import { assertFault, fakeVllm, replay, reply, untilAborted } from './fake-vllm.js';

type Script = Parameters<typeof fakeVllm>[1];

const BOUND = { within_ms: 20_000, signal: untilAborted() };
const NOT_ALLOWED = reply(405, '{"detail":"Method Not Allowed"}');
const NOT_FOUND = replay('192');

/** What vLLM in development mode says to the questions of `examine`. */
const HAS_ALL: Script = {
  'GET /v1/models': replay('102'),
  'GET /is_paused': replay('107'),
  'GET /pause': NOT_ALLOWED,
  'GET /resume': NOT_ALLOWED,
  'GET /collective_rpc': NOT_ALLOWED,
  'GET /reset_prefix_cache': NOT_ALLOWED,
  'GET /is_sleeping': replay('162'),
  'GET /weight_info': reply(200, '{"weight_version":"17"}'),
};

async function controlled(t: TestContext, script: Script) {
  const { base_url, exchanges } = await fakeVllm(t, script);
  const control = createVllmControl({
    replica: base_url,
    control_url: null,
    api_key: 'engine-key',
    control_api_key: null,
    model: null,
  });
  t.after(() => control.close());
  return { control, base_url, exchanges };
}

describe('an engine in development mode', () => {
  test('lacks nothing, and is only asked', async (t) => {
    const { control, exchanges } = await controlled(t, HAS_ALL);
    const examination = await control.examine({ cache: 'reset' }, BOUND);
    assert.deepEqual(examination, { lacks: [], tells_label: true });
    assert.ok(exchanges.every(({ route }) => route.startsWith('GET ')));
  });

  test('is paused with the mode, and always with what happens to its cache', async (t) => {
    const paused = reply(200, '{"status":"paused"}');
    const { control, exchanges } = await controlled(t, {
      'POST /pause?mode=keep&clear_cache=true': paused,
      'POST /pause?mode=wait&clear_cache=false': paused,
      'POST /pause?mode=abort&clear_cache=false': paused,
    });
    await control.pause({ mode: 'keep', cache: 'reset' }, BOUND);
    await control.pause({ mode: 'wait', cache: 'keep' }, BOUND);
    await control.cutOff(BOUND);
    assert.equal(exchanges.length, 3);
    assert.ok(exchanges.every(({ headers }) => headers.authorization === 'Bearer engine-key'));
  });

  test('loads a checkpoint in place', async (t) => {
    const { control, exchanges } = await controlled(t, { 'POST /collective_rpc': replay('187') });
    await control.load({ kind: 'checkpoint', path: 'model-tiny-b' }, BOUND);
    assert.deepEqual(exchanges[0]?.body, {
      method: 'reload_weights',
      kwargs: { weights_path: 'model-tiny-b' },
    });
  });

  test('gets its label and has to report it', async (t) => {
    const { control, exchanges } = await controlled(t, {
      'GET /weight_info': reply(200, '{"weight_version":"default"}'),
      'POST /update_weight_version': replay('175'),
    });
    await control.label('default', BOUND);
    assert.deepEqual(exchanges[1]?.body, { new_version: 'default' });
  });

  test('resumes, and is asked whether it did', async (t) => {
    const { control, exchanges } = await controlled(t, {
      'POST /resume': replay('158'),
      'GET /is_paused': replay('107'),
    });
    await control.resume(BOUND);
    assert.equal(exchanges.length, 2);
  });

  test('resets its cache, that of running requests too', async (t) => {
    const { control } = await controlled(t, {
      'POST /reset_prefix_cache?reset_running_requests=true': replay('163'),
    });
    await control.resetCache(BOUND);
  });

  test('says the logprob of each token of a prompt but the first, as a session of no rollout', async (t) => {
    const { prompt, raw } = capture('061');
    const { control, exchanges } = await controlled(t, {
      'GET /v1/models': replay('102'),
      'POST /v1/completions': replay('061'),
    });
    const told = await control.promptLogprobs(prompt, BOUND);
    const { choices } = JSON.parse(raw) as {
      choices: { prompt_logprobs: (Record<string, { logprob: number }> | null)[] }[];
    };
    const recorded = choices[0]?.prompt_logprobs.slice(1) ?? [];
    const expected = recorded.map((one, i) => one?.[String(prompt[i + 1])]?.logprob);
    assert.deepEqual(told, expected);
    assert.equal(told.length, prompt.length - 1);
    assert.equal(exchanges.at(-1)?.headers['x-session-id'], 'weights-probe');
  });
});

describe('a server without what an update needs', () => {
  test('lacks each route by name', async (t) => {
    const { control } = await controlled(t, {
      ...HAS_ALL,
      'GET /is_paused': replay('194'),
      'GET /pause': NOT_FOUND,
      'GET /resume': NOT_FOUND,
      'GET /collective_rpc': NOT_FOUND,
      'GET /reset_prefix_cache': NOT_FOUND,
      'GET /is_sleeping': NOT_FOUND,
      'GET /weight_info': replay('201'),
    });
    assert.deepEqual(await control.examine({ cache: 'reset' }, BOUND), {
      lacks: ['/is_paused', '/pause', '/resume', '/collective_rpc', '/reset_prefix_cache'],
      tells_label: false,
    });
    assert.ok(
      !(await control.examine({ cache: 'keep' }, BOUND)).lacks.includes('/reset_prefix_cache'),
    );
  });

  const sleeping = (...awake: number[]): Script => ({
    ...HAS_ALL,
    'GET /is_sleeping': reply(200, '{"is_sleeping":true}'),
    'GET /metrics': reply(
      200,
      awake
        .map(
          (one, i) =>
            `vllm:engine_sleep_state{engine="${i}",model_name="m",sleep_state="awake"} ${one}.0\n`,
        )
        .join(''),
    ),
  });
  for (const [how, script] of [
    ['it is asleep', sleeping(0)],
    ['one of its engines is asleep', sleeping(1, 0)],
    ['it does not say how it sleeps', sleeping()],
  ] as const)
    test(`is refused while ${how}, with what wakes it`, async (t) => {
      const { control, base_url } = await controlled(t, script);
      await assertFault(control.examine({ cache: 'reset' }, BOUND), {
        type: 'GenerationRejected',
        message: /: it is asleep \(POST \/sleep\), .*POST \/wake_up$/,
        at: base_url,
      });
    });

  test('is not asleep where it is only paused: vLLM says that it sleeps', async (t) => {
    const { control } = await controlled(t, sleeping(1, 1));
    assert.deepEqual((await control.examine({ cache: 'reset' }, BOUND)).lacks, []);
  });

  test('is refused for a wrong key, not taken for one that is away', async (t) => {
    const { control, base_url } = await controlled(t, { 'GET /v1/models': replay('214') });
    await assertFault(control.examine({ cache: 'reset' }, BOUND), {
      type: 'GenerationRejected',
      message: /401 Unauthorized/,
      at: base_url,
    });
  });

  test('has no label to change', async (t) => {
    const { control, exchanges } = await controlled(t, { 'GET /weight_info': replay('201') });
    await control.label('17', BOUND);
    assert.equal(exchanges.length, 1);
  });
});

describe('an answer that says no', () => {
  const cases: {
    what: string;
    script: Script;
    act: (control: WeightControl) => Promise<unknown>;
    says: RegExp;
    type?: 'GenerationUnavailable' | 'GenerationRejected';
  }[] = [
    {
      what: 'success false with 200 to the cache',
      script: {
        'POST /reset_prefix_cache?reset_running_requests=true': reply(200, '{"success":false}'),
      },
      act: (control) => control.resetCache(BOUND),
      says: /success: expected true/,
    },
    {
      what: 'success false with 200 to the label',
      script: {
        'GET /weight_info': reply(200, '{"weight_version":"16"}'),
        'POST /update_weight_version': reply(200, '{"success":false}'),
      },
      act: (control) => control.label('17', BOUND),
      says: /success: expected true/,
    },
    {
      what: 'a label that is not the one that it was told',
      script: {
        'GET /weight_info': reply(200, '{"weight_version":"16"}'),
        'POST /update_weight_version': reply(200, '{"success":true,"new_version":"17"}'),
      },
      act: (control) => control.label('17', BOUND),
      says: /weight_version: expected "17", got "16"/,
    },
    {
      what: 'an engine that is still paused behind its resume',
      script: {
        'POST /resume': replay('158'),
        'GET /is_paused': reply(200, '{"is_paused":true}'),
      },
      act: (control) => control.resume(BOUND),
      says: /expected false after \/resume/,
    },
    {
      what: 'a worker of the engine that failed',
      script: { 'POST /collective_rpc': replay('172') },
      act: (control) => control.load({ kind: 'checkpoint', path: '/w' }, BOUND),
      says: /Call to collective_rpc method failed/,
      type: 'GenerationUnavailable',
    },
    {
      what: 'no worker that loaded',
      script: { 'POST /collective_rpc': reply(200, '{"results":[]}') },
      act: (control) => control.load({ kind: 'checkpoint', path: '/w' }, BOUND),
      says: /results/,
    },
    {
      what: 'a pause that it does not know',
      script: { 'POST /pause?mode=keep&clear_cache=true': replay('159') },
      act: (control) => control.pause({ mode: 'keep', cache: 'reset' }, BOUND),
      says: /validation error/,
      type: 'GenerationRejected',
    },
    {
      what: 'prompt logprobs without one of the ids',
      script: {
        'GET /v1/models': replay('102'),
        'POST /v1/completions': reply(
          200,
          '{"choices":[{"prompt_logprobs":[null,{"5":{"logprob":-1}},{"6":{"logprob":-2}}]}]}',
        ),
      },
      act: (control) => control.promptLogprobs([4, 5, 7], BOUND),
      says: /prompt_logprobs\.2: expected the logprob of id 7, got none/,
    },
  ];
  for (const { what, script, act, says, type = 'ProtocolError' } of cases) {
    test(`is a failure: ${what}`, async (t) => {
      const { control, base_url } = await controlled(t, script);
      await assertFault(act(control), { type, message: says, at: base_url });
    });
  }
});

test('a call that is not answered ends with its bound', async (t) => {
  const { control, base_url } = await controlled(t, { 'POST /collective_rpc': () => undefined });
  const loading = control.load({ kind: 'checkpoint', path: '/w' }, { ...BOUND, within_ms: 200 });
  await assertFault(loading, {
    type: 'GenerationUnavailable',
    message: /collective_rpc/,
    at: base_url,
  });
});

test('routes of control may be elsewhere, with a key of their own', async (t) => {
  const engine = await fakeVllm(t, { 'GET /v1/models': replay('102') });
  const routes = Object.fromEntries(
    Object.entries(HAS_ALL).filter(([route]) => route !== 'GET /v1/models'),
  ) as Script;
  const sidecar = await fakeVllm(t, routes);
  const control = createVllmControl({
    replica: engine.base_url,
    control_url: sidecar.base_url.replace(/\/v1$/, ''),
    api_key: 'engine-key',
    control_api_key: 'control-key',
    model: null,
  });
  t.after(() => control.close());
  assert.deepEqual((await control.examine({ cache: 'reset' }, BOUND)).lacks, []);
  const keys = ({ exchanges }: typeof engine) =>
    new Set(exchanges.map(({ headers }) => headers.authorization));
  assert.deepEqual(keys(engine), new Set(['Bearer engine-key']));
  assert.deepEqual(keys(sidecar), new Set(['Bearer control-key']));
});
