import { Readable } from 'node:stream';
import ms from 'ms';
import { Fault, faultWith } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import { orAborted, within } from '../../platform/waits/abort.js';
import { refusalIn, type HttpCall, type Reply } from '../http/call.js';
import type { ModuleOptions, ModuleProcess } from './module-process.js';
import { NO_LIMIT_MS, startModule } from './module-process.js';
import type { FunctionName, ModuleStart, WireError } from './wire.js';
import { errorOf } from './wire.js';

/** A loop that holds its process for longer keeps it, and a new one serves the other calls. */
const PATIENCE_MS = 10_000;
/** Each of them uses a core until the deadline of its call. */
const MOST_LEFT = 4;
/** How long after its connections a process may end. */
const ENDS_WITHIN_MS = 1000;

interface CallsOptions extends ModuleOptions {
  timeout_ms: number;
  patience_ms?: number;
}

/**
 * Calls into the process of a module, which is kept, and made again. Each has a deadline, counted from when the process
 * begins the call, which it says (status 102). A late call is `EnvironmentFailed`. If the process does not even answer a
 * ping, a loop holds it. Then it is ended. Of the calls that it had begun, the late ones and the last one are
 * `EnvironmentFailed`. The others are probably innocent, and `EnvironmentUnavailable`. Those that it had not begun go to
 * a new process, also well before the deadline, unless the module may hold something for each rollout.
 */
export class ModuleCalls {
  readonly #start: Omit<ModuleStart, 'token'>;
  readonly #options: CallsOptions;
  /** In the order in which processes began them. */
  readonly #calls = new Set<Call>();
  #process: ModuleProcess | null = null;
  /** Held by a loop, with the calls that they had begun. */
  readonly #left = new Set<ModuleProcess>();
  #holds = true;
  #ended = false;

  constructor(start: Omit<ModuleStart, 'token'>, options: CallsOptions) {
    this.#start = start;
    this.#options = options;
  }

  /** Resolves once the module is loaded; rejects with its error, or if a loop holds it. */
  async ready(): Promise<FunctionName[]> {
    return await this.#current().ready;
  }

