import type { CallMessage } from '../../model/calls/message.js';
import { messageOf } from '../../model/calls/message.js';
import { messagesBeyond } from '../../model/journal/calls.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { plainLine } from '../../platform/plain.js';

/** Where a program that began again asked something else than before: `at message 0: "…tmp.a81" / "…tmp.b07"`. */

const BEFORE = 12;
const BEHIND = 40;

/** null: it has not diverged. Messages count from 0 as the agent sends them, the system message among them. */
export function divergenceText(trajectory: Trajectory, number: number): string | null {
  const { calls, materials } = trajectory;
  const line = calls[number]?.line;
  const { call: before, message } = line?.diverged ?? {};
  const earlier = before === undefined ? undefined : calls[before]?.line;
  if (line === undefined || before === undefined || earlier === undefined) return null;
  const of = `from call ${before}`;
  if (message === undefined) {
    if (line.system === earlier.system) return `${of} in its tools`;
    const [then = '', now = ''] = [earlier, line].map(
      ({ system }) => materials.get(system ?? '')?.system,
    );
    return `${of} at message 0: ${difference(then, now)}`;
  }
  const place = { before, number, message };
  return `${of} ${differenceAt(trajectory, place) ?? 'in what it asks beside its messages'}`;
}

/** What the agent has changed in a conversation: `from call 1 at message 3: "call_1_0: …" / "a7: …"`. null: it has not. */
export function editText(trajectory: Trajectory, number: number): string | null {
  const { cause, parent, message } = trajectory.calls[number]?.line ?? {};
  if (cause !== 'edited' || parent == null || message === undefined) return null;
  const found = differenceAt(trajectory, { before: parent, number, message });
  return found === null ? null : `from call ${parent} ${found}`;
}

function differenceAt(
  trajectory: Trajectory,
  { before, number, message }: { before: number; number: number; message: number },
): string | null {
  const calls = [before, number];
  const [then, now] = calls.map((call) => messageAt(trajectory, { call, message }));
  const system = trajectory.calls[number]?.line.system ?? null;
  const at = `at message ${message + (system === null ? 0 : 1)}`;
  // What it says first: where that is the same, ids and blanks count.
  for (const textOf of [saidIn, wholeOf]) {
    const [one, other] = [then, now].map((found) => (found === undefined ? '' : textOf(found)));
    if (one !== other) return `${at}: ${difference(one ?? '', other ?? '')}`;
  }
  return null;
}

/** A message of a conversation, the answer counted. */
function messageAt(
  { calls }: Pick<Trajectory, 'calls'>,
  { call, message }: { call: number; message: number },
): CallMessage | undefined {
  const asked = messagesBeyond(calls, { number: call, first: message })[0];
  const of = calls[call];
  const answer = of?.answer != null && message === of.messages ? messageOf(of.answer) : undefined;
  return asked ?? answer;
}

export const saidIn = ({ content, tool_calls = [] }: CallMessage): string =>
  [content, ...tool_calls.map(({ name, arguments: given }) => `${name}(${given})`)]
    .join(' ')
    .trim();

const wholeOf = ({ role, content, tool_calls = [], tool_call_id = '' }: CallMessage): string =>
  [
    ...tool_calls.map(({ id, name }) => `${id}: ${name}`),
    ...(tool_call_id === '' ? [] : [`of ${tool_call_id}`]),
    ...[content, role],
  ].join(' ');

/** Both texts around the first character in which they differ. */
export function difference(then: string, now: string): string {
  let at = 0;
  while (at < then.length && then[at] === now[at]) at += 1;
  const first = Math.max(0, at - BEFORE);
  const part = (text: string): string => {
    const end = at + BEHIND;
    const shown = plainLine(text.slice(first, end)).replace(/\s+/g, ' ').trim();
    return `"${first > 0 ? '…' : ''}${shown}${text.length > end ? '…' : ''}"`;
  };
  const [one, other] = [part(then), part(now)];
  if (one !== other) return `${one} / ${other}`;
  // Blanks alone.
  const exact = (text: string): string => plainLine(JSON.stringify(text.slice(first, at + BEHIND)));
  return `${exact(then)} / ${exact(now)}`;
}
