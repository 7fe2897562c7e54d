import { setTimeout as sleep } from 'node:timers/promises';
import type {
  Delta,
  Fence,
  GenerationEnd,
  GenerationRequest,
  GenerationService,
  Lease,
} from '../../generation/generation-service.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { Fault } from '../../model/faults.js';
import type { RolloutSettings } from '../../model/journal.js';
import type { OpenTurn } from '../../model/journal/trajectory.js';
import type { LogprobsMode } from '../../model/logprobs-mode.js';
import { refusalOfMode } from '../../model/logprobs-mode.js';
import { isUnchanged, withReplica } from '../../model/policy/record.js';
import { canContinue, knownEos, spansTooManyVersions } from '../../sampling/seam.js';
import { generationCall } from '../../model/journal/standing.js';
import { seedOf } from '../../model/turn/seeds.js';
import { checkPromptStillFits, nextStep, roomFor } from '../../model/turn/stop-rules.js';
import type { RequestFacts } from '../../sampling/chunk-recorder.js';
import { dropTokens } from '../../sampling/chunk-recorder.js';
import type { Activities } from '../contract.js';
import type { Dependencies } from '../dependencies.js';
import type { Hold } from '../hold.js';
import { journalLost, poolOf, recordFault, sharerOf } from '../hold.js';
import { orAborted } from '../../platform/waits/abort.js';
import { picturesOf } from '../pictures.js';
import { playOpened } from '../play-from-journal.js';
import { labelByFence, MOVED } from '../../sampling/labels.js';
import type { ResumeContext, Resumed, Seam } from '../../sampling/resume.js';
import { checkStop, resumeGeneration } from '../../sampling/resume.js';
import { createSampler, STARTS_OVER, wantsVersion } from '../../sampling/recorded-request.js';

/** Generates the turn in progress, unless the journal already has its generation. */
export function createGenerateTurn(dependencies: Dependencies): Activities['generateTurn'] {
  return playOpened(dependencies, {
    activity: 'generateTurn',
    play: async (hold) => {
      if (nextStep(hold.journal.trajectory) === 'generate') await generate(hold, dependencies);
    },
  });
}

/**
 * One generation, from the log to the journal. The `generation` line completes the turn: a retried activity that finds
 * it does not call the engine. Each function adds one thing:
 *
 * - `generate` waits for a replica that serves;
 * - `generateThroughPauses` waits for the end of the engine's pauses, and records faults;
 * - `generateFromJournal` starts from the journalled tokens and appends the `generation` line;
 * - `resumeGeneration` (resume-generation.ts) continues an interrupted generation;
 * - the sampler (sample-recorded.ts) makes one request and labels its tokens with versions;
 * - `recordChunks` (chunk-recorder.ts) appends the `chunk` lines while the tokens stream in.
 */
export async function generate(hold: Hold, dependencies: Dependencies): Promise<void> {
  const { journal, ref, signal } = hold;
  const { settings_in_force: settings } = journal.trajectory;
  if (settings === null) throw journalLost(ref, { lacks: 'its start', store: dependencies.store });
  await checkPrompt(hold);
  const pool = poolOf(settings, dependencies);
  // Without room for tokens, no slot is needed.
  const is_generation = roomFor(journal.trajectory) > 0;
  const { special_tokens } = pool;
  const { reportWaiting } = hold;
  const held = (why: string | null): void => {
    const { service } = settings.generation;
    void reportWaiting(why === null ? null : { service, message: why, holds: true });
  };
  const sharer = sharerOf(hold);
  const request = { session_id: rolloutId(ref), signal, is_generation, held, sharer };
  for (;;) {
    try {
      await pool.request(request, (service, lease) =>
        generateThroughPauses(service, {
          hold,
          settings,
          special_tokens,
          lease,
          distrust: distrustOf(settings, dependencies),
          dependencies,
        }),
      );
      return;
    } catch (error) {
      if (error !== MOVED) throw error;
    }
  }
}

/** The replica serves nothing until the policy's workflow has given it weights again. */
const distrustOf =
  ({ generation: { service } }: RolloutSettings, { policy }: Dependencies) =>
  async (replica: string, { fence, why }: { fence: Fence; why: string }): Promise<void> => {
    const { records, wake } = policy(service) ?? {};
    await records?.change((now) =>
      now !== null && isUnchanged(now, { replica, epoch: fence.epoch })
        ? withReplica(now, { replica, state: 'unknown', fault: why })
        : null,
    );
    await wake?.();
  };

async function checkPrompt(hold: Hold): Promise<void> {
  try {
    checkPromptStillFits(hold.journal.trajectory);
  } catch (error) {
    throw await recordFault(error, hold);
  }
}

