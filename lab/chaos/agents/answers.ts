import {
  completion,
  firstEvent,
  lastEvents,
  newsEvents,
} from '../../../src/gateway/dialects/chat/chat-answer.js';
import { BEGINNING, piecesFrom } from '../../../src/gateway/deliver/pieces.js';
import type { Trajectory } from '../../../src/model/journal/trajectory.js';

/** The bytes of a call's answer, from its journal alone; null: it has none. As `Heard` has them. */
export function answerBytes(
  { calls }: Pick<Trajectory, 'calls'>,
  { rollout_id, turn, stream }: { rollout_id: string; turn: number; stream: boolean },
): string | null {
  const call = calls[turn];
  if (call?.answer == null) return null;
  const answering = { rollout_id, turn, call };
  const text = stream ? streamOf(answering) : JSON.stringify(completion(answering));
  return Buffer.from(text).toString('latin1');
}

function streamOf(answering: Parameters<typeof firstEvent>[0]): string {
  const {
    content = '',
    reasoning = '',
    tool_calls: calls = [],
    calls_at,
  } = answering.call.answer ?? {};
  const reading = { content, reasoning, calls, ended: true, ...(calls_at && { calls_at }) };
  const events = [
    firstEvent(answering),
    ...piecesFrom(reading, BEGINNING).news.flatMap((one) => newsEvents(answering, one)),
    ...lastEvents(answering, {}),
  ];
  return [...events.map((event) => `data: ${JSON.stringify(event)}\n\n`), 'data: [DONE]\n\n'].join(
    '',
  );
}

/** The call that bytes are of; null: they do not say it yet. */
export function callIn(bytes: string): number | null {
  const turn = /"id":"chatcmpl-[^"]*-(\d+)"/.exec(bytes)?.[1];
  return turn === undefined ? null : Number(turn);
}
