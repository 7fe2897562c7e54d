import path from 'node:path';
import { connectBatchClient } from '../../../src/client/batch-client.js';
import { onLoopback } from '../../../src/client/server.js';
import { allCompleted } from '../../../src/client/result-table.js';
import { watchBatch } from '../../../src/client/progress.js';
import { textsOf } from '../../../src/platform/lines.js';
import { INTERRUPTED, untilAborted } from '../../../src/platform/process/interrupts.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { linesToCopy } from '../../../dev/lines-to-copy.js';
import { putPrograms } from '../../../dev/programs-folder.js';
import type { StackSession } from '../../../dev/session.js';
import { inSession, throwIfPartFailed } from '../../../dev/session.js';
import type { Cluster } from './processes.js';
import { TASK_QUEUE, makeScratch, startCluster } from './processes.js';

export interface ClusterOptions {
  folder: string;
  /** End after the batch instead of staying up until Ctrl-C. */
  exit: boolean;
  num_repeats: number;
}

const BATCH = 'cluster';

/**
 * The processes of a cluster on one machine, and a batch on them. Resolves to the exit code: 0 if every rollout
 * completed, 130 if it was interrupted before the end.
 */
export async function runCluster(options: ClusterOptions): Promise<number> {
  const scratch = await makeScratch();
  try {
    return await inSession(options.folder, async (session) => {
      const cluster = await startCluster({ ...session.place, scratch: scratch.path });
      const code = await runBatch(session, { cluster, options });
      const { signal } = session.interrupts;
      if (!options.exit && !signal.aborted) {
        const programs = await putPrograms(session.place.folder, {
          cli: session.cli,
          env: process.env,
        });
        session.screen.say(linesOf(programs, cluster));
        await untilAborted(signal);
      }
      throwIfPartFailed(session.interrupts);
      return code;
    });
  } finally {
    await scratch.remove();
  }
}

async function runBatch(
  { screen, interrupts: { signal } }: StackSession,
  { cluster, options }: { cluster: Cluster; options: ClusterOptions },
): Promise<number> {
  const client = await connectBatchClient(onLoopback(cluster));
  try {
    const request = await requestOf(options);
    const batch = await client.start({ batchId: BATCH, taskQueue: TASK_QUEUE, request });
    screen.say(introduction(cluster));
    const outcome = await watchBatch({ batchId: BATCH, batch, screen, signal });
    if ('left' in outcome) return INTERRUPTED;
    return 'result' in outcome && allCompleted(outcome.result.counts) ? 0 : 1;
  } finally {
    await client.close();
  }
}

/**
 * The samples of the mixed example that need no service. They are inline in the request, because hosts share no folder
 * of inputs.
 */
async function requestOf({ num_repeats }: ClusterOptions): Promise<unknown> {
  const file = path.join(PROJECT_ROOT, 'examples', 'mixed', 'samples.jsonl');
  const samples: { task_name: string }[] = [];
  for await (const line of textsOf(file)) samples.push(JSON.parse(line) as { task_name: string });
  const tasks = ['sliding_puzzle', 'words'];
  return {
    samples: samples.filter(({ task_name }) => tasks.includes(task_name)),
    num_repeats,
    generation: { max_new_tokens: 256, seed: 17 },
    max_rollout_turns: 12,
    rollout_timeout: '10m',
  };
}

const introduction = ({ address, uiUrl, database, logs, outputs }: Cluster): string =>
  [
    `Temporal server  ${address}, Web UI ${uiUrl}`,
    `PostgreSQL       ${database}: journals`,
    'workers          workflow, generation and environment, two of each; each has a folder of its own',
    `outputs          ${path.relative('', outputs)}: results, all that workers share`,
    `logs             ${path.relative('', logs)}`,
    '',
  ].join('\n');

const linesOf = (programs: string | null, cluster: Cluster): string =>
  [
    '\nThe cluster stays up until Ctrl-C; kill any of its processes: it starts again. From another terminal:',
    ...linesToCopy({ ...cluster, root: process.cwd(), programs, env: process.env }).map(
      (line) => `  ${line}`,
    ),
    `  temporal-rollout show ${BATCH} --config ${path.relative('', cluster.config)}`,
  ].join('\n');
