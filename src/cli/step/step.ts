import { createHash } from 'node:crypto';
import { access, constants } from 'node:fs/promises';
import type {
  ExactEnvironment,
  TurnAnswer,
  EnvironmentMessage,
  StepContext,
} from '../../environments/environment.js';
import type { EnvironmentFactory } from '../../environments/factory.js';
import { createEnvironmentFactory } from '../../environments/factory.js';
import { EnvironmentSettings, isInProcess } from '../../environments/registry.js';
import { isUpstream, Semantics } from '../../model/semantics.js';
import { Fault } from '../../model/faults.js';
import type { Columns } from '../../model/sample-columns.js';
import { checkColumns } from '../../model/sample-columns.js';
import { UsageError } from '../../platform/command.js';
import { describeError, traceIn } from '../../platform/errors.js';
import { linesOf } from '../../platform/lines.js';
import { withFields, type ForeignObject } from '../../model/foreign-object.js';
import { writeJson } from '../../platform/json/kept.js';
import { plain, plainJson } from '../../platform/plain.js';
import { INTERRUPTED, dieOfInterrupt } from '../../platform/process/interrupts.js';
import { loadConfig } from '../../workers/config.js';
import { TEXT, oneOf, optionsIn } from '../../platform/arguments.js';
import { FILE, settingsNamed } from '../settings-file.js';
import type { Line, Reading } from './line.js';
import { parseLine } from './line.js';
import { servePython } from './python-function.js';
import { withoutSession } from '../../model/journal/session.js';

/** Concurrent lines for an environment behind a service without `max_concurrent`. */
const AT_ONCE = 8;

/** A row of results also has its rollout, and what that was paid. */
type Printed =
  | (ReturnType<typeof printed> & Partial<Line['recorded']>)
  | { error: { type: string; message: string } };

type Options = ReturnType<typeof readOptions>;

function readOptions(args: string[]) {
  const values = optionsIn(args, {
    environment: TEXT,
    input: TEXT,
    config: FILE,
    semantics: TEXT,
    answer: TEXT,
    function: TEXT,
    columns: { type: 'string', multiple: true },
  });
  const { environment = null, input, config: file, answer = null } = values;
  const { function: python = null } = values;
  if (input === undefined) throw new UsageError('--input is missing');
  if (environment !== null && python !== null)
    throw new UsageError('expected one of --environment and --function, got both');
  const among = Semantics.options;
  const { semantics: text } = values;
  const semantics = text === undefined ? null : oneOf('--semantics', { text, among });
  return {
    /** null: each line's own. */
    name: environment ?? python,
    /** `module:name` of a Python function or class, in place of an environment of the file. */
    python,
    input,
    file,
    answer,
    columns: values.columns === undefined ? null : columnsOf(values.columns.join(',')),
    /** null: each line's own. */
    is_standard: semantics === null ? null : !isUpstream(semantics),
  };
}

/** `COLUMN=NAME,…`: what the Python client takes as a dictionary. */
function columnsOf(text: string): Columns {
  const pairs = text.split(',').map((part) => {
    const at = part.lastIndexOf('=');
    if (at > 0) return [part.slice(0, at).trim(), part.slice(at + 1).trim()] as const;
    throw new UsageError(
      `--columns: expected COLUMN=NAME such as question=prompt, got ${JSON.stringify(part)}`,
    );
  });
  try {
    return checkColumns(pairs);
  } catch (error) {
    throw new UsageError(`--columns: ${describeError(error)}`);
  }
}

/** One step per line of a file. It needs no Temporal server and no generation service. */
export const stepCommand = (args: string[]): Promise<number> => playSteps(args, takeOverOutput);

/** `printer` is called before anything of an environment is loaded. */
export async function playSteps(args: string[], printer: () => Print): Promise<number> {
  const { file, python, ...options } = readOptions(args);
  await access(options.input, constants.R_OK);
  const served = python === null ? null : await servePython(python, process.env);
  const environments =
    python === null || served === null
      ? (await loadConfig(file)).environments
      : { [python]: EnvironmentSettings.parse({ kind: 'http', url: served.url }) };
  const factory = createEnvironmentFactory({
    settings: environments,
    env: process.env,
    report: say,
  });
  const stop = new AbortController();
  const interrupt = (): void => {
    stop.abort(new Error('interrupted'));
  };
  const print = printer();
  dieOfInterrupt();
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  try {
    const player = createPlayers({ environments, file, factory });
    if (options.name !== null) await player(options.name);
    return await runLines({ ...options, player, print, signal: stop.signal });
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
    await factory.close();
    await served?.end();
  }
}

interface Played {
  environments: Record<string, EnvironmentSettings>;
  file: string;
  factory: EnvironmentFactory;
}

/** Each environment is made once, when a line first needs it. */
function createPlayers({ environments, file, factory }: Played): (name: string) => Promise<Player> {
  const made = new Map<string, Promise<Player>>();
  const create = async (name: string): Promise<Player> => {
    const settings = settingsNamed(name, { among: environments, what: 'environment', file });
    const own = 'max_concurrent' in settings ? settings.max_concurrent : undefined;
    const environment = await factory.create(name);
    return { name, environment, at_once: isInProcess(settings) ? 1 : (own ?? AT_ONCE) };
  };
  return async (name) => {
    const player = made.get(name) ?? create(name);
    made.set(name, player);
    return await player;
  };
}

const say = (text: string): void => {
  console.error(plain(`temporal-rollout step: ${text}`));
};

/** An environment, and how many lines it plays at once. */
interface Player {
  name: string;
  environment: ExactEnvironment;
  at_once: number;
}

