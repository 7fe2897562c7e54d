/** Rollouts of programs that own their loop, in batches and streams. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import { readJournal, startBatch } from '../../lab/bed/batch.js';
import type { Testbed } from '../harness/testbed.js';
import type { WorkerConfig, WorkerProcess } from '../../lab/bed/worker.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { AgentService, Running } from '../servers/agent-service.js';
import { startAgentService } from '../servers/agent-service.js';
import type { JsonServer } from '../servers/json-server.js';
import { sendJson, startJsonServer } from '../servers/json-server.js';

/** One that a worker can have again after it was killed. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

const QUEUE = 'agent';
const STREAMED: ReadonlySet<string> = new Set(['chunk', 'generation', 'served']);

let release: () => void = () => undefined;
const released = new Promise<void>((resolve) => {
  release = resolve;
});

/** Asks twice, and says what the policy said. */
async function asksTwice({ task, ask }: Running) {
  const first = await ask(task.message_log);
  const next = [
    ...task.message_log,
    { role: 'assistant', content: first },
    { role: 'user', content: 'Say: 4' },
  ];
  const second = await ask(next);
  return { submission: second, reward: second.length, metadata: { first } };
}

async function program(running: Running) {
  const { task, ask, signal } = running;
  switch (task.metadata['does']) {
    case 'raises':
      throw new Error('boom');
    case 'raises once':
      if (running.run.endsWith('.1')) throw new Error('boom');
      return await asksTwice(running);
    case 'raises first':
      if (running.run.includes('/0-0.')) throw new Error('boom');
      return await asksTwice(running);
    case 'waits':
      await released;
      return await asksTwice(running);
    case 'loops':
      for (;;) await ask(task.message_log);
    case 'sleeps':
      await new Promise((_, reject) => {
        signal.addEventListener('abort', reject);
      });
      return {};
    default:
      return await asksTwice(running);
  }
}

/** Who says what a program is worth: away (each call is cut) until it is back. */
const judge = { isBack: false, asked: 0 };
const startJudge = (): Promise<JsonServer> =>
  startJsonServer(
    ({ route, response }) => {
      if (route !== 'POST /step') {
        sendJson(response, { status: route === 'GET /health' ? 200 : 404, body: {} });
        return;
      }
      judge.asked += 1;
      if (!judge.isBack) response.destroy();
      else
        sendJson(response, {
          body: {
            observations: [{ role: 'user', content: 'seen' }],
            metadata: [null],
            next_stop_strings: [null],
            rewards: [5],
            terminateds: [true],
          },
        });
    },
    (error, { response }) => response.destroy(error as Error),
  );

const sampleOf = (does: string, task_name = 'own') => ({
  message_log: [{ role: 'user', content: 'Say: 2 + 2 = 4' }],
  task_name,
  extra_env_info: { does, ground_truth: '4' },
});

