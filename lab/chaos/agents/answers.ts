import { BEGINNING, piecesFrom } from '../../../src/gateway/deliver/pieces.js';
import { CHAT } from '../../../src/gateway/dialects/dialects.js';
import type { Answering } from '../../../src/gateway/dialects/dialect.js';
import type { Trajectory } from '../../../src/model/journal/trajectory.js';

/** The bytes of a call's answer, from its journal alone; null: it has none. As `Heard` has them. */
export function answerBytes(
  { calls }: Pick<Trajectory, 'calls'>,
  { rollout_id, turn, stream }: { rollout_id: string; turn: number; stream: boolean },
): string | null {
  const call = calls[turn];
  if (call?.answer == null) return null;
  const answering = { rollout_id, turn, call };
  const text = stream ? streamOf(answering) : JSON.stringify(CHAT.answer(answering));
  return Buffer.from(text).toString('latin1');
}

function streamOf(answering: Answering): string {
  const {
    content = '',
    reasoning = '',
    tool_calls: calls = [],
    calls_at,
  } = answering.call.answer ?? {};
  const reading = { content, reasoning, calls, ended: true, ...(calls_at && { calls_at }) };
  const { first, news, last } = CHAT.stream;
  const said = piecesFrom(reading, BEGINNING).news.map((one) => news(answering, one));
  return [first(answering), ...said, last(answering, {})].join('');
}

/** The call that bytes are of; null: they do not say it yet. */
export function callIn(bytes: string): number | null {
  const turn = /"id":"chatcmpl-[^"]*-(\d+)"/.exec(bytes)?.[1];
  return turn === undefined ? null : Number(turn);
}
