import { setTimeout as sleep } from 'node:timers/promises';
import type { Program, ProgramEnd, ProgramState } from '../../environments/environment.js';
import type { AgentSession } from '../../gateway/agent-session.js';
import { Fault } from '../../model/faults.js';
import { environmentCall } from '../../model/journal/standing.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { withController } from '../../platform/waits/abort.js';
import { waitMs, LONGEST_TIMER_MS } from '../../platform/waits/clock.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { Playing } from '../playing.js';
import { waitOf } from '../waits.js';

const FIRST_WAIT_MS = 1000;

interface Life {
  playing: Playing;
  program: Program;
  run: string;
  session: Pick<AgentSession, 'overstays' | 'broken'>;
  /** In seconds since 1970. */
  begun_at: number;
}

/**
 * Waits for the end of a program that runs. One that was refused and does not end is ended; one that runs longer than it
 * may, its submission included, makes the rollout late. Throws the error of a journal that is lost meanwhile: its program
 * is its successor's.
 */
export async function untilItEnds(
  first: ProgramState,
  { session, begun_at, ...life }: Life,
): Promise<ProgramEnd> {
  const { playing, program, run } = life;
  const { run: limit } = program.rules;
  return await withController(playing.signal, async (controller) => {
    const { signal } = controller;
    const polled = poll(first, { ...life, signal });
    const { cut } = program;
    const ending =
      cut === undefined
        ? polled
        : Promise.race([polled, session.overstays]).then(
            async (ended) => ended ?? (await cut(run, signal)),
          );
    const broken = session.broken.then((error): never => {
      throw error;
    });
    const late = lateAt(begun_at, { limit, signal });
    const ended = await Promise.race([ending, late, broken]).finally(() => {
      controller.abort(new Error('its program is no longer awaited'));
    });
    if (ended !== 'late') return ended;
    await ending.catch(() => undefined);
    await program.stop(run, playing.signal);
    const message = `its program ran longer than limits.run ${limit ?? ''}`;
    throw new Fault({ type: 'TimedOut', message });
  });
}

/** Never resolves without a limit. */
async function lateAt(
  begun_at: number,
  { limit, signal }: { limit: string | null; signal: AbortSignal },
): Promise<'late'> {
  if (limit === null) return await new Promise(() => undefined);
  const left_ms = begun_at * 1000 + toMs(limit) - commonMs();
  await sleep(Math.max(0, Math.min(left_ms, LONGEST_TIMER_MS)), undefined, { signal }).catch(
    () => new Promise(() => undefined),
  );
  return 'late';
}

/** A service that is away for a while does not end the session: its programs may run on. */
async function poll(
  first: ProgramState,
  { playing, program, run, signal }: Omit<Life, 'session' | 'begun_at'> & { signal: AbortSignal },
): Promise<ProgramEnd> {
  let state: ProgramState | 'gone' = first;
  let away = NOT_AWAY;
  for (;;) {
    if (state === 'gone') throw goneOf(run);
    if (state.state === 'ended') return state;
    try {
      state = await program.wait(run, { signal });
      if (away.tries > 0) await playing.reportWaiting(null);
      away = NOT_AWAY;
    } catch (error) {
      if (!isAway(error)) throw error;
      away = { tries: away.tries + 1, since: away.tries > 0 ? away.since : commonMs() / 1000 };
      const call = environmentCall(playing.journal.trajectory.start?.task_name ?? '');
      await playing.reportWaiting(waitOf(error, { call, ...away }));
      await sleep(waitMs(away.tries, { first_ms: FIRST_WAIT_MS }), undefined, { signal });
    }
  }
}

const NOT_AWAY = { tries: 0, since: 0 };

/** Of a run that was not played, another life is the next try. */
const isAway = (error: unknown): error is Fault =>
  error instanceof Fault && error.type === 'EnvironmentUnavailable' && !error.uncounted;

const goneOf = (run: string): Fault =>
  new Fault({
    type: 'EnvironmentUnavailable',
    message: `its service has no run ${run} any more: it has begun anew, or dropped it; another life follows`,
    uncounted: true,
  });
