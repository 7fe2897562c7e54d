import type { Problem } from '../../model/problems.js';
import { previews } from '../../model/problems.js';

/** What data sets call a prompt and its answer, the likeliest first. `shapes.py` has the same names. */
const PROMPTS = ['prompt', 'messages', 'question', 'problem', 'instruction', 'query', 'input', 'text']; // prettier-ignore
const ANSWERS = ['ground_truth', 'answer', 'solution', 'expected_answer', 'target', 'label'];

/** A row without a prompt that is one of a data set as it came: with what maps its columns. */
export function withColumns(problem: Problem, row: unknown): Problem {
  if (problem.where !== 'message_log' || typeof row !== 'object' || row === null) return problem;
  if ('message_log' in row) return problem;
  const known = (names: readonly string[]): string[] =>
    names.filter((name) => name in row).slice(0, 1);
  const [prompt] = known(PROMPTS);
  if (prompt === undefined) return problem;
  const columns = [
    `"${prompt}": "prompt"`,
    ...known(ANSWERS).map((answer) => `"${answer}": "extra_env_info.ground_truth"`),
  ].join(', ');
  const hint = `its columns are ${previews(Object.keys(row))}: from Python, columns={${columns}} of start_batch and stream makes samples of such rows`;
  return { ...problem, what: `${problem.what}; ${hint}` };
}
