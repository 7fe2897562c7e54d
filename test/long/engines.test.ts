import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { WorkflowUpdateFailedError } from '@temporalio/client';
import type { PolicyAnswers } from '../../src/client/policy-client.js';
import { connectPolicy } from '../../src/client/policy-client.js';
import { onLoopback } from '../../src/client/server.js';
import type { ReplicaEntry } from '../../src/model/policy/record.js';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import { startPolicyBed, TASK_QUEUE } from '../../lab/bed/policy-bed.js';
import { puzzleBatch } from '../../lab/bed/bed.js';
import type { SimulatorProcess } from '../../lab/bed/simulator.js';
import { eventually } from '../../lab/bed/waiting.js';

type Verb = 'engines' | 'join' | 'drain' | 'leave';

describe('engines that come and go', () => {
  let bed: PolicyBed;
  before(async () => {
    bed = await startPolicyBed({
      name: 'engines',
      replicas: 1,
      simulator: { log_tokens: true },
      generation: { allow: [{ cidr: '127.0.0.0/8', ports: '1-65535' }] },
    });
  });
  after(() => bed.end());

  const engine = async (
    settings: object = {},
  ): Promise<{ url: string; process: SimulatorProcess }> => {
    const { replica, process } = await bed.addEngine(settings);
    return { url: replica, process: process() };
  };
  const update = async (verb: Verb, input: object): Promise<PolicyAnswers[Verb]> => {
    const client = await connectPolicy(onLoopback(bed.server()), {
      service: 'default',
      task_queue: TASK_QUEUE,
    });
    try {
      return await client.update(verb, input);
    } finally {
      await client.close();
    }
  };
  const refusal = async (verb: Verb, input: object): Promise<string> => {
    try {
      await update(verb, input);
    } catch (error) {
      if (error instanceof WorkflowUpdateFailedError) return error.cause?.message ?? '';
      throw error;
    }
    throw new Error(`expected that ${verb} is refused`);
  };
  const entryOf = async (url: string): Promise<ReplicaEntry | undefined> =>
    (await bed.record())?.replicas[url];
  const comes = (url: string, is: (entry: ReplicaEntry | undefined) => boolean): Promise<unknown> =>
    eventually(`the state of ${url}`, async () => is(await entryOf(url)));
  const completions = async ({ url }: SimulatorProcess): Promise<number> => {
    const reply = await fetch(`${url}/simulator/requests`);
    return ((await reply.json()) as { requests: unknown[] }).requests.length;
  };

  test('serve before anything is published, as soon as they have been examined', async () => {
    const joiner = await engine();
    await update('join', { url: joiner.url });
    await comes(joiner.url, (entry) => entry?.state === 'current' && entry.examined);
    await bed.batch('joined').start(puzzleBatch({ samples: 8, repeats: 2, max_rollout_turns: 2 }));
    const { result } = await bed.batch('joined').outcome();
    assert.equal(result?.counts.completed, 16);
    assert.ok((await completions(joiner.process)) > 2, 'the joiner has played its share');
    await update('leave', { url: joiner.url });
    assert.equal(await entryOf(joiner.url), undefined);
  });

  test('get the version of the record before they serve, during a batch, and are cut off when they have drained', async () => {
    await bed.publish(await bed.weights(1));
    // Few at once, so that it lasts until the engine has joined, also on a busy machine.
    const few = { samples: 12, repeats: 2, max_rollout_turns: 4, max_in_flight: 3 };
    await bed.batch('moves').start(puzzleBatch(few));
    const joiner = await engine();
    await update('engines', { owner: 'job', urls: [joiner.url] });
    await comes(joiner.url, (entry) => entry?.state === 'current' && entry.version === 1);
    await eventually('requests', async () => (await completions(joiner.process)) > 4);
    await update('drain', { url: joiner.url, drain_limit: '1s' });
    await comes(joiner.url, (entry) => entry === undefined);
    const at = await completions(joiner.process);
    const { result } = await bed.batch('moves').outcome();
    assert.equal(result?.counts.completed, 24);
    assert.equal(await completions(joiner.process), at);
  });

  test('that are something else are never asked to generate, and say why', async () => {
    const other = await engine({ model: 'another' });
    await update('join', { url: other.url });
    await comes(other.url, (entry) =>
      /serves "simulator", got one that serves "another"/.test(entry?.fault ?? ''),
    );
    const short = await engine({ max_model_len: 64 });
    await update('join', { url: short.url });
    await comes(short.url, (entry) => /expected max_model_len 8192/.test(entry?.fault ?? ''));
    assert.equal((await completions(other.process)) + (await completions(short.process)), 0);
    for (const { url } of [other, short]) await update('leave', { url });
  });

  test('are refused outside allow, as the last one that leaves, and as an empty list', async () => {
    const [own] = bed.engines;
    assert.match(
      await refusal('join', { url: 'http://10.0.0.1:8000/v1' }),
      /expected what `allow` has/,
    );
    assert.match(
      await refusal('join', { url: 'http://127.0.0.1@10.0.0.1/v1' }),
      /without user name/,
    );
    assert.match(await refusal('drain', { url: own?.replica }), /got the last one/);
    assert.match(await refusal('engines', { owner: 'job', urls: [] }), /at least one engine/);
  });
});
