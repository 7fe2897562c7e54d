import { Fault } from '../../model/faults.js';
import { writeJson } from '../../platform/json/kept.js';
import { orAborted, within } from '../../platform/waits/abort.js';
import type { Program, ProgramEnd, ProgramStart } from '../environment.js';
import type { Command, Confined, Confinement, Ended, Running } from './confinement.js';
import { findProgram } from './find-program.js';
import { filled, variablesOf } from './placeholders.js';
import type { Filling } from './placeholders.js';

/** `run.command`: programs that the worker starts itself, as its children. */

export type Argv = [string, ...string[]];

export interface CommandSettings {
  /** Its key under `environments`, for messages. */
  name: string;
  command: Argv;
  setup: Argv | null;
  submit: Argv | null;
  env: Record<string, string>;
  /** Where programs are found unless `env` says it. */
  path: string;
}

const POLL_S = 30;
const MOST_SUBMISSION = 2 ** 20;
const MOST_TAIL = 4000;
/** Of what `setup` or `submit` said, in a message. */
const MOST_SAID = 1000;

/** One life here. */
interface Life {
  confined: Confined;
  ended: Promise<ProgramEnd>;
  /** Ends the program; `submit` follows. */
  cut: () => void;
}

export function createCommand(
  settings: CommandSettings,
  confinement: Confinement,
): Pick<Program, 'health' | 'outlives' | 'start' | 'wait' | 'cut' | 'stop'> {
  const lives = new Map<string, Life>();
  const stop = async (run: string): Promise<void> => {
    const life = lives.get(run);
    await life?.confined.remove();
    lives.delete(run);
  };
  return {
    outlives: false,
    health: async (signal) => {
      await confinement.health(signal);
      await checkThere(settings);
    },
    start: async (run, how) => {
      await checkThere(settings);
      await stop(run);
      lives.set(run, await begin(settings, { confinement, run, ...how }));
      return { state: 'running' };
    },
    wait: async (run, { seconds = POLL_S, signal }) => {
      const life = lives.get(run);
      if (life === undefined) return 'gone';
      const ended = await within(seconds * 1000, orAborted(life.ended, signal));
      return typeof ended === 'symbol' ? { state: 'running' } : ended;
    },
    cut: async (run, signal) => {
      const life = lives.get(run);
      if (life === undefined) throw new Error(`${run} is not running here`);
      life.cut();
      return await orAborted(life.ended, signal);
    },
    stop,
  };
}

/** What is named without a folder may be installed meanwhile; what is in the life's folder is not there yet. */
async function checkThere(settings: CommandSettings): Promise<void> {
  const { name, command, setup, submit, env, path } = settings;
  const PATH = env['PATH'] ?? path;
  for (const [field, argv] of Object.entries({ command, setup, submit })) {
    const program = argv?.[0] ?? '';
    if (argv === null || (program.includes('/') && !program.startsWith('/'))) continue;
    if (program.includes('{') || (await findProgram(program, { PATH, folder: '/' })) !== null)
      continue;
    const [where, looked] = program.startsWith('/')
      ? ['at', '']
      : ['on PATH, named', ` (PATH is ${PATH})`];
    const message = `environments.${name}.run.${field}: expected a program ${where} ${program}, there is none on this host${looked}: install it, or correct the setting`;
    throw new Fault({ type: 'EnvironmentUnavailable', message });
  }
}

interface Beginning extends ProgramStart {
  confinement: Confinement;
  run: string;
}

