import { setTimeout as sleep } from 'node:timers/promises';
import type { ExactEnvironment, FinishedRollout } from '../../environments/environment.js';
import { METRICS_TIMEOUT_MS } from '../../environments/environment.js';
import type { ForeignObject } from '../../model/foreign-object.js';
import { readJson } from '../../platform/json/kept.js';
import { textLog } from '../../model/content.js';
import { Fault } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import { isValid } from '../../model/results/metrics.js';
import type { Metrics } from '../../model/results/metrics.js';
import type { Row } from '../../model/results/row.js';
import type { Summary } from '../../model/results/summary.js';
import { cutToBytes } from '../../platform/utf8.js';
import type { BatchOutputs } from '../../trajectories/trajectory-store.js';
import type { Attempt } from '../attempt.js';
import type { Dependencies } from '../dependencies.js';
import { orAborted, withDeadline } from '../../platform/waits/abort.js';

/** The result must stay under 16 kB: the first metrics by name, up to these limits. */
const MAX_METRICS = 64;
const MAX_NAME_BYTES = 120;
const MAX_BYTES = 4000;

const LONGEST_PAUSE_MS = 10_000;

export interface EnvironmentMetricsInput {
  summaries: readonly Summary[];
  outputs: BatchOutputs;
  attempt: Pick<Attempt, 'signal' | 'warn'>;
  environment: Dependencies['environment'];
  patience_ms?: number;
}

/**
 * `env/<task>/<name>` from each environment's `globalPostProcessAndMetrics` over the valid rollouts of its task, which
 * are read one by one from the batch's closed rows. If an environment returns none in time, only its own metrics are
 * missing: `env/<task>/metrics_failed` is 1, and the log says why.
 */
export async function environmentMetrics(input: EnvironmentMetricsInput): Promise<Metrics> {
  const valid = input.summaries.filter(isValid);
  const tasks = [...new Set(valid.map(({ task_name }) => task_name))].sort();
  const given = await Promise.all(tasks.map((task) => ofTask(task, { ...input, valid })));
  return bounded(given.flat(), input.attempt);
}

interface Asking extends EnvironmentMetricsInput {
  valid: readonly Summary[];
}

type Named = [name: string, value: number];

async function ofTask(task: string, asking: Asking): Promise<Named[]> {
  const environment = asking.environment(task)?.environment;
  if (environment?.globalPostProcessAndMetrics === undefined) return [];
  const { attempt } = asking;
  try {
    const metrics = await askPatiently(environment, { task, asking });
    const entries = Object.entries(metrics ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
    const wrong = entries.find(([, value]) => !Number.isFinite(value));
    if (wrong !== undefined)
      throw new Error(`${wrong[0]}: expected a finite number, got ${wrong[1]}`);
    if (entries.length > MAX_METRICS) {
      attempt.warn(
        `environment ${task} gave ${entries.length} metrics: the first ${MAX_METRICS} by name are kept`,
      );
    }
    return entries
      .slice(0, MAX_METRICS)
      .map(([name, value]) => [cutToBytes(`env/${task}/${name}`, MAX_NAME_BYTES), value]);
  } catch (error) {
    attempt.signal.throwIfAborted();
    if (error instanceof Fault && error.type === 'StoreFault') throw error;
    attempt.warn(`no metrics of environment ${task}: ${describeError(error)}`);
    return [[cutToBytes(`env/${task}/metrics_failed`, MAX_NAME_BYTES), 1]];
  }
}

/** Tries again while it is unavailable and time is left; the last try is cut off at the end. */
async function askPatiently(
  environment: ExactEnvironment,
  { task, asking }: { task: string; asking: Asking },
): Promise<Metrics | null> {
  const { attempt, patience_ms = METRICS_TIMEOUT_MS } = asking;
  const run = async (signal: AbortSignal): Promise<Metrics | null> => {
    for (let pause_ms = 250; ; pause_ms = Math.min(2 * pause_ms, LONGEST_PAUSE_MS)) {
      const reading: Reading = { failed: null };
      try {
        const rollouts = rolloutsOf(task, { asking, signal, reading });
        const asked = environment.globalPostProcessAndMetrics?.(rollouts, signal) ?? null;
        // An environment may ignore its signal.
        return await orAborted(Promise.resolve(asked), signal);
      } catch (error) {
        const mayPass = reading.failed === null && error instanceof Fault && error.retryable;
        if (mayPass) await sleep(pause_ms, undefined, { signal }).catch(() => undefined);
        if (signal.aborted) throw new Error(`none within ${patience_ms} ms`, { cause: error });
        if (!mayPass) throw reading.failed ?? error;
      }
    }
  };
  return await withDeadline(attempt.signal, { ms: patience_ms, run });
}

interface Reading {
  /** An error of the store, which is no fault of the environment. */
  failed: Fault | null;
}

/** Valid rows are in the order of the valid summaries, so rows of other tasks are skipped unparsed. */
async function* rolloutsOf(
  task: string,
  { asking, signal, reading }: { asking: Asking; signal: AbortSignal; reading: Reading },
): AsyncGenerator<FinishedRollout<ForeignObject>> {
  const { outputs, valid } = asking;
  let at = 0;
  try {
    for await (const line of outputs.readRollouts()) {
      signal.throwIfAborted();
      if (valid[at++]?.task_name !== task) continue;
      const row = readJson(line, { extra_env_info: 'all' }) as Row;
      const { message_log, total_reward, rewards, extra_env_info } = row;
      yield { message_log: textLog(message_log), total_reward, rewards, extra_env_info };
    }
  } catch (error) {
    if (error instanceof Fault) reading.failed = error;
    throw error;
  }
}

function bounded(metrics: readonly Named[], { warn }: EnvironmentMetricsInput['attempt']): Metrics {
  const kept: Metrics = {};
  let bytes = 0;
  for (const [name, value] of metrics) {
    bytes += Buffer.byteLength(`${JSON.stringify(name)}:${value},`);
    if (bytes > MAX_BYTES) {
      warn(`metrics of environments from ${name} on do not fit into ${MAX_BYTES} bytes`);
      break;
    }
    kept[name] = value;
  }
  return kept;
}
