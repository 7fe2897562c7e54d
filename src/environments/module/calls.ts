import { setTimeout as sleep } from 'node:timers/promises';
import ms from 'ms';
import { Fault } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import type { ModuleThread } from './module-thread.js';
import { openThread } from './module-thread.js';
import type { CallOptions, PendingCall } from './pending.js';
import { pendingCalls } from './pending.js';
import type { Answer } from './questions.js';
import { answerOn } from './questions.js';
import type { CallBody, CallNews, OptionalFunction, ThreadStart } from './wire.js';

/** Time limit for loading a module, because compiling TypeScript holds its thread for a while. */
const LOAD_MS = 10_000;

interface ModuleCallsOptions {
  timeout_ms: number;
  /** The module's name in messages. */
  subject: string;
  answer: Answer;
}

/**
 * Calls into the thread of a module. Each has a deadline, counted from when the thread begins the call. A late call is
 * `EnvironmentFailed`. If the thread does not even answer a ping, a loop holds it. Then it is ended, and a new one
 * takes the calls that it had not begun. Of those that it had begun, the late ones and the last one are
 * `EnvironmentFailed`. The others are probably innocent, and `EnvironmentUnavailable`.
 */
export class ModuleCalls {
  readonly #start: ThreadStart;
  readonly #options: ModuleCallsOptions;
  readonly #calls;
  #thread: ModuleThread | null = null;
  #ended = false;

  constructor(start: ThreadStart, options: ModuleCallsOptions) {
    this.#start = start;
    this.#options = options;
    this.#calls = pendingCalls({
      timeout_ms: options.timeout_ms,
      passed: (one) => void this.#pass(one),
      changed: (count) => this.#thread?.hold(count > 0),
    });
  }

  /** Resolves once the module is loaded; rejects with its error, or if a loop holds it. */
  async ready(): Promise<OptionalFunction[]> {
    const thread = this.#current();
    const loading = new AbortController();
    const looked = sleep(LOAD_MS, undefined, { signal: loading.signal }).then(
      async () => {
        if (await thread.answersPing()) return await thread.ready;
        void this.end();
        throw new Error(`${this.#options.subject} did not load within ${LOAD_MS} ms`);
      },
      () => thread.ready,
    );
    return await Promise.race([thread.ready, looked]).finally(() => {
      loading.abort();
    });
  }

  /** Throws what the module threw, and `EnvironmentFailed` after the deadline. */
  async call(body: CallBody, options: CallOptions): Promise<unknown> {
    options.signal?.throwIfAborted();
    if (this.#ended) throw this.#fault('EnvironmentUnavailable', 'is closed');
    const thread = this.#current();
    const aborted = (id: number): void => this.#thread?.send({ kind: 'abort', id });
    const { one, answer } = this.#calls.add(body, { ...options, aborted });
    if (thread.isReady()) thread.send({ kind: 'call', id: one.id, body });
    return await answer;
  }

  async end(): Promise<void> {
    this.#ended = true;
    const last = this.#thread;
    this.#thread = null;
    this.#failAll('is closed');
    await last?.end();
  }

  #current(): ModuleThread {
    if (this.#thread !== null) return this.#thread;
    const opened: ModuleThread = openThread(this.#start, {
      subject: this.#options.subject,
      hear: (news) => {
        this.#hear(opened, news);
      },
      lost: (why) => {
        this.#lose(opened, why);
      },
    });
    this.#thread = opened;
    opened.ready.then(
      () => {
        const waiting = this.#calls.all();
        for (const { id, body } of waiting) opened.send({ kind: 'call', id, body });
        opened.hold(waiting.length > 0);
      },
      (error: unknown) => {
        if (this.#thread === opened) this.#thread = null;
        this.#failAll(`cannot be loaded: ${describeError(error)}`);
        void opened.end();
      },
    );
    return opened;
  }

  #hear(from: ModuleThread, news: CallNews): void {
    if (news.kind === 'started') this.#calls.begin(news.id);
    else if (news.kind === 'ended') this.#calls.settle(news.id, news.outcome);
    else {
      const { answer } = this.#options;
      const next = (id: number) => this.#calls.get(id)?.nextRollout() ?? Promise.resolve(null);
      void answerOn(news, { answer, next, reply: from.send });
    }
  }

  async #pass(one: PendingCall): Promise<void> {
    const why = `did not answer ${one.body.call} within ${ms(this.#options.timeout_ms)} (its timeout)`;
    const asked = this.#thread;
    if (asked === null) return;
    asked.send({ kind: 'abort', id: one.id });
    if (await asked.answersPing()) {
      this.#calls.fail(
        one.id,
        this.#fault('EnvironmentFailed', `${why}: its promise has not settled`),
      );
      return;
    }
    this.#lose(asked, `${why}: its code held the thread, which was ended`);
    await asked.end();
  }

  /** A thread has ended: the calls that it had begun have failed, and the rest goes to another one. */
  #lose(lost: ModuleThread, why: string): void {
    if (this.#thread !== lost || !lost.isReady()) return;
    this.#thread = null;
    const begun = this.#calls.all().filter((one) => one.begun);
    for (const one of begun) {
      const isBlamed = one.late || one === begun.at(-1);
      const fault = isBlamed
        ? this.#fault('EnvironmentFailed', why)
        : this.#fault('EnvironmentUnavailable', `lost its thread to another call: it ${why}`);
      this.#calls.fail(one.id, fault);
    }
    if (this.#calls.all().length > 0) this.#current();
  }

  #failAll(why: string): void {
    for (const { id } of this.#calls.all())
      this.#calls.fail(id, this.#fault('EnvironmentUnavailable', why));
  }

  #fault(type: 'EnvironmentFailed' | 'EnvironmentUnavailable', why: string): Fault {
    return new Fault({ type, message: `${this.#options.subject} ${why}` });
  }
}
