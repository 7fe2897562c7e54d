import { unknownTask } from '../unknown-task.js';
import { AgentSample, agentSampleProblems } from '../../model/agent/sample.js';
import type { ForeignObject } from '../../model/foreign-object.js';
import { hasImages } from '../../model/content.js';
import type { Fault } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import { FEWEST_CHARACTERS } from '../../platform/secrets.js';
import type { Problem } from '../../model/problems.js';
import { invalidBatchRequest, preview, problemsOf } from '../../model/problems.js';
import type { Message } from '../../model/sample.js';
import { STREAM_COLUMNS, Sample, mayTrain } from '../../model/sample.js';
import { isUpstream } from '../../model/semantics.js';
import { IN_SAMPLES } from '../../model/workflow-safe/foreign.js';
import { KeptJson, readJson, writeJson } from '../../platform/json/kept.js';
import { whyNoJson } from '../../platform/json/fault-place.js';
import { firstLostInteger } from '../../platform/json/losses.js';
import type { StoredRequest } from '../../model/stream/stream-request.js';
import { mostSamples } from '../../model/workflow-safe/slices.js';
import { dataProblem } from '../../platform/json/depth.js';
import type { Dependencies } from '../dependencies.js';
import { withColumns } from '../../model/sample-columns.js';
import { forkedPlace } from '../../model/fork.js';
import { sampleTextOf } from '../request-of.js';
import { rowsBelow } from './inputs.js';
import type { Ranges } from './sample-problems.js';
import { programSampleProblems } from './check-programs.js';
import { addRow, collectProblems } from './sample-problems.js';

/** The agents of NeMo Gym of each task of a batch, each with `extra_env_info` of a sample; none for other tasks. */
export type Tasks = ReadonlyMap<string, ReadonlyMap<string, ForeignObject>>;

/** A list of roles in prompts of one task. */
interface PromptRoles {
  task: string;
  roles: readonly string[];
  /** false: these prompts bring their ids. */
  is_rendered: boolean;
  /** The rows with this sample. */
  rows: Ranges;
}

/** Each list once. */
export type Prompts = ReadonlyMap<string, PromptRoles>;

/** How many of them a template is asked about, and the longest. */
const MOST_PROMPTS = 64;
const LONGEST_PROMPT = 64;

interface ReadSamples {
  samples: string[];
  tasks: Tasks;
  prompts: Prompts;
  /** Where the first picture is that an engine is to take; null: there is none. */
  picture_at: string | null;
}

/** The raw JSON of every sample, in order and checked, and their tasks; or the problems, by row. */
export async function readSamples(
  request: StoredRequest,
  dependencies: Dependencies,
): Promise<ReadSamples> {
  const { samples, limit, num_repeats } = request;
  // A stream's history does not grow with its samples.
  const most = request.stream === undefined ? mostSamples(request) : Infinity;
  const rows = await textsOf(request, dependencies);
  const raw: string[] = [];
  const tasks: SampleContext['tasks'] = new Map();
  const prompts: SampleContext['prompts'] = new Map();
  const problems = collectProblems(samples);
  const seen: SampleContext['seen'] = { trains: false, picture_at: null };
  const { sample_bytes } = dependencies.deployment;
  let left = sample_bytes;
  for await (const text of rows) {
    left -= text.length;
    let bound: string | null = null;
    if (left < 0)
      bound = `${sample_bytes} characters of samples (half of worker.memory, which planning holds)`;
    // More would take a batch's history beyond what a server accepts.
    if (raw.length === most)
      bound = `${most} samples with num_repeats ${num_repeats} (${most * num_repeats} rollouts)`;
    if (bound !== null) {
      if (!problems.isEmpty()) throw problems.fault({ is_all: false });
      throw refused(`expected at most ${bound}, got more; split them into several batches`);
    }
    const row = raw.length;
    problems.add(row, checkSample(text, { row, tasks, prompts, seen, request, dependencies }));
    if (problems.isEnough()) throw problems.fault({ is_all: false });
    raw.push(text);
    if (raw.length === limit) break;
  }
  if (!problems.isEmpty()) throw problems.fault({ is_all: true });
  if (raw.length === 0) throw refused('expected at least one sample, got an empty file');
  const { filter = null } = request.stream ?? {};
  // Each of their groups would be replaced by another one.
  if (filter !== null && !seen.trains)
    throw refused(
      `expected a sample with a loss_multiplier above 0 with filter ${filter}, got none: no token would train, so no group is delivered`,
    );
  return { samples: raw, tasks, prompts, picture_at: seen.picture_at };
}

/** Of a fork only the one of the rollout that it continues. */
async function textsOf(
  { samples, fork }: StoredRequest,
  { deployment, store }: Dependencies,
): Promise<Iterable<string> | AsyncIterable<string>> {
  if (fork !== undefined) return [await sampleTextOf(forkedPlace(fork), store)];
  if (Array.isArray(samples)) return samples.map((sample) => writeJson(sample));
  if ('path' in samples) return await rowsBelow(deployment.inputs_dir, samples.path);
  const { batch: batch_id } = samples;
  if ((await store.findRequest(batch_id)) !== null) return storedTexts(batch_id, store);
  const what = `expected a batch or a stream that the store has, got ${batch_id}`;
  throw invalidBatchRequest([{ where: 'samples.batch', what }]);
}

async function* storedTexts(
  batch_id: string,
  store: Dependencies['store'],
): AsyncGenerator<string> {
  const count = await store.sampleCount(batch_id);
  for (let row = 0; row < count; row++) yield await store.readSampleText({ batch_id, row });
}

const refused = (what: string): Fault => invalidBatchRequest([{ where: 'samples', what }]);