describe('programs that own their loop', () => {
  let bed: Testbed;
  let service: AgentService;
  let judgeServer: JsonServer;
  let generation: WorkerConfig['generation'];
  let worker: WorkerProcess;
  let port = 0;

  before(async () => {
    bed = await startTestbed('agent');
    service = await startAgentService(program);
    judgeServer = await startJudge();
    generation = await bed.simulate({ default: { seed: 1 } });
    port = await freePort();
    worker = await startWorker('first');
  });
  const startWorker = (name: string): Promise<WorkerProcess> => {
    const run = { url: service.url };
    return bed.startWorker({
      task_queue: QUEUE,
      name,
      generation,
      environments: {
        own: { kind: 'agent', run },
        graded: { kind: 'agent', run, verify: 'math' },
        math: { kind: 'math' },
        judged: { kind: 'agent', run, verify: 'judge' },
        judge: { kind: 'http', url: judgeServer.url },
      },
      worker: { heartbeat_timeout: '2s', gateway: { listen: `127.0.0.1:${port}` } },
    });
  };
  after(async () => {
    await service.close();
    await bed.end();
    await judgeServer.close();
  });

  const play = async (
    batch_id: string,
    request: Record<string, unknown>,
  ): Promise<BatchOutcome> => {
    const batch = await startBatch(bed.batch(batch_id, QUEUE), {
      max_seq_len: 4096,
      generation: { max_new_tokens: 64 },
      ...request,
    });
    return await batch.outcome();
  };
  const kindsOf = async (batch_id: string, row = 0): Promise<string[]> =>
    (await readJournal(bed.store_root, { batch_id, row, repeat: 0 }))
      .map(({ kind }) => kind)
      .filter((kind) => kind !== 'claim');

  describe('beside each other', { concurrency: 3 }, () => {
    test('are rollouts, worth what they say', async () => {
      const { failure, rollouts, result } = await play('says', {
        samples: [sampleOf('')],
        num_repeats: 2,
      });
      assert.equal(failure, null);
      assert.equal(result?.counts.completed, 2);
      const ends = rollouts.map(({ total_reward, stop_reason }) => [total_reward, stop_reason]);
      assert.deepEqual(ends, [
        [1, 'terminated'],
        [1, 'terminated'],
      ]);
      const kinds = await kindsOf('says');
      assert.deepEqual(
        kinds.filter((kind) => !STREAMED.has(kind)),
        ['start', 'life', 'call', 'answer', 'call', 'answer', 'exit', 'observation', 'end'],
      );
    });

    test('are verified by another environment, which sees what they said last', async () => {
      const { failure, rollouts } = await play('verified', { samples: [sampleOf('', 'graded')] });
      assert.equal(failure, null);
      assert.deepEqual([rollouts[0]?.total_reward, rollouts[0]?.stop_reason], [1, 'terminated']);
    });

    test('22: whose verifier is away are not run again: what they did is verified when it is back', async () => {
      const batch = await startBatch(bed.batch('judged', QUEUE), {
        max_seq_len: 4096,
        samples: [sampleOf('', 'judged')],
        generation: { max_new_tokens: 64 },
      });
      await eventually('three tries', () => judge.asked >= 3);
      judge.isBack = true;
      const { rollouts, failures } = await batch.outcome();
      assert.deepEqual([failures, rollouts[0]?.total_reward], [[], 5]);
      assert.equal(service.started.filter(({ run }) => run.startsWith('judged/')).length, 1);
      const kinds = await kindsOf('judged');
      assert.deepEqual(
        ['life', 'call', 'exit'].map((kind) => kinds.filter((one) => one === kind).length),
        [1, 2, 1],
      );
    });

    test('that fail begin again, as often as the request allows', async () => {
      const { rollouts, failures } = await play('fails', {
        samples: [sampleOf('raises once'), sampleOf('raises')],
        attempts: { agent: 2 },
      });
      assert.deepEqual([rollouts.length, failures.length], [1, 1]);
      assert.equal(
        failures[0]?.failure?.message,
        'its program failed in life 2 (exit 1): Traceback: Error: boom (key)',
      );
      const lives = (await kindsOf('fails', 1)).filter((kind) => kind === 'life');
      assert.equal(lives.length, 2);
    });

    test('that a limit ends are verified as that', async () => {
      const { rollouts, failure } = await play('limited', {
        samples: [sampleOf('loops')],
        max_rollout_turns: 3,
      });
      assert.equal(failure, null);
      assert.deepEqual([rollouts[0]?.stop_reason, rollouts[0]?.total_reward], ['max_turns', 0]);
    });

    test('that are late are ended at their service, and have no row', async () => {
      const { rollouts, failures } = await play('late', {
        samples: [sampleOf('sleeps')],
        rollout_timeout: '2s',
      });
      assert.deepEqual([rollouts.length, failures[0]?.stop_reason], [0, 'timeout']);
      assert.ok(service.stopped.includes('late/0-0.1'));
    });

    test('are played under min_k and refill like others', async () => {
      const few = await play('min-k', {
        samples: [sampleOf('')],
        num_repeats: 3,
        completion: { policy: 'min_k', k: 2 },
      });
      assert.equal(few.rollouts.length, 2);
      const refilled = await play('refill', {
        samples: [sampleOf('raises first')],
        num_repeats: 2,
        attempts: { agent: 1 },
        completion: { policy: 'refill', max_replacements: 2 },
      });
      assert.deepEqual([refilled.rollouts.length, refilled.failures.length], [2, 1]);
    });
  });

  test('live on while their worker is killed, and get what they missed', async () => {
    const batch = await startBatch(bed.batch('killed', QUEUE), {
      max_seq_len: 4096,
      samples: [sampleOf('waits')],
      generation: { max_new_tokens: 64 },
    });
    await eventually('the program', () =>
      service.started.some(({ run }) => run === 'killed/0-0.1'),
    );
    await worker.kill('SIGKILL');
    release();
    worker = await startWorker('second');
    const { rollouts, failure } = await batch.outcome();
    assert.equal(failure, null);
    assert.equal(rollouts.length, 1);
    const runs = service.started.filter(({ run }) => run.startsWith('killed/'));
    assert.deepEqual(
      runs.map(({ run }) => run),
      ['killed/0-0.1'],
    );
  });
});
