import { AgentSample } from '../../model/agent/sample.js';
import type { BatchRequest, RolloutRef } from '../../model/batch-request.js';
import { RolloutInput, SingleRollout, toBatchRequest } from '../../model/batch-request.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { referenceImages } from '../../model/content.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { Fault } from '../../model/faults.js';
import type { LineOf, RolloutSettings } from '../../model/journal.js';
import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import { invalidBatchRequest, problemsOf } from '../../model/problems.js';
import type { LogMessage, Sample } from '../../model/sample.js';
import { checkPromptLength } from '../../model/turn/stop-rules.js';
import type { Trajectory } from '../../model/trajectory.js';
import type { Journal } from '../../trajectories/trajectory-store.js';
import type { Attempt } from '../attempt.js';
import type { Activities, AgentPlan, RolloutPlan } from '../contract.js';
import type { Dependencies } from '../dependencies.js';
import { poolOf, recordFault } from '../turn/hold.js';
import { limitsOf, parseBatchId, prepareBatch } from '../plan/plan-batch.js';
import { renderPrompt } from './render-prompt.js';
import { requestOf } from '../request-of.js';
import { needsStart, openLife } from '../turn/session.js';
import { progressOf } from '../turn/turn-progress.js';

/**
 * Opens a rollout's journal, or finds it as far as it is, and returns the plan: all that the workflow must know.
 * The journal's `start` line holds the prompt as it was rendered, so that it is rendered once.
 */
export function createStartRollout(dependencies: Dependencies): Activities['startRollout'] {
  return (input, limits = {}) =>
    dependencies.attempt(async (attempt) => {
      const place = placeOf(input, attempt.workflow_id);
      if (isSingle(input)) await planSingle({ input, limits, attempt }, dependencies);
      return await startRollout({ place, limits, attempt }, dependencies);
    });
}

/** A batch's child names its place; a rollout started by hand is row 0 of the batch that its workflow id names. */
export function placeOf(input: unknown, workflowId: string): RolloutInput {
  if (isSingle(input)) return { batch_id: parseBatchId(workflowId), row: 0, repeat: 0 };
  const parsed = RolloutInput.safeParse(input);
  if (parsed.success) return parsed.data;
  throw invalidBatchRequest(problemsOf(parsed.error, input));
}

export const isSingle = (input: unknown): boolean =>
  typeof input === 'object' && input !== null && 'sample' in input;

/** A rollout started by hand brings its sample and is planned as a batch of one. */
async function planSingle(
  { input, limits, attempt }: { input: unknown; limits: LimitsChange; attempt: Attempt },
  dependencies: Dependencies,
): Promise<void> {
  const parsed = SingleRollout.safeParse(input);
  if (!parsed.success) throw invalidBatchRequest(problemsOf(parsed.error, input));
  checkDeadline(limits.rollout_timeout ?? parsed.data.rollout_timeout, attempt);
  const request = toBatchRequest(parsed.data);
  const batch = await prepareBatch({ input: request, signal: attempt.signal }, dependencies);
  const batch_id = parseBatchId(attempt.workflow_id);
  const { existed } = await dependencies.store.createBatch({ batch_id, ...batch });
  // An attempt that was given up meanwhile must not open what another one has closed.
  attempt.signal.throwIfAborted();
  if (existed) await dependencies.store.reopenBatch(batch_id);
}

async function startRollout(
  { place, limits, attempt }: { place: RolloutInput; limits: LimitsChange; attempt: Attempt },
  dependencies: Dependencies,
): Promise<RolloutPlan> {
  const { store, deployment } = dependencies;
  const { replaces, ...ref } = place;
  const request = await requestOf(ref.batch_id, store);
  const timeout_ms = toMs(request.rollout_timeout);
  const { rollout_timeout = request.rollout_timeout, ...ofTurns } = limits;
  checkRepeat(place, request);
  checkDeadline(rollout_timeout, attempt);
  const journal = await store.claim(ref, {
    activity: 'startRollout',
    attempt: attempt.number,
    reopen: true,
    ...(Object.keys(ofTurns).length > 0 && { limits: ofTurns }),
    ...(replaces !== undefined && { replaces }),
  });
  try {
    if (needsStart(journal.trajectory))
      await begin({ journal, request, ref, attempt }, dependencies);
    await journal.commit();
  } finally {
    journal.release();
  }
  const task_name = journal.trajectory.start?.task_name ?? '';
  const environment = dependencies.environment(task_name);
  const agent = agentPlanOf(journal.trajectory);
  return {
    ...ref,
    task_name,
    in_process: environment?.environment.in_process ?? true,
    ...(agent !== null && { agent }),
    timeout_ms,
    heartbeat_timeout_ms: deployment.heartbeat_timeout_ms,
    queues: { generation: deployment.generation_queue, environment: environment?.task_queue ?? '' },
    policy_version: request.policy_version,
    limits: { ...limitsOf(request), ...journal.trajectory.limits },
    progress: progressOf(journal.trajectory),
  };
}

