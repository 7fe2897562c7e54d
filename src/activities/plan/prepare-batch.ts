import { unstamped } from '../../model/agent/placed-row.js';
import { BatchRequest } from '../../model/batch-request.js';
import type { StoredRequest } from '../../model/stream/stream-request.js';
import type { LogprobsMode } from '../../model/logprobs-mode.js';
import { modeOfAll, refusalOfMode } from '../../model/logprobs-mode.js';
import { refusedKey } from '../../model/refused-key.js';
import { Fault, faultWith } from '../../model/faults.js';
import { invalidBatchRequest, preview, previews } from '../../model/problems.js';
import { problemsWithHints } from '../../model/unknown-fields.js';
import type { Attempt } from '../attempt.js';
import type { Dependencies, GenerationPool } from '../dependencies.js';
import type { AskedEngines } from './asked-once.js';
import { askedOnce } from './asked-once.js';
import { askAboutSamples } from './ask-about-samples.js';
import { askEnvironments } from './ask-environments.js';
import { checkPrograms } from './check-programs.js';
import { checkPrompts, checkTemplate } from './check-template.js';
import type { Tasks } from './read-samples.js';
import { readSamples } from './read-samples.js';
import { pictureRoute } from '../pictures.js';
import type { WeightControl } from '../../generation/weight-control.js';
import { isShared } from '../policy/one-engine.js';

export interface PreparedBatch {
  request: BatchRequest;
  samples: string[];
  /** The names of their environments. */
  tasks: string[];
  /** The replicas' mode of logprobs; null: none are requested. */
  logprobs_mode: LogprobsMode | null;
}

/** The normalised request with its model resolved, and the raw JSON of its samples; or all problems of it. */
export async function prepareBatch(
  { input, ...attempt }: { input: unknown } & Pick<Attempt, 'signal' | 'warn'>,
  dependencies: Dependencies,
): Promise<PreparedBatch> {
  const parsed = BatchRequest.safeParse(input);
  if (!parsed.success)
    throw invalidBatchRequest(problemsWithHints(parsed.error, { schema: BatchRequest, input }));
  return await prepareRequest(parsed.data, { attempt, dependencies });
}

/** The same for a request that parses. */
export async function prepareRequest(
  request: StoredRequest,
  {
    attempt,
    dependencies,
  }: { attempt: Pick<Attempt, 'signal' | 'warn'>; dependencies: Dependencies },
): Promise<PreparedBatch> {
  const { samples, tasks, prompts, picture_at } = await readSamples(request, dependencies);
  checkWorkflows(request, { tasks, dependencies });
  checkStamps(request, { tasks, ...dependencies });
  checkPrograms(request, { tasks, ...dependencies, warn: attempt.warn });
  const pool = asksPolicy(tasks, dependencies) ? poolFor(request, dependencies) : null;
  await askEnvironments(tasks, { dependencies, signal: attempt.signal });
  await askAboutSamples(samples, { tasks, request, dependencies, signal: attempt.signal });
  const names = [...tasks.keys()];
  if (pool === null) return { request, samples, tasks: names, logprobs_mode: null };
  const model = await resolveModel({ request, pool, signal: attempt.signal });
  const resolved = { ...request, generation: { ...request.generation, model } };
  const asked = { request: resolved, pool, ...attempt };
  await checkEngines(asked, dependencies);
  await checkVersions(asked);
  await checkPrompts(asked, { prompts, dependencies });
  if (picture_at !== null) await checkPictures(asked, picture_at);
  await checkTemplate(asked, { prompts, dependencies });
  const logprobs_mode = await checkLogprobs(asked, model);
  return { request: resolved, samples, tasks: names, logprobs_mode };
}

/** Each turn of others is an activity or two, and a slice has room for the events of a few activities a rollout. */
function checkWorkflows(
  { rollout_workflows }: StoredRequest,
  { tasks, dependencies }: { tasks: Tasks; dependencies: Dependencies },
): void {
  const isOfTurns = (task: string): boolean =>
    dependencies.environment(task)?.environment.program === undefined;
  const other = rollout_workflows ? undefined : [...tasks.keys()].find(isOfTurns);
  if (other === undefined) return;
  const what = `expected true, since task ${preview(other)} is not played by an agent; got false`;
  throw invalidBatchRequest([{ where: 'rollout_workflows', what }]);
}

