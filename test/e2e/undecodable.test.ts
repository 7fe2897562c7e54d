/** What a client sends that nobody can read is refused or ignored; no workflow task fails for it. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Payload } from '@temporalio/client';
import {
  ApplicationFailure,
  Client,
  WorkflowFailedError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import type { BatchProgress, RolloutProgress } from '../../src/activities/contract.js';
import type { StreamProgress } from '../../src/activities/contract/stream.js';
import type { Simulator } from '../../src/dev/simulator/server.js';
import { startSimulator } from '../../src/dev/simulator/server.js';
import { startBatch } from '../harness/batch.js';
import { puzzleRequest } from '../harness/puzzle-request.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../harness/waiting.js';

const QUEUE = 'undecodable';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const payload = (encoding: string, data: string): Payload => ({
  metadata: { encoding: bytes(encoding) },
  data: bytes(data),
});

/** One of each kind that no workflow can read, and what its refusal says. */
const KINDS: { what: string; sent: Payload; says: RegExp }[] = [
  {
    what: 'NaN',
    sent: payload('json/plain', '{"samples":[{"answer":NaN}]}'),
    says: /expected JSON, got something else: .*NaN/,
  },
  { what: 'cut JSON', sent: payload('json/plain', '{"samples": ['), says: /expected JSON, got / },
  {
    what: 'bytes that are no UTF-8',
    sent: { metadata: { encoding: bytes('json/plain') }, data: Uint8Array.of(0x22, 0xff, 0x22) },
    says: /expected JSON, got something else: .*utf-8/,
  },
  { what: 'no text', sent: payload('json/plain', ''), says: /expected JSON, got / },
  { what: 'no data', sent: { metadata: { encoding: bytes('json/plain') } }, says: /expected JSON/ },
  {
    what: "another client's codec",
    sent: payload('binary/encrypted', '\u0001\u0002'),
    says: /expected JSON, got a payload of encoding "binary\/encrypted"/,
  },
  { what: 'protobuf', sent: payload('json/protobuf', '{}'), says: /"json\/protobuf"/ },
  {
    what: 'no encoding',
    sent: { data: bytes('{}') },
    says: /a payload without metadata\.encoding/,
  },
];