/** The rollout's first line: what it plays with, its prompt rendered. */
async function begin(
  {
    journal,
    request,
    ref,
    attempt,
  }: { journal: Journal; request: BatchRequest; ref: RolloutRef; attempt: Attempt },
  dependencies: Dependencies,
): Promise<void> {
  const hold = { journal, ref, signal: attempt.signal, warn: attempt.warn };
  const sample = await openLife(hold, dependencies);
  const max_seq_len = journal.trajectory.limits?.max_seq_len ?? request.max_seq_len;
  const inForce = { ...request, max_seq_len };
  const opening = await openingOf({ sample, request: inForce, ref, attempt }, dependencies).catch(
    async (error: unknown) => {
      throw await recordFault(error, { journal });
    },
  );
  await journal.append({
    kind: 'start',
    schema_version: 1,
    task_name: sample.task_name,
    settings: settingsOf(request),
    ...opening,
    extra_env_info: sample.extra_env_info ?? {},
    ...(sample.stop_strings !== undefined && { stop_strings: sample.stop_strings }),
    ...(journal.trajectory.start !== null && { over: true as const }),
  });
}

/** Repeats from `num_repeats` on are replacements, and only completion policy `refill` has them. */
function checkRepeat(
  { repeat, replaces }: RolloutInput,
  { num_repeats, completion }: BatchRequest,
): void {
  const more = completion.policy === 'refill' ? completion.max_replacements : 0;
  if (repeat >= num_repeats + more) {
    const what = `expected less than ${num_repeats + more} under completion policy ${completion.policy}, got ${repeat}`;
    throw invalidBatchRequest([{ where: 'repeat', what }]);
  }
  if (replaces !== undefined && repeat < num_repeats) {
    const what = `expected only with a repeat of at least num_repeats ${num_repeats}, got it with ${repeat}`;
    throw invalidBatchRequest([{ where: 'replaces', what }]);
  }
}

interface Opening {
  sample: Sample;
  request: BatchRequest;
  ref: RolloutRef;
  attempt: Attempt;
}

/** An agent is given its row, and renders its prompts itself. */
async function openingOf(
  opening: Opening,
  dependencies: Dependencies,
): Promise<Pick<LineOf<'start'>, 'plays' | 'prompt'>> {
  const deployed = dependencies.environment(opening.sample.task_name);
  if (deployed?.environment.agent !== undefined) return { plays: 'agent', prompt: [] };
  return { prompt: referenceImages(await renderSample(opening, dependencies)) };
}

function agentPlanOf({ start, extra_env_info, agent }: Trajectory): AgentPlan | null {
  if (start?.plays !== 'agent') return null;
  const sample = AgentSample.parse(extra_env_info);
  const { task_index, rollout_index, attempt_index } = sample;
  return { name: sample.agent, task_index, rollout_index, attempt: attempt_index + agent.attempts };
}

async function renderSample(
  { sample, request, ref, attempt }: Opening,
  dependencies: Dependencies,
): Promise<LogMessage[]> {
  const { generation } = request;
  const { signal } = attempt;
  const prompt = await poolOf(request, dependencies).request(
    { session_id: rolloutId(ref), signal, is_generation: false },
    (service) => renderPrompt(sample.message_log, { service, generation, signal }),
  );
  checkPromptLength(
    prompt.reduce((total, message) => total + message.token_ids.length, 0),
    request,
  );
  return prompt;
}

/** Only here is the timeout known before there is a plan. */
function checkDeadline(rolloutTimeout: string, { waited_s }: Attempt): void {
  if (waited_s * 1000 <= toMs(rolloutTimeout)) return;
  throw new Fault({
    type: 'TimedOut',
    message: `rollout_timeout ${rolloutTimeout} passed before the prompt was rendered`,
  });
}

function settingsOf(request: BatchRequest): RolloutSettings {
  return {
    generation: request.generation,
    model: request.generation.model ?? '',
    num_repeats_add_seed: request.num_repeats_add_seed,
    max_seq_len: request.max_seq_len,
    max_rollout_turns: request.max_rollout_turns,
    semantics: request.semantics,
    policy_version: request.policy_version,
    max_version_span: request.max_version_span,
  };
}
