import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { Fault } from '../../model/faults.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { writeJson } from '../../platform/json/kept.js';
import { PROJECT_ROOT } from '../../platform/project-root.js';
import { LATE, orAborted, within } from '../../platform/waits/abort.js';
import { findProgram } from '../../sandbox/programs/find-program.js';
import type {
  Command,
  Confined,
  Confinement,
  Ended,
  Part,
  RunningCommand,
} from '../../sandbox/programs/confinement.js';
import { bareEnd, type Program, type ProgramEnd, type ProgramStart } from '../environment.js';
import { MOST_SUBMISSION, MOST_TAIL, POLL_S } from './service.js';
import type { AgentSettings } from './settings.js';
import { asksPolicy, filled, type Filling, variablesOf } from './placeholders.js';

/** `run.command`: programs that the worker starts itself, as its children. */

export type Argv = [string, ...string[]];

interface CommandSettings extends Pick<AgentSettings['run'], 'setup' | 'submit' | 'env'> {
  /** Its key under `environments`, for messages. */
  name: string;
  command: Argv;
  /** How long `submit` may take, as a duration. */
  submit_time: string;
  /** Where programs are found unless `env` says it. */
  path: () => string;
  submit_path: () => string;
}

/** How many characters of what a command said a message has. */
const MOST_SAID = 1000;
/** Makes patches, without running anything of the folder. */
const PATCH = path.join(PROJECT_ROOT, 'python', 'sandbox', 'patch.py');

interface Life {
  confined: Confined;
  ended: Promise<ProgramEnd>;
  /** Ends the program, now or when it starts; `submit` follows. */
  cut: () => void;
}