interface Run extends Omit<Options, 'file' | 'python'> {
  player: (name: string) => Promise<Player>;
  print: Print;
  signal: AbortSignal;
}

/** Lines begin and are printed in order, each as soon as it and all earlier ones are done. */
async function runLines({ input, print, ...run }: Run): Promise<number> {
  const ahead: Promise<void>[] = [];
  let printed = Promise.resolve();
  let failed = 0;
  try {
    for await (const { text, number } of linesOf(input)) {
      if (run.signal.aborted) break;
      if (text.trim() === '') continue;
      const { at_once, play } = await preparedLine(text, { ...run, number });
      while (ahead.length >= at_once) await ahead.shift();
      const answer = play();
      const before = printed;
      printed = (async () => {
        const result = await answer;
        await before;
        if ('error' in result) failed += 1;
        await print(result);
      })();
      ahead.push(printed);
    }
  } finally {
    // Also of lines before one that ends it: their environments are closed next.
    await printed;
  }
  if (run.signal.aborted) return INTERRUPTED;
  return failed > 0 ? 1 : 0;
}

type Print = (result: Printed) => Promise<void>;

/** Standard output is only JSON lines; what an environment's code prints goes to standard error. */
function takeOverOutput(): Print {
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr);
  return (result) =>
    new Promise((resolve, reject) => {
      write(`${plainJson(writeJson(result))}\n`, (error) => {
        if (error) reject(error);
        else resolve();
      });
    });
}

type Failed = Extract<Printed, { error: unknown }>;

async function preparedLine(
  text: string,
  run: Reading & Pick<Run, 'name' | 'player' | 'is_standard' | 'signal'>,
): Promise<{ at_once: number; play: () => Promise<Printed> }> {
  const { name, number } = run;
  try {
    const line = parseLine(text, run);
    const named = name ?? line.task_name;
    if (named === null)
      throw new UsageError(`line ${number} has no task_name, and --environment is missing`);
    const player = await run.player(named);
    const { at_once } = player;
    return { at_once, play: () => answerLine(line, { ...run, text, player }) };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { at_once: 1, play: () => Promise.resolve(failure(error)) };
  }
}

interface LineRun extends Pick<Run, 'is_standard' | 'signal'> {
  text: string;
  number: number;
  player: Player;
}

async function answerLine(line: Line, run: LineRun): Promise<Printed> {
  const { log, metadata, prompt_length, recorded } = line;
  try {
    const { player, is_standard, signal } = run;
    const answer = await stepAlone(player.environment, {
      ...{ log, metadata, signal, idempotency_key: keyOf(run) },
      ...((is_standard ?? line.is_standard) && { prompt_length }),
      has_begun: recorded !== null,
    });
    return { ...printed(answer), ...recorded };
  } catch (error) {
    const trace = traceIn(error);
    if (trace !== null) say(`line ${run.number}: ${trace}`);
    return failure(error);
  }
}

const failure = (error: unknown): Failed =>
  error instanceof Fault
    ? { error: { type: error.type, message: error.message } }
    : { error: { type: 'EnvironmentFailed', message: describeError(error) } };

/** The same for the same line at the same place, and another for a changed text. */
function keyOf({ text, player, number }: LineRun): string {
  const hash = createHash('sha256').update(`${player.name}\0${text}`).digest('hex').slice(0, 16);
  return `step-${hash}/${number - 1}-0/0`;
}

const printed = ({ observation, reward, ...answer }: TurnAnswer<ForeignObject>) => ({
  observation,
  reward,
  terminated: answer.terminated,
  ...(answer.truncated === true && { truncated: true }),
  metadata: answer.metadata ?? null,
  next_stop_strings: answer.next_stop_strings ?? null,
  answer: answer.answer ?? null,
});

interface Alone extends Pick<StepContext, 'idempotency_key' | 'signal'> {
  log: EnvironmentMessage[];
  metadata: ForeignObject;
  /** Grades as under `standard`, what the policy said behind so many messages; absent: as NeMo RL does. */
  prompt_length?: number;
  /** The state is a rollout's last one: its fields replace those that `begin` returns anew. */
  has_begun?: boolean;
}

/** One step of one log. If the environment has sessions, the step gets its own: begun with the log's prompt, and ended. */
export async function stepAlone(
  environment: ExactEnvironment,
  { log, metadata, prompt_length, has_begun = false, ...context }: Alone,
): Promise<TurnAnswer<ForeignObject>> {
  const inStep = (begun: number): StepContext => ({
    ...context,
    ...(prompt_length !== undefined && { prompt_length: prompt_length + begun }),
  });
  if (environment.begin === undefined)
    return environment.step({ message_log: log, metadata }, inStep(0));
  const answered = log.findIndex(({ role }) => role === 'assistant');
  const prompt = answered === -1 ? log : log.slice(0, answered);
  const keyed = (what: string) => ({
    ...context,
    idempotency_key: `${context.idempotency_key}/${what}-0`,
  });
  const begun = (await environment.begin({ message_log: prompt, metadata }, keyed('begin'))) ?? {
    messages: [],
    metadata,
  };
  try {
    const whole = [...prompt, ...begun.messages, ...log.slice(prompt.length)];
    const answer = await environment.step(
      {
        message_log: whole,
        metadata: has_begun ? withFields(begun.metadata, metadata) : begun.metadata,
      },
      inStep(begun.messages.length),
    );
    return { ...answer, metadata: answer.metadata ? withoutSession(answer.metadata) : null };
  } finally {
    // A failed end leaves a session on the server, but the answer is good.
    await environment.end?.(begun.metadata, keyed('end')).catch(() => false);
  }
}
