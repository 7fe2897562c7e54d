import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from '@temporalio/client';
import { hostMs } from '../platform/waits/common-clock.js';
import { described } from './pollers.js';

const CLOCK = { name: 'rollouts-clock', type: 'workflow' } as const;
const LOOKS = 20;
const BETWEEN_LOOKS_MS = 50;

/**
 * By how much this host's clock is ahead of the Temporal server's, in milliseconds, to within the delay of a call; null
 * if the server does not say. It has no call for its time, but remembers when a worker asked for tasks: so this asks,
 * under a name of its own, on a task queue that has no others. The server keeps what it knows of a queue for ever, so
 * all use the same.
 */
export async function clockAhead(
  connection: Pick<Connection, 'workflowService' | 'withAbortSignal'>,
  { namespace }: { namespace: string },
): Promise<number | null> {
  const { workflowService } = connection;
  const identity = randomUUID();
  const polling = new AbortController();
  const asked_ms = hostMs();
  connection
    .withAbortSignal(polling.signal, () =>
      workflowService.pollWorkflowTaskQueue({
        namespace,
        taskQueue: { name: CLOCK.name },
        identity,
      }),
    )
    .catch(() => undefined);
  try {
    for (let looks = 0; looks < LOOKS; looks++) {
      const { pollers } = await described(workflowService, { namespace, ...CLOCK });
      const own = pollers.find((one) => one.identity === identity);
      const { seconds, nanos } = own?.lastAccessTime ?? {};
      if (seconds !== undefined) return asked_ms - Number(seconds) * 1000 - (nanos ?? 0) / 1e6;
      await sleep(BETWEEN_LOOKS_MS);
    }
    return null;
  } finally {
    polling.abort();
  }
}