interface Placed {
  hold: Hold;
  settings: RolloutSettings;
  special_tokens: readonly string[];
  lease: Lease;
  distrust: ReturnType<typeof distrustOf>;
  dependencies: Pick<Dependencies, 'store'>;
}

/**
 * An engine that is paused with `mode=abort` cuts off its streams. This is no fault: the same attempt continues when
 * the pause is over. Ends with the generation, a fault, or the signal that cancels a wait.
 */
async function generateThroughPauses(service: GenerationService, placed: Placed): Promise<void> {
  const { hold, settings, lease } = placed;
  const { open } = hold.journal.trajectory;
  const isPaused = () => orAborted(service.isPaused(), hold.signal);
  let { waited_s } = lease;
  for (;;) {
    try {
      // The weights may change during a pause, so their version is asked for afterwards.
      const isAsked = wantsVersion(settings) && lease.fence === null;
      if (isAsked && open.finish === null && (await isPaused()))
        waited_s += await sitOut(service, placed);
      const mode = await modeFor(service, placed);
      await generateFromJournal(service, { ...placed, mode, waited_s });
      return;
    } catch (error) {
      if (error === STARTS_OVER) continue;
      if (error === MOVED || (await hasMoved(service, lease))) throw MOVED;
      const isCut = error instanceof Fault && error.type === 'GenerationUnavailable';
      if (!isCut || !(await isPaused())) throw await recordFault(error, hold);
      waited_s += await sitOut(service, placed);
    }
  }
}

/** An update that cuts off a stream is no fault, whatever error the stream ended with. */
async function hasMoved(
  { replica }: GenerationService,
  { fence, policy }: Lease,
): Promise<boolean> {
  return fence !== null && !isUnchanged(await policy.latest(), { replica, epoch: fence.epoch });
}

/** The mode of the logprobs to come; null without logprobs. Refuses a replica whose mode does not fit the request. */
async function modeFor(
  { replica }: GenerationService,
  { hold, settings, lease }: Placed,
): Promise<LogprobsMode | null> {
  const { generation, model } = settings;
  const { trajectory } = hold.journal;
  if (!generation.include_logprobs || roomFor(trajectory) <= 0) return null;
  const mode = await lease.logprobsMode(model, { signal: hold.signal });
  const refusal = refusalOfMode(mode, { generation, replica });
  if (refusal === null) return mode;
  const message = `${replica}: generation.logprobs_mode: ${refusal}`;
  throw new Fault({ type: 'GenerationRejected', message, at: replica });
}

const PAUSED = 'the engine is paused';
const ASLEEP = 'the engine is asleep, until somebody wakes it (POST /wake_up)';

/** Why an engine is silent; null: it does not say. */
const whySilent = async (service: GenerationService): Promise<string | null> =>
  (await service.isAsleep()) ? ASLEEP : (await service.isPaused()) ? PAUSED : null;

/** Waits visibly for the end of the engine's pause; returns the seconds that it took. */
async function sitOut(
  service: GenerationService,
  { hold: { signal, reportWaiting }, lease }: Placed,
): Promise<number> {
  const began = performance.now();
  const message = (await service.isAsleep()) ? ASLEEP : PAUSED;
  await reportWaiting({ service: service.replica, message });
  await lease.pauseOver(signal);
  await reportWaiting(null);
  return (performance.now() - began) / 1000;
}

interface Generating extends Placed {
  mode: LogprobsMode | null;
  waited_s: number;
}

/** Generates from where the journal is to the turn's `generation` line. */
async function generateFromJournal(
  service: GenerationService,
  { hold, settings, special_tokens, mode, waited_s, lease, distrust, dependencies }: Generating,
): Promise<void> {
  const { journal, ref, signal } = hold;
  const { trajectory } = journal;
  const { turns, open } = trajectory;
  const turn = turns.length;
  const facts = {
    turn,
    replica: service.replica,
    request_id: `${rolloutId(ref)}.${turn}.${journal.writer}`,
    ...(mode !== null && { logprobs_mode: mode }),
  };
  await dropUnusable(hold, { settings, facts });
  const inherited = [...open.token_ids];
  const { fence, policy } = lease;
  const salt = fence?.version ?? null;
  const pictures = await picturesOf(hold, dependencies);
  const request = {
    ...requestFor(hold, { settings, facts }),
    ...(pictures.length > 0 && { pictures }),
    ...(salt !== null && { cache_salt: String(salt) }),
  };
  const labels =
    fence &&
    labelByFence({
      fence,
      policy,
      service,
      // A stop string is matched on this side and ends the stream before its last chunk names the weights.
      offset: inherited.length,
      names_spans: () =>
        service.tells_text?.(request) === false && request.stop_strings.length === 0,
      signal,
      sleep: (ms) => sleep(ms, undefined, { signal }),
      distrust: (why) => distrust(service.replica, { fence, why }),
    });
  const sample = createSampler(hold, { service, settings, facts, labels, policy });
  const seam = {
    request,
    inherited,
    finish: open.finish,
    eos_ids: knownEos(trajectory),
    special_tokens,
  };
  const asked = {
    call: generationCall(settings.generation.service),
    moved_at: () => trajectory.standing.moved_at,
    why: () => whySilent(service),
  };
  const refused = refusing(journal, facts);
  const end = await hold.asks(asked, () =>
    sampleOrResume(seam, { open, context: { service, sample, signal, refused } }),
  );
  // Trainers in Python fail at half a character.
  const text = { content: open.text.toWellFormed(), token_count: open.token_ids.length };
  const generated = { ...text, ...end, queue_s: waited_s + end.queue_s };
  if (generated.token_count < open.token_ids.length)
    await dropTokens(journal, { facts, from: generated.token_count });
  await journal.append({ kind: 'generation', turn, ...generated });
}

