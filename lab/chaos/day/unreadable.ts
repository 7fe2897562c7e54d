import assert from 'node:assert/strict';
import type { Payload } from '@temporalio/client';
import { Client, WorkflowUpdateFailedError } from '@temporalio/client';
import type { Unreadable } from '../../../test/fakes/hostile-inputs.js';

/** Every signal that any workflow takes, and one that none does. */
const SIGNALS = ['waiting', 'share', 'tally', 'limits', 'group', 'phase', 'recover', 'nobody'];

/** A client that sends this payload in place of every value. */
export function sending({ connection, options }: Client, sent: Payload): Client {
  const codec = {
    encode: (values: Payload[]) => Promise.resolve(values.map(() => sent)),
    decode: (values: Payload[]) => Promise.resolve(values),
  };
  const dataConverter = { payloadCodecs: [codec] };
  return new Client({ connection, namespace: options.namespace, dataConverter });
}

/** Every signal but `stop`, which has no value to read. */
export async function signalUnreadably(
  client: Client,
  { id, sent }: { id: string; sent: Payload },
): Promise<void> {
  const handle = sending(client, sent).workflow.getHandle(id);
  for (const signal of SIGNALS) await handle.signal(signal, null);
}

/** Throws where one is not refused by name. */
export async function updateUnreadably(
  client: Client,
  { id, updates, sent, says }: { id: string; updates: readonly string[] } & Unreadable,
): Promise<void> {
  const handle = sending(client, sent).workflow.getHandle(id);
  for (const update of updates)
    await assert.rejects(handle.executeUpdate(update, { args: [null] }), (error) => {
      assert.ok(error instanceof WorkflowUpdateFailedError, String(error));
      assert.match(error.cause?.message ?? '', says, update);
      return true;
    });
}

/** How many workflow tasks have failed, those of resets included. */
export async function failedTasksOf(client: Client, id: string): Promise<number> {
  const { events } = await client.workflow.getHandle(id).fetchHistory();
  return (events ?? []).filter(({ workflowTaskFailedEventAttributes: failed }) => {
    // The server gives a task again if something came while it closed the workflow.
    return failed && failed.failure?.message !== 'UnhandledCommand';
  }).length;
}
