import { setTimeout as sleep } from 'node:timers/promises';
import type {
  Delta,
  Fence,
  GenerationEnd,
  GenerationRequest,
  GenerationService,
} from '../generation/generation-service.js';
import { asSet } from '../generation/generation-service.js';
import { Fault } from '../model/faults.js';
import type { LogprobsMode } from '../model/logprobs-mode.js';
import { refusalOfMode } from '../model/logprobs-mode.js';
import type { Call, Exit, Placed, Tape } from './call.js';
import type { Labels } from './labels.js';
import { labelByFence } from './labels.js';
import { createSampler } from './recorded-request.js';
import type { ResumeContext, Resumed, Seam } from './resume.js';
import { checkStop, resumeGeneration } from './resume.js';
import { canContinue, spansTooManyVersions } from './seam.js';
import type { Drop, RequestFacts } from './tape.js';
import { dropper } from './tape.js';

/** Shorter waits are not worth a question. */
const LONG_S = 1;

/** Samples at one replica, from where the journal is to the answer's `generation` line. */
export async function answer(call: Call, placed: Placed): Promise<'sampled' | Exit> {
  const { tape, service, signal, waits, pool, lease } = placed;
  const { turn, settings, said } = call;
  const mode = await modeFor(call, placed);
  const { request_id } = call;
  const facts = {
    turn,
    replica: service.replica,
    request_id,
    ...(mode && { logprobs_mode: mode }),
  };
  const drop = dropper(tape, { facts, said });
  await dropUnusable(call, { tape, drop });
  const inherited = [...tape.open().token_ids];
  const request = await requestFor(call, { lease, inherited: inherited.length });
  const { fence, policy } = lease;
  const labels = fence && labelsOf(request, { placed, fence, offset: inherited.length });
  const room = (): number => call.room;
  const is_read = call.is_read ?? false;
  const parts = { tape, service, settings, said, is_read, room, facts, labels, policy, signal };
  const sample = createSampler(parts);
  const { finish } = tape.open();
  // Stop strings are matched over the text that the engine shows.
  const special_tokens = call.shows_special_tokens ? [] : pool.special_tokens;
  const seam = { request, inherited, finish, eos_ids: call.eos_ids, special_tokens };
  const context = { service, sample, signal, said, refused: refusing(drop, facts) };
  // After a wait the journal may be another attempt's: then no engine is asked.
  if (placed.waited_s >= LONG_S) await tape.stored();
  const end = await waits.asks(
    () => whySilent(service),
    () => sampleOrResume(seam, { tape, context }),
  );
  if (typeof end === 'string') return end;
  const { text, token_ids } = tape.open();
  // Trainers in Python fail at half a character.
  const streamed = { content: text.toWellFormed(), token_count: token_ids.length };
  const generated = { ...streamed, ...end, queue_s: placed.waited_s + end.queue_s };
  if (generated.token_count < token_ids.length) await drop(generated.token_count);
  await tape.append({ kind: 'generation', turn, ...generated, token_count: token_ids.length });
  return 'sampled';
}

/** The mode of the logprobs to come; null without logprobs. Refuses a replica whose mode does not fit the request. */
async function modeFor(
  { settings: { generation, model }, room }: Call,
  { service: { replica }, lease, signal }: Placed,
): Promise<LogprobsMode | null> {
  if (!generation.include_logprobs || room <= 0) return null;
  const mode = await lease.logprobsMode(model, { signal });
  const refusal = refusalOfMode(mode, { generation, replica });
  if (refusal === null) return mode;
  const message = `${replica}: generation.logprobs_mode: ${refusal}`;
  throw new Fault({ type: 'GenerationRejected', message, at: replica });
}

/** Drops what earlier attempts have sampled and this one cannot continue. */
async function dropUnusable(
  { settings, said }: Call,
  { tape, drop }: { tape: Tape; drop: Drop },
): Promise<void> {
  const pending = tape.open().segments.find(({ version_source }) => version_source === 'pending');
  if (pending !== undefined) await drop(pending.start, { unknown: true });
  const open = tape.open();
  const isCut = open.token_ids.length > 0 && open.finish === null;
  const isUnusable =
    spansTooManyVersions(open, { settings, next: [] }) ||
    (isCut && !canContinue(settings.generation));
  // An answer of which a program has seen a part goes on, even so.
  if (isUnusable && said() === 0) await drop(0);
}

/** The request as a first one would be: the whole room, all stop strings. */
async function requestFor(
  call: Call,
  { lease, inherited }: Pick<Placed, 'lease'> & { inherited: number },
): Promise<GenerationRequest> {
  const { settings, room } = call;
  const { generation, model } = settings;
  const pictures = (await call.pictures?.()) ?? [];
  const salt = lease.fence?.version ?? null;
  return {
    ...asSet(generation),
    prompt_ids: call.prompt_ids,
    ...(pictures.length > 0 && { pictures }),
    model,
    ...(lease.fence?.adapter != null && { adapter: lease.fence.adapter.name }),
    max_tokens: room,
    min_tokens: Math.min(generation.min_tokens, Math.max(0, room)),
    temperature: generation.greedy ? 0 : generation.temperature,
    seed: call.seed(inherited),
    stop_strings: call.stops,
    logprobs: generation.include_logprobs,
    ...(call.shows_special_tokens && { shows_special_tokens: true }),
    request_id: call.request_id,
    ...(salt !== null && { cache_salt: String(salt) }),
    session_id: call.session_id,
  };
}

function labelsOf(
  request: GenerationRequest,
  { placed, fence, offset }: { placed: Placed; fence: Fence; offset: number },
): Labels {
  const { service, lease, pool, signal } = placed;
  return labelByFence({
    fence,
    policy: lease.policy,
    service,
    offset,
    // Spans name the weights below an adapter.
    names_spans: () => fence.adapter === null && service.names_spans?.(request) === true,
    signal,
    sleep: (ms) => sleep(ms, undefined, { signal }),
    distrust: (why) => pool.distrust(service.replica, { fence, why }),
  });
}

/** The reply contradicts itself: none of the answer's tokens count. */
const refusing =
  (drop: Drop, facts: RequestFacts) =>
  async (what: string): Promise<Fault> => {
    await drop(0);
    const { replica, request_id } = facts;
    const message = `${replica}: completion ${request_id}: ${what}`;
    return new Fault({ type: 'ProtocolError', message, at: replica });
  };

async function sampleOrResume(
  seam: Seam,
  { tape, context }: { tape: Tape; context: ResumeContext },
): Promise<GenerationEnd | Resumed | Exit> {
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
  if (typeof end === 'string') return end;
  const { token_ids: ids, text } = tape.open();
  return await checkStop(end, { ids, text: text.toWellFormed(), last, seam, context });
}

/** The prompt leaves no room: nothing is generated. */
const EMPTY: GenerationEnd = {
  finish_reason: 'length',
  stop_reason: null,
  queue_s: 0,
  generate_s: 0,
};

export const PAUSED = 'the engine is paused';
export const ASLEEP = 'the engine is asleep, until somebody wakes it (POST /wake_up)';

/** Why an engine is silent; null: it does not say. */
const whySilent = async (service: GenerationService): Promise<string | null> =>
  (await service.isAsleep()) ? ASLEEP : (await service.isPaused()) ? PAUSED : null;
