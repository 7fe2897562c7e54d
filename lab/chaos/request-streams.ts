import type { LogLine, Outcome, RequestEntry } from '../../simulator/request-log.js';

/** One completion request as the engine's log describes it. Times are milliseconds since the epoch. */
export interface Stream {
  rollout_id: string;
  turn: number;
  writer: string;
  /** null: the engine did not read the request. */
  prompt_tokens: number | null;
  tokens_sent: number;
  fault: string | null;
  outcome: Outcome;
  /** Sent to its natural end. */
  whole: boolean;
  arrived_at: number;
  /** The end of a stream without a logged end (its engine was killed): a second after its last logged token. */
  ended_at: number;
  sent: { at: number; tokens_sent: number }[];
}

/** Requests whose id names their rollout and turn, in order of arrival. */
export function streamsOf(lines: readonly LogLine[]): Stream[] {
  const streams = new Map<string, Stream>();
  for (const line of lines) {
    const key = `${line.at} ${line.request_id ?? ''}`;
    if (line.event === 'arrived') {
      const stream = arrivedStream(line);
      if (stream !== null) streams.set(key, stream);
      continue;
    }
    const stream = streams.get(key);
    if (stream === undefined) continue;
    stream.tokens_sent = line.tokens_sent;
    const at = Date.parse(line.logged_at);
    if (line.event === 'sent') stream.sent.push({ at, tokens_sent: line.tokens_sent });
    else {
      stream.outcome = line.outcome;
      stream.whole = line.outcome === 'complete' && line.finish_reason !== 'abort';
      stream.ended_at = at;
    }
  }
  return Array.from(streams.values(), ended);
}

function arrivedStream(entry: RequestEntry): Stream | null {
  const { rollout_id, turn, writer, prompt_tokens, fault } = entry;
  if (rollout_id === null || turn === null || writer === null) return null;
  return {
    ...{ rollout_id, turn, writer, prompt_tokens, fault },
    tokens_sent: 0,
    outcome: 'open',
    whole: false,
    arrived_at: Date.parse(entry.at),
    ended_at: Infinity,
    sent: [],
  };
}

/** Tokens go out every few hundredths of a second. */
const SILENCE_MS = 1000;

function ended(stream: Stream): Stream {
  if (stream.ended_at !== Infinity) return stream;
  const { arrived_at, sent } = stream;
  return { ...stream, ended_at: (sent.at(-1)?.at ?? arrived_at) + SILENCE_MS };
}

/** Tokens that were sent after a moment. */
export function sentAfter({ sent, tokens_sent }: Stream, moment: number): number {
  const before = sent.findLast(({ at }) => at <= moment);
  return tokens_sent - (before?.tokens_sent ?? 0);
}

/** Open at some time between the two moments. */
export const openBetween = (
  streams: readonly Stream[],
  { from, to }: { from: number; to: number },
): Stream[] => streams.filter(({ arrived_at, ended_at }) => arrived_at <= to && ended_at > from);
