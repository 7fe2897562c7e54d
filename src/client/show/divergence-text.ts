import type { CallMessage } from '../../model/calls/message.js';
import { messageOf } from '../../model/calls/message.js';
import { messagesBeyond } from '../../model/journal/calls.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { plainLine } from '../../platform/plain.js';

/** Where a program that began again asked something else than before: `at message 0: "…tmp.a81" / "…tmp.b07"`. */

/** Before the first difference, and behind it. */
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
  const [then, now] = [before, number].map((call) => textAt(trajectory, { call, message }));
  if (then === now) return `${of} in what it asks beside its messages`;
  const at = message + (line.system === null ? 0 : 1);
  return `${of} at message ${at}: ${difference(then ?? '', now ?? '')}`;
}

/** Of a conversation, the answer counted. */
function textAt(
  { calls }: Pick<Trajectory, 'calls'>,
  { call, message }: { call: number; message: number },
): string | undefined {
  const asked = messagesBeyond(calls, { number: call, first: message })[0];
  const of = calls[call];
  const answer = of?.answer != null && message === of.messages ? messageOf(of.answer) : undefined;
  const found = asked ?? answer;
  return found === undefined ? undefined : textOf(found);
}

const textOf = ({ content, tool_calls = [] }: CallMessage): string =>
  [content, ...tool_calls.map(({ name, arguments: given }) => `${name}(${given})`)]
    .join(' ')
    .trim();

/** Both texts around the first character in which they differ. */
function difference(then: string, now: string): string {
  let at = 0;
  while (at < then.length && then[at] === now[at]) at += 1;
  const first = Math.max(0, at - BEFORE);
  const part = (text: string): string => {
    const end = at + BEHIND;
    const shown = plainLine(text.slice(first, end)).replace(/\s+/g, ' ').trim();
    return `"${first > 0 ? '…' : ''}${shown}${text.length > end ? '…' : ''}"`;
  };
  return `${part(then)} / ${part(now)}`;
}
