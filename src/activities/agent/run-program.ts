import { isDeepStrictEqual } from 'node:util';
import type { Program, ProgramEnd, ProgramTask } from '../../environments/environment.js';
import type { AgentSession, PlayedAgent } from '../../gateway/agent-session.js';
import type { PlayedCall } from '../../model/agent/penalties.js';
import { textLog } from '../../model/content.js';
import type { Past } from '../../model/faults.js';
import { Fault, judged } from '../../model/faults.js';
import type { RolloutSettings } from '../../model/journal.js';
import { lengthOf, promptBeyond } from '../../model/journal/calls.js';
import { failuresBefore, hasFinished, lastResult } from '../../model/journal/lives.js';
import { lastFault } from '../../model/journal/standing.js';
import { sequencesOf } from '../../model/results/sequences.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { cleaned } from '../turn/answer.js';
import type { Dependencies } from '../dependencies.js';
import type { Playing } from '../playing.js';
import { journalLost, poolOf } from '../playing.js';
import { recordFault } from '../record-fault.js';
import { sampleOf } from '../request-of.js';
import { unknownTask } from '../unknown-task.js';
import { agentFailed, livesLeft, openLifeOf, runOf, stopped, usedUp } from './open-life.js';
import { playedAgent } from './played-agent.js';
import { untilItEnds } from './until-it-ends.js';

/** The end of what a program printed, as rows and failures have it. */
const MOST_TAIL = 2000;

interface RunningProgram {
  playing: Playing;
  program: Program;
  settings: RolloutSettings;
  dependencies: Dependencies;
}

/**
 * One life of a program, to its end. A worker that takes over finds the life as it is, and keeps it. Throws what keeps a
 * life from an end that is worth something; the next attempt plays another one.
 */
export async function runProgram(playing: Playing, dependencies: Dependencies): Promise<void> {
  const { trajectory } = playing.journal;
  let attempts: Past = {};
  try {
    const running = runningOf(playing, dependencies);
    const over = usedUp(trajectory, running.program);
    if (over !== null) throw over;
    const { failure, misfit } = await playLife(running);
    const life = trajectory.lives.at(-1);
    if (life === undefined || hasFinished(life)) return;
    // It would ask the same again.
    const left = misfit === null ? livesLeft(trajectory, running.program) : 0;
    // Where its service says why, it says whether another life may end otherwise.
    attempts = failure === undefined ? { lives_left: left } : { attempts_left: left };
    throw failure ?? agentFailed(life, misfit);
  } catch (error) {
    const thrown = await recordFault(error, { ...playing, turn: trajectory.calls.length });
    throw thrown instanceof Fault ? judged(thrown, attempts) : thrown;
  }
}

function runningOf(playing: Playing, dependencies: Dependencies): RunningProgram {
  const { start, settings_in_force: settings } = playing.journal.trajectory;
  if (start === null || settings === null)
    throw journalLost(playing.ref, { lacks: 'its start', store: dependencies.store });
  const { environment, known, gateway } = dependencies;
  const program = environment(start.task_name)?.environment.program;
  if (program === undefined || (program.rules.asks_policy && gateway === null)) {
    const message =
      environment(start.task_name) === undefined
        ? unknownTask(start.task_name, known)
        : `environment ${start.task_name} runs no programs here: its rollouts were begun with another temporal.yaml`;
    throw new Fault({ type: 'EnvironmentRejected', message });
  }
  return { playing, program, settings, dependencies };
}

/**
 * `failure`: why it failed, where its service says so. `misfit`: what its program asked in vain, and would again; null:
 * nothing.
 */
