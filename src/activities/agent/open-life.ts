import type { Program, ProgramState } from '../../environments/environment.js';
import type { RolloutRef } from '../../model/batch-request.js';
import { Fault, FAULT_TYPES } from '../../model/faults.js';
import type { LineOf } from '../../model/journal.js';
import { failedLives, hasFinished, type Life } from '../../model/journal/lives.js';
import { lastFault } from '../../model/journal/standing.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { nextStep } from '../../model/turn/stop-rules.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { orAborted, withDeadline } from '../../platform/waits/abort.js';
import type { Attempt } from '../attempt.js';
import type { Dependencies } from '../dependencies.js';
import type { Playing } from '../playing.js';

/**
 * Checks that a program can be started before the journal is claimed. A rollout whose service is absent is tried again
 * for hours, and each claim would make its journal grow. An end that the journal decides waits for no service.
 */
export async function checkAgentIsThere(
  ref: RolloutRef,
  { number, store, environment, signal }: Dependencies & Pick<Attempt, 'number' | 'signal'>,
): Promise<void> {
  if (number === 1) return;
  const trajectory = await store.readTrajectory(ref);
  const { end, extra_env_info, start } = trajectory;
  if (end !== null || nextStep(trajectory) !== 'run') return;
  const { program } = environment(start?.task_name ?? '')?.environment ?? {};
  if (program === undefined || usedUp(trajectory, program) !== null) return;
  if (answeredState(trajectory, program) !== null) return;
  await program.health(signal, extra_env_info).catch((error: unknown) => {
    // Any other problem is found when the program runs, and journalled.
    if (error instanceof Fault && error.type === 'EnvironmentUnavailable') throw error;
  });
}

/** How many lives may still fail. The rows of NeMo Gym count what other batches have tried, too. */
export function livesLeft(trajectory: Trajectory, { attemptsOf }: Program): number {
  const { lives, settings_in_force: settings, extra_env_info } = trajectory;
  if (attemptsOf !== undefined)
    return attemptsOf(extra_env_info) - failedLives({ lives, forgiven: 0 }).length;
  return (settings?.attempts.agent ?? 0) - failedLives(trajectory).length;
}

/** Why no other life may begin, which an earlier attempt may have died before it could say; null: one may. */
export function usedUp(trajectory: Trajectory, program: Program): Fault | null {
  const { lives, standing } = trajectory;
  const last = lives.at(-1);
  const has_failed = last?.exit != null && !hasFinished(last);
  const isTerminal = has_failed && last.result?.terminal === true;
  if (!isTerminal && livesLeft(trajectory, program) > 0) return null;
  if (!has_failed && program.attemptsOf === undefined) return null;
  const said = lastFault(standing);
  if (has_failed && (said === null || said.at < (last.exit?.at ?? 0))) return agentFailed(last);
  const message = said?.message ?? 'its attempts were used up before';
  const type = FAULT_TYPES.find((one) => one === said?.type) ?? 'AgentFailed';
  return new Fault({ type, message, retryable: false });
}

export function agentFailed({ line, exit }: Life, misfit: string | null = null): Fault {
  const { code = null, signal = null, tail = '' } = exit ?? {};
  const how = signal === null ? `exit ${code ?? 'unknown'}` : `signal ${signal}`;
  const printed = tail.trim();
  // Lists and boards have room for a line: of a traceback the last one says what happened.
  const last = printed.slice(printed.lastIndexOf('\n') + 1);
  const said =
    printed === ''
      ? 'it printed nothing'
      : last === printed
        ? last
        : `${last}\nit printed at its end:\n${printed}`;
  const asked = misfit === null ? '' : ` after a request that is never answered (${misfit})`;
  return new Fault({
    type: 'AgentFailed',
    message: `its program failed in life ${line.life} (${how})${asked}: ${said}`,
  });
}

interface LifeOpening {
  program: Program;
  base_url: string;
  /** Resolves when a life can begin. */
  served: () => Promise<void>;
}

interface OpenLife {
  line: LineOf<'life'>;
  /** As the journal or the service has it; null: it is to be started there, or found. */
  found: ProgramState | null;
}

export const runOf = (ref: RolloutRef, life: number): string => `${rolloutId(ref)}.${life}`;

/** The last life, if it can go on, or has ended unseen; else a new one, whose line is durable and still ours. */
export async function openLifeOf(playing: Playing, opening: LifeOpening): Promise<OpenLife> {
  const { journal, ref } = playing;
  const { lives } = journal.trajectory;
  const last = lives.at(-1);
  const { program, base_url, served } = opening;
  const answered = answeredState(journal.trajectory, program);
  if (last !== undefined && answered !== null) return { line: last.line, found: answered };
  // A program that is no service's has died with the attempt that started it, or is about to.
  const mayGoOn = program.outlives && last !== undefined && last.exit === null;
  const kept = mayGoOn ? await keptOf(last, { playing, ...opening }) : null;
  if (kept !== null) return kept;
  await served();
  const life = lives.length + 1;
  await journal.append({ kind: 'life', life, restart: program.rules.restart, base_url });
  await journal.sync();
  const line = lives.at(-1)?.line;
  if (line?.life !== life) throw new Error(`life ${life} of ${rolloutId(ref)} was not folded in`);
  return { line, found: null };
}

/** The end of a run whose answer the journal has, though not yet its exit; null: there is none. */
function answeredState(
  { lives, extra_env_info }: Trajectory,
  { endOf }: Program,
): ProgramState | null {
  const last = lives.at(-1);
  return last?.exit === null && last.result !== null
    ? (endOf?.(last.result, extra_env_info) ?? null)
    : null;
}

/**
 * A program that was told another address cannot reach this worker, so its life is over unless it has ended by itself.
 * One that its service has lost is over, too, unless it may never have been started.
 */
async function keptOf(
  { line }: Life,
  { playing, program, base_url }: { playing: Playing } & LifeOpening,
): Promise<OpenLife | null> {
  const { journal, ref, signal } = playing;
  const run = runOf(ref, line.life);
  const isHere = line.base_url === base_url;
  const isUsed = journal.trajectory.calls.some((call) => call.line.life === line.life);
  if (isHere && !isUsed) return { line, found: null };
  const state = await program.wait(run, { seconds: 0, signal });
  if (state === 'gone') return null;
  if (isHere || state.state === 'ended') return { line, found: state };
  await program.stop(run, signal);
  return null;
}

/** Ending what has ended already is only tidy. */
const TIDY_MS = 5000;

/** Best effort: a service ends a program that nobody asks about. A program of this worker is always ended. */
export async function stopped(
  program: Pick<Program, 'outlives' | 'stop'>,
  { run, signal }: { run: string; signal: AbortSignal },
): Promise<void> {
  await withDeadline(program.outlives ? signal : new AbortController().signal, {
    ms: TIDY_MS,
    run: (bounded) => orAborted(program.stop(run, bounded), bounded),
  }).catch(() => undefined);
}