async function begin(
  settings: CommandSettings,
  { confinement, run, task, serve, signal }: Beginning,
): Promise<Life> {
  const dot = run.lastIndexOf('.');
  const life = { rollout_id: run.slice(0, dot), life: Number(run.slice(dot + 1)) };
  const confined = await confinement.open({ ...life, signal });
  const { folder, door } = confined;
  if (door !== null) serve(door.server);
  const { base_url, key } = door ?? task;
  const filling = { prompt: task.prompt, base_url, key, folder };
  const stage = createStage(settings, { confined, filling });
  const { prompt, message_log, metadata } = task;
  const input = writeJson({ prompt, message_log, metadata });
  const ended = play(settings, { stage, input, key });
  // Its waiter sees it, if there is one.
  ended.catch(() => undefined);
  return { confined, ended, cut: stage.cut };
}

interface Stage {
  start: (argv: Argv, more?: Pick<Command, 'input' | 'most_output'>) => Promise<Running>;
  /** Ends what is running now. */
  cut: () => void;
}

function createStage(
  { env }: CommandSettings,
  { confined, filling }: { confined: Confined; filling: Filling },
): Stage {
  const fill = (text: string): string => filled(text, filling);
  const variables: Record<string, string> = { ...confined.variables, ...variablesOf(filling) };
  for (const [name, value] of Object.entries(env)) variables[name] = fill(value);
  let running: Running | null = null;
  return {
    start: async ([program, ...args], more) => {
      const argv: Argv = [fill(program), ...args.map(fill)];
      running = await confined.start({ argv, env: variables, ...more });
      return running;
    },
    cut: () => running?.end(),
  };
}

async function play(
  { name, setup, command, submit }: CommandSettings,
  { stage, input, key }: { stage: Stage; input: string; key: string },
): Promise<ProgramEnd> {
  if (setup !== null) {
    const running = await stage.start(setup, { input });
    const ended = await running.ended;
    if (ended.code !== 0) {
      const why = whyFailed(ended, tailOf(running, key));
      const message = `environments.${name}.run.setup: ${why}`;
      throw new Fault({ type: 'EnvironmentFailed', message });
    }
  }
  const running = await stage.start(command);
  const { code, signal, excess } = await running.ended;
  const said = tailOf(running, key);
  const tail = excess === null ? said : `${said}\n${excess}`;
  const submitted: Submitted =
    submit === null ? NOTHING : await submission(submit, { stage, input, key });
  const exit = { code, signal, tail: tail.slice(-MOST_TAIL) };
  return {
    ...NOTHING,
    state: 'ended',
    // What cannot be submitted cannot be verified: the life has failed.
    exit: code === 0 && submitted.exit !== undefined ? submitted.exit : exit,
    submission: submitted.submission,
  };
}

interface Submitted {
  submission: string | null;
  /** It has failed. */
  exit?: ProgramEnd['exit'];
}

const NOTHING = { submission: null, reward: null, rewards: {}, metadata: null };

async function submission(
  submit: Argv,
  { stage, input, key }: { stage: Stage; input: string; key: string },
): Promise<Submitted> {
  const running = await stage.start(submit, { input, most_output: MOST_SUBMISSION });
  const ended = await running.ended;
  if (ended.code === 0 && !ended.is_cut) return { submission: ended.output.toString() };
  const why = ended.is_cut
    ? `expected at most ${MOST_SUBMISSION} bytes, it printed more`
    : whyFailed(ended, tailOf(running, key));
  const { signal } = ended;
  const code = signal === null ? ended.code || 1 : null;
  return { submission: null, exit: { code, signal, tail: `run.submit: ${why}` } };
}

function whyFailed({ code, signal, excess }: Ended, tail: string): string {
  const how = excess ?? (signal === null ? `exit ${code ?? 'unknown'}` : `signal ${signal}`);
  const said = tail.trim().slice(-MOST_SAID);
  return `it failed (${how}); ${said === '' ? 'it printed nothing' : `it printed at its end: ${said}`}`;
}

/** A key that was cut at the beginning is not found: so much is left out. */
function tailOf(running: Running, key: string): string {
  const text = running.tail().replaceAll(key, '(key)');
  return text.length > MOST_TAIL ? text.slice(key.length).slice(-MOST_TAIL) : text;
}
