import { randomBytes, randomUUID } from 'node:crypto';
import type { TestContext } from 'node:test';
import type { Info } from '@temporalio/activity';
import { createRunAttempt } from '../../src/activities/attempt.js';
import type { BatchOptions, Waiting } from '../../src/activities/contract.js';
import type { Slots } from '../../src/activities/slots.js';
import type { AllActivities } from '../../src/activities/contract/stream.js';
import type {
  Dependencies,
  WorkerDependencies,
  PolicyService,
  DeployedEnvironment,
  Deployment,
} from '../../src/activities/dependencies.js';
import { createActivities } from '../../src/activities/index.js';
import { createLimitsWatch } from '../../src/activities/limits/limit-facts.js';
import { createPolicyRecords } from '../../src/activities/policy/policy-records.js';
import type { Environment, ExactEnvironment } from '../../src/environments/environment.js';
import type { GenerationService } from '../../src/generation/generation-service.js';
import type { Formats } from '../../src/model/results/arrow/formats.js';
import { createReplicas } from '../../src/generation/replicas/replicas.js';
import type { WeightControl } from '../../src/generation/weight-control.js';
import type { Clock } from '../../src/platform/waits/clock.js';
import type { LimitsChange } from '../../src/model/workflow-safe/limits.js';
import type { LogprobsMode } from '../../src/model/logprobs-mode.js';
import type { LineOf, RolloutSettings } from '../../src/model/journal.js';
import type { Allowance } from '../../src/platform/waits/allowance.js';
import { createAllowance } from '../../src/platform/waits/allowance.js';
import { ActivityContext } from './activity-context.js';
import { SETTINGS, author, entryOf } from './journal-lines.js';
import { manualClock } from './manual-clock.js';
import type { ScriptedEnvironment } from './scripted-environment.js';
import { scriptedEnvironment } from './scripted-environment.js';
import type { ScriptedService } from './scripted-service.js';
import { scriptedService } from './scripted-service.js';
import type { TemporaryStore } from './temporary-store.js';
import { BATCH, REF, requestOf, sampleOf, temporaryStore } from './temporary-store.js';

/** Activities over a real store, a scripted service and a scripted environment, run attempt by attempt. */

export interface Parts {
  /** Of the valid rollouts in results. */
  formats?: Formats;
  service?: ScriptedService;
  environment?: ScriptedEnvironment;
  environments?: Record<string, Environment | ExactEnvironment>;
  replicas?: GenerationService[];
  /** The modes that probes of the replicas find; default: processed. */
  logprobs_modes?: Record<string, LogprobsMode>;
  /** Clock of the replicas. */
  clock?: Clock;
  max_concurrent?: number;
  model?: string | null;
  /** true: only ids of images are sent; absent: images are refused. */
  images?: boolean | 'engine';
  is_asked?: boolean;
  folds?: Allowance;
  /** Absent: there are enough. */
  slots?: Slots;
  /** Roles of the environments' observations; absent: any. */
  roles?: string[] | null;
  /** Whether `openRollout` plays on. */
  plays_on?: boolean;
  inPlace?: DeployedEnvironment['inPlace'];
  special_tokens?: string[];
  deployment?: Partial<Deployment>;
  gateway?: Dependencies['gateway'];
  countOpenRollouts?: Dependencies['countOpenRollouts'];
  waitOf?: Dependencies['waitOf'];
  waitOfQueue?: Dependencies['waitOfQueue'];
  isOver?: Dependencies['isOver'];
  endOf?: Dependencies['endOf'];
  /** How long a call may be silent before the workflow is signalled. */
  silent_ms?: number;
  /** Controls of the replicas' weights; absent: the service has no policy. */
  controls?: WeightControl[];
  /** Those of temporal.yaml; default: all of these. */
  urls?: string[];
  refusalOf?: PolicyService['refusalOf'];
}

