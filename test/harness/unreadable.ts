import assert from 'node:assert/strict';
import type { Payload } from '@temporalio/client';
import { Client, WorkflowUpdateFailedError } from '@temporalio/client';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

export const payload = (encoding: string, data: string): Payload => ({
  metadata: { encoding: bytes(encoding) },
  data: bytes(data),
});

export interface Unreadable {
  what: string;
  sent: Payload;
  /** What its refusal says. */
  says: RegExp;
}

/** One of each kind that no workflow can read. */
export const UNREADABLE: readonly Unreadable[] = [
  {
    what: 'NaN',
    sent: payload('json/plain', '{"samples":[{"answer":NaN}]}'),
    says: /expected JSON, got something else: .*NaN/,
  },
  { what: 'cut JSON', sent: payload('json/plain', '{"samples": ['), says: /expected JSON, got / },
  {
    what: 'bytes that are no UTF-8',
    sent: { metadata: { encoding: bytes('json/plain') }, data: Uint8Array.of(0x22, 0xff, 0x22) },
    says: /expected JSON, got something else: .*utf-8/,
  },
  { what: 'no text', sent: payload('json/plain', ''), says: /expected JSON, got / },
  { what: 'no data', sent: { metadata: { encoding: bytes('json/plain') } }, says: /expected JSON/ },
  {
    what: "another client's codec",
    sent: payload('binary/encrypted', '\u0001\u0002'),
    says: /expected JSON, got a payload of encoding "binary\/encrypted"/,
  },
  { what: 'protobuf', sent: payload('json/protobuf', '{}'), says: /"json\/protobuf"/ },
  {
    what: 'no encoding',
    sent: { data: bytes('{}') },
    says: /a payload without metadata\.encoding/,
  },
];

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