export function createCommand(
  settings: CommandSettings,
  confinement: Confinement,
): Pick<Program, 'health' | 'outlives' | 'start' | 'wait' | 'cut' | 'stop'> {
  const lives = new Map<string, Life>();
  const stop = async (run: string): Promise<void> => {
    await lives.get(run)?.confined.remove();
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
      lives.set(run, begin(settings, { confined: await confinement.open(how.signal), ...how }));
      return { state: 'running' };
    },
    wait: async (run, { seconds = POLL_S, signal }) => {
      const life = lives.get(run);
      if (life === undefined) return 'gone';
      const ended = await within(seconds * 1000, orAborted(life.ended, signal));
      return ended === LATE ? { state: 'running' } : ended;
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

/** A command without a folder in its name may be installed later, and one in the life's folder is not there yet. */
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
    const by = PACKAGES.get(program.slice(program.lastIndexOf('/') + 1));
    const how = by === undefined ? '' : ` (${by}, into a folder that run.mounts names)`;
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

type Start = (
  argv: Argv,
  more: Omit<Command, 'argv' | 'env' | 'part'> & { part: Part },
) => Promise<RunningCommand>;

interface Beginning extends ProgramStart {
  confined: Confined;
}

function begin(settings: CommandSettings, { confined, task, serve, over }: Beginning): Life {
  const { folder, door } = confined;
  const { prompt, message_log, metadata } = task;
  if (door !== null) serve(door.server);
  const { base_url, key } = door ?? task;
  const filling = { prompt, base_url, key, folder };
  const fill = (text: string): string => filled(text, filling);
  let program: RunningCommand | null = null;
  let is_cut = false;
  const start: Start = async ([first, ...args], more) => {
    const { part } = more;
    // A patch is made as the worker has it.
    const argv: Argv = part === 'patch' ? [first, ...args] : [fill(first), ...args.map(fill)];
    const env = variablesFor(part, { env: settings.env, confined, filling });
    const running = await confined.start({ argv, env, ...more });
    if (part === 'program') program = running;
    if (part === 'program' && is_cut) running.end();
    return running;
  };
  const input = writeJson({ prompt, message_log, metadata });
  // A door's key is the word `rollout`, no secret.
  const secret = door === null ? key : null;
  const ended = play(settings, { confined, start, input, secret, over });
  // Its waiter sees it, if there is one.
  ended.catch(() => undefined);
  const cut = (): void => {
    is_cut = true;
    program?.end();
  };
  return { confined, ended, cut };
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

interface Playing {
  confined: Confined;
  start: Start;
  /** On the standard input of `setup` and `submit`. */
  input: string;
}

async function play(
  settings: CommandSettings,
  { secret, over, ...playing }: Playing & { secret: string | null; over: ProgramStart['over'] },
): Promise<ProgramEnd> {
  const { confined, start, input } = playing;
  const { name, command, setup, submit } = settings;
  const check = async (field: string, running: RunningCommand): Promise<void> => {
    const ended = await running.ended;
    if (ended.code === 0) return;
    const message = `environments.${name}.run.${field}: ${whyFailed(ended, running.tail())}`;
    throw new Fault({ type: 'EnvironmentFailed', message });
  };
  if (setup !== null) await check('setup', await start(setup, { part: 'setup', input }));
  if (submit === 'diff')
    await check('submit', await start(await patching('keep', confined), { part: 'patch' }));
  const running = await start(command, { part: 'program' });
  const { code, signal, excess } = await running.ended;
  const said = tailOf(running, secret);
  const tail = (excess === null ? said : `${said}\n${excess}`).slice(-MOST_TAIL);
  await over();
  const result = await submitted(settings, playing);
  // Without a submission nothing can be verified: the life has failed.
  const exit = (code === 0 ? result.exit : null) ?? { code, signal, tail };
  return { ...bareEnd(exit), submission: result.submission };
}

/** A key that was cut at the beginning is not found: so much is left out. */
function tailOf(running: RunningCommand, secret: string | null): string {
  if (secret === null) return running.tail().slice(-MOST_TAIL);
  const text = running.tail().replaceAll(secret, '(key)');
  return text.length > MOST_TAIL ? text.slice(secret.length).slice(-MOST_TAIL) : text;
}

/** The command that makes the folder's patch: `keep` before the program, `print` behind it. */
async function patching(what: 'keep' | 'print', { python, folder, kept }: Confined): Promise<Argv> {
  // Its source, since commands do not see where it is.
  return [python, '-I', '-S', '-c', await readFile(PATCH, 'utf8'), what, folder, kept];
}

/** The program's submission, read once nothing of it lives; `exit`: how the life failed if there is none. */
async function submitted(
  { submit, submit_time }: CommandSettings,
  { confined, start, input }: Playing,
): Promise<Pick<ProgramEnd, 'submission'> & Partial<Pick<ProgramEnd, 'exit'>>> {
  if (submit === null) return { submission: null };
  const most_output = MOST_SUBMISSION;
  const running =
    submit === 'diff'
      ? await start(await patching('print', confined), { part: 'patch', most_output })
      : await start(submit, { part: 'submit', input, most_output });
  const isLate = (await within(toMs(submit_time), running.ended)) === LATE;
  running.end();
  const ended = await running.ended;
  if (!isLate && ended.code === 0 && !ended.is_cut) return { submission: ended.output.toString() };
  const why = isLate
    ? `expected it to end within limits.submit ${submit_time}, it did not`
    : ended.is_cut
      ? `expected at most ${MOST_SUBMISSION} bytes, it printed more`
      : whyFailed(ended, running.tail());
  const { signal } = ended;
  const code = signal === null || isLate ? ended.code || 1 : null;
  const exit = { code, signal: code === null ? signal : null, tail: `run.submit: ${why}` };
  return { submission: null, exit };
}

function whyFailed({ code, signal, excess }: Ended, tail: string): string {
  const how = excess ?? (signal === null ? `exit ${code ?? 'unknown'}` : `signal ${signal}`);
  const said = tail.trim().slice(-MOST_SAID);
  return `it failed (${how}); ${said === '' ? 'it printed nothing' : `it printed at its end: ${said}`}`;
}