  /** Throws what the module threw, `EnvironmentFailed` after the deadline, and the signal's reason. */
  readonly send = async (request: HttpCall): Promise<Reply> => {
    const { signal, body } = request;
    await this.#afterItsBeginning(request);
    for (;;) {
      signal.throwIfAborted();
      if (this.#ended) throw this.#fault('EnvironmentUnavailable', 'is closed');
      // Nobody waits after an abort, but the call and its deadline stay, so a loop is still ended.
      const reply = await orAborted(this.#play(request), signal);
      if (reply !== null) return reply;
      if (body instanceof Readable)
        throw this.#fault('EnvironmentUnavailable', 'lost its process to another call');
    }
  };

  async end(): Promise<void> {
    this.#ended = true;
    const processes = [...this.#left, ...(this.#process === null ? [] : [this.#process])];
    this.#process = null;
    this.#left.clear();
    const closed = this.#fault('EnvironmentUnavailable', 'is closed');
    for (const one of this.#calls) one.fail(closed);
    await Promise.all(processes.map((one) => one.end()));
  }

  /** Connections keep no order among them, so an end is sent once its beginning has begun. */
  async #afterItsBeginning({ path, body, signal }: HttpCall): Promise<void> {
    if (path !== '/end') return;
    const beginning = [...this.#calls].find(
      ({ request }) => request.path === '/begin' && sessionIn(request.body) === sessionIn(body),
    );
    if (beginning !== undefined) await orAborted(beginning.started, signal);
  }

  #current(): ModuleProcess {
    if (this.#process !== null) return this.#process;
    const opened = startModule(this.#start, this.#options);
    this.#process = opened;
    opened.ready.then(
      (has) => {
        this.#holds = has.includes('begin') || has.includes('end');
        void opened.over.then((why) => {
          this.#lose(opened, why);
        });
      },
      (error: unknown) => {
        if (this.#process === opened) this.#process = null;
        const why = `cannot be loaded: ${describeError(error)}`;
        for (const one of this.#callsOn(opened))
          one.fail(this.#fault('EnvironmentUnavailable', why));
        opened.end().catch(() => undefined);
      },
    );
    return opened;
  }

  #callsOn(process: ModuleProcess): Call[] {
    return [...this.#calls].filter(({ on }) => on === process);
  }

  /** null: it has not begun. */
  async #play(request: HttpCall): Promise<Reply | null> {
    const on = this.#current();
    const one = new Call(request, on);
    this.#calls.add(one);
    request.signal.addEventListener('abort', one.leave, { once: true });
    void this.#ask(one);
    try {
      return await one.outcome;
    } finally {
      request.signal.removeEventListener('abort', one.leave);
      one.end();
      this.#calls.delete(one);
      this.#release(on);
    }
  }

  async #ask(one: Call): Promise<void> {
    const { on, request, cut } = one;
    try {
      // The calls of one that cannot be loaded have failed.
      await on.ready;
      const reply = await on.send({
        ...request,
        timeout_ms: NO_LIMIT_MS,
        signal: cut.signal,
        begun: () => {
          this.#begin(one);
        },
      });
      one.settle(reply);
    } catch (error) {
      if (cut.signal.aborted) return;
      const thrown = error instanceof Fault ? thrownIn(error, this.#options.subject) : null;
      // Without an answer, the process has ended or is about to. Its end decides.
      if (thrown === null) await within(ENDS_WITHIN_MS, on.over);
      one.fail(thrown ?? this.#fault('EnvironmentUnavailable', describeError(error)));
    }
  }

  #begin(one: Call): void {
    const { timeout_ms, patience_ms = PATIENCE_MS } = this.#options;
    this.#calls.delete(one);
    this.#calls.add(one);
    one.begin([
      setTimeout(() => void this.#pass(one), timeout_ms),
      setInterval(() => void this.#leave(one), patience_ms),
    ]);
  }

  /** The deadline of a call has passed. */
  async #pass(one: Call): Promise<void> {
    const { on, request } = one;
    const why = `did not answer ${request.path.slice(1)} within ${ms(this.#options.timeout_ms)} (its timeout)`;
    one.late = true;
    if (await on.answersPing()) {
      one.fail(this.#fault('EnvironmentFailed', `${why}: its promise has not settled`));
      one.cut.abort();
      return;
    }
    this.#lose(on, `${why}: its code held the process, which was ended`);
    await on.end();
  }

  /** The calls that a loop holds up go to another process. */
  async #leave({ on }: Call): Promise<void> {
    const isServing = (): boolean => on === this.#process;
    if (this.#holds || this.#left.size >= MOST_LEFT || !isServing()) return;
    if ((await on.answersPing()) || !isServing()) return;
    this.#left.add(on);
    this.#process = null;
    this.#passOn(on);
  }

  #passOn(on: ModuleProcess): void {
    for (const one of this.#callsOn(on)) {
      if (one.begun) continue;
      one.settle(null);
      one.cut.abort();
    }
  }

  /** A process that was left, once its last call has been answered. */
  #release(process: ModuleProcess): void {
    if (!this.#left.has(process) || this.#callsOn(process).length > 0) return;
    this.#left.delete(process);
    void process.end();
  }

  /** A process has ended: the calls that it had begun have failed, and the rest goes to another one. */
  #lose(lost: ModuleProcess, why: string): void {
    if (this.#process === lost) this.#process = null;
    else if (!this.#left.delete(lost)) return;
    const begun = this.#callsOn(lost).filter((one) => one.begun);
    for (const one of begun) {
      const isBlamed = one.late || one === begun.at(-1);
      const fault = isBlamed
        ? this.#fault('EnvironmentFailed', why)
        : this.#fault('EnvironmentUnavailable', `lost its process to another call: it ${why}`);
      one.fail(fault);
    }
    this.#passOn(lost);
  }

  #fault(type: 'EnvironmentFailed' | 'EnvironmentUnavailable', why: string): Fault {
    return new Fault({ type, message: `${this.#options.subject} ${why}` });
  }
}

/** A call without an answer. */
class Call {
  readonly request: HttpCall;
  readonly on: ModuleProcess;
  readonly cut = new AbortController();
  readonly outcome: Promise<Reply | null>;
  /** It has begun, or never will. */
  readonly started: Promise<void>;
  begun = false;
  /** Its deadline has passed. */
  late = false;
  settle: (reply: Reply | null) => void = () => undefined;
  fail: (error: Error) => void = () => undefined;
  #start: () => void = () => undefined;
  #timers: NodeJS.Timeout[] = [];

  constructor(request: HttpCall, on: ModuleProcess) {
    this.request = request;
    this.on = on;
    this.outcome = new Promise((resolve, reject) => {
      this.settle = resolve;
      this.fail = reject;
    });
    this.started = new Promise((resolve) => {
      this.#start = resolve;
    });
  }

  begin(timers: NodeJS.Timeout[]): void {
    this.begun = true;
    this.#timers = timers;
    this.#start();
    this.leave();
  }

  /** Once it has begun, its process learns that nobody waits any more. */
  readonly leave = (): void => {
    if (this.begun && this.request.signal.aborted) setImmediate(() => this.cut.abort());
  };

  end(): void {
    this.#start();
    this.#timers.forEach(clearTimeout);
  }
}

const sessionIn = (body: unknown): unknown => (Object(body) as { session?: unknown }).session;

/** What the module threw; null: it answered nothing. */
function thrownIn(fault: Fault, subject: string): Error | null {
  const { status, text } = refusalIn(fault) ?? { status: null, text: '' };
  // An answer that is too large is no refusal, and would come again.
  if (status === null)
    return fault.retryable ? null : faultWith(fault, { message: `${subject}: ${fault.message}` });
  try {
    return errorOf((JSON.parse(text) as { error: WireError }).error);
  } catch {
    return fault;
  }
}
