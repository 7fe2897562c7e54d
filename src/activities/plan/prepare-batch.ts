import { BatchRequest } from '../../model/batch-request.js';
import { Fault, judged } from '../../model/faults.js';
import { invalidBatchRequest, preview, problemsOf } from '../../model/problems.js';
import type { Attempt } from '../attempt.js';
import type { Dependencies, GenerationPool } from '../dependencies.js';
import { askEnvironments } from './ask-environments.js';
import type { Tasks } from './read-samples.js';
import { readSamples } from './read-samples.js';

/** The normalised request, its model resolved, and the raw JSON of its samples; or everything that is wrong with it. */
export async function prepareBatch(
  { input, ...attempt }: { input: unknown } & Pick<Attempt, 'signal' | 'warn'>,
  dependencies: Dependencies,
): Promise<{ request: BatchRequest; samples: string[] }> {
  const parsed = BatchRequest.safeParse(input);
  if (!parsed.success) throw invalidBatchRequest(problemsOf(parsed.error, input));
  const request = parsed.data;
  const { samples, tasks } = await readSamples(request, dependencies);
  const pool = asksPolicy(tasks, dependencies) ? poolFor(request, dependencies) : null;
  await askEnvironments(tasks, { dependencies, signal: attempt.signal });
  if (pool === null) return { request, samples };
  const model = await resolveModel({ request, pool, signal: attempt.signal });
  await checkVersions({ request, pool, ...attempt });
  return { request: { ...request, generation: { ...request.generation, model } }, samples };
}

/** Agents ask their own policy: a batch of nothing else needs no generation service. */
const asksPolicy = (tasks: Tasks, { environment }: Dependencies): boolean =>
  [...tasks.keys()].some((task) => environment(task)?.environment.agent === undefined);

function poolFor(
  { generation }: BatchRequest,
  { service, known }: Pick<Dependencies, 'service' | 'known'>,
): GenerationPool {
  const pool = service(generation.service);
  if (pool !== undefined) return pool;
  const what = `expected one of ${known.services.join(', ')}, got ${preview(generation.service)}`;
  throw invalidBatchRequest([{ where: 'generation.service', what }]);
}

/**
 * One replica has to be there, and every one that is has to serve the model: a rollout may be played on any of them.
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
  const described = await askedOnce(() => pool.describe(signal));
  const first = described[0]?.models[0]?.id;
  const model = request.generation.model ?? pool.model ?? first ?? '';
  for (const { replica, models } of described) {
    const served = models.find(({ id }) => id === model);
    if (served === undefined) {
      const what = `expected a model that ${replica} serves (${models.map(({ id }) => id).join(', ')}), got ${preview(model)}`;
      throw invalidBatchRequest([{ where: 'generation.model', what }]);
    }
    if (served.max_model_len !== null && request.max_seq_len > served.max_model_len) {
      const what = `expected at most the model's max_model_len ${served.max_model_len}, got ${request.max_seq_len}`;
      throw invalidBatchRequest([{ where: 'max_seq_len', what }]);
    }
  }
  return model;
}

/** What is sampled from other weights than the batch expects is not what its trainer asked for. */
async function checkVersions({
  request: { policy_version },
  pool,
  signal,
  warn,
}: { request: BatchRequest; pool: GenerationPool } & Pick<
  Attempt,
  'signal' | 'warn'
>): Promise<void> {
  if (policy_version === null) return;
  const served = await askedOnce(() =>
    pool.askEach((service) => service.weightVersion(signal), signal),
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

/** A server that is not what it should be is not asked again. */
async function askedOnce<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    throw judged(error, { is_planned: false });
  }
}
