import { Readable } from 'node:stream';
import { describeError, shortened } from '../../src/platform/errors.js';
import { createHttpClient } from '../../src/platform/http/client.js';
import { neverConnected } from '../../src/platform/http/failure.js';
import { membersOf, objectText, type Members } from '../../src/platform/json/members.js';
import { lineMembers } from '../row.js';
import { usageOf } from './table/rollout-cells.js';

/** The metrics that an agent server computes from its results; each part as JSON text. */
export interface AgentMetrics {
  agent_metrics: string;
  key_metrics: string;
  /** A list. */
  group_level_metrics: string;
}

export interface AnswerLimits {
  /** For the whole call. */
  timeout_ms: number;
  /** Size limit of the answer, which is held in memory. */
  max_bytes: number;
}

export const ANSWER_LIMITS: AnswerLimits = { timeout_ms: 600_000, max_bytes: 64 * 2 ** 20 };

const CONNECT_TIMEOUT_MS = 10_000;

export interface AgentQuestion {
  /** The agent server's. */
  url: string;
  /** The lines of its results, in the order of their keys; the request is built from them while it is sent. */
  lines: Iterable<string>;
  limits: AnswerLimits;
  signal: AbortSignal;
}

/** The server computes none: it is not there, or has no such path. */
interface Absent {
  absent: string;
}
/** It should, and did not. */
interface Failed {
  failed: string;
}

/** There is nothing at this path, or nothing that takes a POST. */
const NO_SUCH_PATH: ReadonlySet<number> = new Set([404, 405, 501]);

/** `POST /aggregate_metrics` */
export async function askAgent({
  url,
  lines,
  limits: { timeout_ms, max_bytes },
  signal,
}: AgentQuestion): Promise<AgentMetrics | Absent | Failed> {
  const client = createHttpClient({ connect_timeout_ms: CONNECT_TIMEOUT_MS });
  try {
    const { status, text } = await client.exchange({
      method: 'POST',
      url: `${url}/aggregate_metrics`,
      headers: { 'content-type': 'application/json' },
      body: Readable.from(requestText(lines), { objectMode: false }),
      timeout_ms,
      max_bytes,
      signal,
    });
    if (NO_SUCH_PATH.has(status)) return { absent: `it answered ${status}` };
    if (status < 200 || status >= 300)
      return { failed: `it answered ${status}: ${shortened(text, MOST_SHOWN)}` };
    return answerOf(text);
  } catch (error) {
    signal.throwIfAborted();
    const why = describeError(error);
    return neverConnected(error) === null ? { failed: why } : { absent: why };
  } finally {
    await client.close();
  }
}

const MOST_SHOWN = 300;

const PIECE = 1 << 16;

function* requestText(lines: Iterable<string>): Generator<string> {
  let piece = '{"verify_responses":[';
  let before = '';
  for (const line of lines) {
    piece += before + strippedLine(line);
    before = ',';
    if (piece.length < PIECE) continue;
    yield piece;
    piece = '';
  }
  yield `${piece}]}`;
}

/** Upstream sends no conversations: only their usage is left. */
const HEAVY = [
  'response',
  'responses_create_params',
  'ng_agent_observations',
  'ng_model_call_capture',
  'ng_trajectory',
];

/** A result as it is sent; numbers keep their text. */
export function strippedLine(line: string): string {
  const members: Members = membersOf(line) ?? new Map<string, string>();
  const usage = usageOf(members);
  for (const name of HEAVY) members.delete(name);
  if (usage !== null && usage.size > 0) members.set('response', `{"usage":${objectText(usage)}}`);
  return objectText(members);
}

/** Upstream's `AggregateMetrics`, whose parts are all optional; at least one is required here. */
function answerOf(text: string): AgentMetrics {
  const members = lineMembers(text);
  if (typeof members === 'string') throw new Error(`its answer is no JSON (${members})`);
  const part = (name: keyof AgentMetrics, empty: '{}' | '[]'): string => {
    const value = members.get(name) ?? empty;
    if (value.startsWith(empty.charAt(0))) return value;
    throw new Error(`its answer has ${value.slice(0, 40)} as ${name}`);
  };
  const answer = {
    agent_metrics: part('agent_metrics', '{}'),
    key_metrics: part('key_metrics', '{}'),
    group_level_metrics: part('group_level_metrics', '[]'),
  };
  if (Object.keys(answer).some((name) => members.has(name))) return answer;
  const expected = 'expected {agent_metrics, key_metrics, group_level_metrics}';
  throw new Error(`${expected}, got ${text.slice(0, 100)}`);
}
