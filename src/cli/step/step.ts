import { createHash } from 'node:crypto';
import { access, constants } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import type { ExactEnvironment, EnvironmentReturn } from '../../environments/environment.js';
import { createEnvironmentFactory } from '../../environments/factory.js';
import { textLog } from '../../model/content.js';
import { Semantics } from '../../model/batch-request.js';
import { Fault } from '../../model/faults.js';
import { UsageError } from '../../platform/command.js';
import { describeError, traceIn } from '../../platform/errors.js';
import { problemsOf } from '../../model/problems.js';
import { Message } from '../../model/sample.js';
import { linesOf } from '../../platform/lines.js';
import { foreignObject, type ForeignObject } from '../../model/foreign-object.js';
import { columnText, jsonFault } from '../../platform/json/fault-place.js';
import { readJson, writeJson } from '../../platform/json/kept.js';
import { plain, plainJson } from '../../platform/plain.js';
import { INTERRUPTED, dieOfInterrupt } from '../../platform/process/interrupts.js';
import { loadConfig } from '../../workers/config.js';
import { settingsNamed } from '../arguments.js';
import { stepAlone } from './step-alone.js';

/** Concurrent lines for an environment behind a service without `max_concurrent`. */
const AT_ONCE = 8;

const Line = z.strictObject({
  message_log: z.array(Message).min(1, 'expected at least one message, got none'),
  metadata: foreignObject().default({}),
});

/** What is printed for a line. */
type Printed =
  | {
      observation: EnvironmentReturn['observations'][number];
      reward: number | Record<string, number>;
      terminated: boolean;
      /** Absent: it did not. */
      truncated?: true;
      /** The environment's own; null: the given one stays. */
      metadata: ForeignObject | null;
      next_stop_strings: string[] | null;
      answer: string | null;
    }
  | { error: { type: string; message: string } };

interface Options {
  name: string;
  input: string;
  file: string;
  is_standard: boolean;
}

function readOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      environment: { type: 'string' },
      input: { type: 'string' },
      config: { type: 'string', default: './temporal.yaml' },
      semantics: { type: 'string', default: 'nemo-rl-sync' },
    },
  });
  const { environment: name, input, config: file } = values;
  if (name === undefined || input === undefined)
    throw new UsageError(`${name === undefined ? '--environment' : '--input'} is missing`);
  const semantics = Semantics.safeParse(values.semantics).data;
  if (semantics === undefined) {
    const among = Semantics.options.join(', ');
    throw new UsageError(`--semantics: expected one of ${among}, got ${values.semantics}`);
  }
  return { name, input, file, is_standard: semantics === 'standard' };
}

/** One step per line of a file. It needs no Temporal server and no generation service. */
export async function stepCommand(args: string[]): Promise<number> {
  const { name, input, file, is_standard } = readOptions(args);
  const config = await loadConfig(file);
  const settings = settingsNamed(name, { among: config.environments, what: 'environment', file });
  await access(input, constants.R_OK);
  const print = takeOverOutput();
  const factory = createEnvironmentFactory({
    settings: config.environments,
    env: process.env,
    report: say,
  });
  const stop = new AbortController();
  const interrupt = (): void => {
    stop.abort(new Error('interrupted'));
  };
  dieOfInterrupt();
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  try {
    const environment = await factory.create(name);
    const own = 'max_concurrent' in settings ? settings.max_concurrent : undefined;
    const at_once = environment.in_process ? 1 : (own ?? AT_ONCE);
    return await runLines({
      ...{ environment, name, input, is_standard, at_once, print },
      signal: stop.signal,
    });
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
    await factory.close();
  }
}

const say = (text: string): void => {
  console.error(plain(`temporal-rollout step: ${text}`));
};

interface Run {
  environment: ExactEnvironment;
  name: string;
  input: string;
  is_standard: boolean;
  at_once: number;
  print: Print;
  signal: AbortSignal;
}

/** Lines begin and are printed in order, each as soon as it and all earlier ones are done. */
async function runLines({ input, at_once, print, ...run }: Run): Promise<number> {
  const ahead: Promise<void>[] = [];
  let printed = Promise.resolve();
  let failed = 0;
  for await (const { text, number } of linesOf(input)) {
    if (run.signal.aborted) break;
    if (text.trim() === '') continue;
    const answer = answerLine(text, { ...run, number });
    const before = printed;
    printed = (async () => {
      const result = await answer;
      await before;
      if ('error' in result) failed += 1;
      await print(result);
    })();
    ahead.push(printed);
    if (ahead.length >= at_once) await ahead.shift();
  }
  await printed;
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

interface LineRun extends Pick<Run, 'environment' | 'name' | 'is_standard' | 'signal'> {
  number: number;
}

async function answerLine(text: string, run: LineRun): Promise<Printed> {
  try {
    const { message_log, metadata } = parseLine(text, run);
    const log = textLog(message_log);
    const { environment, is_standard, signal } = run;
    const context = { idempotency_key: keyOf(text, run), signal, is_standard };
    const answer = await stepAlone(environment, { log, metadata, ...context });
    return only(answer);
  } catch (error) {
    const trace = traceIn(error);
    if (trace !== null) say(`line ${run.number}: ${trace}`);
    // A fault's message already contains its causes.
    if (error instanceof Fault) return { error: { type: error.type, message: error.message } };
    return { error: { type: 'EnvironmentFailed', message: describeError(error) } };
  }
}

/**
 * Like the key of a rollout's first turn: the same line always has the same key, and a changed text at the same place
 * has another.
 */
function keyOf(text: string, { name, number }: LineRun): string {
  const hash = createHash('sha256').update(`${name}\0${text}`).digest('hex').slice(0, 16);
  return `step-${hash}/${number - 1}-0/0`;
}

function parseLine(text: string, { number }: LineRun): z.infer<typeof Line> {
  const bad = (problem: string): Fault =>
    new Fault({ type: 'EnvironmentRejected', message: `line ${number}: ${problem}` });
  let value: unknown;
  try {
    value = readJson(text, { metadata: 'all' });
  } catch (error) {
    const fault = jsonFault(text);
    const why = fault === null ? describeError(error) : columnText(fault);
    throw bad(`expected a JSON object: ${why}`);
  }
  const parsed = Line.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = problemsOf(parsed.error, value).map(({ where, what }) => `${where}: ${what}`);
  throw bad(problems.join('; '));
}

function only(answer: EnvironmentReturn<ForeignObject>): Printed {
  const [observation] = answer.observations;
  const reward = Array.isArray(answer.rewards)
    ? answer.rewards[0]
    : Object.fromEntries(
        Object.entries(answer.rewards).map(([name, values]) => [name, values[0] ?? 0]),
      );
  if (observation === undefined || reward === undefined) {
    throw new Fault({ type: 'EnvironmentRejected', message: 'the environment answered nothing' });
  }
  return {
    observation,
    reward,
    terminated: Boolean(answer.terminateds[0]),
    ...(Boolean(answer.truncateds?.[0]) && { truncated: true as const }),
    metadata: answer.metadata[0] ?? null,
    next_stop_strings: answer.next_stop_strings?.[0] ?? null,
    answer: answer.answers?.[0] ?? null,
  };
}