/** A batch of only agents with a model of their own needs no generation service. */
const asksPolicy = (tasks: Tasks, { environment }: Dependencies): boolean =>
  [...tasks.keys()].some(
    (task) => environment(task)?.environment.program?.rules.asks_policy !== false,
  );

/** An agent whose rows get the request's settings is refused those that no row can have. */
function checkStamps(
  { generation }: BatchRequest,
  { tasks, environment }: Pick<Dependencies, 'environment'> & { tasks: Tasks },
): void {
  const isStamped = (task: string): boolean =>
    environment(task)?.environment.program?.rows?.sampling === 'request';
  const task = [...tasks.keys()].find(isStamped);
  const names = task === undefined ? [] : unstamped(generation);
  if (names.length === 0) return;
  const what = `expected the default, since environment ${task} stamps rows of NeMo Gym (\`sampling: request\`), which have no such field, got another value`;
  throw invalidBatchRequest(names.map((name) => ({ where: `generation.${name}`, what })));
}

function poolFor(
  { generation }: BatchRequest,
  { service, known }: Pick<Dependencies, 'service' | 'known'>,
): GenerationPool {
  const pool = service(generation.service);
  if (pool !== undefined) return pool;
  const names = known.services.join(', ');
  const expected = names === '' ? 'a service in temporal.yaml, which has none' : `one of ${names}`;
  const what = `expected ${expected}, got ${preview(generation.service)}`;
  throw invalidBatchRequest([{ where: 'generation.service', what }]);
}

/**
 * At least one replica must be available, and every available one must serve the model: a rollout may be played on any
 * of them.
 */
async function resolveModel({
  request,
  pool,
  signal,
}: {
  request: BatchRequest;
  pool: GenerationPool;
  signal: AbortSignal;
}): Promise<string> {
  const described = await askedOnce(() => pool.describe(signal)).catch((error: unknown) => {
    throw withRemedy(error, pool);
  });
  const first = described[0]?.models[0]?.id;
  const { service, model: wanted } = request.generation;
  const model = wanted ?? pool.model ?? first ?? '';
  const isDeployed = wanted === null && pool.model !== null;
  const where = isDeployed ? `generation.${service}.model of temporal.yaml` : 'generation.model';
  for (const { replica, models } of described) {
    const served = models.find(({ id }) => id === model);
    if (served === undefined) {
      const what = `expected a model that ${replica} serves (${previews(models.map(({ id }) => id))}), got ${preview(model)}`;
      throw invalidBatchRequest([{ where, what }]);
    }
    if (served.max_model_len !== null && request.max_seq_len > served.max_model_len) {
      const what = `expected at most the model's max_model_len ${served.max_model_len}, got ${request.max_seq_len}`;
      throw invalidBatchRequest([{ where: 'max_seq_len', what }]);
    }
  }
  return model;
}

/** As `temporal-rollout check` says it. */
function withRemedy(error: unknown, pool: GenerationPool): unknown {
  const remedy = error instanceof Fault ? refusedKey(error.status, pool) : null;
  if (!(error instanceof Fault) || remedy === null) return error;
  return faultWith(error, { message: `${error.message}; ${remedy}` });
}

