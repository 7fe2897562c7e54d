import type { Program, ProgramEnd, ProgramTask } from '../../environments/environment.js';
import type { AgentSession, PlayedAgent } from '../../gateway/agent-session.js';
import type { PlayedCall } from '../../model/agent/penalties.js';
import { textLog } from '../../model/content.js';
import type { Past } from '../../model/faults.js';
import { Fault, FAULT_TYPES, judged } from '../../model/faults.js';
import type { LineOf, RolloutSettings } from '../../model/journal.js';
import { lengthOf, promptBeyond } from '../../model/journal/calls.js';
import { failedLives, failuresBefore, hasFinished, type Life } from '../../model/journal/lives.js';
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
import { openLifeOf } from './open-life.js';
import { playedAgent } from './played-agent.js';
import { stopped } from './stop-run.js';
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
    checkLives(running);
    const { failure, misfit } = await playLife(running);
    const life = trajectory.lives.at(-1);
    if (life === undefined || hasFinished(life)) return;
    // It would ask the same again.
    const left = misfit === null ? livesLeft(running) : 0;
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

/** The rows of NeMo Gym count what other batches have tried, too. */
function livesLeft({ playing, program, settings }: RunningProgram): number {
  const { lives, forgiven, extra_env_info } = playing.journal.trajectory;
  const most = program.attemptsOf?.(extra_env_info);
  if (most === undefined) return settings.attempts.agent - failedLives({ lives, forgiven }).length;
  return most - failedLives({ lives, forgiven: 0 }).length;
}

/** An earlier attempt may have died before it could say so. */
function checkLives(running: RunningProgram): void {
  const { lives, standing } = running.playing.journal.trajectory;
  const last = lives.at(-1);
  const has_failed = last?.exit != null && !hasFinished(last);
  const isTerminal = has_failed && last.result?.terminal === true;
  if (!isTerminal && livesLeft(running) > 0) return;
  if (!has_failed && running.program.attemptsOf === undefined) return;
  const said = lastFault(standing);
  if (has_failed && (said === null || said.at < (last.exit?.at ?? 0))) throw agentFailed(last);
  const message = said?.message ?? 'its attempts were used up before';
  const type = FAULT_TYPES.find((one) => one === said?.type) ?? 'AgentFailed';
  throw new Fault({ type, message, retryable: false });
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

interface PlayedLife {
  /** Why it failed, where its service says so. */
  failure?: Fault;
  /** What its program asked in vain, and would again; null: nothing. */
  misfit: string | null;
}

async function playLife(running: RunningProgram): Promise<PlayedLife> {
  const { playing, program, dependencies, settings } = running;
  const { journal, signal } = playing;
  const { rules } = program;
  const { line, run, found } = await openLifeOf(playing, {
    program,
    base_url: dependencies.gateway?.base_url ?? '',
    // Whoever starts while nothing serves would only wait, and give up.
    served: async () => {
      await program.health(signal, journal.trajectory.extra_env_info);
      if (rules.asks_policy) await serves(playing, { settings, dependencies });
    },
  });
  const played = rules.asks_policy ? playedAgent(playing, { rules, settings, dependencies }) : null;
  const session = (played && (await dependencies.gateway?.open(played))) ?? unasked();
  const { serve } = session;
  const left = async (error: unknown): Promise<never> => {
    // A service keeps the end of its program for whoever plays on.
    if (!program.outlives) await stopped(program, { run, signal });
    throw error;
  };
  const plays = async (): Promise<ProgramEnd> => {
    const over = (): Promise<void> => session.end('over');
    const failures = failuresBefore(journal.trajectory);
    const start = async () =>
      program.start(run, { task: await taskOf(session, running), failures, serve, over, signal });
    const state = found ?? (await start());
    return await untilItEnds(state, { playing, program, run, session, begun_at: line.at });
  };
  const said = await untilEnded(session, { plays, program, run, signal });
  const fault = session.ourFault();
  const calls = async (): Promise<PlayedCall[]> => (played ? await conversationOf(played) : []);
  const settled = async (): Promise<ProgramEnd> => {
    const ended = (await said.settle?.({ calls })) ?? said;
    if (ended.result !== undefined) await journal.append({ kind: 'result', ...ended.result });
    await journal.append({ kind: 'exit', life: line.life, ...exitOf(ended, session.key) });
    await journal.sync();
    return ended;
  };
  const ended = fault === null ? await settled().catch(left) : said;
  await stopped(program, { run, signal });
  if (fault !== null) throw ofOurs(journal.trajectory, fault);
  await playing.reportWaiting(null);
  const { failure } = ended;
  return { misfit: session.misfit(), ...(failure !== undefined && { failure }) };
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

/** The calls of the main sequence. */
async function conversationOf({ journal, detokenize }: PlayedAgent): Promise<PlayedCall[]> {
  const { calls } = journal.trajectory;
  const played: PlayedCall[] = [];
  let first = 0;
  for (const number of sequencesOf(journal.trajectory)?.sequences[0].calls ?? []) {
    const call = calls[number];
    if (call === undefined || call.answer === null) continue;
    const { token_ids } = call.sampled;
    const prompt_ids = promptBeyond(calls, { number, first });
    const read = readOf(call.answer);
    played.push({ prompt_ids, token_ids, text: await detokenize(token_ids), read });
    first = lengthOf(call);
  }
  return played;
}

function readOf({
  content,
  reasoning = '',
  tool_calls,
}: Pick<LineOf<'answer'>, 'content' | 'reasoning' | 'tool_calls'>): PlayedCall['read'] {
  if (tool_calls.length > 0) return null;
  return content === '' && reasoning !== '' ? { reasoning } : { content };
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
