/** Programs whose calls arrive at any worker, while one of the workers is frozen and wakes up. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { applyLine, emptyTrajectory, type Trajectory } from '../../src/model/journal/trajectory.js';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import { readJournal, startBatch } from '../../lab/bed/batch.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { WorkerProcess } from '../../lab/bed/worker.js';
import type { AgentService, Running } from '../servers/agent-service.js';
import { startAgentService } from '../servers/agent-service.js';
import { startBalancer, type Balancer } from '../servers/balancer.js';
import { askStreamed, type Heard } from '../servers/streaming-client.js';

const QUEUE = 'agent-frozen';
const BATCH = 'programs';
const ROLLOUTS = 8;
const CALLS = 6;
const FROZEN_MS = 20_000;

async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return ports;
}

describe('programs behind one address of three workers, one of which is frozen for 20 s', () => {
  const heard: Heard[] = [];
  let bed: Testbed;
  let service: AgentService;
  let balancer: Balancer;
  let outcome: BatchOutcome;
  const folds: Trajectory[] = [];

  /** Half of them hold on to a connection that says nothing. */
  const program = async ({ task, run, signal }: Running) => {
    const patience_ms = Number(task.metadata['place']) % 2 === 0 ? 60_000 : 3000;
    let messages = task.message_log;
    for (let call = 0; call < CALLS; call++) {
      const content = await askStreamed(task, { messages, run, signal, patience_ms, heard });
      messages = [
        ...messages,
        { role: 'assistant', content },
        { role: 'user', content: `More ${call}.` },
      ];
    }
    return { reward: 1 };
  };

  before(async () => {
    bed = await startTestbed('agent-frozen');
    service = await startAgentService(program);
    const generation = await bed.simulate({
      default: { seed: 5, tokens_per_second: 25, thinking_tokens: 0 },
    });
    const ports = await freePorts(3);
    balancer = await startBalancer(ports);
    const start = (
      name: string,
      {
        at,
        roles,
      }: { at: number; roles: ('workflow' | 'generation' | 'environment' | 'gateway')[] },
    ): Promise<WorkerProcess> =>
      bed.startWorker({
        task_queue: QUEUE,
        name,
        generation,
        environments: { own: { kind: 'agent', run: { url: service.url } } },
        worker: {
          roles,
          heartbeat_timeout: '2s',
          gateway: {
            listen: `127.0.0.1:${ports[at]}`,
            advertise: balancer.url,
            direct: `http://127.0.0.1:${ports[at]}`,
          },
        },
      });
    const all = ['workflow', 'generation', 'environment'] as const;
    const [frozen] = await Promise.all([
      start('frozen', { at: 0, roles: ['environment'] }),
      start('other', { at: 1, roles: [...all] }),
      start('door', { at: 2, roles: ['gateway'] }),
    ]);
    const batch = await startBatch(bed.batch(BATCH, QUEUE), {
      samples: Array.from({ length: ROLLOUTS }, (_, place) => ({
        message_log: [{ role: 'user', content: `Tell a story of ${place}.` }],
        task_name: 'own',
        extra_env_info: { place },
      })),
      max_seq_len: 8192,
      max_rollout_turns: CALLS,
      generation: { max_new_tokens: 100, min_tokens: 80 },
    });
    const begun = (): number =>
      new Set(heard.filter(({ text }) => text !== '').map(({ run }) => run)).size;
    await eventually('a beginning of each rollout', () => begun() === ROLLOUTS);
    frozen.pause();
    await sleep(FROZEN_MS);
    frozen.resume();
    outcome = await batch.outcome();
    for (let row = 0; row < ROLLOUTS; row++) {
      const trajectory = emptyTrajectory();
      for (const line of await readJournal(bed.store_root, { batch_id: BATCH, row, repeat: 0 }))
        applyLine(trajectory, line);
      folds.push(trajectory);
    }
  });
  after(async () => {
    await service.close();
    await balancer.close();
    await bed.end();
  });

  test('all end with their reward, in one life, and nothing is sampled a second time', () => {
    assert.deepEqual(outcome.failures, []);
    assert.deepEqual(
      outcome.rollouts.map(({ total_reward, lives }) => [total_reward, lives]),
      Array.from({ length: ROLLOUTS }, () => [1, 1]),
    );
    assert.deepEqual(
      folds.map(({ calls }) => calls.length),
      Array.from({ length: ROLLOUTS }, () => CALLS),
    );
  });

  test('are told nothing that the journal does not have, on whatever connection', () => {
    for (const { run, messages, text, whole } of heard) {
      const row = Number(/\/(\d+)-0\./.exec(run)?.[1]);
      const { content } = folds[row]!.calls[(messages - 1) / 2]!.answer!;
      const said = `${run}, call ${(messages - 1) / 2}: ${JSON.stringify(text)} of ${JSON.stringify(content)}`;
      assert.ok(whole ? text === content : content.startsWith(text), said);
    }
  });

  test('were answered by other workers than the ones they asked, and by another one after the freeze', () => {
    const taken = outcome.rollouts.filter(({ attempts }) => attempts > 1).length;
    assert.ok(taken > 0, 'no rollout was taken over');
    assert.ok(
      heard.some(({ redirected, whole }) => redirected && whole),
      'no answer came from another address',
    );
    assert.equal([...balancer.led.values()].length, 3, 'a worker was never asked');
    assert.ok(
      heard.some(({ text, whole }) => text !== '' && !whole),
      'no stream was cut',
    );
  });
});
