import { isDeepStrictEqual } from 'node:util';
import { placedInfo } from '../../model/agent/placed-row.js';
import type { ForeignObject } from '../../model/foreign-object.js';
import type { BatchRequest, RolloutRef } from '../../model/batch-request.js';
import { observationFormatOf } from '../../model/batch-request.js';
import type { Content } from '../../model/content.js';
import { referenceImages, textOf } from '../../model/content.js';
import { type LineOf, RolloutSettings } from '../../model/journal.js';
import { glanceOf } from '../../model/journal/outcome.js';
import type { LogMessage } from '../../model/results/row-parts.js';
import type { Sample } from '../../model/sample.js';
import { mayTrain } from '../../model/sample.js';
import type { StoredRequest } from '../../model/stream/stream-request.js';
import { checkPromptLength } from '../../model/turn/stop-rules.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { placeOfGroup } from '../../model/workflow-safe/stream/sample-order.js';
import type { Dependencies } from '../dependencies.js';
import type { Playing } from '../playing.js';
import { poolOf } from '../playing.js';
import { recordFault } from '../record-fault.js';
import { openLife } from '../turn/session.js';
import type { Prefix } from './inherit.js';
import { readPrefix, replayDiffers } from './inherit.js';
import { renderPrompt } from './render-prompt.js';
import type { GenerationService, Lease } from '../../generation/generation-service.js';

/** Writes the rollout's first line: its settings, and the rendered prompt, so that it is rendered once. */
export async function begin(
  playing: Playing,
  { request, ...dependencies }: Dependencies & { request: StoredRequest },
): Promise<void> {
  const { journal } = playing;
  const { attempts } = request;
  const sample = await openLife(playing, { ...dependencies, attempts });
  const max_seq_len = journal.trajectory.limits?.max_seq_len ?? request.max_seq_len;
  const prefix = await prefixFor(sample, { request, ...dependencies });
  const opened = {
    ...{ sample, playing, inherited: prefix?.start.prompt ?? null },
    request: { ...request, max_seq_len },
  };
  const opening = await openingOf(opened, dependencies).catch(async (error: unknown) => {
    const names = { task: sample.task_name, service: request.generation.service };
    throw await recordFault(error, { ...playing, attempts, names });
  });
  await journal.append({
    kind: 'start',
    schema_version: 1,
    task_name: sample.task_name,
    settings: { ...settingsOf(request), ...(await epochOf(playing, { ...dependencies, request })) },
    ...opening,
    ...(request.fork && { fork: { ...request.fork, lines: prefix?.inherited.length ?? 0 } }),
    extra_env_info: infoOf(playing.ref, { sample, request, ...dependencies }),
    ...(sample.stop_strings !== undefined && { stop_strings: sample.stop_strings }),
    ...(!mayTrain(sample) && { untrained: true as const }),
    ...(journal.trajectory.start === null
      ? { glance: { ...glanceOf(journal.trajectory), task_name: sample.task_name } }
      : { over: true as const }),
  });
}

/** Of a fork: what it begins with. The environment may have added to the prompt, as it has done now. */
async function prefixFor(
  { message_log }: Sample,
  { request: { fork, generation }, store }: Dependencies & { request: StoredRequest },
): Promise<Prefix | null> {
  if (fork === undefined) return null;
  const prefix = await readPrefix({ fork, generation }, store);
  const said = (log: readonly { content: Content }[]) => log.map(({ content }) => textOf(content));
  const [expected, got] = [said(prefix.start.prompt), said(message_log)];
  const isSame = prefix.start.plays === 'agent' || isDeepStrictEqual(expected, got);
  if (isSame) return prefix;
  throw replayDiffers('the prompt', { expected: expected.at(-1), got: got.at(-1) });
}

interface SampleOpening {
  sample: Sample;
  request: BatchRequest;
  playing: Playing;
  /** Of a fork: the prompt as it was sent. */
  inherited: readonly LogMessage[] | null;
}

