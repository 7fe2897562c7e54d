import { setTimeout as sleep } from 'node:timers/promises';
import ms from 'ms';
import { Fault } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import { orAborted } from '../../platform/waits/abort.js';
import type { FinishedRollouts } from '../environment.js';
import type { ModuleThread } from './module-thread.js';
import { openThread } from './module-thread.js';
import type { PendingCall } from './pending.js';
import { pendingCalls } from './pending.js';
import type { Answer } from './questions.js';
import { answerOn } from './questions.js';
import type { CallBody, CallNews, FunctionName, ThreadStart } from './wire.js';

/** Time limit for loading a module, because compiling TypeScript holds its thread for a while. */
const LOAD_MS = 10_000;
/** A loop that holds its thread for longer keeps it, and a new one serves the other calls. */
const PATIENCE_MS = 10_000;
/** Each of them uses a core until the deadline of its call. */
const MOST_LEFT = 4;

interface ModuleCallsOptions {
  timeout_ms: number;
  patience_ms?: number;
  /** The module's name in messages. */
  subject: string;
  answer: Answer;
}

/**
 * Calls into the thread of a module. Each has a deadline, counted from when the thread begins the call. A late call is
 * `EnvironmentFailed`. If the thread does not even answer a ping, a loop holds it. Then it is ended. Of the calls that it
 * had begun, the late ones and the last one are `EnvironmentFailed`. The others are probably innocent, and
 * `EnvironmentUnavailable`. Those that it had not begun go to a new thread, also well before the deadline, unless the
 * module may hold something for each rollout.
 */
export class ModuleCalls {
  readonly #start: ThreadStart;
  readonly #options: ModuleCallsOptions;
  readonly #calls;
  #thread: ModuleThread | null = null;
  /** Held by a loop, with the calls that they had begun. */
  readonly #left = new Set<ModuleThread>();
  #hasSessions = true;
  #ended = false;

  constructor(start: ThreadStart, options: ModuleCallsOptions) {
    this.#start = start;
    this.#options = options;
    this.#calls = pendingCalls({
      timeout_ms: options.timeout_ms,
      patience_ms: options.patience_ms ?? PATIENCE_MS,
      passed: (one) => void this.#pass(one),
      slow: (one) => void this.#leave(one),
      changed: (count) => this.#thread?.keepsProcess(count > 0),
    });
  }

  /** Resolves once the module is loaded; rejects with its error, or if a loop holds it. */
  async ready(): Promise<FunctionName[]> {
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

  /** Throws what the module threw, `EnvironmentFailed` after the deadline, and the signal's reason. */
  async call(
    body: CallBody,
    { signal, rollouts }: { signal?: AbortSignal; rollouts?: FinishedRollouts } = {},
  ): Promise<unknown> {
    signal?.throwIfAborted();
    if (this.#ended) throw this.#fault('EnvironmentUnavailable', 'is closed');
    const thread = this.#current();
    const { one, answer } = this.#calls.add(body, rollouts);
    if (thread.isReady()) thread.send({ kind: 'call', id: one.id, body });
    if (signal === undefined) return await answer;
    // Nobody waits any more, but the call and its deadline stay, so a loop is still ended.
    const stop = (): void => (one.on ?? this.#thread)?.send({ kind: 'abort', id: one.id });
    signal.addEventListener('abort', stop, { once: true });
    return await orAborted(answer, signal).finally(() => {
      signal.removeEventListener('abort', stop);
    });
  }

  async end(): Promise<void> {
    this.#ended = true;
    const threads = [...this.#left, ...(this.#thread === null ? [] : [this.#thread])];
    this.#thread = null;
    this.#left.clear();
    this.#failAll('is closed');
    await Promise.all(threads.map((thread) => thread.end()));
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
      (has) => {
        this.#hasSessions = has.includes('begin') || has.includes('end');
        const waiting = this.#calls.all().filter(({ on }) => on === null);
        for (const { id, body } of waiting) opened.send({ kind: 'call', id, body });
        opened.keepsProcess(waiting.length > 0);
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
    if (news.kind === 'started') {
      if (!this.#left.has(from)) this.#calls.begin(news.id, from);
    } else if (news.kind === 'ended') {
      if (this.#calls.get(news.id)?.on === from) this.#calls.settle(news.id, news.outcome);
      this.#release(from);
    } else {
      const { answer } = this.#options;
      const next = (id: number) => this.#calls.get(id)?.nextRollout() ?? Promise.resolve(null);
      void answerOn(news, { answer, next, reply: from.send });
    }
  }

  async #pass(one: PendingCall): Promise<void> {
    const why = `did not answer ${one.body.call} within ${ms(this.#options.timeout_ms)} (its timeout)`;
    const asked = one.on;
    if (asked === null) return;
    asked.send({ kind: 'abort', id: one.id });
    if (await asked.answersPing()) {
      this.#calls.fail(
        one.id,
        this.#fault('EnvironmentFailed', `${why}: its promise has not settled`),
      );
      this.#release(asked);
      return;
    }
    this.#lose(asked, `${why}: its code held the thread, which was ended`);
    await asked.end();
  }

  /** The calls that a loop holds up go to another thread. */
  async #leave({ on }: PendingCall): Promise<void> {
    const isServing = (): boolean => on !== null && on === this.#thread;
    if (on === null || this.#hasSessions || this.#left.size >= MOST_LEFT || !isServing()) return;
    if ((await on.answersPing()) || !isServing()) return;
    on.leave();
    this.#left.add(on);
    this.#thread = null;
    if (this.#calls.all().some((one) => one.on === null)) this.#current();
  }

  /** A thread that was left, once its last call has been answered. */
  #release(thread: ModuleThread): void {
    if (!this.#left.has(thread) || this.#calls.all().some(({ on }) => on === thread)) return;
    this.#left.delete(thread);
    void thread.end();
  }

  /** A thread has ended: the calls that it had begun have failed, and the rest goes to another one. */
  #lose(lost: ModuleThread, why: string): void {
    if (!lost.isReady()) return;
    if (this.#thread === lost) this.#thread = null;
    else if (!this.#left.delete(lost)) return;
    const begun = this.#calls.all().filter(({ on }) => on === lost);
    for (const one of begun) {
      const isBlamed = one.late || one === begun.at(-1);
      const fault = isBlamed
        ? this.#fault('EnvironmentFailed', why)
        : this.#fault('EnvironmentUnavailable', `lost its thread to another call: it ${why}`);
      this.#calls.fail(one.id, fault);
    }
    if (this.#calls.all().some(({ on }) => on === null)) this.#current();
  }

  #failAll(why: string): void {
    for (const { id } of this.#calls.all())
      this.#calls.fail(id, this.#fault('EnvironmentUnavailable', why));
  }

  #fault(type: 'EnvironmentFailed' | 'EnvironmentUnavailable', why: string): Fault {
    return new Fault({ type, message: `${this.#options.subject} ${why}` });
  }
}
