import type { BatchProgress } from '../../activities/contract.js';
import type { Server, ServerAddress } from '../server.js';
import { openServerToLook } from '../server.js';
import type { Run } from './listed.js';

/** What a Temporal server has of batches and streams. */
export interface Runs {
  /** The newest run of each, and why there may be more; rejects if the server does not answer. */
  list: () => Promise<Run[]>;
  /** null: no answer within two seconds. */
  progressOf: (batchId: string) => Promise<BatchProgress | null>;
  close: () => Promise<void>;
}

const KINDS = { rolloutBatch: 'batch', rolloutStream: 'stream' } as const;
const QUERY = `WorkflowType IN (${Object.keys(KINDS).map((type) => `'${type}'`).join(', ')})`; // prettier-ignore

/** Runs that are read at most. A stream has one for each of its continuations. */
const MOST_RUNS = 10_000;
const LIST_MS = 10_000;
const PROGRESS_MS = 2000;

export function openRuns(address: ServerAddress): Runs {
  const server = openServerToLook(address);
  return {
    list: () => server.within(LIST_MS, () => listRuns(server)),
    progressOf: (batchId) => {
      const handle = server.client.workflow.getHandle(batchId);
      const asking = () => handle.query<BatchProgress>('progress');
      return server.within(PROGRESS_MS, asking).catch(() => null);
    },
    close: server.close,
  };
}

/** The server gives the open ones and the newest first. */
async function listRuns({ client }: Server): Promise<Run[]> {
  const runs = new Map<string, Run>();
  let read = 0;
  for await (const found of client.workflow.list({ query: QUERY })) {
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