/** Logprobs of a distribution other than the sampled one make every importance ratio wrong. */
async function checkLogprobs(
  { request: { generation }, pool, signal, warn }: AskedEngines,
  model: string,
): Promise<LogprobsMode | null> {
  if (!generation.include_logprobs) return null;
  const answers = await askedOnce(() =>
    pool.askServing(async ({ replica }, { logprobsMode }) => {
      const known = await logprobsMode(model, { signal });
      // A replica that was started again meanwhile may have another one.
      const isRefused = refusalOfMode(known, { generation, replica }) !== null;
      return isRefused ? await logprobsMode(model, { signal, again: true }) : known;
    }, signal),
  );
  const problems = answers.flatMap(({ replica, answer }) => {
    const what = refusalOfMode(answer, { generation, replica });
    return what === null ? [] : [{ where: 'generation.logprobs_mode', what }];
  });
  if (problems.length > 0) throw invalidBatchRequest(problems);
  if (answers.length === 0)
    warn('no replica serves now: each is asked for the mode of its logprobs when a rollout comes');
  for (const { replica, answer } of answers) {
    if (answer === 'unknown')
      warn(
        `${replica} does not show whether its logprobs are processed or raw: rows say logprobs_mode "unknown" (vLLM gives those that importance ratios need with --logprobs-mode processed_logprobs)`,
      );
  }
  return modeOfAll(answers.map(({ answer }) => answer));
}

/** Refuses replicas that serve other weights than the batch expects. */
async function checkVersions({
  request: { policy_version },
  pool,
  signal,
  warn,
}: AskedEngines): Promise<void> {
  if (policy_version === null) return;
  const served = await askedOnce(() =>
    pool.askServing(async (service, { fence }) => {
      const adapter = fence?.adapter ?? null;
      return adapter === null ? await service.weightVersion(signal) : String(adapter.version);
    }, signal),
  );
  const others = served.filter(({ answer }) => answer !== null && answer !== policy_version);
  if (others.length > 0) {
    throw invalidBatchRequest(
      others.map(({ replica, answer }) => ({
        where: 'policy_version',
        what: `expected that ${replica} serves ${preview(policy_version)}, got ${preview(answer)}`,
      })),
    );
  }
  for (const { replica, answer } of served) {
    if (answer === null)
      warn(
        `${replica} does not say which weights it serves, expected policy_version ${preview(policy_version)}: what it samples has no version (vLLM says it with VLLM_SERVER_DEV_MODE=1)`,
      );
  }
}

/** Refuses a batch with pictures that an engine cannot take together with ids. It asks every replica that serves, with a picture. */
async function checkPictures(
  { request: { generation }, pool, signal }: AskedEngines,
  where: string,
): Promise<void> {
  const model = generation.model ?? '';
  const answers = await askedOnce(() =>
    pool.askServing((service) => pictureRoute(service).refusal(model, signal), signal),
  );
  const problems = answers.flatMap(({ replica, answer }) =>
    answer === null
      ? []
      : [{ where, what: `expected an engine that takes its image: ${replica}: ${answer}` }],
  );
  if (problems.length > 0) throw invalidBatchRequest(problems);
}

const QUESTION_MS = 10_000;
/** How long an engine that was found to be one is not asked again: there may be thousands of small batches. */
const KNOWN_MS = 60_000;
const known = new WeakMap<WeightControl, { epoch: number; at: number }>();

/** Refuses URLs that lead to several engines: one would sample what the other has a label for. */
async function checkEngines(
  { request, signal }: Pick<AskedEngines, 'request' | 'signal'>,
  { policy }: Pick<Dependencies, 'policy'>,
): Promise<void> {
  const service = policy(request.generation.service);
  const record = (await service?.records.latest()) ?? null;
  const problems = await Promise.all(
    (service?.controls ?? []).map(async (control) => {
      const { state = 'current', epoch = 0 } = record?.replicas[control.replica] ?? {};
      const before = known.get(control);
      const isKnown = before?.epoch === epoch && performance.now() - before.at < KNOWN_MS;
      if (state !== 'current' || isKnown) return [];
      const what = await whySeveral(control, signal);
      if (what === null) known.set(control, { epoch, at: performance.now() });
      return what === null ? [] : [{ where: 'generation.service', what }];
    }),
  );
  if (problems.flat().length > 0) throw invalidBatchRequest(problems.flat());
}

/** null: one answers, or none, for which rollouts wait. */
async function whySeveral(control: WeightControl, signal: AbortSignal): Promise<string | null> {
  try {
    await control.asOne({ starts: true }, { within_ms: QUESTION_MS, signal });
    return null;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof Fault)) throw error;
    return isShared(error) ? error.message : null;
  }
}
