import type { BatchProgress } from '../../activities/contract.js';
import type { Server, ServerAddress } from '../server.js';
import { onQueue, openServerToLook } from '../server.js';
import type { Run } from './list-table.js';

const KINDS = { rolloutBatch: 'batch', rolloutStream: 'stream' } as const;
const QUERY = `WorkflowType IN (${Object.keys(KINDS)
  .map((type) => `'${type}'`)
  .join(', ')})`;

/** Runs that are read at most. A stream has one for each of its continuations. */
const MOST_RUNS = 10_000;
const LIST_MS = 10_000;
/** For one answer, and for all of them together. */
const PROGRESS_MS = { one: 2000, all: 4000 };
const AT_ONCE = 16;

/** What a Temporal server has of batches and streams. */
export function openRuns(address: ServerAddress) {
  const server = openServerToLook(address);
  return {
    /** The newest run of each; rejects if the server does not answer. */
    list: () => server.within(LIST_MS, () => listRuns(server)),
    /** The progress of those that answer within a few seconds, however many are asked. */
    progressOf: (batchIds: readonly string[]) => progressOfAll(server, batchIds),
    close: server.close,
  };
}

type Asked = Pick<Server, 'client' | 'within'> & { limit_ms?: typeof PROGRESS_MS };

/** Without a worker nobody answers, and each question takes all of its time. */
export async function progressOfAll(
  { client, within, limit_ms = PROGRESS_MS }: Asked,
  batchIds: readonly string[],
): Promise<Map<string, BatchProgress>> {
  const found = new Map<string, BatchProgress>();
  const until = performance.now() + limit_ms.all;
  const left = batchIds.values();
  const askNext = async (): Promise<void> => {
    for (const id of left) {
      const ms = Math.min(limit_ms.one, until - performance.now());
      if (ms <= 0) return;
      const asking = () => client.workflow.getHandle(id).query<BatchProgress>('progress');
      const progress = await within(ms, asking).catch(() => null);
      if (progress !== null) found.set(id, progress);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, askNext));
  return found;
}

/** The server gives the open ones and the newest first. */
async function listRuns({ client, taskQueue }: Server): Promise<Run[]> {
  const runs = new Map<string, Run>();
  let read = 0;
  for await (const found of client.workflow.list({ query: `${QUERY}${onQueue(taskQueue)}` })) {
    const { workflowId: id, type, status, startTime } = found;
    const kind = KINDS[type as keyof typeof KINDS];
    const known = runs.get(id);
    const started_ms = startTime.getTime();
    if (known === undefined || known.started_ms < started_ms)
      runs.set(id, { id, kind, status: status.name, started_ms });
    if (++read >= MOST_RUNS) break;
  }
  return [...runs.values()];
}
