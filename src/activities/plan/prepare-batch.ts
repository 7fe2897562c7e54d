import { unstamped } from '../../model/agent/placed-row.js';
import type { BatchRequest } from '../../model/batch-request.js';
import type { StoredRequest } from '../../model/stream/stream-request.js';
import type { LogprobsMode } from '../../model/logprobs-mode.js';
import { modeOfAll, refusalOfMode, TO_HAVE_PROCESSED } from '../../model/logprobs-mode.js';
import { refusedKey } from '../../model/refused-key.js';
import { Fault } from '../../model/faults.js';
import { invalidBatchRequest, preview, previews } from '../../model/problems.js';
import type { Dependencies, GenerationPool, Running } from '../dependencies.js';
import type { AskedEngines } from './ask-engines.js';
import { askReplicas, askedOnce, refuseField } from './ask-engines.js';
import { askAboutSamples, askEnvironments } from './ask-environments.js';
import { filledIn } from './base-request.js';
import { checkFork } from './check-fork.js';
import { checkPrograms } from './check-programs.js';
import { checkPrompts, checkTemplate } from './check-template.js';
import type { Tasks } from './read-samples.js';
import { readSamples } from './read-samples.js';
import { pictureRoute } from '../pictures.js';
import type { WeightControl } from '../../generation/weight-control.js';
import { isShared } from '../policy/ask.js';

export interface PreparedBatch {
  request: BatchRequest;
  samples: string[];
  tasks: string[];
  /** The replicas' mode of logprobs; null: none are requested. */
  logprobs_mode: LogprobsMode | null;
}

/** The normalised request with its model resolved, and the raw JSON of its samples; or all problems of it. */
export async function prepareBatch(input: unknown, running: Running): Promise<PreparedBatch> {
  const request = await filledIn(input, running.store);
  return await prepareRequest(await checkFork(request, running), running);
}

/** The same for a request that parses. */
export async function prepareRequest(
  request: StoredRequest,
  { attempt: { signal, warn }, ...dependencies }: Running,
): Promise<PreparedBatch> {
  const { samples, tasks, prompts, picture_at } = await readSamples(request, dependencies);
  const played = { tasks, ...dependencies };
  checkWorkflows(request, played);
  checkStamps(request, played);
  checkPrograms(request, { ...played, warn });
  const pool = asksPolicy(played) ? poolFor(request, dependencies) : null;
  await askEnvironments(tasks, { ...dependencies, signal });
  await askAboutSamples({ samples, tasks }, { ...dependencies, request, signal });
  const names = [...tasks.keys()];
  if (pool === null) return { request, samples, tasks: names, logprobs_mode: null };
  const model = await resolveModel(request, { pool, signal });
  const resolved = { ...request, generation: { ...request.generation, model } };
  const asked = { request: resolved, pool, signal, warn };
  await checkEngines(asked, dependencies);
  await checkLimits(asked);
  await checkVersions(asked);
  await checkPrompts(asked, { prompts, dependencies });
  if (picture_at !== null) await checkPictures(asked, picture_at);
  await checkTemplate(asked, { prompts, dependencies });
  const logprobs_mode = await checkLogprobs(asked, model);
  return { request: resolved, samples, tasks: names, logprobs_mode };
}

type OfTasks = Pick<Dependencies, 'environment'> & { tasks: Tasks };

/** Each turn of others is an activity or two, and a slice has room for the events of a few activities a rollout. */
function checkWorkflows(
  { rollout_workflows }: StoredRequest,
  { tasks, environment }: OfTasks,
): void {
  const other = [...tasks.keys()].find(
    (task) => environment(task)?.environment.program === undefined,
  );
  if (rollout_workflows || other === undefined) return;
  const what = `expected true, since task ${preview(other)} is not played by an agent; got false`;
  throw invalidBatchRequest([{ where: 'rollout_workflows', what }]);
}

/** A batch of only agents with a model of their own needs no generation service. */
const asksPolicy = ({ tasks, environment }: OfTasks): boolean =>
  [...tasks.keys()].some(
    (task) => environment(task)?.environment.program?.rules.asks_policy !== false,
  );