/** Drops what earlier attempts have sampled and this one cannot continue. */
async function dropUnusable(
  { journal }: Hold,
  { settings, facts }: { settings: RolloutSettings; facts: RequestFacts },
): Promise<void> {
  const { open } = journal.trajectory;
  const pending = open.segments.find(({ version_source }) => version_source === 'pending');
  if (pending !== undefined) await dropTokens(journal, { facts, from: pending.start });
  const isCut = open.token_ids.length > 0 && open.finish === null;
  if (
    spansTooManyVersions(open, { settings, next: [] }) ||
    (isCut && !canContinue(settings.generation))
  )
    await dropTokens(journal, { facts, from: 0 });
}

/** The reply contradicts itself: none of the turn's tokens count. */
const refusing =
  (journal: Hold['journal'], facts: RequestFacts) =>
  async (what: string): Promise<Fault> => {
    await dropTokens(journal, { facts, from: 0 });
    const { replica, request_id } = facts;
    const message = `${replica}: completion ${request_id}: ${what}`;
    return new Fault({ type: 'ProtocolError', message, at: replica });
  };

async function sampleOrResume(
  seam: Seam,
  { open, context }: { open: OpenTurn; context: ResumeContext },
): Promise<GenerationEnd | Resumed> {
  const { request, inherited, finish } = seam;
  if (request.max_tokens <= 0) return EMPTY;
  const isText = context.service.tells_text?.(request) ?? true;
  if (inherited.length > 0 || finish !== null || !isText)
    return await resumeGeneration(seam, context);
  let last = null as Delta | null;
  const onDelta = (delta: Delta): Delta => {
    if (delta.token_ids.length > 0) last = delta;
    return delta;
  };
  const end = await context.sample(request, { signal: context.signal, onDelta });
  const { token_ids: ids, text } = open;
  return await checkStop(end, { ids, text: text.toWellFormed(), last, seam, context });
}

/** The log leaves no room: nothing is generated, and the environment still steps, as upstream. */
const EMPTY: GenerationEnd = {
  finish_reason: 'length',
  stop_reason: null,
  queue_s: 0,
  generate_s: 0,
};

function requestFor(
  { journal, ref }: Hold,
  { settings, facts }: { settings: RolloutSettings; facts: RequestFacts },
): GenerationRequest {
  const { trajectory } = journal;
  const { generation, model } = settings;
  const { turn, request_id } = facts;
  const inherited = trajectory.open.token_ids.length;
  const room = roomFor(trajectory);
  return {
    prompt_ids: trajectory.context_ids,
    model,
    max_tokens: room,
    min_tokens: Math.min(generation.min_tokens, Math.max(0, room)),
    temperature: generation.greedy ? 0 : generation.temperature,
    top_p: generation.top_p,
    top_k: generation.top_k,
    min_p: generation.min_p,
    repetition_penalty: generation.repetition_penalty,
    presence_penalty: generation.presence_penalty,
    frequency_penalty: generation.frequency_penalty,
    ignore_eos: generation.ignore_eos,
    bad_words: generation.bad_words,
    structured_outputs: generation.structured_outputs,
    seed: seedOf(settings, { ...ref, turn, inherited }),
    stop_strings: [...new Set([...generation.stop_strings, ...(trajectory.stop_strings ?? [])])],
    stop_token_ids: generation.stop_token_ids,
    logprobs: generation.include_logprobs,
    top_logprobs: generation.top_logprobs,
    request_id,
    session_id: rolloutId(ref),
  };
}
