import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { PolicyClient } from '../client/policy-client.js';
import { toMs } from '../model/workflow-safe/durations.js';
import { describeError } from '../platform/errors.js';
import { createHttpClient } from '../platform/http/client.js';
import { httpFailureIn } from '../platform/http/failure.js';
import { plain } from '../platform/plain.js';

const LOOK_EVERY_MS = 1000;
const ANSWER_BYTES = 4 * 2 ** 20;
const ANSWER_MS = 5000;
/** What a proxy says that has no engine behind it. */
const NOBODY = [502, 503, 504];
const PASSED_ON = ['SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const;
const ENDING = ['SIGTERM', 'SIGINT'] as const;

interface Attended {
  policy: Pick<PolicyClient, 'update'>;
  joins: { url: string; control_url?: string | undefined; instance?: string | undefined };
  drain_limit: string;
}

/**
 * Starts an engine, makes it join when it is healthy, drains it at SIGTERM, and makes it leave at its end. Each start is
 * another `instance`, so that nobody takes it for the process before it. Returns the engine's exit code. Throws if
 * another process has its address: vLLM listens beside it (SO_REUSEPORT), and each of them would get some requests.
 */
export async function attend(
  [program = '', ...args]: readonly string[],
  { policy, joins, drain_limit }: Attended,
): Promise<number> {
  const { root, text, occupied, close } = askEngine(joins.url);
  const answers = await occupied();
  if (answers !== null) {
    await close();
    throw new Error(
      `${joins.url}: another process has this address (it ${answers}), so nothing was started. End that process, such as an engine whose attend was killed, or use another address`,
    );
  }
  const instance = joins.instance ?? randomUUID().slice(0, 8);
  const child = spawn(program, args, { stdio: 'inherit' });
  const exited = exitOf(child);
  const over = new AbortController();
  void exited
    .catch(() => null)
    .then(() => {
      over.abort();
    });
  const url = joins.url;
  const forget = pass(child, () => {
    void drainAndEnd(child, {
      policy,
      url,
      drain_limit,
      over: over.signal,
      isIdle: async () => isIdle(await text(`${root}/metrics`)),
    });
  });
  try {
    while (!over.signal.aborted && (await text(`${root}/health`)) === null)
      await pause(over.signal);
    if (!over.signal.aborted)
      await persistently(() => policy.update('join', { ...joins, instance }), over.signal);
    return await exited;
  } finally {
    forget();
    await close();
    await policy.update('leave', { url, force: true }).catch((error: unknown) => {
      say(`cannot leave: ${describeError(error)}`);
    });
  }
}

const say = (line: string): void => {
  console.error(plain(`engine attend: ${line}`));
};

const pause = (signal: AbortSignal, ms = LOOK_EVERY_MS): Promise<void> =>
  sleep(ms, undefined, { signal }).catch(() => undefined);

/** 128 and the signal's number, as shells say it. */
async function exitOf(child: ChildProcess): Promise<number> {
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  return code ?? 128 + (signal === null ? 0 : constants.signals[signal]);
}

/** A server that is away, or a refusal that somebody may mend, is no reason to end the engine. */
async function persistently(ask: () => Promise<unknown>, signal: AbortSignal): Promise<void> {
  for (let failures = 0; !signal.aborted; failures++) {
    try {
      await ask();
      return;
    } catch (error) {
      say(`cannot join: ${describeError(error)}`);
    }
    await pause(signal, Math.min(60_000, LOOK_EVERY_MS * 2 ** failures));
  }
}

function pass(child: ChildProcess, drain: () => void): () => void {
  let isDraining = false;
  const end = (name: NodeJS.Signals): void => {
    // A second one does not wait.
    if (isDraining) child.kill(name);
    else drain();
    isDraining = true;
  };
  const passOn = (name: NodeJS.Signals): void => void child.kill(name);
  for (const name of PASSED_ON) process.on(name, passOn);
  for (const name of ENDING) process.on(name, end);
  return () => {
    for (const name of PASSED_ON) process.off(name, passOn);
    for (const name of ENDING) process.off(name, end);
  };
}

interface Draining extends Pick<Attended, 'policy' | 'drain_limit'> {
  url: string;
  /** Aborted when the engine has ended, as by a second signal. */
  over: AbortSignal;
  isIdle: () => Promise<boolean>;
}

async function drainAndEnd(
  child: ChildProcess,
  { policy, url, drain_limit, over, isIdle }: Draining,
): Promise<void> {
  try {
    await policy.update('drain', { url, drain_limit, force: true });
    const until = Date.now() + toMs(drain_limit);
    // Workers notice it within seconds.
    do await pause(over, 4 * LOOK_EVERY_MS);
    while (!over.aborted && Date.now() < until && !(await isIdle()));
  } catch (error) {
    say(`cannot drain: ${describeError(error)}`);
  }
  child.kill('SIGTERM');
}

/** Whether no request runs or waits there; an engine without metrics does not say it. */
const isIdle = (metrics: string | null): boolean => {
  const counts = [
    ...(metrics ?? '').matchAll(/^vllm:num_requests_(?:running|waiting)\{[^}]*\} (\S+)$/gm),
  ];
  return counts.length > 0 && counts.every(([, count]) => Number(count) === 0);
};

function askEngine(url: string) {
  const { exchange, close } = createHttpClient({ connect_timeout_ms: 1000, keep_alive_ms: 0 });
  const root = url.replace(/\/v1\/?$/, '');
  const get = (at: string) =>
    exchange({
      method: 'GET',
      url: at,
      timeout_ms: ANSWER_MS,
      signal: new AbortController().signal,
      max_bytes: ANSWER_BYTES,
    });
  return {
    root,
    text: async (at: string): Promise<string | null> => {
      const answer = await get(at).catch(() => null);
      return answer?.status === 200 ? answer.text : null;
    },
    /** How something at the URL answers; null: nothing listens there. */
    occupied: async (): Promise<string | null> => {
      try {
        const { status } = await get(`${root}/health`);
        return NOBODY.includes(status) ? null : `answers /health with ${status}`;
      } catch (error) {
        // A server that hangs. A forwarded port also accepts connections, but closes them if nothing listens behind it.
        return httpFailureIn(error)?.kind === 'late' ? 'does not answer /health' : null;
      }
    },
    close,
  };
}