interface SampleContext {
  row: number;
  /** Receives the sample's. */
  tasks: Map<string, Map<string, ForeignObject>>;
  /** Receives the sample's. */
  prompts: Map<string, PromptRoles>;
  /** Receives whether a token of any sample's rollouts may train, and where the first picture is. */
  seen: { trains: boolean; picture_at: string | null };
  request: StoredRequest;
  dependencies: Dependencies;
}

/** Throws what was expected. */
function lineOf(text: string): unknown {
  const problem = dataProblem(text);
  if (problem !== null) throw new Error(problem);
  // A file of something else: failures stay in history, and its text is none of their business.
  if (text.length >= FEWEST_CHARACTERS && !text.trimStart().startsWith('{')) {
    const got = `a line of ${text.length} characters that does not begin with {`;
    throw new Error(`expected a JSON object, got ${got}; is this a file of samples, one a line?`);
  }
  try {
    return readJson(text, IN_SAMPLES);
  } catch (error) {
    const got = `${preview(text)} (${whyNoJson(text, error)})`;
    throw new Error(`expected a JSON object, got ${got}`);
  }
}

function checkSample(text: string, { tasks, prompts, seen, ...context }: SampleContext): Problem[] {
  let value: unknown;
  try {
    value = lineOf(text);
  } catch (error) {
    return [{ where: '', what: describeError(error) }];
  }
  const parsed = Sample.safeParse(value);
  if (!parsed.success) {
    return problemsOf(parsed.error, value).map((problem) => withColumns(problem, value));
  }
  const problems: Problem[] = streamColumns(parsed.data, context);
  if (mayTrain(parsed.data)) seen.trains = true;
  const lost = firstLostInteger(text);
  if (lost !== null) {
    problems.push({
      where: '',
      what: `the integer ${preview(new KeptJson(lost.got))} is beyond 2^53 and would lose digits; write it as a string (${lost.path.join('.')})`,
    });
  }
  const { task_name, message_log, extra_env_info } = parsed.data;
  const { dependencies } = context;
  const deployed = dependencies.environment(task_name);
  const agents = tasks.get(task_name) ?? new Map<string, ForeignObject>();
  tasks.set(task_name, agents);
  const rows = deployed?.environment.program?.rows;
  if (rows !== undefined) {
    const { sampling } = rows;
    const wrong = agentSampleProblems(parsed.data, { sampling });
    problems.push(...wrong);
    if (wrong.length === 0)
      agents.set(AgentSample.parse(extra_env_info).agent, extra_env_info ?? {});
    return problems;
  }
  const is_standard = !isUpstream(context.request.semantics);
  if (deployed?.environment.program !== undefined) {
    problems.push(...programSampleProblems(parsed.data, { ...dependencies, is_standard }));
    return problems;
  }
  const refuse = (where: string, what: string): void => void problems.push({ where, what });
  if (message_log.length === 0)
    refuse('message_log', 'expected at least one message, got an empty prompt');
  if (deployed === undefined) refuse('task_name', unknownTask(task_name, dependencies.known));
  const wrong = deployed?.environment.sampleProblems?.(extra_env_info ?? {}, { is_standard }) ?? [];
  for (const { where, what } of wrong) refuse(`extra_env_info.${where}`, what);
  addPrompt(prompts, { sample: parsed.data, row: context.row });
  const k = message_log.findIndex(({ content }) => hasImages(content));
  if (k === -1) return problems;
  const where = `message_log.${k}.content`;
  const what = imageProblem(message_log, context);
  if (what !== null) refuse(where, what);
  if (isSent(context)) seen.picture_at ??= `row ${context.row}: ${where}`;
  return problems;
}

function addPrompt(
  prompts: SampleContext['prompts'],
  { sample: { message_log, task_name: task }, row }: { sample: Sample; row: number },
): void {
  const roles = message_log.map(({ role }) => role);
  const is_rendered = !message_log.every(({ token_ids }) => token_ids !== undefined);
  const key = JSON.stringify([task, roles, is_rendered]);
  const known = prompts.get(key);
  if (known !== undefined) addRow(known.rows, row);
  else if (prompts.size < MOST_PROMPTS && roles.length <= LONGEST_PROMPT)
    prompts.set(key, { task, roles, is_rendered, rows: [[row, row]] });
}

/** Columns that a stream would overwrite. */
const streamColumns = (
  sample: Sample,
  { request: { stream } }: Pick<SampleContext, 'request'>,
): Problem[] =>
  STREAM_COLUMNS.filter((column) => stream !== undefined && column in sample).map((column) => ({
    where: column,
    what: 'this column is written by the stream; rename it in the sample',
  }));

type Asking = Pick<SampleContext, 'request' | 'dependencies'>;

const isSent = ({ request: { generation }, dependencies }: Asking): boolean =>
  dependencies.service(generation.service)?.images === 'engine';

/** Why a prompt with images cannot be played, or null. */
function imageProblem(messages: readonly Message[], asking: Asking): string | null {
  const { service, prompt_format, prompt_logprobs } = asking.request.generation;
  if (prompt_format === 'raw') {
    return 'expected text under prompt_format raw, got an image: only a chat template renders images';
  }
  const { images } = asking.dependencies.service(service) ?? {};
  if (images === 'none')
    return `got an image, which generation service ${service} does not take: its engine is sent token ids alone (temporal.yaml: generation.${service}.images)`;
  if (!isSent(asking)) return null;
  if (messages.some(({ token_ids }) => token_ids !== undefined))
    return 'expected no token_ids beside an image, got some: leave them out, because only the engine knows the ids of an image';
  return prompt_logprobs
    ? 'expected text with generation.prompt_logprobs, got an image: the route that gives them takes no pictures'
    : null;
}
