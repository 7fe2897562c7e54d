import type { Sample } from '../../model/sample.js';
import { hasImages } from '../../model/content.js';
import type { Problem } from '../../model/problems.js';
import { invalidBatchRequest, preview } from '../../model/problems.js';
import { isUpstream } from '../../model/semantics.js';
import type { StoredRequest } from '../../model/stream/stream-request.js';
import type { Dependencies } from '../dependencies.js';

/** Agents' conversations are long: system texts and tools alone take thousands of tokens. */
const USUAL_LENGTH = 16_384;

/** Refuses settings that mean nothing where the program says what is rendered, instead of ignoring them. */
export function checkPrograms(
  { generation, semantics, max_seq_len }: StoredRequest,
  {
    tasks,
    environment,
    warn,
  }: Pick<Dependencies, 'environment'> & {
    tasks: ReadonlyMap<string, unknown>;
    warn: (message: string) => void;
  },
): void {
  const asks = (task: string): boolean =>
    environment(task)?.environment.program?.rules.asks_policy === true;
  const task = [...tasks.keys()].find(asks);
  if (task === undefined) return;
  const why = `since the programs of environment ${task} begin conversations themselves`;
  const { prompt_format, observation_format, prompt_logprobs } = generation;
  const asked: [where: string, got: unknown, isFine: boolean, expected: string][] = [
    ['generation.prompt_format', prompt_format, prompt_format === 'chat', 'chat'],
    [
      'generation.observation_format',
      observation_format,
      observation_format !== 'bare',
      'chat or null',
    ],
    ['generation.prompt_logprobs', prompt_logprobs, !prompt_logprobs, 'false'],
    ['semantics', semantics, !isUpstream(semantics), 'standard'],
  ];
  const problems = asked.flatMap(([where, got, isFine, expected]) =>
    isFine ? [] : [{ where, what: `expected ${expected}, ${why}; got ${preview(got)}` }],
  );
  if (problems.length > 0) throw invalidBatchRequest(problems);
  if (max_seq_len >= USUAL_LENGTH) return;
  warn(
    `max_seq_len ${max_seq_len} bounds each call of environment ${task}'s programs, prompt and answer: most agents need ${USUAL_LENGTH} or more`,
  );
}

/** The problems of a sample that a program plays. */
export function programSampleProblems(
  { message_log, stop_strings, task_name, extra_env_info = {} }: Sample,
  { environment, is_standard }: Pick<Dependencies, 'environment'> & { is_standard: boolean },
): Problem[] {
  const pictured = message_log.findIndex(({ content }) => hasImages(content));
  const rules = environment(task_name)?.environment.program?.rules;
  const verifier = environment(rules?.program.verify ?? '')?.environment;
  const wrong = verifier?.sampleProblems?.(extra_env_info, { is_standard }) ?? [];
  const problems: [isFine: boolean, where: string, what: string][] = [
    [message_log.length > 0, 'message_log', 'expected at least one message, got an empty task'],
    [
      pictured === -1,
      `message_log.${pictured}.content`,
      'expected text, since a program is given its task as text, got an image',
    ],
    [
      (stop_strings ?? null) === null,
      'stop_strings',
      'expected none, since a program asks for its own; use generation.stop_strings',
    ],
  ];
  return [
    ...problems.flatMap(([isFine, where, what]) => (isFine ? [] : [{ where, what }])),
    ...wrong.map(({ where, what }) => ({ where: `extra_env_info.${where}`, what })),
  ];
}
