import { randomBytes } from 'node:crypto';
import { assembleAnswer, NO_ANSWER, type Answer } from './answer.js';
import { readBody } from '../wire/body-reader.js';
import { checkCompletion, CompletionBody, type CompletionRequest } from './completion-request.js';
import { createWire, type VersionSpan, type Wire, type WireFacts } from './completion-wire.js';
import { createDelivery, type Delivery } from './delivery.js';
import type { Engine } from '../engine.js';
import { answerInstead } from '../wire/fault-answers.js';
import {
  commonHeaders,
  headerOf,
  Refusal,
  sendRefusal,
  type Exchange,
} from '../wire/http-exchange.js';
import { startPacing, type Pacing } from './pacing.js';
import type { createPolicy } from '../policy/policy.js';
import { createRandom, type Random } from '../random.js';
import type { Limits } from '../wire/request-limits.js';
import type { RequestLog, RequestRecord } from '../request-log.js';
import type { FaultSpec, SimulatorSettings } from '../settings.js';
import { promptLogprobs, seedUnder, type WeightStore } from '../weights.js';
import { VOCABULARY_SIZE } from '../policy/tokenizer.js';

export interface CompletionParts {
  settings: Readonly<SimulatorSettings>;
  policy: ReturnType<typeof createPolicy>;
  engine: Engine;
  weights: WeightStore;
  log: RequestLog;
  /** Serves requests without a seed. */
  random: Random;
  /** Closes the listening socket for that long. */
  closeFor: (ms: number) => void;
  /** Ends the process. */
  exit: () => void;
}

/** How one wire reads its requests and writes its answers. */
export interface Speech {
  read: (
    exchange: Exchange,
    settings: Readonly<SimulatorSettings> & Pick<Limits, 'adapters'>,
  ) => Promise<CompletionRequest>;
  write: (facts: WireFacts) => Wire;
  id_prefix: string;
}

/**
 * `POST /v1/completions` and `/inference/v1/generate`, with or without a fault. Rejects only if the client leaves
 * before it has sent its request.
 */
export function createCompletions(parts: CompletionParts, speech: Speech = COMPLETIONS) {
  return async (exchange: Exchange, fault: FaultSpec | null): Promise<void> => {
    const read = await readRequest(exchange, { ...parts, speech });
    const request = 'refusal' in read ? null : read.request;
    const record = parts.log.arrive({
      request_id: headerOf(exchange.request, 'x-request-id'),
      session_id: exchange.session_id,
      prompt_tokens: request?.prompt.length ?? null,
      fault: fault?.fault ?? null,
      seed: request?.seed ?? null,
    });
    const instead = fault === null ? null : answerInstead(fault, { exchange, ...parts });
    if (instead !== null) {
      record.end(instead);
    } else if ('refusal' in read) {
      record.end('rejected');
      sendRefusal(exchange, read.refusal);
    } else {
      run({ exchange, request: read.request, fault, record, parts, speech });
    }
  };
}

const COMPLETIONS: Speech = {
  read: async (exchange, settings) =>
    checkCompletion(await readBody(exchange, CompletionBody), settings),
  write: createWire,
  id_prefix: 'cmpl-',
};

type ReadRequest = { request: CompletionRequest } | { refusal: Refusal };

async function readRequest(
  exchange: Exchange,
  { settings, weights, speech }: Pick<CompletionParts, 'settings' | 'weights'> & { speech: Speech },
): Promise<ReadRequest> {
  try {
    const adapters = weights.adapters();
    return { request: await speech.read(exchange, { ...settings, adapters }) };
  } catch (error) {
    if (error instanceof Refusal) return { refusal: error };
    throw error;
  }
}

interface Run {
  exchange: Exchange;
  request: CompletionRequest;
  fault: FaultSpec | null;
  record: RequestRecord;
  parts: CompletionParts;
  speech: Speech;
}

/** Waits for a place, generates, and sends at the engine's pace; a client that leaves ends it. */
function run(given: Run): void {
  const { exchange, request, fault, record, parts } = given;
  const { engine, settings } = parts;
  const { response } = exchange;
  const streams = request.stream && !isSilent(fault);
  if (streams) response.writeHead(200, { ...commonHeaders(exchange), ...STREAM_HEADERS });
  const spans: VersionSpan[] = [];
  let delivery: Delivery | null = null;
  let pacing: Pacing | null = null;
  let leavePlace = (): void => undefined;
  const play = (before: Sampled): void => {
    const now = deliver(before, { ...given, spans });
    delivery = now.delivery;
    const { total, send, end } = delivery;
    const done = before.answer.token_ids.length;
    pacing = startPacing(settings, {
      total: total - done,
      onDue: (count) => {
        send(done + count);
      },
      onEnd: () => {
        if (end()) leavePlace();
      },
    });
    if (engine.isFrozen()) pacing.freeze(true);
  };
  const leave = engine.enter({
    id: request.request_id,
    start: (leaveRunning) => {
      if (parts.weights.isTransferring() || engine.stats().is_asleep) parts.exit();
      leavePlace = leaveRunning;
      engine.countPrompt(request.prompt.length);
      play({ answer: NO_ANSWER });
    },
    freeze: (isFrozen) => pacing?.freeze(isFrozen),
    reweigh: () => {
      if (delivery === null || delivery.isSent()) return;
      pacing?.stop();
      play({ answer: delivery.sent() });
    },
    abort: () => {
      pacing?.stop();
      (
        delivery ?? deliver({ answer: NO_ANSWER }, { ...given, spans, silent: true }).delivery
      ).abort();
      leave();
    },
  });
  if (streams && !response.writableEnded) response.flushHeaders();
  const onClose = (): void => {
    pacing?.stop();
    leave();
    if (record.entry.outcome !== 'open') return;
    engine.countEnd('abort');
    record.end('aborted', 'abort');
  };
  if (response.closed) onClose();
  else response.once('close', onClose);
}

