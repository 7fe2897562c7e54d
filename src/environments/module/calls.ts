import { Readable } from 'node:stream';
import { Fault } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import { LATE, orAborted, withController, within } from '../../platform/waits/abort.js';
import { refusalIn, type HttpCall, type HttpCalls, type Reply } from '../http/call.js';
import { startModule, type ModuleOptions, type ModuleProcess } from './process.js';
import { CALL_HEADER, subjectOf, type FunctionName, type Refusal } from './wire.js';

/** A loop that holds its process for longer keeps it, and a new one serves the other calls. */
const PATIENCE_MS = 10_000;
/** Each of them uses a core until the deadline of its call. */
const MOST_LEFT = 4;
/** So often may the process of a call end before it begins the call. */
const MOST_TRIES = 8;
/** From a broken connection to the end of its process. */
const END_MS = 2000;

export interface ModuleCalls extends HttpCalls {
  /** Resolves once the module is loaded; rejects with its error, or if a loop holds it. */
  ready: () => Promise<FunctionName[]>;
}

/**
 * Calls of a module, by HTTP to its process, which is started again when it has ended. Of the calls that it had begun,
 * the late ones and the last one are `EnvironmentFailed`. The others are probably innocent, and
 * `EnvironmentUnavailable`. Those that it had not begun go to a new process, also well before a deadline, unless the
 * module may hold something for each rollout.
 */
export function createModuleCalls({
  patience_ms = PATIENCE_MS,
  ...options
}: ModuleOptions & { patience_ms?: number }): ModuleCalls {
  const unavailable = unavailableBy(options);
  const all = new Set<Server>();
  let serving: Server | null = null;
  let closed = false;

  const serve = (): Server => {
    if (serving !== null) return serving;
    const server = startServer(options, {
      patience_ms: all.size < MOST_LEFT ? patience_ms : null,
      left: () => {
        if (serving === server) serving = null;
      },
    });
    all.add(server);
    serving = server;
    void server.ended.then(() => all.delete(server));
    return server;
  };

  return {
    ready: async () => (await serve().ready).has,
    send: async (call) => {
      for (let tries = 0; tries < MOST_TRIES && !closed; tries++) {
        const reply = await serve().ask(call);
        if (reply !== null) return reply;
      }
      throw unavailable(closed ? CLOSED : `has not begun the call in ${MOST_TRIES} processes`);
    },
    close: async () => {
      closed = true;
      for (const { end } of all) end();
      await Promise.all([...all].map(({ ended }) => ended));
    },
  };
}

const CLOSED = 'is closed';

const unavailableBy =
  ({ start }: ModuleOptions) =>
  (why: string): Fault =>
    new Fault({ type: 'EnvironmentUnavailable', message: `${subjectOf(start)} ${why}` });

interface Server extends ModuleProcess {
  /** null: the process has not begun the call, and will not. */
  ask: (call: HttpCall) => Promise<Reply | null>;
}

/** A call without an answer, and when the process began it, in ms; null: it has not. */
interface Waiting {
  began: number | null;
  move: () => void;
}

/** `left`: the process begins no more calls. */
function startServer(
  options: ModuleOptions,
  { patience_ms, left }: { patience_ms: number | null; left: () => void },
): Server {
  const unavailable = unavailableBy(options);
  const waiting = new Map<number, Waiting>();
  let [numbers, last] = [0, 0];
  let [is_left, is_closed] = [false, false];
  const leave = (): void => {
    is_left = true;
    left();
    for (const { began, move } of waiting.values()) if (began === null) move();
  };
  const process = startModule(options, {
    patience_ms,
    left: leave,
    began: (call) => {
      last = call;
      const one = waiting.get(call);
      if (one !== undefined) one.began = performance.now();
    },
  });
  void process.ended.then(leave);

  const faultOf = (end: string, one: Waiting & { isLast: boolean }): Fault => {
    const is_late = one.began !== null && performance.now() - one.began >= options.start.timeout_ms;
    return one.isLast || is_late
      ? new Fault({ type: 'EnvironmentFailed', message: `${subjectOf(options.start)} ${end}` })
      : unavailable(`lost its process to another call: it ${end}`);
  };

  const ask = async (call: HttpCall): Promise<Reply | null> => {
    const { send } = await orAborted(process.ready, call.signal).catch((error: unknown) => {
      call.signal.throwIfAborted();
      throw unavailable(`cannot be loaded: ${describeError(error)}`);
    });
    const id = (numbers += 1);
    return await withController(call.signal, async (controller) => {
      const one: Waiting = {
        began: null,
        move: () => {
          controller.abort();
        },
      };
      waiting.set(id, one);
      const headers = { ...call.headers, [CALL_HEADER]: String(id) };
      try {
        const reply = await send({ ...call, headers, signal: controller.signal });
        return { ...reply, request: subjectOf(options.start) };
      } catch (error) {
        call.signal.throwIfAborted();
        throwRefusal(error);
        const end = await within(controller.signal.aborted ? 0 : END_MS, process.ended);
        if (is_closed) throw unavailable(CLOSED);
        // A stream is sent once.
        if (controller.signal.aborted && !(call.body instanceof Readable)) return null;
        throw end === LATE ? error : faultOf(end, { ...one, isLast: id === last });
      } finally {
        waiting.delete(id);
        if (is_left && waiting.size === 0) process.end();
      }
    });
  };
  const end = (): void => {
    is_closed = true;
    process.end();
  };
  return { ...process, ask, end };
}

function throwRefusal(error: unknown): void {
  const refusal = error instanceof Fault ? refusalIn(error) : null;
  if (refusal === null) return;
  const { error: said } = JSON.parse(refusal.text) as { error: Refusal };
  throw new Fault(said);
}
