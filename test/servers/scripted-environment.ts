import { z } from 'zod';
import type { Exchange } from './json-server.js';
import { sendJson, startJsonServer } from './json-server.js';
import type { TurnAddress } from './rollout-address.js';
import { fromIdempotencyKey } from './rollout-address.js';
import type { ScriptRules, Step } from './scripts.js';
import { ScriptError, entryAt } from './scripts.js';

/** One received call. */
export interface EnvironmentStep extends TurnAddress {
  key: string;
  message_log: { role: string; content: string }[];
  metadata: Record<string, unknown>;
  outcome: 'open' | 'answered' | 'raised';
}

export interface EnvironmentScript extends ScriptRules {
  /** By `[row][turn]`; every repeat of a row plays the same. */
  steps: Step[][];
  /** Forms of an answer that Python environments use. */
  style?: (row: number) => { no_stop_strings?: boolean; terminateds_float?: boolean };
  /** Called before the answer; true: it has answered the call itself. */
  intercept?: (step: EnvironmentStep, response: Exchange['response']) => Promise<boolean> | boolean;
}

export interface ScriptedEnvironment {
  url: string;
  /** The environment's script for a batch. */
  script: (batchId: string, script: EnvironmentScript) => void;
  /** Calls of a batch, in the order of arrival. */
  steps: (batchId: string) => EnvironmentStep[];
  /** Unexpected calls: without a script, beyond its turns, repeated, or malformed. */
  problems: readonly string[];
  close: () => Promise<void>;
}

const StepBody = z.strictObject({
  // One rollout per call, which the key names.
  message_log_batch: z.tuple([z.array(z.strictObject({ role: z.string(), content: z.string() }))]),
  metadata: z.tuple([z.record(z.string(), z.unknown())]),
});

interface State {
  scripts: Map<string, EnvironmentScript>;
  steps: EnvironmentStep[];
  problems: string[];
}

/** An environment behind HTTP that answers from scripts. */
export async function startScriptedEnvironment(): Promise<ScriptedEnvironment> {
  const state: State = { scripts: new Map(), steps: [], problems: [] };
  const server = await startJsonServer(
    (exchange) => answer(exchange, state),
    (error, { response, route }) => {
      const message = `${route}: ${error instanceof Error ? error.message : String(error)}`;
      state.problems.push(message);
      sendError(response, { type: 'ScriptError', message: `not scripted: ${message}` });
    },
  );
  return {
    url: server.url,
    script: (batchId, script) => {
      state.scripts.set(batchId, script);
    },
    steps: (batchId) => state.steps.filter(({ batch_id }) => batch_id === batchId),
    problems: state.problems,
    close: server.close,
  };
}

async function answer(exchange: Exchange, state: State): Promise<void> {
  const { route, response } = exchange;
  switch (route) {
    case 'GET /health':
      sendJson(response, { body: { status: 'ok' } });
      break;
    case 'POST /begin':
    case 'POST /end':
    case 'POST /global_post_process_and_metrics':
      sendJson(response, { status: 404, body: { detail: 'Not Found' } });
      break;
    case 'POST /step':
      await step(exchange, state);
      break;
    default:
      throw new ScriptError('no such route');
  }
}

async function step({ header, body, response }: Exchange, state: State): Promise<void> {
  const key = header('idempotency-key') ?? '';
  const address = fromIdempotencyKey(key);
  if (header('rollout-protocol') !== '1') throw new ScriptError(`${key}: no Rollout-Protocol: 1`);
  const script = state.scripts.get(address.batch_id);
  if (script === undefined) throw new ScriptError(`no script for ${key}`);
  const parsed = StepBody.parse(body);
  const {
    message_log_batch: [message_log],
    metadata: [metadata],
  } = parsed;
  checkSample(metadata, { row: address.row, key });
  const isAnswered = state.steps.some(
    (earlier) => earlier.key === key && earlier.outcome !== 'open',
  );
  if (isAnswered && script.allow_repeats !== true) throw new ScriptError(`${key} was asked twice`);
  const call: EnvironmentStep = { ...address, key, message_log, metadata, outcome: 'open' };
  state.steps.push(call);
  if ((await script.intercept?.(call, response)) === true) return;
  const entry = entryAt(script.steps, { ...address, ...script });
  if ('raise' in entry) {
    call.outcome = 'raised';
    sendError(response, entry.raise);
    return;
  }
  call.outcome = 'answered';
  sendJson(response, { body: asPython(entry, script.style?.(address.row) ?? {}) });
}

/** Recorded cases also name the sample in its metadata. */
function checkSample(
  metadata: Record<string, unknown>,
  { row, key }: { row: number; key: string },
): void {
  const { sid } = metadata;
  if (sid === undefined || sid === `s${row}`) return;
  throw new ScriptError(`${key} came with the metadata of ${JSON.stringify(sid)}`);
}

/** Python writes 1.0, which JavaScript's JSON cannot. */
function asPython(
  entry: Exclude<Step, { raise: unknown }>,
  {
    no_stop_strings = false,
    terminateds_float = false,
  }: { no_stop_strings?: boolean; terminateds_float?: boolean },
): string {
  const { observation, reward, terminated, metadata, stop_strings } = entry;
  const flag = terminateds_float ? `${Number(terminated)}.0` : String(terminated);
  const answer = {
    observations: [observation],
    metadata: [metadata],
    next_stop_strings: no_stop_strings ? null : [stop_strings],
    rewards: [reward],
  };
  return JSON.stringify(answer).replace(/}$/, `,"terminateds":[${flag}]}`);
}

function sendError(response: Exchange['response'], error: { type: string; message: string }): void {
  sendJson(response, { status: 400, body: { error } });
}