/** What was sent of an answer before its weights changed. */
interface Sampled {
  answer: Answer;
}

function deliver(
  { answer: before }: Sampled,
  given: Run & { spans: VersionSpan[]; silent?: boolean },
): { delivery: Delivery } {
  const { exchange, request, fault, record, parts, speech, spans, silent = false } = given;
  const { weights, settings } = parts;
  const answer = silent ? NO_ANSWER : generate(request, { fault, parts, before });
  const prompt_token_ids =
    fault?.fault === 'wrong_echo' ? changeLast(request.prompt) : request.prompt;
  const id = completionId(exchange, { request, speech });
  const model = request.model || settings.model;
  const isEchoed = before.token_ids.length > 0;
  const told = (): unknown => {
    const logprobs = promptLogprobs(weights.under(request.model), request.prompt);
    const named = logprobs.map((logprob, i) => ({
      [String(request.prompt[i + 1])]: { logprob, rank: 1, decoded_token: '' },
    }));
    return [null, ...named];
  };
  const wire = speech.write({
    id,
    model,
    request,
    answer,
    prompt_token_ids,
    spans,
    isEchoed,
    promptLogprobs: told,
  });
  const sampled = (start: number, end: number): void => {
    const version = weights.label();
    const last = spans.at(-1);
    if (last?.version === version) last.end = end;
    else spans.push({ version, start, end });
    record.sampled({ start, end, weights: weights.under(request.model).name });
  };
  const first = before.token_ids.length;
  return {
    delivery: createDelivery({
      exchange,
      request,
      answer,
      wire,
      fault,
      record,
      sampled,
      first,
      ...parts,
    }),
  };
}

const STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'transfer-encoding': 'chunked',
};

/** A request that stalls before its first token gets no headers either. */
function isSilent(fault: FaultSpec | null): boolean {
  return fault?.fault === 'stall' && fault.after_tokens === 0;
}

/** The header takes precedence over the body. */
function completionId(
  exchange: Exchange,
  { request: { request_id }, speech }: Pick<Run, 'request' | 'speech'>,
): string {
  const given = headerOf(exchange.request, 'x-request-id') ?? request_id;
  return `${speech.id_prefix}${given ?? randomBytes(8).toString('hex')}`;
}

function generate(
  request: CompletionRequest,
  {
    fault,
    parts: { policy, settings, random, weights },
    before,
  }: Pick<Run, 'fault' | 'parts'> & { before: Answer },
): Answer {
  const { thinking_tokens: thinking, logprobs_mode } = settings;
  const { skill, ...others } = weights.under(request.model);
  const { token_ids: said } = before;
  const { seed } = request;
  const place = said.length === 0 ? [] : [said.length];
  const rest = policy({
    prompt: [...request.prompt, ...said],
    max_tokens: request.max_tokens - said.length,
    min_tokens: Math.max(0, request.min_tokens - said.length),
    ignore_eos: request.ignore_eos,
    sampling: request.sampling,
    skill,
    think_tags: settings.think_tags,
    malformed_calls: settings.malformed_calls,
    logprobs_mode,
    top_logprobs: request.top_logprobs,
    thinking: typeof thinking === 'number' ? [thinking, thinking] : thinking,
    random:
      seed === null ? random : createRandom(seedUnder({ skill, ...others }, [seed, ...place])),
  });
  const generation = {
    token_ids: [...said, ...rest.token_ids],
    logprobs: [...before.logprobs, ...rest.logprobs],
    tops: [...(before.generated_tops ?? []), ...(rest.tops ?? [])],
  };
  const answer = assembleAnswer(generation, request);
  if (fault?.fault === 'nan_logprob') {
    answer.logprobs[Math.min(fault.at_token, answer.logprobs.length - 1)] = NaN;
  }
  return answer;
}

function changeLast(ids: readonly number[]): number[] {
  return ids.map((id, i) => (i === ids.length - 1 ? (id + 1) % VOCABULARY_SIZE : id));
}
