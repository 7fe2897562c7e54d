import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { connectPolicy } from '../../src/client/policy-client.js';
import { LOOPBACK_CHANNEL, onLoopback } from '../../src/client/server.js';
import { describeError } from '../../src/platform/errors.js';
import type { Row } from '../../src/model/results/row.js';
import { checkLabels } from '../../test/harness/policy-labels.js';
import { puzzleRequest } from '../../test/harness/puzzle-request.js';
import type { StreamToTest } from '../../test/harness/stream-bed.js';
import { openStreamToTest } from '../../test/harness/stream-bed.js';
import { eventually, within } from '../../test/harness/waiting.js';
import type { Played } from './report.js';
import type { KilledStack } from './stack.js';

const ID = 'killed-stream';
const STEPS = 24;
const GROUPS_PER_STEP = 2;
const REPEATS = 2;
const MAX_LAG = 1;
const STEP_WITHIN_MS = 4 * 60_000;
/** A call on a broken connection may hang. */
const CALL_WITHIN_MS = 40_000;

/** A trainer that publishes weights, asks for a step, and again, 24 times. */
export async function playStream(stack: KilledStack, begun: () => void): Promise<Played> {
  const { address, namespace, store_root, task_queue } = stack;
  const connection = await Connection.connect({ address, channelArgs: LOOPBACK_CHANNEL });
  try {
    const client = new Client({ connection, namespace });
    const stream = openStreamToTest({ client: () => client, store_root, id: ID, task_queue });
    const hashes: string[] = [];
    for (let step = 0; step < STEPS; step++) {
      await insisting(`publish ${step}`, () => publish(stack, step));
      if (step === 0) {
        await insisting('the start', () => started(stream));
        begun();
      }
      await insisting(`step ${step}`, () => stream.step(step, step));
      hashes.push(await stream.hash(step));
    }
    await insisting('the stop', () => stream.handle().signal('stop'));
    await insisting('its end', () => stream.handle().result());
    // Groups that are no longer delivered end after it; until then journals and the engine's log may differ.
    const query = `WorkflowId STARTS_WITH '${ID}' AND ExecutionStatus = 'Running'`;
    await eventually(
      { what: 'the end of its groups', timeout_ms: CALL_WITHIN_MS },
      async () => (await client.workflow.count(query)).count === 0,
    );
    return await judge(stream, { hashes, stack });
  } finally {
    await connection.close();
  }
}

/** As a trainer does: what fails for want of a server is asked again. */
async function insisting(what: string, ask: () => Promise<unknown>): Promise<void> {
  for (const end = performance.now() + STEP_WITHIN_MS; ;) {
    try {
      await within({ what, timeout_ms: CALL_WITHIN_MS }, ask());
      return;
    } catch (error) {
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
    await policy.publish({ version, weights: { kind: 'checkpoint', path: file } });
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
  { hashes, stack }: { hashes: readonly string[]; stack: KilledStack },
): Promise<Played> {
  const rows: Row[] = [];
  const groups: number[] = [];
  let [failures, steps_changed] = [0, 0];
  const problems: string[] = [];
  for (const [step, hash] of hashes.entries()) {
    const own = await stream.rows(step);
    rows.push(...own);
    groups.push(...(await stream.fact(step)).groups);
    failures += (await stream.failures(step)).length;
    if ((await stream.hash(step)) !== hash) steps_changed += 1;
    for (const { rollout_id, policy_versions } of own)
      for (const { version } of policy_versions)
        if (version !== null && Number(version) < step - MAX_LAG)
          problems.push(`${rollout_id} of step ${step} has tokens of version ${version}`);
  }
  if (new Set(groups).size !== groups.length) problems.push('a group was delivered twice');
  const journals = path.join(stack.store_root, ID, 'journals');
  const ids = rows.map(({ rollout_id }) => rollout_id);
  return {
    name: 'stream',
    rows_expected: STEPS * GROUPS_PER_STEP * REPEATS,
    rows: new Set(ids).size,
    rows_duplicated: ids.length - new Set(ids).size,
    failures,
    ...{ steps: hashes.length, steps_changed },
    labels: await checkLabels({ journals, engines: [stack] }),
    problems,
  };
}
