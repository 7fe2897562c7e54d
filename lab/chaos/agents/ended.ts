import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { LOOPBACK_CHANNEL } from '../../../src/client/server.js';
import { within } from '../../bed/waiting.js';

interface Waiting {
  server: { address: string; namespace: string };
  timeout_ms: number;
}

const EVERY_MS = 1000;
const CALL_MS = 20_000;

/** Resolves when the workflow has ended, also while its server is killed again and again: by a connection of its own. */
export async function untilEnded(id: string, { server, timeout_ms }: Waiting): Promise<void> {
  const { address, namespace } = server;
  const connection = await Connection.connect({ address, channelArgs: LOOPBACK_CHANNEL });
  const { workflow } = new Client({ connection, namespace });
  const look = async (): Promise<boolean> =>
    (await workflow.getHandle(id).describe()).status.name !== 'RUNNING';
  try {
    for (const end = performance.now() + timeout_ms; performance.now() < end;) {
      const hasEnded = await within({ what: 'the server', timeout_ms: CALL_MS }, look()).catch(
        () => false,
      );
      if (hasEnded) return;
      await sleep(EVERY_MS);
    }
    throw new Error(`the end of ${id}: not within ${timeout_ms / 1000} s`);
  } finally {
    await connection.close();
  }
}
