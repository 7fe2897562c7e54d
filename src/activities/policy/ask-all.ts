import type { WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import { textOfFaults } from '../../model/workflow-safe/policy.js';
import { refused } from './policy-view.js';

/**
 * Does something with each engine at once. Returns the faults of those with which it failed, by URL; what is no engine's
 * fault, such as that the store is away, fails all of it.
 */
export async function faultsOf<T extends { url: string }>(
  engines: readonly T[],
  { run, signal }: { run: (engine: T) => Promise<void>; signal: AbortSignal },
): Promise<Record<string, Fault>> {
  const faults: Record<string, Fault> = {};
  await Promise.all(
    engines.map(async (engine) => {
      try {
        await run(engine);
      } catch (error) {
        if (!(error instanceof Fault) || error.type === 'StoreFault') throw error;
        faults[engine.url] = error;
      }
    }),
  );
  signal.throwIfAborted();
  return faults;
}

/** Why, by URL, in messages that do not begin with it. */
export const textsOf = (faults: Readonly<Record<string, Fault>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(faults).map(([url, { message }]) => [url, message.replace(`${url}: `, '')]),
  );

/** What engines answer before an update touches any of them. */
export interface Answers<T> {
  /** In the order of the engines. */
  answers: { replica: string; answer: T }[];
  /** Why the others do not answer, by URL. */
  away: Record<string, string>;
}

/** Asks all engines at once. One that says that it cannot do what is asked of it refuses the whole update. */
export async function askAll<T>(
  controls: readonly WeightControl[],
  { ask, signal }: { ask: (control: WeightControl) => Promise<T>; signal: AbortSignal },
): Promise<Answers<T>> {
  const answers: ({ replica: string; answer: T } | null)[] = controls.map(() => null);
  const engines = controls.map((control, i) => ({ url: control.replica, control, i }));
  const run = async ({ url: replica, control, i }: (typeof engines)[number]): Promise<void> => {
    answers[i] = { replica, answer: await ask(control) };
  };
  const faults = Object.entries(await faultsOf(engines, { run, signal }));
  const isSilent = ([, { type }]: [string, Fault]): boolean => type === 'GenerationUnavailable';
  const refusals = faults.filter((one) => !isSilent(one)).map(([, { message }]) => message);
  if (refusals.length > 0) throw refused(refusals.join('; '));
  const away = faults.filter(isSilent).map(([url, { message }]) => [url, message]);
  return {
    answers: answers.filter((one) => one !== null),
    away: Object.fromEntries(away) as Record<string, string>,
  };
}

/** The same; refuses the update also if none answers. */
export async function askSome<T>(...given: Parameters<typeof askAll<T>>): Promise<Answers<T>> {
  const asked = await askAll(...given);
  if (asked.answers.length === 0) throw refused(`no replica answers: ${textOfFaults(asked.away)}`);
  return asked;
}
