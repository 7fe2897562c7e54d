import type { Program, ProgramState } from '../../environments/environment.js';
import { Fault } from '../../model/faults.js';
import type { LineOf } from '../../model/journal.js';
import type { Life } from '../../model/journal/lives.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import type { RolloutRef } from '../../model/batch-request.js';
import type { Playing } from '../playing.js';
import type { Attempt } from '../attempt.js';
import type { Dependencies } from '../dependencies.js';
import { nextStep } from '../../model/turn/stop-rules.js';

/**
 * Checks that a program can be started before the journal is claimed. A rollout whose service is absent is tried again
 * for hours, and each claim would make its journal grow.
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
  await program?.health(signal, extra_env_info).catch((error: unknown) => {
    // Who plays finds any other, and journals it.
    if (error instanceof Fault && error.type === 'EnvironmentUnavailable') throw error;
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
  /** Its name at the service. */
  run: string;
  /** As the service has it; null: it is to be started there, or found. */
  found: ProgramState | null;
}

/** What a life is called at its service. */
export const runOf = (ref: RolloutRef, life: number): string => `${rolloutId(ref)}.${life}`;

/** The last life, if it can go on, or has ended unseen; else a new one, whose line is durable and still ours. */
export async function openLifeOf(playing: Playing, opening: LifeOpening): Promise<OpenLife> {
  const { journal, ref } = playing;
  const { lives } = journal.trajectory;
  const last = lives.at(-1);
  const { program, base_url, served } = opening;
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
  return { line, run: runOf(ref, life), found: null };
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
  if (isHere && !isUsed) return { line, run, found: null };
  const state = await program.wait(run, { seconds: 0, signal });
  if (state === 'gone') return null;
  if (isHere || state.state === 'ended') return { line, run, found: state };
  await program.stop(run, signal);
  return null;
}