describe('what nobody can read', { timeout: 240_000 }, () => {
  let bed: Testbed;
  let simulator: Simulator;
  let slow: Simulator;

  before(async () => {
    bed = await startTestbed('undecodable');
    const settings = { thinking_tokens: 8, skill: 0, seed: 1 };
    simulator = await startSimulator({ settings, port: 0 });
    slow = await startSimulator({ settings: { ...settings, tokens_per_second: 40 }, port: 0 });
    await bed.startWorker({
      task_queue: QUEUE,
      generation: {
        default: { kind: 'vllm', base_urls: [`${simulator.url}/v1`] },
        slow: { kind: 'vllm', base_urls: [`${slow.url}/v1`] },
      },
      environments: { sliding_puzzle: { kind: 'sliding_puzzle' } },
      worker: { turn_slice: '0s', heartbeat_timeout: '2s' },
    });
  });
  after(async () => {
    await bed.end();
    await simulator.close();
    await slow.close();
  });

  /** A client that sends this payload in place of every value. */
  const sending = (sent: Payload): Client => {
    const { connection, options } = bed.server.client;
    const codec = {
      encode: (values: Payload[]) => Promise.resolve(values.map(() => sent)),
      decode: (values: Payload[]) => Promise.resolve(values),
    };
    const dataConverter = { payloadCodecs: [codec] };
    return new Client({ connection, namespace: options.namespace, dataConverter });
  };

  let serial = 0;
  /** The fault of a workflow that is started with it; it has ten seconds. */
  const faultOf = async (type: string, { sent, id }: { sent: Payload; id?: string }) => {
    const workflowId = id ?? `unread-${++serial}`;
    const { workflow } = sending(sent);
    const handle = await workflow.start(type, { workflowId, taskQueue: QUEUE, args: [null] });
    const ended = handle.result().then(
      () => null,
      (error: unknown) => error,
    );
    const late = new Promise((resolve) => setTimeout(resolve, 10_000, 'it does not end').unref());
    const error = await Promise.race([ended, late]);
    assert.ok(error instanceof WorkflowFailedError, String(error));
    assert.ok(error.cause instanceof ApplicationFailure, String(error.cause));
    return error.cause;
  };

  for (const { what, sent, says } of KINDS) {
    test(`is refused as the input of a workflow of any type: ${what}`, async () => {
      for (const type of ['rolloutBatch', 'rolloutStream', 'rollout']) {
        const { type: fault, message } = await faultOf(type, { sent });
        assert.equal(fault, 'InvalidBatchRequest', message);
        assert.match(message, says);
      }
      for (const type of ['rolloutSlice', 'rolloutGroup', 'policy'])
        assert.equal((await faultOf(type, { sent })).type, 'InvalidBatchRequest');
    });
  }

  test('is refused also where its depth is what nobody can write again', async () => {
    const deep = `{"samples":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
    const { type, message } = await faultOf('rolloutBatch', { sent: payload('json/plain', deep) });
    assert.equal(type, 'InvalidBatchRequest', message);
    assert.match(
      message,
      /expected JSON, got something else: expected at most 512 levels, got more/,
    );
  });

  test('a workflow of a type that is none is refused with those that are', async () => {
    const { type, message } = await faultOf('rolloutbatch', { sent: payload('json/plain', '{}') });
    assert.equal(type, 'InvalidBatchRequest');
    assert.match(message, /^workflow type: expected rolloutBatch, .*, got "rolloutbatch"$/);
  });

  const SIGNALS = ['waiting', 'share', 'tally', 'limits', 'group', 'phase', 'recover', 'nobody'];

  const signalAll = async (id: string): Promise<void> => {
    const deep = payload('json/plain', `{"rollout_timeout":${'['.repeat(50_000)}${']'.repeat(50_000)}}`); // prettier-ignore
    for (const sent of [...KINDS.map((kind) => kind.sent), deep]) {
      const handle = sending(sent).workflow.getHandle(id);
      for (const signal of SIGNALS) await handle.signal(signal, null);
    }
  };

  /** All are refused by name. */
  const updateAll = async (id: string, updates: readonly string[]): Promise<void> => {
    for (const { sent, says } of KINDS) {
      const handle = sending(sent).workflow.getHandle(id);
      for (const update of updates)
        await assert.rejects(handle.executeUpdate(update, { args: [null] }), (error) => {
          assert.ok(error instanceof WorkflowUpdateFailedError, String(error));
          assert.match(error.cause?.message ?? '', says, update);
          return true;
        });
    }
  };

  const failedTasksOf = async (id: string): Promise<number> => {
    const { events } = await bed.server.client.workflow.getHandle(id).fetchHistory();
    return (events ?? []).filter((event) => event.workflowTaskFailedEventAttributes).length;
  };

  test('is ignored as a signal and refused as an update while batch and rollout go on, and stop is obeyed', async () => {
    const id = 'batch';
    const request = puzzleRequest({ samples: 2, num_repeats: 1 }, { max_rollout_turns: 100 });
    const generation = { ...(request['generation'] as object), service: 'slow' };
    const { handle, outcome } = await startBatch(bed.batch(id, QUEUE), { ...request, generation });
    const rollout = bed.server.client.workflow.getHandle(`${id}/0-0`);
    const isAt = (turn: number) =>
      eventually({ what: `turn ${turn}`, timeout_ms: 30_000 }, async () => {
        const progress = await rollout.query<RolloutProgress>('progress').catch(() => null);
        return progress !== null && progress.turn >= turn;
      });
    await isAt(1);
    for (const one of [id, `${id}/0-0`]) await signalAll(one);
    await updateAll(id, ['set_limits', 'set_max_in_flight', 'groups']);
    await updateAll(`${id}/0-0`, ['set_limits']);
    const { turn } = await rollout.query<RolloutProgress>('progress');
    await isAt(turn + 2);
    const { phase, running, waiting } = await handle.query<BatchProgress>('progress');
    assert.deepEqual({ phase, running, waiting }, { phase: 'running', running: 2, waiting: null });
    await sending(KINDS[0]!.sent).workflow.getHandle(id).signal('stop', null);
    const { result } = await outcome();
    assert.equal(result?.counts.stopped, 2);
    for (const one of [id, `${id}/0-0`, `${id}/1-0`]) assert.equal(await failedTasksOf(one), 0);
  });

  test('is ignored or refused by streams, their groups and policies', async () => {
    const id = 'stream';
    const { client } = bed.server;
    const input = { ...puzzleRequest({ samples: 2, num_repeats: 2 }), groups_per_step: 1 };
    const stream = await client.workflow.start('rolloutStream', {
      workflowId: id,
      taskQueue: QUEUE,
      args: [input],
    });
    const policy = await client.workflow.start('policy', {
      workflowId: 'policy/default',
      taskQueue: QUEUE,
      args: [{ service: 'default' }],
    });
    await eventually({ what: 'a group', timeout_ms: 30_000 }, async () => {
      const progress = await stream.query<StreamProgress>('progress').catch(() => null);
      return (progress?.admitted ?? 0) > 0;
    });
    for (const one of [id, 'policy/default']) await signalAll(one);
    await updateAll(id, ['next_step', 'forget', 'set_limits', 'set_max_in_flight']);
    await updateAll('policy/default', ['publish']);
    const step = await stream.executeUpdate<{ ready: boolean }, [object]>('next_step', {
      args: [{ step: 0, version: 0 }],
    });
    assert.equal(step.ready, true);
    await stream.signal('stop');
    await stream.result();
    await policy.terminate();
    for (const one of [id, 'policy/default', `${id}/0`]) assert.equal(await failedTasksOf(one), 0);
  });
});
