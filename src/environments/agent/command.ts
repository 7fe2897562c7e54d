import { Fault } from '../../model/faults.js';
import { writeJson } from '../../platform/json/kept.js';
import { orAborted, within } from '../../platform/waits/abort.js';
import type { Program, ProgramEnd, ProgramStart } from '../environment.js';
import type {
  Command,
  Confined,
  Confinement,
  Part,
  RunningCommand,
} from '../../sandbox/programs/confinement.js';
import type { Argv, CommandSettings } from './command-settings.js';
import { findProgram } from '../../sandbox/programs/find-program.js';
import { asksPolicy, filled, variablesOf } from './placeholders.js';
import type { Filling } from './placeholders.js';
import { kept, submitted, whyFailed } from './submission.js';

/** `run.command`: programs that the worker starts itself, as its children. */

const POLL_S = 30;
const MOST_TAIL = 4000;

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
      await checkThere(settings);
      await confinement.health(signal);
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
  const { name, command, setup, env, path, submit_path } = settings;
  const submit = settings.submit === 'diff' ? (['git'] as const) : settings.submit;
  for (const [field, argv] of Object.entries({ command, setup, submit })) {
    const PATH = env['PATH'] ?? (field === 'submit' ? submit_path() : path());
    const program = argv?.[0] ?? '';
    if (argv === null || (program.includes('/') && !program.startsWith('/'))) continue;
    if (program.includes('{') || (await findProgram(program, { PATH, folder: '/' })) !== null)
      continue;
    const [where, looked] = program.startsWith('/')
      ? ['at', '']
      : ['on PATH, named', ` (PATH is ${PATH})`];
    const how = installing(program);
    const message = `environments.${name}.run.${field}: expected a program ${where} ${program}, which is not on this host${looked}: install it${how}, or correct the setting`;
    throw new Fault({ type: 'EnvironmentUnavailable', message });
  }
}

/** Where agents come from whose programs have another name. */
const PACKAGES = new Map([
  ['mini', 'pip install mini-swe-agent'],
  ['claude', 'npm install @anthropic-ai/claude-code'],
  ['codex', 'npm install @openai/codex'],
  ['opencode', 'npm install opencode-ai'],
]);

function installing(program: string): string {
  const by = PACKAGES.get(program.slice(program.lastIndexOf('/') + 1));
  return by === undefined ? '' : ` (${by}, into a folder that run.mounts names)`;
}

interface Beginning extends ProgramStart {
  confinement: Confinement;
  run: string;
}

async function begin(
  settings: CommandSettings,
  { confinement, run, task, serve, over, signal }: Beginning,
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
  // That of a door is no secret, and a word.
  const ended = play(settings, {
    confined,
    stage,
    input,
    secret: door === null ? key : null,
    over,
  });
  // Its waiter sees it, if there is one.
  ended.catch(() => undefined);
  return { confined, ended, cut: stage.cut };
}

interface Stage {
  start: (
    argv: Argv,
    more: Omit<Command, 'argv' | 'env'> & { part: Part },
  ) => Promise<RunningCommand>;
  /** Ends the program, now or when it starts. */
  cut: () => void;
}

function createStage(
  { env }: CommandSettings,
  { confined, filling }: { confined: Confined; filling: Filling },
): Stage {
  const fill = (text: string): string => filled(text, filling);
  let program: RunningCommand | null = null;
  let is_cut = false;
  return {
    start: async ([first, ...args], more) => {
      // A patch is made as the worker has it.
      const argv: Argv =
        more.part === 'patch' ? [first, ...args] : [fill(first), ...args.map(fill)];
      const variables = variablesFor(more.part, { env, confined, filling });
      const running = await confined.start({ argv, env: variables, ...more });
      if (more.part === 'program') program = running;
      if (more.part === 'program' && is_cut) running.end();
      return running;
    },
    cut: () => {
      is_cut = true;
      program?.end();
    },
  };
}

/** Only a program has the policy's address, and what reads its folder finds nothing there by itself. */
function variablesFor(
  part: Part,
  {
    env,
    confined,
    filling,
  }: Pick<CommandSettings, 'env'> & { confined: Confined; filling: Filling },
): Record<string, string> {
  const own = confined.variables(part);
  if (part === 'patch') return own;
  const all = Object.entries(env).map(([name, value]) => [name, filled(value, filling)] as const);
  if (part === 'program') return { ...own, ...variablesOf(filling), ...Object.fromEntries(all) };
  const { HOME = '', TMPDIR = '' } = own;
  const given = all.filter(
    ([name, value]) =>
      !asksPolicy(env[name] ?? '') && (part === 'setup' || !value.includes(filling.folder)),
  );
  return { ...own, ...Object.fromEntries(given), HOME, TMPDIR };
}

interface PlayedProgram extends Pick<ProgramStart, 'over'> {
  confined: Confined;
  stage: Stage;
  input: string;
  /** What its output may not have. */
  secret: string | null;
}

async function play(
  settings: CommandSettings,
  { confined, stage, input, secret, over }: PlayedProgram,
): Promise<ProgramEnd> {
  const { start } = stage;
  const failed = (field: string, why: string): Fault => {
    const message = `environments.${settings.name}.run.${field}: ${why}`;
    return new Fault({ type: 'EnvironmentFailed', message });
  };
  if (settings.setup !== null) {
    const running = await start(settings.setup, { part: 'setup', input });
    const ended = await running.ended;
    if (ended.code !== 0) throw failed('setup', whyFailed(ended, running.tail()));
  }
  const why = await kept(settings, { confined, start });
  if (why !== null) throw failed('submit', why);
  const running = await start(settings.command, { part: 'program' });
  const { code, signal, excess } = await running.ended;
  const said = tailOf(running, secret);
  const tail = excess === null ? said : `${said}\n${excess}`;
  await over();
  const result = await submitted(settings, { confined, start, input });
  const exit = { code, signal, tail: tail.slice(-MOST_TAIL) };
  return {
    ...NOTHING,
    state: 'ended',
    // What cannot be submitted cannot be verified: the life has failed.
    exit: code === 0 && result.exit !== undefined ? result.exit : exit,
    submission: result.submission,
  };
}

const NOTHING = { submission: null, reward: null, rewards: {}, metadata: null };

/** A key that was cut at the beginning is not found: so much is left out. */
function tailOf(running: RunningCommand, secret: string | null): string {
  if (secret === null) return running.tail().slice(-MOST_TAIL);
  const text = running.tail().replaceAll(secret, '(key)');
  return text.length > MOST_TAIL ? text.slice(secret.length).slice(-MOST_TAIL) : text;
}
