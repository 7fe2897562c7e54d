/** What a batch shows while its rollouts run and wait, and the message of a rollout that waited until its timeout. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BatchProgress, RolloutProgress } from '../../src/activities/contract.js';
import type { Simulator } from '../../simulator/server.js';
import { startSimulator } from '../../simulator/server.js';
import { startBatch } from '../../lab/bed/batch.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';

const QUEUE = 'waiting';

const STEP = {
  observations: [{ role: 'environment', content: 'on' }],
  metadata: [null],
  next_stop_strings: null,
  rewards: [0],
  terminateds: [true],
};

/** Answers steps: `/busy` with 503, `/silent` never, `/mended` with 503 until it is mended. */
function startEnvironment(isMended: () => boolean): Promise<Server> {
  const server = createServer(({ url = '' }, response) => {
    if (url.endsWith('/health')) response.end('{}');
    else if (url.startsWith('/mended/step') && isMended()) response.end(JSON.stringify(STEP));
    else if (/^\/(busy|mended)\/step/.test(url))
      response.writeHead(503).end('{"error": {"type": "Busy", "message": "no room"}}');
    else if (!url.endsWith('/step')) response.writeHead(404).end();
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      resolve(server);
    });
  });
}

describe('a batch whose rollouts wait', () => {
  let bed: Testbed;
  let simulator: Simulator;
  let environment: Server;
  let isMended = false;

  before(async () => {
    bed = await startTestbed('waiting');
    simulator = await startSimulator({
      settings: { thinking_tokens: 8, skill: 0, seed: 1, tokens_per_second: 20 },
      port: 0,
    });
    environment = await startEnvironment(() => isMended);
    const { port } = environment.address() as AddressInfo;
    const http = (name: string) => ({
      kind: 'http' as const,
      url: `http://127.0.0.1:${port}/${name}`,
    });
    await bed.startWorker({
      task_queue: QUEUE,
      generation: { default: { kind: 'vllm', base_urls: [`${simulator.url}/v1`] } },
      environments: {
        sliding_puzzle: { kind: 'sliding_puzzle' },
        busy: http('busy'),
        silent: http('silent'),
        mended: http('mended'),
      },
      worker: { turn_slice: '0s', heartbeat_timeout: '2s' },
    });
  });
  after(async () => {
    await bed.end();
    await simulator.close();
    environment.closeAllConnections();
    environment.close();
  });

  test('shows nothing more once it came, though others still run', async () => {
    const request = puzzleRequest({ samples: 2, num_repeats: 1 }, { max_rollout_turns: 1000 });
    const [first, second] = request.samples as object[];
    const { handle } = await startBatch(bed.batch('mended', QUEUE), {
      ...request,
      samples: [first, { ...second, task_name: 'mended' }],
    });
    const progress = () => handle.query<BatchProgress>('progress');
    const what = 'waiting of the batch';
    const waiting = await eventually(what, async () => (await progress()).waiting);
    assert.equal(waiting.call, 'environment mended');
    isMended = true;
    const mended = await eventually('its end', async () => {
      const now = await progress();
      return now.waiting === null && now.done === 1 && now;
    });
    assert.deepEqual([mended.phase, mended.running], ['running', 1]);
    await handle.signal('stop');
    await handle.result();
  });

  test('for an engine that denies its model and its key shows what it says, and loses no rollout', async () => {
    const inject = async (fault: string): Promise<void> => {
      const body = JSON.stringify({ fault, times: null });
      const { status } = await fetch(`${simulator.url}/simulator/faults`, { method: 'POST', body });
      assert.equal(status, 200);
    };
    const request = puzzleRequest({ samples: 4, num_repeats: 1 }, { max_rollout_turns: 6 });
    const { handle, outcome } = await startBatch(bed.batch('denied', QUEUE), request);
    const progress = () => handle.query<BatchProgress>('progress').catch(() => null);
    await eventually('tokens', async () => ((await progress())?.tokens ?? 0) > 0);
    await inject('404');
    const waiting = await eventually('waiting', async () => (await progress())?.waiting);
    assert.match(
      waiting.message,
      /404 The model does not exist\.; planning saw it work, so it is asked again for 2 minutes$/,
    );
    await fetch(`${simulator.url}/simulator/faults`, { method: 'DELETE' });
    await inject('401');
    await sleep(2000);
    await fetch(`${simulator.url}/simulator/faults`, { method: 'DELETE' });
    const { result } = await outcome();
    assert.deepEqual([result?.counts.completed, result?.counts.failed], [4, 0]);
  });

  test('shows for what, and how far the others are; a timeout names call, tries, time and last answer', async () => {
    const request = puzzleRequest({ samples: 4, num_repeats: 1 }, { max_rollout_turns: 1000 });
    const samples = (request.samples as object[]).map((sample, row) =>
      row === 0 ? sample : { ...sample, task_name: row === 3 ? 'silent' : 'busy' },
    );
    const { handle, outcome } = await startBatch(bed.batch('waits', QUEUE), {
      ...request,
      samples,
      rollout_timeout: '40s',
    });
    const progress = () => handle.query<BatchProgress>('progress').catch(() => null);
    const waiting = await eventually(
      'waiting of the batch',
      async () => (await progress())?.waiting,
    );
    assert.deepEqual([waiting.call, waiting.rollouts], ['environment busy', 2]);
    assert.match(waiting.message, /503: Busy: no room/);
    const before = await progress();
    assert.equal(before?.done, 0);
    assert.ok(before.turns > 0 && before.tokens > 0, JSON.stringify(before));
    await eventually('more turns', async () => {
      const now = await progress();
      return now !== null && now.turns > before.turns && now.tokens > before.tokens;
    });
    const rollout = bed.server.client.workflow.getHandle('waits/1-0');
    const own = (await rollout.query<RolloutProgress>('progress')).waiting;
    assert.ok(own?.call === 'environment busy' && Number(own.tries) >= 2, JSON.stringify(own));

    const { failures } = await outcome();
    const said = (row: number): string =>
      failures.find((one) => one.row === row)?.failure?.message ?? '';
    const since = String.raw`since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`;
    assert.match(
      said(1),
      new RegExp(
        `^rollout_timeout (?:40s )?passed; it waited for environment busy at http://\\S+ \\(\\d+ tries ${since}\\): POST .* 503: Busy: no room$`,
      ),
    );
    assert.match(
      said(3),
      new RegExp(
        `^rollout_timeout (?:40s )?passed; it waited for environment silent \\(${since}\\): no answer yet$`,
      ),
    );
  });
});
