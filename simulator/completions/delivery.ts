import type { Answer } from './answer.js';
import type { CompletionRequest } from './completion-request.js';
import { DONE, IN_BAND_ERROR, type Piece, type Wire } from './completion-wire.js';
import type { EndReason, Engine } from '../engine.js';
import { engineError } from '../wire/fault-answers.js';
import { sendJson, sendText, type Exchange } from '../wire/http-exchange.js';
import { piecewise } from '../wire/piecewise.js';
import type { Outcome, RequestRecord } from '../request-log.js';
import type { FaultSpec } from '../settings.js';

/** How an answer is sent: completely, or up to where a fault ends it. */
export interface Delivery {
  /** Tokens to send before the end. */
  total: number;
  /** Sends the tokens up to this count. The last ones wait for `end`, which follows at once. */
  send: (count: number) => void;
  /** Sends the end. false: this request stays as it is until its client leaves. */
  end: () => boolean;
  /** Only the end is left to send. */
  isSent: () => boolean;
  /** The part of the answer that was sent. */
  sent: () => Answer;
  /** Ends it here, as an engine does on a pause or an abort. */
  abort: () => void;
}

export interface DeliveryFacts {
  exchange: Exchange;
  request: CompletionRequest;
  answer: Answer;
  wire: Wire;
  fault: FaultSpec | null;
  record: RequestRecord;
  /** Tokens are sent that were just sampled. */
  sampled: (start: number, end: number) => void;
  /** Tokens that another delivery sent before, under other weights. */
  first: number;
  engine: Engine;
  exit: () => void;
}

export function createDelivery(facts: DeliveryFacts): Delivery {
  const { answer, fault, record, request, engine } = facts;
  const all = answer.token_ids.length;
  const breaks = fault !== null && 'after_tokens' in fault ? fault : null;
  const total = breaks === null ? all : Math.min(breaks.after_tokens, all);
  const out = createOutput(facts);
  let sent = facts.first;
  const count = (tokens: number): void => {
    record.sent(tokens);
    engine.countTokens(tokens);
  };
  const finishWith = (ending: Ending): void => {
    if (ending.reason !== null) {
      engine.countEnd(ending.reason);
      record.end(ending.outcome, ending.finish_reason);
    }
    ending.send(out, { start: request.stream ? sent : 0, end: sent });
  };
  return {
    total,
    send(upTo) {
      const size = eventSize(fault);
      while (sent < upTo) {
        // Everything due, unless the fault asks for events of a fixed size.
        const end = size === null ? upTo : Math.min(sent + size, total);
        if (end > upTo) return;
        const finish_reason = end === all && breaks === null ? answer.finish_reason : null;
        facts.sampled(sent, end);
        if (request.stream) out.chunk({ start: sent, end, finish_reason });
        count(end - sent);
        sent = end;
      }
      if (upTo < total) out.flush();
    },
    end() {
      const ending = breaks === null ? finish(answer.finish_reason) : ENDINGS[breaks.fault];
      finishWith(ending);
      return ending.reason !== null;
    },
    isSent: () => sent >= total,
    sent: () => ({
      ...answer,
      token_ids: answer.token_ids.slice(0, sent),
      logprobs: answer.logprobs.slice(0, sent),
      ...(answer.generated_tops && { generated_tops: answer.generated_tops.slice(0, sent) }),
    }),
    abort() {
      // Without tokens there is no terminal chunk either.
      const isUntold = sent === 0 && facts.wire.aborts_empty !== true;
      finishWith(isUntold ? ENDINGS.done_without_finish : ENDINGS.abort_finish);
    },
  };
}

/** Tokens per event; null: whatever is due. */
function eventSize(fault: FaultSpec | null): number | null {
  if (fault?.fault === 'merged_deltas') return fault.tokens;
  return fault?.fault === 'split_deltas' ? 1 : null;
}

interface Ending {
  outcome: Outcome;
  finish_reason: Piece['finish_reason'];
  /** The engine's counters; null: nothing has ended. */
  reason: EndReason | null;
  send(out: Output, sent: Pick<Piece, 'start' | 'end'>): void;
}

function finish(finish_reason: Answer['finish_reason']): Ending {
  return {
    outcome: 'complete',
    finish_reason,
    reason: finish_reason,
    send: (out, sent) => {
      out.done({ ...sent, finish_reason });
    },
  };
}

type Breaking = Extract<FaultSpec, { after_tokens: number }>['fault'];

const ENDINGS: Readonly<Record<Breaking, Ending>> = {
  stall: {
    outcome: 'open',
    finish_reason: null,
    reason: null,
    send: (out) => {
      out.flush();
    },
  },
  cut: {
    outcome: 'cut',
    finish_reason: null,
    reason: 'abort',
    send: (out) => {
      out.cut();
    },
  },
  die: {
    outcome: 'cut',
    finish_reason: null,
    reason: 'abort',
    send: (out) => {
      out.die();
    },
  },
  in_band_error: {
    outcome: 'error',
    finish_reason: null,
    reason: 'error',
    send: (out) => {
      out.error();
    },
  },
  done_without_finish: {
    outcome: 'cut',
    finish_reason: null,
    reason: 'abort',
    send: (out, sent) => {
      out.done({ ...sent, finish_reason: null });
    },
  },
  abort_finish: {
    outcome: 'complete',
    finish_reason: 'abort',
    reason: 'abort',
    send: (out, sent) => {
      out.abort(sent);
    },
  },
};

type Output = ReturnType<typeof createOutput>;

/** The response, as a stream of events or as one body. */
function createOutput({ exchange, request, wire, fault, exit }: DeliveryFacts) {
  const { response } = exchange;
  const writer = fault?.fault === 'split_deltas' ? piecewise(response, fault.bytes) : response;
  let waiting = '';
  const flush = (): void => {
    if (waiting !== '') writer.write(waiting);
    waiting = '';
  };
  const close = (last: string): void => {
    writer.end(waiting + last);
    waiting = '';
  };
  const sendBody = (piece: Piece): void => {
    sendText(exchange, { status: 200, type: 'application/json', text: wire.whole(piece) });
  };
  return {
    flush,
    chunk(piece: Piece) {
      waiting += wire.chunk(piece);
    },
    /** After the last chunk. Without a stream there is no end without a finish reason, so it is an abort. */
    done(piece: Piece) {
      if (request.stream) close(wire.usage(piece.end) + DONE);
      else sendBody({ ...piece, finish_reason: piece.finish_reason ?? 'abort' });
    },
    /** An empty last chunk (capture 140). */
    abort({ start, end }: Pick<Piece, 'start' | 'end'>) {
      const piece: Piece = { start, end, finish_reason: 'abort' };
      if (request.stream) close(wire.chunk({ ...piece, start: end }) + wire.usage(end) + DONE);
      else sendBody(piece);
    },
    error() {
      if (request.stream) close(IN_BAND_ERROR + DONE);
      else sendJson(exchange, engineError());
    },
    /** What was sent arrives, then the connection is closed without the end of the body (capture 212). */
    cut() {
      flush();
      if (request.stream) response.flushHeaders();
      // Node.js may keep what was written until the end of this turn.
      setImmediate(() => response.socket?.destroySoon());
    },
    die() {
      if (waiting === '') exit();
      else response.write(waiting, exit);
    },
  };
}
