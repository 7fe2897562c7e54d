import { setMaxListeners } from 'node:events';
import { Fault } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import type { Dependencies } from '../dependencies.js';
import type { Tasks } from './read-samples.js';
import type { StoredRequest } from '../../model/stream/stream-request.js';
import type { Problem } from '../../model/problems.js';
import { parseSample } from '../../model/sample.js';
import { isUpstream } from '../../model/semantics.js';
import { collectProblems } from './sample-problems.js';

const MOST_NAMED = 5;

type Question = (signal: AbortSignal) => Promise<unknown> | undefined;

interface Asking extends Pick<Dependencies, 'environment'> {
  signal: AbortSignal;
}

/**
 * Waits for unavailable environments before the first rollout starts, so that no generation is wasted. An environment
 * that rejects the question is available, unless this worker starts its programs: then its settings are wrong. One available agent is enough for all: nothing is generated for the
 * others, and their rollouts wait by themselves.
 */
export async function askEnvironments(
  tasks: Tasks,
  { environment: find, signal }: Asking,
): Promise<void> {
  const environments: Promise<void>[] = [];
  const agents: { name: string; task: string; question: Question }[] = [];
  // Also environments that verify programs, which no sample names.
  const verifiers = [...tasks.keys()].flatMap((task): [string, Map<string, never>][] => {
    const verify = find(task)?.environment.program?.rules.program.verify ?? null;
    return verify === null || tasks.has(verify) ? [] : [[verify, new Map<string, never>()]];
  });
  for (const [task, named] of [...tasks, ...verifiers]) {
    const deployed = find(task);
    if (deployed?.is_asked !== true) continue;
    const { environment } = deployed;
    const { program } = environment;
    const is_here = program?.outlives === false && program.rows === undefined;
    environments.push(ask((signal) => environment.health?.(signal), { task, is_here, signal }));
    for (const [name, sample] of named)
      agents.push({ name, task, question: (signal) => program?.health(signal, sample) });
  }
  await Promise.all([...environments, askAgents(agents, signal)]);
}

async function ask(
  question: Question,
  { task, is_here = false, signal }: { task: string; is_here?: boolean; signal: AbortSignal },
): Promise<void> {
  try {
    await question(signal);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof Fault && error.type === 'EnvironmentRejected' && !is_here) return;
    if (error instanceof Fault) throw error;
    const message = `environment ${task}: ${describeError(error)}`;
    throw new Fault({ type: 'EnvironmentUnavailable', message, cause: error });
  }
}

/** Resolves when one answers; the others are not waited for. */
async function askAgents(
  agents: { name: string; task: string; question: Question }[],
  signal: AbortSignal,
): Promise<void> {
  if (agents.length === 0) return;
  const answered = new AbortController();
  const asking = AbortSignal.any([signal, answered.signal]);
  // A separate signal for each question.
  setMaxListeners(0, asking);
  try {
    await Promise.any(agents.map(({ task, question }) => ask(question, { task, signal: asking })));
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof AggregateError)) throw error;
    throw noneThere(agents, error.errors);
  } finally {
    answered.abort();
  }
}

/** The fault of each agent's server, or once that of their head server. */
function noneThere(agents: { name: string }[], errors: unknown[]): unknown {
  const [first] = errors;
  if (agents.length === 1) return first;
  const away = new Map<string, string[]>();
  for (const [index, { name }] of agents.entries()) {
    const why = describeError(errors[index]);
    away.set(why, [...(away.get(why) ?? []), name]);
  }
  const texts = [...away].map(([why, names]) => `${names.join(', ')} (${why})`);
  const few = agents.length <= MOST_NAMED;
  return new Fault({
    type: 'EnvironmentUnavailable',
    message: `no agent of this batch answers: ${texts.join('; ')}`,
    at: few ? agents.map(({ name }) => name).join(', ') : `${agents.length} agents`,
    cause: first,
  });
}

/** So long planning asks; steps find the problems of the other samples. */
const ASKED_MS = 10_000;
/** Questions at the same time: as many as keep a process per core busy. */
const AT_ONCE = 64;

/**
 * Asks environments about samples, where only a process can tell whether one can be played. It refuses what a step would
 * refuse after the generation. Whatever keeps an environment from telling is left to the steps.
 */
export async function askAboutSamples(
  { samples, tasks }: { samples: readonly string[]; tasks: Tasks },
  { request, environment, signal }: Asking & { request: StoredRequest },
): Promise<void> {
  const canTell = (task: string): boolean => {
    const deployed = environment(task);
    return deployed?.is_asked === true && deployed.environment.askAboutSample !== undefined;
  };
  const asked = new Set([...tasks.keys()].filter(canTell));
  if (isUpstream(request.semantics) || asked.size === 0) return;
  const problems = collectProblems(request.samples);
  const late = AbortSignal.timeout(ASKED_MS);
  const ask = async (text: string): Promise<Problem[]> => {
    const sample = parseSample(text);
    if (!asked.has(sample.task_name)) return [];
    const { environment: its } = environment(sample.task_name) ?? {};
    // Its own signal: each question listens to it.
    const own = AbortSignal.any([signal, late]);
    try {
      return (await its?.askAboutSample?.(sample.extra_env_info ?? {}, own)) ?? [];
    } catch {
      return [];
    }
  };
  let row = 0;
  while (row < samples.length && !late.aborted && !problems.isEnough()) {
    const found = await Promise.all(samples.slice(row, row + AT_ONCE).map(ask));
    signal.throwIfAborted();
    for (const [index, wrong] of found.entries())
      problems.add(
        row + index,
        wrong.map(({ where, what }) => ({ where: `extra_env_info.${where}`, what })),
      );
    row += AT_ONCE;
  }
  if (!problems.isEmpty()) throw problems.fault({ is_all: row >= samples.length });
}