/** A program's conversations are rendered as it asks. */
async function openingOf(
  opening: SampleOpening,
  dependencies: Dependencies,
): Promise<Pick<LineOf<'start'>, 'plays' | 'program' | 'prompt'>> {
  const { program } = dependencies.environment(opening.sample.task_name)?.environment ?? {};
  if (program !== undefined) return { plays: 'agent', program: program.rules.program, prompt: [] };
  return { prompt: referenceImages(await renderSample(opening, dependencies)) };
}

async function renderSample(
  { sample, request, playing: { ref, signal }, inherited }: SampleOpening,
  dependencies: Dependencies,
): Promise<LogMessage[]> {
  const { generation } = request;
  const check = (tokens: number): void => {
    checkPromptLength(tokens, request);
  };
  return await poolOf(request, dependencies).request(
    { session_id: rolloutId(ref), signal, is_generation: false },
    async (service, lease) => {
      const rendered =
        inherited ??
        (await renderPrompt(sample.message_log, {
          service,
          generation,
          sends_pictures: dependencies.service(generation.service)?.images === 'engine',
          signal,
          check,
        }));
      check(rendered.reduce((total, message) => total + message.token_ids.length, 0));
      if (!generation.prompt_logprobs) return [...rendered];
      const asking = { service, lease, model: generation.model ?? '', signal };
      return await withPromptLogprobs(rendered, asking);
    },
  );
}

/** Rows of NeMo Gym are stamped with their place. */
function infoOf(
  { row, repeat }: RolloutRef,
  {
    sample: { task_name, extra_env_info = {} },
    request,
    environment,
  }: Pick<Dependencies, 'environment'> & { sample: Sample; request: StoredRequest },
): ForeignObject {
  const { rows } = environment(task_name)?.environment.program ?? {};
  if (rows === undefined) return extra_env_info;
  return placedInfo(extra_env_info, {
    repeat,
    group: request.stream === undefined ? null : row,
    sampling: rows.sampling === 'request' ? request.generation : null,
  });
}

/** Without the epoch, a stream's samples would get the same seeds in each, and under the same weights the same texts. */
async function epochOf(
  { ref }: Playing,
  { request, store }: Pick<Dependencies, 'store'> & { request: StoredRequest },
): Promise<Pick<RolloutSettings, 'epoch'>> {
  if (request.stream === undefined || !request.num_repeats_add_seed) return {};
  const samples = await store.sampleCount(ref.batch_id);
  return { epoch: placeOfGroup(ref.row, { ...request.stream, samples }).epoch };
}

export const settingsOf = (request: BatchRequest): RolloutSettings =>
  RolloutSettings.parse({
    ...request,
    generation: { ...request.generation, observation_format: observationFormatOf(request) },
    model: request.generation.model ?? '',
  });

interface Asking {
  service: GenerationService;
  lease: Pick<Lease, 'pauseOver'>;
  model: string;
  signal: AbortSignal;
}

/** The prompt with the logprob of each of its tokens; the first one has none. */
export async function withPromptLogprobs(
  prompt: readonly LogMessage[],
  asking: Asking,
): Promise<LogMessage[]> {
  const prompt_ids = prompt.flatMap(({ token_ids }) => token_ids);
  const logprobs = [null, ...(prompt_ids.length > 1 ? await ask(prompt_ids, asking) : [])];
  let from = 0;
  return prompt.map((message) => {
    const start = from;
    from += message.token_ids.length;
    return { ...message, prompt_logprobs: logprobs.slice(start, from) };
  });
}

/** A paused engine accepts the request, and it hangs. */
async function ask(
  prompt_ids: readonly number[],
  { service, lease, model, signal }: Asking,
): Promise<number[]> {
  for (;;) {
    try {
      return await service.promptLogprobs({ model, prompt_ids }, signal);
    } catch (error) {
      if (signal.aborted || !(await service.isPaused())) throw error;
      await lease.pauseOver(signal);
    }
  }
}
