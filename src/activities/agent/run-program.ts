import type { Program, ProgramEnd, ProgramTask } from '../../environments/environment.js';
import type { AgentSession, Gateway } from '../../gateway/agent-session.js';
import { textLog } from '../../model/content.js';
import { Fault, judged } from '../../model/faults.js';
import type { RolloutSettings } from '../../model/journal.js';
import { failedLives, hasFinished, type Life } from '../../model/journal/calls.js';
import { lastFault } from '../../model/journal/standing.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { cleaned } from '../turn/answer.js';
import type { Dependencies } from '../dependencies.js';
import type { Playing } from '../playing.js';
import { journalLost, poolOf } from '../playing.js';
import { recordFault } from '../record-fault.js';
import { sampleOf } from '../request-of.js';
import { unknownTask } from '../unknown-task.js';
import { openLifeOf } from './open-life.js';
import { playedAgent } from './played-agent.js';
import { stopped } from './stop-run.js';
import { untilItEnds } from './until-it-ends.js';

/** The end of what a program printed, as rows and failures have it. */
const MOST_TAIL = 2000;

interface RunningProgram {
  playing: Playing;
  program: Program;
  gateway: Gateway;
  settings: RolloutSettings;
  dependencies: Dependencies;
}

/**
 * One life of a program, to its end. A worker that takes over finds the life as it is, and keeps it. Throws what keeps a
 * life from an end that is worth something; the next attempt plays another one.
 */
export async function runProgram(playing: Playing, dependencies: Dependencies): Promise<void> {
  const { journal } = playing;
  const { trajectory } = journal;
  let misfit: string | null = null;
  try {
    const running = runningOf(playing, dependencies);
    checkLives(trajectory, { settings: running.settings });
    misfit = await playLife(running);
    const life = trajectory.lives.at(-1);
    if (life !== undefined && !hasFinished(life)) throw agentFailed(life, misfit);
  } catch (error) {
    const thrown = await recordFault(error, { ...playing, turn: trajectory.calls.length });
    // It would ask the same again.
    const lives_left = misfit === null ? livesLeft(trajectory, trajectory.settings_in_force) : 0;
    throw thrown instanceof Fault ? judged(thrown, { lives_left }) : thrown;
  }
}

function runningOf(playing: Playing, dependencies: Dependencies): RunningProgram {
  const { start, settings_in_force: settings } = playing.journal.trajectory;
  if (start === null || settings === null)
    throw journalLost(playing.ref, { lacks: 'its start', store: dependencies.store });
  const { environment, known, gateway } = dependencies;
  const program = environment(start.task_name)?.environment.program;
  if (program === undefined || gateway === null) {
    const message =
      environment(start.task_name) === undefined
        ? unknownTask(start.task_name, known)
        : `environment ${start.task_name} runs no programs here: its rollouts were begun with another temporal.yaml`;
    throw new Fault({ type: 'EnvironmentRejected', message });
  }
  return { playing, program, gateway, settings, dependencies };
}

const livesLeft = (trajectory: Trajectory, settings: RolloutSettings | null): number =>
  (settings?.attempts.agent ?? 1) - failedLives(trajectory).length;

/** An earlier attempt may have died before it could say so. */
function checkLives(trajectory: Trajectory, { settings }: { settings: RolloutSettings }): void {
  const last = trajectory.lives.at(-1);
  if (last?.exit && livesLeft(trajectory, settings) <= 0) throw agentFailed(last);
}

function agentFailed({ line, exit }: Life, misfit: string | null = null): Fault {
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
  const asked = misfit === null ? '' : ` behind a request that is never answered (${misfit})`;
  return new Fault({
    type: 'AgentFailed',
    message: `its program failed in life ${line.life} (${how})${asked}: ${said}`,
  });
}

/** Returns what its program asked in vain, and would again; null: nothing. */
async function playLife(running: RunningProgram): Promise<string | null> {
  const { playing, program, gateway, dependencies, settings } = running;
  const { journal, signal } = playing;
  const { line, run, found } = await openLifeOf(playing, {
    program,
    base_url: gateway.base_url,
    // Whoever starts while nothing serves would only wait, and give up.
    served: () => serves(playing, { settings, dependencies }),
  });
  const played = playedAgent(playing, { rules: program.rules, settings, dependencies });
  const session = await gateway.open(played);
  const { serve } = session;
  const plays = async (): Promise<ProgramEnd> => {
    const over = (): Promise<void> => session.end('over');
    const start = async () =>
      program.start(run, { task: await taskOf(session, running), serve, over, signal });
    const state = found ?? (await start());
    return await untilItEnds(state, { playing, program, run, session, begun_at: line.at });
  };
  const ended = await untilEnded(session, { plays, program, run, signal });
  const fault = session.ourFault();
  if (fault === null) {
    await journal.append({ kind: 'exit', life: line.life, ...exitOf(ended, session.key) });
    await journal.sync();
  }
  await stopped(program, { run, signal });
  if (fault !== null) throw ofOurs(journal.trajectory, fault);
  await playing.reportWaiting(null);
  return session.misfit();
}

/** After it nothing of the session writes to the journal. */
async function untilEnded<T>(
  session: AgentSession,
  {
    plays,
    program,
    ...at
  }: Pick<RunningProgram, 'program'> & {
    plays: () => Promise<T>;
    run: string;
    signal: AbortSignal;
  },
): Promise<T> {
  try {
    const ended = await plays();
    await session.end('over');
    return ended;
  } catch (error) {
    // Whoever plays on starts its own.
    if (!program.outlives) await stopped(program, at);
    await session.end('moved');
    throw error;
  }
}

/** An engine may refuse the same call of each life: the more tries there were, the longer the pause before the next one. */
const PAUSE_EACH_MS = 1000;
const LONGEST_PAUSE_MS = 300_000;

function ofOurs({ lives, standing }: Pick<Trajectory, 'lives' | 'standing'>, fault: string): Fault {
  const tries = lastFault(standing)?.waited?.tries ?? 1;
  return new Fault({
    type: 'GenerationUnavailable',
    message: `life ${lives.length} has no verdict, since a call of its program ended in a fault of ours: ${fault}`,
    uncounted: true,
    retryAfterMs: Math.min(PAUSE_EACH_MS * tries, LONGEST_PAUSE_MS),
  });
}

async function serves(
  { ref, signal }: Playing,
  { settings, dependencies }: Pick<RunningProgram, 'settings' | 'dependencies'>,
): Promise<void> {
  const session_id = rolloutId(ref);
  const asked = { session_id, signal, is_generation: false };
  await poolOf(settings, dependencies).request(asked, () => Promise.resolve());
}

async function taskOf(
  { base_url, key }: AgentSession,
  { playing: { ref, journal }, dependencies: { store } }: RunningProgram,
): Promise<ProgramTask> {
  const { sample } = await sampleOf(ref, store);
  const message_log = textLog(sample.message_log);
  return {
    base_url,
    key,
    prompt: message_log.map(({ content }) => content).join('\n\n'),
    message_log,
    metadata: journal.trajectory.extra_env_info,
  };
}

function exitOf({ exit, submission, ...said }: ProgramEnd, key: string) {
  const withoutKey = (text: string): string => text.replaceAll(key, '(key)');
  const { reward, rewards, metadata } = said;
  return cleaned({
    code: exit.code,
    signal: exit.signal,
    tail: withoutKey(exit.tail).slice(-MOST_TAIL),
    submission: submission === null ? null : withoutKey(submission),
    said: { reward, rewards, metadata },
  });
}
