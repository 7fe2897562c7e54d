import type { Rollout } from '../../src/client/show/read-batch.js';
import type { CallMessage } from '../../src/model/calls/message.js';
import { textOf } from '../../src/model/content.js';
import { lastResult } from '../../src/model/journal/lives.js';
import { isProgram } from '../../src/model/journal/trajectory.js';
import type { Hit } from '../documents.js';
import type { Placed } from '../hits.js';
import { hitsAt } from '../hits.js';

const MOST_IN_A_ROLLOUT = 20;

export function hitsIn(rollout: Rollout, words: string): Hit[] {
  const hits: Hit[] = [];
  for (const hit of hitsAt(rollout, { texts: textsOf(rollout), words })) {
    hits.push(hit);
    if (hits.length >= MOST_IN_A_ROLLOUT) break;
  }
  return hits;
}

/** In the order of a page. */
function* textsOf({ trajectory, happenings }: Rollout): Generator<Placed> {
  const { start, calls, observations } = trajectory;
  const isAgent = isProgram(trajectory);
  for (const { content } of start?.prompt ?? []) yield { place: 'prompt', text: textOf(content) };
  for (const [number, { line, answer, sampled }] of calls.entries()) {
    for (const message of line.news) yield { place: `call ${number}`, text: saidIn(message) };
    const text = answer === null ? (sampled.generation?.content ?? sampled.text) : saidIn(answer);
    yield { place: `answer ${number}`, text };
    const message = isAgent ? null : observations[number]?.message;
    if (message != null) yield { place: `observation ${number}`, text: textOf(message.content) };
  }
  for (const { message } of isAgent ? observations : [])
    if (message !== null) yield { place: 'verdict', text: textOf(message.content) };
  for (const one of happenings)
    if (one.kind === 'fault') yield { place: 'fault', text: `${one.type}: ${one.message}` };
  const result = lastResult(trajectory);
  if (result !== null) yield { place: 'agent result', text: result.text };
}

/** With its thoughts and its calls of tools. */
const saidIn = ({ content, reasoning, tool_calls = [] }: Omit<CallMessage, 'role'>): string =>
  [reasoning ?? '', content, ...tool_calls.map((call) => `${call.name}(${call.arguments})`)]
    .filter((part) => part !== '')
    .join('\n');
