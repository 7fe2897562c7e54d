import { AssertionError } from 'node:assert';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { connectPolicy } from '../../../src/client/policy-client.js';
import { LOOPBACK_CHANNEL, onLoopback } from '../../../src/client/server.js';
import { describeError } from '../../../src/platform/errors.js';
import { textsInFolder } from '../../bed/journal-texts.js';
import { checkLabels } from '../../bed/policy-labels.js';
import { puzzleRequest } from '../../bed/puzzle-request.js';
import type { StreamToTest } from '../../bed/stream.js';
import { openStreamToTest } from '../../bed/stream.js';
import { eventually, within } from '../../bed/waiting.js';
import type { DeliveredStep } from '../judge-stream.js';
import { judgeStream } from '../judge-stream.js';
import type { Played } from '../played.js';
import type { KilledStack } from './npm-start.js';

const ID = 'killed-stream';
const STEPS = 24;
const GROUPS_PER_STEP = 2;
const REPEATS = 2;
const MAX_LAG = 1;
const STEP_WITHIN_MS = 4 * 60_000;
/** A call on a broken connection may hang; it is asked again. */
const CALL_WITHIN_MS = 40_000;

/** A trainer that publishes weights, asks for a step, and again, 24 times. */
export async function playStream(stack: KilledStack, begun: () => void): Promise<Played> {
  const { address, namespace, store_root, task_queue } = stack;
  const connection = await Connection.connect({ address, channelArgs: LOOPBACK_CHANNEL });
  try {
    const client = new Client({ connection, namespace });
    const stream = openStreamToTest({ client: () => client, store_root, id: ID, task_queue });
    const steps: DeliveredStep[] = [];
    for (let step = 0; step < STEPS; step++) {
      await insisting(`publish ${step}`, () => publish(stack, step));
      if (step === 0) {
        await insisting('the start', () => started(stream));
        begun();
      }
      const result = await insisting(`step ${step}`, () => stream.step(step, step));
      steps.push({ result, hash: await stream.hash(step) });
    }
    await insisting('the stop', () => stream.handle().signal('stop'));
    await insisting('its end', () => stream.handle().result());
    // Groups that are no longer delivered end after it; until then journals and the engine's log may differ.
    const query = `WorkflowId STARTS_WITH '${ID}' AND ExecutionStatus = 'Running'`;
    await eventually(
      'the end of its groups',
      async () => (await client.workflow.count(query)).count === 0,
    );
    return await judge(stream, { steps, stack });
  } finally {
    await connection.close();
  }
}

/** As a trainer does: what fails for want of a server is asked again. A wrong step stays wrong. */
async function insisting<T>(what: string, ask: () => Promise<T>): Promise<T> {
  for (const end = performance.now() + STEP_WITHIN_MS; ;) {
    try {
      return await within({ what, timeout_ms: CALL_WITHIN_MS }, ask());
    } catch (error) {
      if (error instanceof AssertionError) throw error;
      if (performance.now() > end) throw new Error(`${what}: ${describeError(error)}`);
      await sleep(500);
    }
  }
}

async function publish(
  { directory, task_queue, ...server }: KilledStack,
  version: number,
): Promise<void> {
  const file = path.join(directory, `weights-${version}.json`);
  const weights = { name: String(version), skill: 1 + (version % 3), seed: version };
  await writeFile(file, JSON.stringify(weights));
  const policy = await connectPolicy(onLoopback(server), { service: 'default', task_queue });
  try {
    await policy.update('publish', { version, weights: { kind: 'checkpoint', path: file } });
  } finally {
    await policy.close();
  }
}

/** Also if an earlier call has started it and its answer was lost. */
async function started(stream: StreamToTest): Promise<void> {
  const size = { samples: 8, num_repeats: REPEATS };
  const generation = { seed: 3, max_new_tokens: 256 };
  await stream
    .start({
      ...puzzleRequest(size, { generation, max_rollout_turns: 3 }),
      ...{ groups_per_step: GROUPS_PER_STEP, max_lag: MAX_LAG },
    })
    .catch((error: unknown) => {
      if (!(error instanceof Error && error.name === 'WorkflowExecutionAlreadyStartedError'))
        throw error;
    });
}

async function judge(
  stream: StreamToTest,
  { steps, stack }: { steps: readonly DeliveredStep[]; stack: KilledStack },
): Promise<Played> {
  const size = { groups_per_step: GROUPS_PER_STEP, num_repeats: REPEATS };
  const { lag, problems, ...judged } = await judgeStream(stream, { steps, ...size });
  if (lag.over > 0) problems.push(`${lag.over} groups have tokens beyond max_lag ${MAX_LAG}`);
  const journals = await textsInFolder(path.join(stack.store_root, ID, 'journals'));
  const labels = await checkLabels({ journals, engines: [stack] });
  return { name: 'stream', ...judged, labels, problems };
}
