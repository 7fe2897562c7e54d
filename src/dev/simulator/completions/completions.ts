import { randomBytes } from 'node:crypto';
import { assembleAnswer, NO_ANSWER, type Answer } from './answer.js';
import { readBody } from '../wire/body-reader.js';
import { checkCompletion, CompletionBody, type CompletionRequest } from './completion-request.js';
import { createWire } from './completion-wire.js';
import { createDelivery, type Delivery } from './delivery.js';
import type { Engine } from '../engine.js';
import { answerInstead } from '../wire/fault-answers.js';
import {
  commonHeaders,
  headerOf,
  Refusal,
  sendJson,
  type Exchange,
} from '../wire/http-exchange.js';
import { startPacing, type Pacing } from './pacing.js';
import type { createPolicy } from '../policy/policy.js';
import { createRandom, type Random } from '../random.js';
import type { RequestLog, RequestRecord } from '../request-log.js';
import type { FaultSpec, SimulatorSettings } from '../settings.js';
import { VOCABULARY_SIZE } from '../policy/tokenizer.js';

export interface CompletionParts {
  settings: Readonly<SimulatorSettings>;
  policy: ReturnType<typeof createPolicy>;
  engine: Engine;
  log: RequestLog;
  /** Serves requests without a seed. */
  random: Random;
  /** Takes the listening socket away for so long. */
  closeFor: (ms: number) => void;
  /** Ends the process. */
  exit: () => void;
}

/** `POST /v1/completions`, hit by a fault or not. Rejects only when the client leaves before it has sent its request. */
export function createCompletions(parts: CompletionParts) {
  return async (exchange: Exchange, fault: FaultSpec | null): Promise<void> => {
    const read = await readRequest(exchange, parts.settings);
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
      sendJson(exchange, read.refusal);
    } else {
      run({ exchange, request: read.request, fault, record, parts });
    }
  };
}

type ReadRequest = { request: CompletionRequest } | { refusal: Refusal };

async function readRequest(
  exchange: Exchange,
  settings: Readonly<SimulatorSettings>,
): Promise<ReadRequest> {
  try {
    return { request: checkCompletion(await readBody(exchange, CompletionBody), settings) };
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
}

/** Waits for a place, generates, and sends at the engine's pace; a client that leaves ends it. */
function run({ exchange, request, fault, record, parts }: Run): void {
  const { engine, settings } = parts;
  const { response } = exchange;
  const deliver = (answer: Answer): Delivery => {
    const prompt_token_ids =
      fault?.fault === 'wrong_echo' ? changeLast(request.prompt) : request.prompt;
    const id = completionId(exchange, request);
    const wire = createWire({ id, model: settings.model, request, answer, prompt_token_ids });
    return createDelivery({ exchange, request, answer, wire, fault, record, ...parts });
  };
  let delivery: Delivery | null = null;
  let pacing: Pacing | null = null;
  const streams = request.stream && !isSilent(fault);
  if (streams) response.writeHead(200, { ...commonHeaders(exchange), ...STREAM_HEADERS });
  const leave = engine.enter({
    start: (leavePlace) => {
      engine.countPrompt(request.prompt.length);
      const { total, send, end } = (delivery = deliver(generate(request, { fault, parts })));
      const onEnd = (): void => {
        if (end()) leavePlace();
      };
      pacing = startPacing(settings, { total, onDue: send, onEnd });
    },
    freeze: (isFrozen) => pacing?.freeze(isFrozen),
    abort: () => {
      pacing?.stop();
      (delivery ?? deliver(NO_ANSWER)).abort();
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

const STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'transfer-encoding': 'chunked',
};

/** A request that stalls before its first token gets no headers either. */
function isSilent(fault: FaultSpec | null): boolean {
  return fault?.fault === 'stall' && fault.after_tokens === 0;
}

/** The header wins over the body (captures 072, 073). */
function completionId(exchange: Exchange, { request_id }: CompletionRequest): string {
  const given = headerOf(exchange.request, 'x-request-id') ?? request_id;
  return `cmpl-${given ?? randomBytes(8).toString('hex')}`;
}

function generate(
  request: CompletionRequest,
  { fault, parts: { policy, settings, random } }: Pick<Run, 'fault' | 'parts'>,
): Answer {
  const { thinking_tokens: thinking, skill, logprobs_mode } = settings;
  const generation = policy({
    prompt: request.prompt,
    max_tokens: request.max_tokens,
    min_tokens: request.min_tokens,
    ignore_eos: request.ignore_eos,
    sampling: request.sampling,
    skill,
    logprobs_mode,
    top_logprobs: request.top_logprobs,
    thinking: typeof thinking === 'number' ? [thinking, thinking] : thinking,
    random: request.seed === null ? random : createRandom(request.seed),
  });
  const answer = assembleAnswer(generation, request);
  if (fault?.fault === 'nan_logprob') {
    answer.logprobs[Math.min(fault.at_token, answer.logprobs.length - 1)] = NaN;
  }
  return answer;
}

function changeLast(ids: readonly number[]): number[] {
  return ids.map((id, i) => (i === ids.length - 1 ? (id + 1) % VOCABULARY_SIZE : id));
}
