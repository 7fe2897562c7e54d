import { errorBody, Refusal, sendJson, type Exchange, type Reply } from './http-exchange.js';
import type { Outcome } from '../request-log.js';
import type { FaultSpec } from '../settings.js';

export interface FaultContext {
  exchange: Exchange;
  /** Closes the listening socket for that long. */
  closeFor: (ms: number) => void;
  /** Ends the process. */
  exit: () => void;
}

/** Faults that answer instead of an endpoint. null: this fault does not, and the endpoint answers. */
export function answerInstead(fault: FaultSpec, context: FaultContext): Outcome | null {
  const { exchange } = context;
  switch (fault.fault) {
    case 'refuse':
      if (fault.for_ms === null) exchange.request.socket.resetAndDestroy();
      else context.closeFor(fault.for_ms);
      return 'cut';
    case '503':
      sendJson(exchange, { ...BUSY, headers: retryAfter(fault) });
      return 'rejected';
    case '429':
      sendJson(exchange, { ...TOO_MANY, headers: retryAfter(fault) });
      return 'rejected';
    case '401':
      sendJson(exchange, NO_KEY);
      return 'rejected';
    case '404':
      sendJson(exchange, NO_MODEL);
      return 'rejected';
    default:
      return null;
  }
}

/** The same for endpoints other than completions, which count no tokens: a stall is silence, and death is immediate. */
export function answerElsewhere(fault: FaultSpec, context: FaultContext): boolean {
  if (fault.fault === 'die') context.exit();
  if (fault.fault === 'unsuccessful') {
    sendJson(context.exchange, { status: 200, body: { success: false } });
    return true;
  }
  return fault.fault === 'stall' || answerInstead(fault, context) !== null;
}

/** Capture 235. */
const BUSY: Reply = {
  status: 503,
  body: errorBody({
    message:
      'The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.',
    type: 'Service Unavailable',
    param: null,
    code: 503,
  }),
};

const TOO_MANY: Reply = {
  status: 429,
  body: errorBody({
    message: 'Too many requests. Please try again later.',
    type: 'Too Many Requests',
    param: null,
    code: 429,
  }),
};

const NO_KEY: Reply = { status: 401, body: { error: 'Unauthorized' } };

const NO_MODEL: Reply = {
  status: 404,
  body: errorBody({
    message: 'The model does not exist.',
    type: 'NotFoundError',
    param: 'model',
    code: 404,
  }),
};

function retryAfter({ retry_after }: { retry_after: number | null }): Record<string, string> {
  return retry_after === null ? {} : { 'retry-after': String(retry_after) };
}

/** The answer of a dead engine outside a stream. */
export function engineError(): Reply {
  const message = 'EngineCore encountered an issue. See stack trace (above) for the root cause.';
  const body = errorBody({ message, type: 'InternalServerError', param: null, code: 500 });
  return { status: 500, body };
}

/** Capture 172. */
export function workerFailed(why: string): Refusal {
  const message = `Call to collective_rpc method failed: Worker failed with error '${why}', please check the stack trace above for the root cause`;
  const body = errorBody({ message, type: 'InternalServerError', param: null, code: 500 });
  return new Refusal({ status: 500, body });
}
