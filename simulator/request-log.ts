import { appendFileSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { isProbe } from './probe.js';
import type { SimulatorSettings } from './settings.js';

/** How a completion request ended; `rejected`: an HTTP error, `cut`: no finish reason was sent, `error`: one in the stream. */
export type Outcome = 'open' | 'complete' | 'aborted' | 'cut' | 'rejected' | 'error';

/** What the server records of one completion request. */
export interface RequestEntry {
  /** `X-Request-Id`, of the form `<rollout_id>.<turn>.<writer>`; the next three are its parts, or null. */
  request_id: string | null;
  session_id: string | null;
  rollout_id: string | null;
  turn: number | null;
  writer: string | null;
  /** null if the request could not be read. */
  prompt_tokens: number | null;
  tokens_sent: number;
  finish_reason: string | null;
  outcome: Outcome;
  /** The injected fault that hit it. */
  fault: string | null;
  /** When it arrived, ISO 8601. */
  at: string;
  seed: number | null;
  /** Which weights sampled its tokens: runs of token positions. */
  weights: WeightsRun[];
}

export interface WeightsRun {
  start: number;
  end: number;
  weights: string;
}

export type Arrival = Pick<
  RequestEntry,
  'request_id' | 'session_id' | 'prompt_tokens' | 'fault' | 'seed'
>;

export interface TurnCounts {
  requests: number;
  tokens: number;
}

/** By rollout, then by turn. */
export type Counts = Record<string, Record<string, TurnCounts>>;

/** A line of `log_file`. `logged_at`: when it was written, ISO 8601. */
export type LogLine =
  | (RequestEntry & { event: 'arrived' | 'ended'; logged_at: string })
  | (Pick<RequestEntry, 'request_id' | 'at' | 'tokens_sent' | 'weights'> & {
      event: 'sent';
      logged_at: string;
    });

/** One request's line in the log. */
export interface RequestRecord {
  readonly entry: RequestEntry;
  sent(tokens: number): void;
  sampled(run: WeightsRun): void;
  /** Only the first one counts. */
  end(outcome: Outcome, finish_reason?: string | null): void;
}

export interface RequestLog {
  arrive(arrival: Arrival): RequestRecord;
  /** The latest `log_limit` requests, oldest first. */
  entries(): RequestEntry[];
  /** Exact, however many requests there were. */
  counts(): Counts;
  reset(): void;
}

export function createRequestLog({
  log_limit,
  log_file,
  log_tokens,
}: Pick<SimulatorSettings, 'log_limit' | 'log_file' | 'log_tokens'>): RequestLog {
  const recent = new Set<RequestEntry>();
  const rollouts = new Map<string, Map<number, TurnCounts>>();
  const append = createAppender(log_file);
  return {
    arrive(arrival) {
      const entry = newEntry(arrival);
      if (isProbe(entry.session_id))
        return createRecord({
          entry,
          counts: { requests: 0, tokens: 0 },
          append: () => undefined,
          log_tokens,
        });
      recent.add(entry);
      for (const oldest of recent) {
        if (recent.size <= log_limit) break;
        recent.delete(oldest);
      }
      const counts = countsOf(rollouts, entry);
      counts.requests += 1;
      append('arrived', entry);
      return createRecord({ entry, counts, append, log_tokens });
    },
    entries: () => [...recent],
    counts: () =>
      Object.fromEntries(
        Array.from(rollouts, ([id, turns]) => [id, Object.fromEntries(turns)] as const),
      ),
    reset() {
      recent.clear();
      rollouts.clear();
    },
  };
}

type Append = (event: LogLine['event'], entry: RequestEntry) => void;

/** One `write` per line, at once: a killed process loses none. */
function createAppender(file: string | null): Append {
  if (file === null) return () => undefined;
  mkdirSync(path.dirname(path.resolve(file)), { recursive: true });
  return (event, entry) => {
    const { request_id, at, tokens_sent, weights } = entry;
    const said = event === 'sent' ? { request_id, at, tokens_sent, weights } : entry;
    const line = { event, logged_at: new Date().toISOString(), ...said };
    appendFileSync(file, `${JSON.stringify(line)}\n`);
  };
}

function newEntry(arrival: Arrival): RequestEntry {
  const parts = /^(.+)\.(\d+)\.([^.]+)$/s.exec(arrival.request_id ?? '');
  return {
    request_id: arrival.request_id,
    session_id: arrival.session_id,
    rollout_id: parts?.[1] ?? null,
    turn: parts === null ? null : Number(parts[2]),
    writer: parts?.[3] ?? null,
    prompt_tokens: arrival.prompt_tokens,
    tokens_sent: 0,
    finish_reason: null,
    outcome: 'open',
    fault: arrival.fault,
    at: new Date().toISOString(),
    seed: arrival.seed,
    weights: [],
  };
}

/** The counters of the entry's turn; for a request without a turn, counters that are not shown. */
function countsOf(
  rollouts: Map<string, Map<number, TurnCounts>>,
  { rollout_id, turn }: RequestEntry,
): TurnCounts {
  const fresh = { requests: 0, tokens: 0 };
  if (rollout_id === null || turn === null) return fresh;
  const turns = rollouts.get(rollout_id) ?? new Map<number, TurnCounts>();
  rollouts.set(rollout_id, turns);
  const counts = turns.get(turn) ?? fresh;
  turns.set(turn, counts);
  return counts;
}

function createRecord({
  entry,
  counts,
  append,
  log_tokens,
}: {
  entry: RequestEntry;
  counts: TurnCounts;
  append: Append;
  log_tokens: boolean;
}): RequestRecord {
  return {
    entry,
    sent(tokens) {
      entry.tokens_sent += tokens;
      counts.tokens += tokens;
      if (log_tokens && tokens > 0) append('sent', entry);
    },
    sampled({ start, end, weights }) {
      const last = entry.weights.at(-1);
      if (last?.weights === weights) last.end = end;
      else entry.weights.push({ start, end, weights });
    },
    end(outcome, finish_reason = null) {
      if (entry.outcome !== 'open') return;
      entry.outcome = outcome;
      entry.finish_reason = finish_reason;
      append('ended', entry);
    },
  };
}
