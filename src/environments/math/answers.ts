import { utf8Length } from '../../model/utf8.js';
import type { EnvironmentMessage, Metadata, StepInput } from '../environment.js';
import { rejected } from '../rejections.js';
import type { GraderPool } from './grader-pool.js';
import type { Comparison, Pair } from './grader-process.js';

/** What `math` and `vlm` share: the answer in a log, and how it reaches the grader. */

/** Contents of all assistant messages, also those of the prompt, one after the other (upstream statement 42). */
export const responseOf = (log: EnvironmentMessage[]): string =>
  log
    .filter(({ role }) => role === 'assistant')
    .map(({ content }) => content)
    .join('');

/** One list of metadata for one list of logs. */
export function pairUp(
  { message_log_batch, metadata }: StepInput,
  subject: string,
): { log: EnvironmentMessage[]; info: Metadata }[] {
  if (message_log_batch.length !== metadata.length) {
    const what = `expected ${message_log_batch.length}, one per message log, got ${metadata.length}`;
    throw rejected({ subject, problems: [{ where: 'metadata', what }] });
  }
  return metadata.map((info, sample) => ({ log: message_log_batch[sample] ?? [], info }));
}

/** Some 130,000 tokens. math-verify needs 0.2 s for so much text. */
const MAX_BYTES = 512 * 1024;

/** Compares by math-verify; a text that is too long for it is a fault that names the field. */
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

export const observationOf = (isCorrect: boolean): EnvironmentMessage => ({
  role: 'environment',
  content: isCorrect ? 'Environment: correct' : 'Environment: incorrect',
});
