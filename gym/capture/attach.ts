import { describeError } from '../../src/platform/errors.js';
import type { Json, JsonObject } from '../json/exact.js';
import { formatJson, isObject, valueIn } from '../json/exact.js';
import { strOf } from '../python/repr.js';
import type { Members } from '../../src/platform/json/members.js';
import { ROLLOUT_ID } from '../keys.js';
import type { GymRow } from '../row.js';
import { rolloutName } from '../row.js';
import { callMetrics, callRecord, PAYLOADS } from './call-record.js';
import type { Captured, CaptureStore } from './capture-store.js';
import { trajectoryRecord } from './trajectory.js';

const CAPTURE = 'ng_model_call_capture';
const OBSERVATIONS = 'ng_agent_observations';
const TRAJECTORY = 'ng_trajectory';

/** Allowed ids: servers use them as file names and in paths. */
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

/** The id under which an attempt's calls are captured; null: the row's own id is not usable. */
export function captureId({ row, key }: GymRow, attempt: number): string | null {
  const own = row[ROLLOUT_ID] ?? null;
  const name = own === null ? rolloutName(key) : own;
  if (typeof name !== 'string' || !ID.test(name)) return null;
  return attempt > 0 ? `${name}-a${attempt}` : name;
}

export interface Observing {
  row: GymRow;
  attempt: number;
  /** Seconds since the epoch. Earlier calls belong to a run that was cut; null: there was none. */
  since: number | null;
  /** null: servers capture nothing. */
  store: CaptureStore | null;
  say: (text: string) => void;
}

/** Limit for an agent's report about its own play, in characters: parsed, each takes some fifty bytes at worst. */
const MAX_SAID = 32 * 1024 * 1024;

/**
 * Adds the calls that model servers captured to a result, and one trajectory of what the agent and the servers saw. Like
 * upstream it changes no field of the agent's answer except `ng_trajectory`. Throws if that is impossible; `result` is
 * then unchanged.
 */
export async function attachCapture(result: Members, observing: Observing): Promise<void> {
  const { row, attempt, store } = observing;
  const said = [CAPTURE, OBSERVATIONS, TRAJECTORY].reduce(
    (sum, key) => sum + (result.get(key)?.length ?? 0),
    0,
  );
  if (said > MAX_SAID)
    throw new Error(`expected at most ${MAX_SAID} characters of observations, got ${said}`);
  const rollout_id = captureId(row, attempt);
  const capture =
    store === null || rollout_id === null
      ? null
      : await captureOf({ ...observing, store, rollout_id });
  const [trajectory, observations] = [valueIn(result, TRAJECTORY), valueIn(result, OBSERVATIONS)];
  const isRedacted = [trajectory, observations].some((value) =>
    hasGap(value, 'multimodal_history_redacted'),
  );
  const shown = capture === null || !isRedacted ? capture : withoutPayloads(capture);
  if (shown !== null && result.has(OBSERVATIONS)) addGap(shown, 'agent_observation_join_failed');
  // What the agent captured itself keeps its place.
  const own = shown === null ? valueIn(result, CAPTURE) : undefined;
  const evidence = shown ?? (isObject(own) ? own : null);
  const isObserved = [CAPTURE, OBSERVATIONS, TRAJECTORY].some((key) => result.has(key));
  if (shown === null && !isObserved) return;
  const task = ['task_id', 'problem_id', 'instance_id']
    .map((key) => row.row[key] ?? null)
    .find((value) => value !== null);
  const record = trajectoryRecord(
    {
      task_id: task === undefined ? String(row.key.task) : strOf(task),
      rollout_id: rollout_id ?? rolloutName(row.key),
    },
    { trajectory, observations, capture: evidence },
  );
  const written = formatJson(record);
  // The trajectory has the bodies.
  if (evidence !== null) result.set(CAPTURE, formatJson(withoutPayloads(evidence)));
  result.set(TRAJECTORY, written);
}

function hasGap(value: Json | undefined, code: string): boolean {
  const gaps = isObject(value) ? value['gaps'] : undefined;
  return Array.isArray(gaps) && gaps.some((gap) => isObject(gap) && gap['code'] === code);
}

async function captureOf({
  store,
  since,
  rollout_id,
  say,
}: Observing & { store: CaptureStore; rollout_id: string }): Promise<JsonObject> {
  const captured = await store.read(rollout_id, since).catch((error: unknown) => {
    say(`The captured calls of rollout ${rollout_id} cannot be read: ${describeError(error)}`);
    return 'unreadable' as const;
  });
  const exchanges = captured === 'unreadable' ? [] : (captured?.exchanges ?? []);
  const calls = exchanges.map(callRecord);
  const gaps = gapsOf(captured);
  return { rollout_id, metrics: callMetrics(calls), calls, ...(gaps.length > 0 && { gaps }) };
}

function gapsOf(captured: Captured | 'unreadable' | null): JsonObject[] {
  if (captured === 'unreadable') return [{ code: 'model_call_capture_unreadable' }];
  const { exchanges = [], unreadable = 0, is_incomplete = false } = captured ?? {};
  const lost =
    unreadable === 0
      ? []
      : [{ code: 'model_call_capture_records_unreadable', detail: `count=${unreadable}` }];
  if (is_incomplete) return [...lost, { code: 'model_call_capture_incomplete' }];
  const isEmpty = exchanges.length === 0 && unreadable === 0;
  return isEmpty ? [{ code: 'model_call_capture_no_records' }] : lost;
}

function addGap(capture: JsonObject, code: string): void {
  const gaps = capture['gaps'];
  capture['gaps'] = [...(Array.isArray(gaps) ? gaps : []), { code }];
}

function withoutPayloads(capture: JsonObject): JsonObject {
  const calls = capture['calls'];
  if (!Array.isArray(calls)) return capture;
  const bare = calls.map((call) =>
    isObject(call)
      ? Object.fromEntries(
          Object.entries(call).filter(([key]) => !PAYLOADS.some((name) => name === key)),
        )
      : call,
  );
  return { ...capture, calls: bare };
}
