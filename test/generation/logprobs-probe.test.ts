import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { probeLogprobsMode } from '../../src/generation/logprobs-probe.js';
import { createReplicas } from '../../src/generation/replicas/replicas.js';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';
import { startSimulator } from '../../simulator/server.js';
import type { LogprobsMode } from '../../src/model/logprobs-mode.js';
import { fakeReplica, unavailable } from '../fakes/fake-replica.js';
import { manualClock, settled } from '../fakes/manual-clock.js';
import { assertFault, fakeVllm, reply, untilAborted, type Exchange } from './fake-vllm.js';

const COMPLETIONS = 'POST /v1/completions';

type Likely = Record<string, number>;

/** Answers a completion with one token and these likeliest ids, by temperature. */
const answering =
  (at: (temperature: number) => Likely) =>
  ({ body, response }: Exchange): void => {
    const { prompt, temperature } = body as { prompt: number[]; temperature: number };
    const top = at(temperature);
    const logprobs = { token_logprobs: [Object.values(top)[0]], top_logprobs: [top] };
    const choice = { index: 0, text: '', token_ids: [5], prompt_token_ids: prompt, logprobs };
    const last = { ...choice, finish_reason: 'length', stop_reason: null };
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const usage = { prompt_tokens: prompt.length, completion_tokens: 1 };
    response.end(`data: ${JSON.stringify({ choices: [last], usage })}\n\ndata: [DONE]\n\n`);
  };

/** What vLLM 0.32.0 gave for one prompt in both modes at temperature 1, and in mode processed at 0.5. */
const AT_1 = { 'token_id:568': -1.1385486, 'token_id:262': -2.8278253, 'token_id:549': -3.5811723 };
const AT_HALF = {
  'token_id:568': -0.1032283,
  'token_id:262': -3.4817817,
  'token_id:549': -4.9884753,
};

describe('a probe', () => {
  const cases: [what: string, at: (temperature: number) => Likely, mode: LogprobsMode][] = [
    ['whose logprobs follow the temperature', (at) => (at === 1 ? AT_1 : AT_HALF), 'processed'],
    ['whose logprobs stay', () => AT_1, 'raw'],
    [
      'whose logprobs stay but for noise',
      (at) => (at === 1 ? AT_1 : { ...AT_1, 'token_id:568': -1.16 }),
      'raw',
    ],
    ['with one id alone', () => ({ 'token_id:568': 0 }), 'unknown'],
    ['with other ids each time', (at) => (at === 1 ? AT_1 : { 'token_id:1': -1 }), 'unknown'],
    ['as likely each as the other', () => ({ 'token_id:1': -1.01, 'token_id:2': -1 }), 'unknown'],
  ];
  for (const [what, at, mode] of cases) {
    test(`of an engine ${what} is ${mode}`, async (t) => {
      const { service, exchanges } = await fakeVllm(t, { [COMPLETIONS]: answering(at) });
      assert.equal(await probeLogprobsMode(service, 'tiny'), mode);
      const sent = exchanges.map(({ headers, body }) => [
        headers['x-session-id'],
        (body as { max_tokens: number }).max_tokens,
      ]);
      assert.deepEqual(sent, [
        ['probe', 1],
        ['probe', 1],
      ]);
    });
  }

  for (const status of [401, 403, 404])
    test(`that is answered ${status} shows no mode: rows to come would say that it is unknown`, async (t) => {
      const { service, base_url } = await fakeVllm(t, { [COMPLETIONS]: reply(status, '') });
      await assertFault(probeLogprobsMode(service, 'tiny'), {
        type: 'GenerationRejected',
        message: new RegExp(` ${status} `),
        at: base_url,
      });
    });

  for (const status of [400, 422, 501, 503]) {
    test(`that is answered ${status} is unknown, and no fault`, async (t) => {
      const { service } = await fakeVllm(t, {
        [COMPLETIONS]: reply(status, ''),
        'GET /v1/models': reply(404, ''),
      });
      assert.equal(await probeLogprobsMode(service, 'tiny'), 'unknown');
    });
  }

  test('that is cut is the fault of an engine that is away', async (t) => {
    const { service, base_url } = await fakeVllm(t, {
      [COMPLETIONS]: ({ response }) => void response.destroy(),
      'GET /v1/models': reply(404, ''),
    });
    await assertFault(probeLogprobsMode(service, 'tiny'), {
      type: 'GenerationUnavailable',
      message: /./,
      at: base_url,
    });
  });

  for (const logprobs_mode of ['processed', 'raw'] as const) {
    test(`of the simulator in mode ${logprobs_mode} tells it, and leaves no trace`, async (t) => {
      const faults = [{ fault: 'cut' as const, times: 1 }];
      const simulator = await startSimulator({ settings: { logprobs_mode, faults }, port: 0 });
      const limits = { first_token_timeout_ms: 5000, idle_timeout_ms: 5000 };
      const service = createVllmService({
        base_url: `${simulator.url}/v1`,
        api_key: null,
        ...limits,
      });
      t.after(() => Promise.all([service.close(), simulator.close()]));
      assert.equal(await probeLogprobsMode(service, 'simulator'), logprobs_mode);
      const { requests } = (await (await fetch(`${simulator.url}/simulator/requests`)).json()) as {
        requests: unknown[];
      };
      assert.deepEqual(requests, []);
    });
  }
});

describe('what a probe showed', () => {
  function probed(answers: (LogprobsMode | Error)[]) {
    const fake = fakeReplica('http://a');
    const clock = manualClock();
    let asked = 0;
    const replicas = createReplicas([fake], {
      max_concurrent: 1,
      clock,
      random: () => 0,
      probe: () => {
        const answer = answers[asked++] ?? assert.fail('probed once more');
        return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
      },
    });
    const request = { session_id: 's', signal: untilAborted(), is_generation: false };
    const mode = (model = 'm') =>
      replicas.request(request, (_, { logprobsMode }) => logprobsMode(model, request));
    return { fake, clock, replicas, request, mode, asked: () => asked };
  }

  test('is remembered by model, however many ask', async () => {
    const { mode, asked } = probed(['raw', 'processed']);
    const all = await Promise.all([mode(), mode(), mode(), mode('adapter')]);
    assert.deepEqual(all, ['raw', 'raw', 'raw', 'processed']);
    assert.equal(asked(), 2);
  });

  test('is forgotten when the replica was away: it may have been started otherwise', async () => {
    const { clock, replicas, request, mode } = probed(['processed', 'raw']);
    assert.equal(await mode(), 'processed');
    await assert.rejects(replicas.request(request, () => Promise.reject(unavailable('http://a'))));
    await clock.pass(2000);
    await settled();
    assert.equal(await mode(), 'raw');
  });

  test('that failed with the replica is asked for again by the next request', async () => {
    const { mode } = probed([unavailable('http://a'), 'raw']);
    await assert.rejects(mode(), { type: 'GenerationUnavailable' });
    assert.equal(await mode(), 'raw');
  });

  test('is asked for again after a minute where it showed nothing, and whenever a batch is planned', async () => {
    const { clock, replicas, request, mode } = probed(['unknown', 'processed', 'raw']);
    assert.deepEqual([await mode(), await mode()], ['unknown', 'unknown']);
    await clock.pass(61_000);
    assert.equal(await mode(), 'processed');
    const [planned] = await replicas.askEach(
      (_, { logprobsMode }) => logprobsMode('m', { ...request, again: true }),
      request.signal,
    );
    assert.equal(planned?.answer, 'raw');
    assert.equal(await mode(), 'raw');
  });
});
