import type { WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import { textOfFaults } from '../../model/workflow-safe/policy.js';
import { refused } from './policy-view.js';

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
  const away: Record<string, string> = {};
  const refusals: string[] = [];
  const answers = await Promise.all(
    controls.map(async (control) => {
      const { replica } = control;
      try {
        return { replica, answer: await ask(control) };
      } catch (error) {
        if (!(error instanceof Fault) || error.type === 'StoreFault') throw error;
        if (error.type === 'GenerationUnavailable') away[replica] = error.message;
        else refusals.push(error.message);
        return null;
      }
    }),
  );
  signal.throwIfAborted();
  if (refusals.length > 0) throw refused(refusals.join('; '));
  return { answers: answers.filter((one) => one !== null), away };
}

/** The same; refuses the update also if none answers. */
export async function askSome<T>(...given: Parameters<typeof askAll<T>>): Promise<Answers<T>> {
  const asked = await askAll(...given);
  if (asked.answers.length === 0) throw refused(`no replica answers: ${textOfFaults(asked.away)}`);
  return asked;
}