async function playLife(running: RunningProgram) {
  const { playing, program, dependencies, settings } = running;
  const { journal, signal } = playing;
  const { rules } = program;
  const { line, found } = await openLifeOf(playing, {
    program,
    base_url: dependencies.gateway?.base_url ?? '',
    // A program that starts while nothing serves would only wait, and give up.
    served: async () => {
      await program.health(signal, journal.trajectory.extra_env_info);
      if (!rules.asks_policy) return;
      const asked = { session_id: rolloutId(playing.ref), signal, is_generation: false };
      await poolOf(settings, dependencies).request(asked, () => Promise.resolve());
    },
  });
  const run = runOf(playing.ref, line.life);
  const played = rules.asks_policy ? playedAgent(playing, { rules, settings, dependencies }) : null;
  const session = (played && (await dependencies.gateway?.open(played))) ?? unasked();
  const { serve } = session;
  let is: 'played' | 'ended' | 'over' = 'played';
  try {
    const over = (): Promise<void> => session.end('over');
    const failures = failuresBefore(journal.trajectory);
    const start = async () =>
      program.start(run, { task: await taskOf(session, running), failures, serve, over, signal });
    const state = found ?? (await start());
    const said = await untilItEnds(state, { playing, program, run, session, begun_at: line.at });
    // After it nothing of the session writes to the journal.
    await session.end('over');
    const fault = session.ourFault();
    is = fault === null ? 'ended' : 'over';
    if (fault !== null) throw ofOurs(journal.trajectory, fault);
    const ended = await settled(said, { playing, played });
    await journal.append({ kind: 'exit', life: line.life, ...exitOf(ended, session.key) });
    await journal.sync();
    is = 'over';
    await playing.reportWaiting(null);
    return { misfit: session.misfit(), failure: ended.failure };
  } finally {
    // A service keeps the end of its program for the attempt that plays on.
    if (is === 'over' || !program.outlives) await stopped(program, { run, signal });
    if (is === 'played') await session.end('moved');
  }
}

/** The answer of an agent of NeMo Gym stays, also where its reward cannot be shaped yet: the agent is not asked again. */
async function settled(
  said: ProgramEnd,
  { playing: { journal }, played }: { playing: Playing; played: PlayedAgent | null },
): Promise<ProgramEnd> {
  const keep = async ({ result }: ProgramEnd): Promise<void> => {
    const known = lastResult({ lives: journal.trajectory.lives.slice(-1) });
    if (result === undefined || isDeepStrictEqual({ ...known, ...result }, { ...known })) return;
    await journal.append({ kind: 'result', ...result });
  };
  try {
    const calls = async (): Promise<PlayedCall[]> => (played ? await conversationOf(played) : []);
    const ended = (await said.settle?.({ calls })) ?? said;
    await keep(ended);
    return ended;
  } catch (error) {
    await keep(said);
    throw error;
  }
}

/** The session of a program that asks another model. Its promises end with it, and so does what waits for them. */
const unasked = (): AgentSession => ({
  base_url: '',
  key: '',
  serve: () => undefined,
  overstays: new Promise(() => undefined),
  broken: new Promise(() => undefined),
  ourFault: () => null,
  misfit: () => null,
  end: () => Promise.resolve(),
});

async function conversationOf({ journal, detokenize }: PlayedAgent): Promise<PlayedCall[]> {
  const { calls } = journal.trajectory;
  const played: PlayedCall[] = [];
  let first = 0;
  for (const number of sequencesOf(journal.trajectory)?.sequences[0].calls ?? []) {
    const call = calls[number];
    if (call === undefined || call.answer === null) continue;
    const { token_ids } = call.sampled;
    const prompt_ids = promptBeyond(calls, { number, first });
    const { content, reasoning = '', tool_calls } = call.answer;
    const said = content === '' && reasoning !== '' ? { reasoning } : { content };
    const read = tool_calls.length > 0 ? null : said;
    played.push({ prompt_ids, token_ids, text: await detokenize(token_ids), read });
    first = lengthOf(call);
  }
  return played;
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

async function taskOf(
  { base_url, key }: Pick<AgentSession, 'base_url' | 'key'>,
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

function exitOf({ exit, submission, failure, ...said }: ProgramEnd, key: string) {
  const withoutKey = (text: string): string => (key === '' ? text : text.replaceAll(key, '(key)'));
  const { reward, rewards, metadata } = said;
  return cleaned({
    code: exit.code,
    signal: exit.signal,
    ...(failure !== undefined && { failed: true as const }),
    tail: withoutKey(exit.tail).slice(-MOST_TAIL),
    submission: submission === null ? null : withoutKey(submission),
    said: { reward, rewards, metadata },
  });
}