export interface AttemptOptions {
  /** Heartbeat timeout of the activity; the heartbeat comes at a third of it. */
  heartbeat_timeout_ms?: number;
  workflow_id?: string;
  /** The run of that workflow; default: another one for each attempt. */
  run_id?: string;
  number?: number;
  /** The content of the predecessor's last heartbeat. */
  heartbeatDetails?: unknown;
  /** Time since the activity was first scheduled, by the server's clock, which differs from this machine's. */
  waited_ms?: number;
  /** The second argument of `openRollout`. */
  limits?: LimitsChange;
  /** Its third. */
  spent_ms?: number;
  /** The second argument of `planBatch`. */
  options?: BatchOptions;
  /** Called once the attempt runs, with a function that cancels it. */
  cancelling?: (cancel: () => void) => void;
}

export interface AttemptResult<T> {
  result: T | undefined;
  /** What the attempt threw. */
  error: unknown;
  heartbeats: unknown[];
  waiting: (Waiting | null)[];
  /** The worker's log. */
  warnings: string[];
}

type Name = keyof AllActivities;
type Result<N extends Name> = Awaited<ReturnType<AllActivities[N]>>;

export interface Bench extends TemporaryStore {
  service: ScriptedService;
  environment: ScriptedEnvironment;
  dependencies: WorkerDependencies;
  run: <N extends Name>(
    name: N,
    given: { input: Parameters<AllActivities[N]>[0] } & AttemptOptions,
  ) => Promise<AttemptResult<Result<N>>>;
  /** For attempts that must succeed. */
  result: <N extends Name>(name: N, input: Parameters<AllActivities[N]>[0]) => Promise<Result<N>>;
  /** For attempts that must fail: returns what they threw. */
  failure: <N extends Name>(
    name: N,
    input: Parameters<AllActivities[N]>[0],
  ) => Promise<FailureSeen>;
  /** Writes batch and journal as `openRollout` leaves them. */
  started: (
    given?: Partial<Omit<LineOf<'start'>, 'settings'>> & { settings?: Partial<RolloutSettings> },
  ) => Promise<void>;
  checkPlayed: () => void;
}

export interface FailureSeen {
  type: string | null;
  message: string;
  nonRetryable: boolean;
}

export const AT = { ...REF, turn: 0 };