/** An agent whose rows get the request's settings is refused those that no row can have. */
function checkStamps({ generation }: BatchRequest, { tasks, environment }: OfTasks): void {
  const task = [...tasks.keys()].find(
    (one) => environment(one)?.environment.program?.rows?.sampling === 'request',
  );
  const names = task === undefined ? [] : unstamped(generation);
  if (names.length === 0) return;
  const what = `expected the default, since environment ${task} sends it in rows of NeMo Gym (\`sampling: request\`), which have no such field; got another value`;
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
async function resolveModel(
  request: BatchRequest,
  { pool, signal }: { pool: GenerationPool; signal: AbortSignal },
): Promise<string> {
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
  return error.with({ message: `${error.message}; ${remedy}` });
}

/** Logprobs of a distribution other than the sampled one make every importance ratio wrong. */
async function checkLogprobs(asked: AskedEngines, model: string): Promise<LogprobsMode | null> {
  const { generation } = asked.request;
  const { signal, warn } = asked;
  if (!generation.include_logprobs) return null;
  const refusalOf = (mode: LogprobsMode, replica: string): string | null =>
    refusalOfMode(mode, { generation, replica });
  const answers = await askReplicas(asked, {
    where: 'generation.logprobs_mode',
    ask: async ({ replica }, { logprobsMode }) => {
      const known = await logprobsMode(model, { signal });
      // A replica that was started again meanwhile may have another one.
      const isRefused = refusalOf(known, replica) !== null;
      return isRefused ? await logprobsMode(model, { signal, again: true }) : known;
    },
    problem: refusalOf,
  });
  if (answers.length === 0)
    warn('no replica serves now: each is asked for the mode of its logprobs when a rollout comes');
  for (const { replica, answer } of answers) {
    if (answer === 'unknown')
      warn(
        `${replica} does not show whether its logprobs are processed or raw, so rows say logprobs_mode "unknown". For importance ratios ${TO_HAVE_PROCESSED}`,
      );
  }
  return modeOfAll(answers.map(({ answer }) => answer));
}

/** Refuses settings that an engine's wire does not have, each by name. */
async function checkLimits({ request, pool, signal, warn }: AskedEngines): Promise<void> {
  const { generation } = request;
  const answers = await askedOnce(() =>
    pool.askEach(async (service) => await service.limits?.(generation, signal), signal),
  );
  const problems = answers.flatMap(({ replica, answer }) =>
    (answer?.refused ?? []).map(({ field, what }) => ({
      where: `generation.${field}`,
      what: `${replica}: ${what}`,
    })),
  );
  if (problems.length > 0) throw invalidBatchRequest(problems);
  for (const { replica, answer } of answers)
    for (const note of answer?.notes ?? []) warn(`${replica}: ${note}`);
}

/** Refuses replicas that serve other weights than the batch expects. */
async function checkVersions(asked: AskedEngines): Promise<void> {
  const { policy_version } = asked.request;
  if (policy_version === null) return;
  const served = await askReplicas(asked, {
    where: 'policy_version',
    ask: async (service, { fence }) => {
      const adapter = fence?.adapter ?? null;
      return adapter === null ? await service.weightVersion(asked.signal) : String(adapter.version);
    },
    problem: (version, replica) =>
      version === null || version === policy_version
        ? null
        : `expected that ${replica} serves ${preview(policy_version)}, got ${preview(version)}`,
  });
  for (const { replica, answer } of served) {
    if (answer === null)
      asked.warn(
        `${replica} does not say which weights it serves, expected policy_version ${preview(policy_version)}: its tokens have no version. Start vLLM with VLLM_SERVER_DEV_MODE=1`,
      );
  }
}

/** Refuses a batch with pictures that an engine cannot take together with ids. It asks every replica that serves, with a picture. */
async function checkPictures(asked: AskedEngines, where: string): Promise<void> {
  const model = asked.request.generation.model ?? '';
  await askReplicas(asked, {
    where,
    ask: (service) => pictureRoute(service).refusal(model, asked.signal),
    problem: (refusal, replica) =>
      refusal && `expected an engine that takes its image: ${replica}: ${refusal}`,
  });
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
    (service?.controls() ?? []).map(async (control): Promise<string | null> => {
      const { state = 'current', epoch = 0 } = record?.replicas[control.replica] ?? {};
      const before = known.get(control);
      const isKnown = before?.epoch === epoch && performance.now() - before.at < KNOWN_MS;
      if (state !== 'current' || isKnown) return null;
      const what = await whySeveral(control, signal);
      if (what === null) known.set(control, { epoch, at: performance.now() });
      return what;
    }),
  );
  refuseField('generation.service', problems);
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
