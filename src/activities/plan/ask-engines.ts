import type { Question } from '../../generation/generation-service.js';
import type { BatchRequest } from '../../model/batch-request.js';
import { Fault, judged } from '../../model/faults.js';
import { invalidBatchRequest } from '../../model/problems.js';
import type { Attempt } from '../attempt.js';
import type { GenerationPool } from '../dependencies.js';

export interface AskedEngines extends Pick<Attempt, 'signal' | 'warn'> {
  request: BatchRequest;
  pool: GenerationPool;
}

/** A misconfigured server is not asked again. */
export async function askedOnce<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    throw judged(error, { is_planned: false });
  }
}

/** Refuses a field for what is wrong with it (null: nothing). */
export function refuseField(where: string, wrong: readonly (string | null)[]): void {
  const problems = wrong.flatMap((what) => (what === null ? [] : [{ where, what }]));
  if (problems.length > 0) throw invalidBatchRequest(problems);
}

/** Asks every replica that serves. `problem`: for what in its answer the field is refused. */
export async function askReplicas<T>(
  { pool, signal }: Pick<AskedEngines, 'pool' | 'signal'>,
  {
    where,
    ask,
    problem,
  }: { where: string; ask: Question<T>; problem: (answer: T, replica: string) => string | null },
): Promise<{ replica: string; answer: T }[]> {
  const answers = await askedOnce(() => pool.askServing(ask, signal));
  refuseField(
    where,
    answers.map(({ replica, answer }) => problem(answer, replica)),
  );
  return answers;
}
