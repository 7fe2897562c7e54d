import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { describeError } from '../../platform/errors.js';
import { recordOf } from '../../model/untrusted.js';
import type { BatchEnvironment, TurnEnvironment } from './authoring.js';
import type { EnvironmentContext } from '../environment-context.js';
import type { Environment, StepInput } from '../environment.js';
import { rejected, rejectedFields } from '../rejections.js';
import { parseStepAnswer } from '../step-answer.js';

export interface ModuleSettings {
  /** Absolute. */
  path: string;
  export: string;
  settings: Record<string, unknown>;
  in_process: boolean;
}

/** An environment of the user's own: a TypeScript or JavaScript module. Throws an error that names file and export. */
export async function createModuleEnvironment(
  { path, export: name, settings, in_process }: ModuleSettings,
  context: EnvironmentContext,
): Promise<Environment> {
  const subject = `environment ${context.name}: export ${name} of ${path}`;
  const made = await make(await load(path, context), { subject, name, settings, context });
  const { globalPostProcessAndMetrics, health, close } = made;
  return {
    in_process,
    // What the module does with the metadata that it is given must not reach the journal's copy.
    step: async (input, stepContext) => {
      const given = structuredClone(input);
      const answer =
        'stepOne' in made
          ? await stepEach(given, { stepOne: (turn) => made.stepOne(turn, stepContext), subject })
          : await made.step(given, stepContext);
      const batch_size = input.message_log_batch.length;
      const parsed = parseStepAnswer(answer, { subject: `${subject} answered`, batch_size });
      return { ...parsed, metadata: parsed.metadata.map((one) => asJson(one)) };
    },
    ...(globalPostProcessAndMetrics && {
      globalPostProcessAndMetrics: globalPostProcessAndMetrics.bind(made),
    }),
    ...(health && { health: health.bind(made) }),
    ...(close && { close: close.bind(made) }),
  };
}

/** As the journal stores it. */
const asJson = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

async function load(path: string, { name }: EnvironmentContext): Promise<Record<string, unknown>> {
  const url = pathToFileURL(path).href;
  try {
    if (!/\.[cm]?tsx?$/.test(path)) return (await import(url)) as Record<string, unknown>;
    return await loadTypeScript(url);
  } catch (error) {
    const message = `environment ${name}: cannot load ${path}: ${describeError(error)}`;
    throw new Error(message, { cause: error });
  }
}

/** Node.js 20 strips no types. The loader switches source maps on for the process, which costs a worker 60 ms per workflow. */
async function loadTypeScript(url: string): Promise<Record<string, unknown>> {
  const { tsImport } = await import('tsx/esm/api');
  const before = process.sourceMapsEnabled;
  try {
    return (await tsImport(url, import.meta.url)) as Record<string, unknown>;
  } finally {
    process.setSourceMapsEnabled(before);
  }
}

interface Making {
  subject: string;
  name: string;
  settings: Record<string, unknown>;
  context: EnvironmentContext;
}

async function make(
  loaded: Record<string, unknown>,
  { subject, name, settings, context }: Making,
): Promise<TurnEnvironment | BatchEnvironment> {
  const exported = exportOf(loaded, name);
  if (exported === undefined) {
    throw new Error(`${subject}: there is none, only ${Object.keys(loaded).join(', ')}`);
  }
  if (typeof exported !== 'function') return shaped(exported, subject);
  let made: unknown;
  try {
    made = await (exported as (...given: unknown[]) => unknown)(settings, context);
  } catch (error) {
    throw new Error(`${subject} threw: ${describeError(error)}`, { cause: error });
  }
  return shaped(made, `${subject} returned`);
}

/** The default export of a file that its package.json makes CommonJS is one `default` deeper. */
function exportOf(loaded: Record<string, unknown>, name: string): unknown {
  const own = loaded['default'];
  const inner = isObject(own) && own['__esModule'] === true ? own : null;
  return inner?.[name] ?? loaded[name];
}

function shaped(value: unknown, subject: string): TurnEnvironment | BatchEnvironment {
  if (isObject(value)) {
    for (const name of ['globalPostProcessAndMetrics', 'health', 'close']) {
      if (value[name] !== undefined && typeof value[name] !== 'function')
        throw new Error(`${subject}: ${name}: expected a function, got ${typeof value[name]}`);
    }
    const [one, batch] = [typeof value['stepOne'], typeof value['step']];
    if (one === 'function' && batch === 'undefined') return value as unknown as TurnEnvironment;
    if (batch === 'function' && one === 'undefined') return value as unknown as BatchEnvironment;
  }
  const got = isObject(value) ? `one with ${Object.keys(value).join(', ')}` : typeof value;
  throw new Error(
    `${subject}: expected an object with a function step or stepOne (or a function that makes one), got ${got}`,
  );
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;

const Flag = z.union([z.boolean(), z.literal(0), z.literal(1)], {
  error: 'expected true, false, 0 or 1',
});

const TurnAnswer = z.strictObject({
  observation: z.union([z.string(), z.strictObject({ role: z.string(), content: z.string() })], {
    error: 'expected a text, or an object with role and content',
  }),
  reward: z.union([z.number(), recordOf(z.number())], {
    error: 'expected a finite number, or named ones',
  }),
  terminated: Flag,
  truncated: Flag.default(false),
  metadata: recordOf(z.unknown()).nullable().default(null),
  next_stop_strings: z.array(z.string().min(1)).nullable().default(null),
  answer: z.string().nullable().default(null),
});

/** Samples of a batch one after the other; the answers as upstream's lists. */
async function stepEach(
  { message_log_batch, metadata }: StepInput,
  {
    stepOne,
    subject,
  }: {
    stepOne: (turn: Parameters<TurnEnvironment['stepOne']>[0]) => unknown;
    subject: string;
  },
): Promise<unknown> {
  const answers: z.infer<typeof TurnAnswer>[] = [];
  for (const [i, message_log] of message_log_batch.entries()) {
    const input = await stepOne({ message_log, metadata: metadata[i] ?? {} });
    const parsed = TurnAnswer.safeParse(input);
    if (!parsed.success)
      throw rejectedFields({ subject: `${subject} answered`, error: parsed.error, input });
    answers.push(parsed.data);
  }
  return {
    observations: answers.map(({ observation }) =>
      typeof observation === 'string' ? { role: 'environment', content: observation } : observation,
    ),
    metadata: answers.map((answer) => answer.metadata),
    next_stop_strings: answers.map((answer) => answer.next_stop_strings),
    rewards: rewardsOf(
      answers.map(({ reward }) => reward),
      subject,
    ),
    terminateds: answers.map(({ terminated }) => terminated),
    truncateds: answers.map(({ truncated }) => truncated),
    answers: answers.map(({ answer }) => answer),
  };
}

function rewardsOf(
  rewards: (number | Record<string, number>)[],
  subject: string,
): number[] | Record<string, number[]> {
  const plain = rewards.filter((reward) => typeof reward === 'number');
  if (plain.length === rewards.length) return plain;
  const named = rewards.filter((reward) => typeof reward !== 'number');
  if (plain.length > 0) {
    const what = 'expected numbers for all samples of a batch, or names for all, got both';
    throw rejected({ subject: `${subject} answered`, problems: [{ where: 'reward', what }] });
  }
  const names = new Set(named.flatMap((reward) => Object.keys(reward)));
  return Object.fromEntries(
    [...names].map((name) => [name, named.map((reward) => reward[name] ?? 0)]),
  );
}
