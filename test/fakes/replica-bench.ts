import assert from 'node:assert/strict';
import type { Replicas, Sharer } from '../../src/generation/generation-service.js';
import { chooseReplica } from '../../src/generation/replicas/replica-choice.js';
import { createReplicas } from '../../src/generation/replicas/replicas.js';
import type { FakeReplica } from './fake-replica.js';
import { fakeReplica } from './fake-replica.js';
import type { ManualClock } from './manual-clock.js';
import { manualClock, settled } from './manual-clock.js';

/** A generation whose end the test decides. */
export interface Running {
  /** Null while it waits for a slot. */
  replica: () => string | null;
  waited_s: () => number | null;
  succeed: () => Promise<void>;
  /** Fails the request with this fault; resolves with the error that the caller got. */
  fail: (error: Error) => Promise<unknown>;
  /** Aborts the caller's own signal; resolves with the error that the caller got. */
  abort: () => Promise<unknown>;
}

export interface ReplicaBench {
  replicas: Replicas & { close: () => Promise<void> };
  fakes: Record<string, FakeReplica>;
  clock: ManualClock;
  changes: string[];
  start: (sessionId: string, sharer?: Sharer) => Running;
  /** The replica that a small request of this session goes to. */
  ask: (sessionId: string) => Promise<string>;
  /** A session that this replica serves while all are healthy. */
  sessionOf: (url: string, n?: number) => string;
}

export function replicaBench(urls: readonly string[], max_concurrent = 2): ReplicaBench {
  const clock = manualClock();
  const changes: string[] = [];
  const fakes = Object.fromEntries(urls.map((url) => [url, fakeReplica(url)]));
  const replicas = createReplicas(Object.values(fakes), {
    max_concurrent,
    clock,
    random: () => 0,
    report: ({ replica, set_aside }) => changes.push(`${set_aside ? '-' : '+'}${replica}`),
  });
  const health = () => ({ aside: null });
  const standings = urls.map((replica) => ({ service: { replica }, health, load: 0 }));
  const sessionOf = (url: string, n = 0): string => {
    const own = (session_id: string) =>
      chooseReplica(standings, { session_id, limit: 1 })?.service.replica;
    return Array.from({ length: 1000 }, (_, i) => `s${i}`).filter((id) => own(id) === url)[n]!;
  };
  return {
    replicas,
    fakes,
    clock,
    changes,
    start: (session_id, sharer) =>
      start(replicas, { session_id, ...(sharer !== undefined && { sharer }) }),
    ask: (session_id) =>
      replicas.request(
        { session_id, signal: new AbortController().signal, is_generation: false },
        ({ replica }) => Promise.resolve(replica),
      ),
    sessionOf,
  };
}

function start(replicas: Replicas, asked: { session_id: string; sharer?: Sharer }): Running {
  const controller = new AbortController();
  const { signal } = controller;
  let at: { replica: string; waited_s: number } | null = null;
  let resolve = (): void => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<void>((...ends) => {
    [resolve, reject] = ends;
  });
  const ended = replicas
    .request({ ...asked, signal, is_generation: true }, ({ replica }, { waited_s }) => {
      at = { replica, waited_s };
      const abort = (): void => {
        reject(signal.reason as Error);
      };
      if (signal.aborted) abort();
      else signal.addEventListener('abort', abort);
      return promise;
    })
    .then(
      () => undefined,
      (error: unknown) => error,
    );
  const thrown = async (): Promise<unknown> => {
    const error = await ended;
    assert.ok(error !== undefined, 'the request succeeded');
    await settled();
    return error;
  };
  return {
    replica: () => at?.replica ?? null,
    waited_s: () => at?.waited_s ?? null,
    succeed: async () => {
      resolve();
      assert.equal(await ended, undefined);
    },
    fail: (error) => {
      reject(error);
      return thrown();
    },
    abort: () => {
      controller.abort(new Error('cancelled'));
      return thrown();
    },
  };
}