export async function activityBench(
  t: Pick<TestContext, 'after'>,
  parts: Parts = {},
): Promise<Bench> {
  const files = await temporaryStore(t, parts.formats);
  const service = parts.service ?? scriptedService([]);
  const environment = parts.environment ?? scriptedEnvironment([]);
  const environments = parts.environments ?? { task: environment };
  const pool = createReplicas(parts.replicas ?? [service], {
    max_concurrent: parts.max_concurrent ?? 16,
    // No time passes and nothing is probed, so the scripts' counts are exact.
    clock: parts.clock ?? manualClock(),
    probe: (service) =>
      Promise.resolve((parts.logprobs_modes ?? {})[service.replica] ?? 'processed'),
  });
  const waiting: (Waiting | null)[] = [];
  // A worker has it since its start.
  const store_id = randomBytes(6).toString('hex');
  const deployment = {
    inputs_dir: files.root,
    sample_bytes: 1_000_000,
    turn_slice_ms: 60_000,
    heartbeat_timeout_ms: 100,
    heartbeat_grows: false,
    generation_queue: 'rollouts-generation',
    viewer_url: null,
    ...parts.deployment,
  };
  const dependencies: WorkerDependencies = {
    store: files.store,
    storeId: () => Promise.resolve(store_id),
    unlisted: () => [],
    service: (name) =>
      name === 'default'
        ? {
            ...pool,
            model: parts.model ?? null,
            api_key_env: null,
            special_tokens: parts.special_tokens ?? [],
            images:
              parts.images === 'engine'
                ? 'engine'
                : parts.images === true
                  ? 'rendered_ids'
                  : 'none',
          }
        : undefined,
    environment: (task) =>
      environments[task] && {
        environment: environments[task],
        task_queue: `queue-of-${task}`,
        plays_on: parts.plays_on ?? false,
        inPlace: parts.inPlace ?? ((_, run) => run()),
        roles: parts.roles === undefined ? ['environment'] : parts.roles,
        is_asked: parts.is_asked ?? true,
      },
    policy: (service) =>
      parts.controls && {
        records: createPolicyRecords(service, { facts: files.store.facts }),
        controls: () => parts.controls ?? [],
        urls: parts.urls ?? parts.controls.map(({ replica }) => replica),
        refusalOf: parts.refusalOf ?? (() => Promise.resolve(null)),
        model: null,
        forget_after_ms: 3_600_000,
        sayPhase: () => Promise.resolve(),
        wake: () => Promise.resolve(),
      },
    gateway: parts.gateway ?? null,
    answers: createAllowance(0),
    folds: parts.folds ?? createAllowance(Infinity),
    limits: createLimitsWatch(files.store.facts, { every_ms: 20 }),
    known: { services: ['default'], environments: Object.keys(environments), bare_kinds: ['math'] },
    attempt: createRunAttempt({
      signalWaiting: (_, said) => Promise.resolve(void waiting.push(said)),
      ...(parts.slots && { slots: parts.slots }),
      ...(parts.silent_ms !== undefined && { silent_ms: parts.silent_ms }),
    }),
    deployment,
    countOpenRollouts: parts.countOpenRollouts ?? (() => Promise.resolve(0)),
    waitOf: parts.waitOf ?? (() => Promise.resolve(null)),
    waitOfQueue: parts.waitOfQueue ?? (() => Promise.resolve(null)),
    isOver: parts.isOver ?? (() => Promise.resolve(false)),
    endOf: parts.endOf ?? (() => Promise.resolve(null)),
  };
  const activities = createActivities(dependencies);

  const run: Bench['run'] = async <N extends Name>(
    name: N,
    { input, ...options }: { input: Parameters<AllActivities[N]>[0] } & AttemptOptions,
  ) => {
    const { heartbeat_timeout_ms } = deployment;
    const warnings: string[] = [];
    const attempt = mockAttempt({ heartbeat_timeout_ms, warnings, ...options });
    const heartbeats: unknown[] = [];
    attempt.on('heartbeat', (details) => heartbeats.push(structuredClone(details)));
    const before = waiting.length;
    const body = activities[name] as (...given: unknown[]) => Promise<Result<N>>;
    const second = options.limits ?? options.options;
    const given = [input, second, options.spent_ms];
    let result: Result<N> | undefined;
    let error: unknown;
    try {
      const running = attempt.run(body, ...given);
      options.cancelling?.(() => {
        attempt.cancel('CANCELLED');
      });
      result = await running;
    } catch (thrown) {
      error = thrown;
    }
    return { result, error, heartbeats, waiting: waiting.slice(before), warnings };
  };
  return {
    ...files,
    service,
    environment,
    dependencies,
    run,
    result: async (name, input) => {
      const { result, error } = await run(name, { input });
      if (error !== undefined) throw error as Error;
      return result!;
    },
    failure: async (name, input) => {
      const { result, error } = await run(name, { input });
      if (error === undefined) throw new Error(`${name} succeeded: ${JSON.stringify(result)}`);
      const { type, message, nonRetryable } = error as Partial<FailureSeen>;
      return { type: type ?? null, message: message ?? '', nonRetryable: nonRetryable ?? false };
    },
    started: async ({ settings, ...start } = {}) => {
      await files.store.createBatch({
        batch_id: BATCH,
        request: requestOf(),
        samples: [sampleOf('go')],
      });
      const journal = await files.store.claim(REF, { activity: 'openRollout', reopen: true });
      await journal.append(
        entryOf(author('').start({ ...start, settings: { ...SETTINGS, ...settings } })),
      );
      await journal.commit();
    },
    checkPlayed: () => {
      service.checkPlayed();
      environment.checkPlayed();
    },
  };
}

const SERVER_TIME_MS = Date.UTC(2001, 0, 1);

export function mockAttempt(options: AttemptOptions & { warnings?: string[] }): ActivityContext {
  const { workflow_id = `${BATCH}/0-0`, number = 1, heartbeatDetails, warnings = [] } = options;
  const info: Partial<Info> = {
    workflowExecution: { workflowId: workflow_id, runId: options.run_id ?? randomUUID() },
    attempt: number,
    heartbeatDetails,
    heartbeatTimeoutMs: options.heartbeat_timeout_ms ?? 1000,
    scheduledTimestampMs: SERVER_TIME_MS,
    currentAttemptScheduledTimestampMs: SERVER_TIME_MS + (options.waited_ms ?? 0),
  };
  return new ActivityContext(info, { warn: (message) => warnings.push(message) });
}
