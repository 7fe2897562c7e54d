import type { WorkflowExecutionDescription } from '@temporalio/client';
import { describedAs } from '../../client/batch-client.js';
import type { Server } from '../../client/server.js';
import { lastSeen, openServerToLook, query } from '../../client/server.js';
import type { Waiting } from '../../model/results/answers.js';
import { waitingText } from '../../model/workflow-safe/waiting.js';
import { plainLine } from '../../platform/plain.js';
import { LATE, within } from '../../platform/waits/abort.js';
import { isOpen, whyDelayed } from '../../temporal/workflow-status.js';
import { waitOfDescribed } from '../../workers/wait-of.js';
import { temporalSettings } from '../temporal-settings.js';

/** A page waits no longer for what the server knows beyond the journals. */
const BRIEF_MS = 2000;

/** Why the first of these workflows that is there waits: only the server knows. null: it does not, or no quick answer. */
export async function waitingNow(
  config: string | undefined,
  ids: readonly string[],
): Promise<string | null> {
  const settings = await temporalSettings(config).catch(() => null);
  if (settings === null) return null;
  const server = openServerToLook(settings.server);
  try {
    const found = await within(
      BRIEF_MS,
      waitOfFirst(server, ids).catch(() => null),
    );
    return found === LATE || found === null ? null : plainLine(found);
  } finally {
    await server.close();
  }
}

async function waitOfFirst(server: Server, ids: readonly string[]): Promise<string | null> {
  for (const id of ids) {
    const described = await describedAs(id, { server, ms: BRIEF_MS });
    if (described !== null) return isOpen(described) ? await waitOf(server, described) : null;
  }
  return null;
}

async function waitOf(
  server: Server,
  described: WorkflowExecutionDescription,
): Promise<string | null> {
  const delayed = whyDelayed(described);
  if (delayed !== null) return delayed;
  const told = await waitOfDescribed(described, { client: server.client, slots: true });
  if (told !== null) return lineOf(told);
  const { workflowId, taskQueue } = described;
  const seen = await lastSeen(server, { workflowId, taskQueue });
  if (typeof seen === 'string') return seen;
  const { waiting } = await query<{ waiting: Waiting | null }>(server, {
    workflowId,
    name: 'progress',
  });
  return waiting && lineOf(waiting);
}

const lineOf = (waiting: Waiting): string => `waiting for ${waitingText(waiting)}`;
