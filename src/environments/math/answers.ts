import { utf8Length } from '../../platform/utf8.js';
import type { Observation } from '../environment.js';
import { rejected } from '../rejections.js';
import { environmentSays } from '../turn.js';
import type { GraderPool } from './grader-pool.js';
import type { Comparison, Pair } from './grader-process.js';

/** Some 130,000 tokens. math-verify needs 0.2 s for so much text. */
export const MAX_BYTES = 512 * 1024;

/** Compares with math-verify. Throws a fault that names the field if a text is too long for it. */
export async function compareBounded(
  grader: GraderPool,
  { gold, answer, signal }: Pair & { signal: AbortSignal },
): Promise<Comparison> {
  const problems = [
    { where: 'ground_truth', text: gold },
    { where: 'answer (contents of the assistant)', text: answer },
  ].flatMap(({ where, text }) => {
    const bytes = utf8Length(text);
    const what = `expected at most ${MAX_BYTES} bytes, got ${bytes}`;
    return bytes > MAX_BYTES ? [{ where, what }] : [];
  });
  if (problems.length > 0) throw rejected({ subject: 'grader', problems });
  return grader.compare({ gold, answer }, signal);
}

export const observationOf = (isCorrect: boolean): Observation =>
  environmentSays(isCorrect ? 'Environment: correct' : 'Environment: incorrect');
