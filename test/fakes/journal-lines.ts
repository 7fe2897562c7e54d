import { GenerationSettings } from '../../src/model/generation-settings.js';
import type { Entry, JournalLine, LineOf, RolloutSettings } from '../../src/model/journal.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import { applyLine, emptyTrajectory } from '../../src/model/journal/trajectory.js';

/** Journal lines by one writer, with defaults for every field that a test omits. */

export const GENERATION = GenerationSettings.parse({ model: 'policy' });

export const SETTINGS: RolloutSettings = {
  generation: GENERATION,
  model: 'policy',
  num_repeats_add_seed: false,
  max_seq_len: 1000,
  max_rollout_turns: 100,
  semantics: 'standard',
  policy_version: null,
  max_version_span: null,
  attempts: { environment: 3, agent: 3 },
  overlong: 'keep',
  train_resampled: 'winner',
  train_separate: 'all',
};

type Given<K extends JournalLine['kind']> = Partial<Omit<LineOf<K>, 'kind' | 'writer'>>;

/** A logprob that identifies its token id. */
export const logprobOf = (id: number): number => -(id + 1) / 1000;

export function author(writer: string) {
  const by = { writer, at: 0 };
  return {
    claim: (given: Given<'claim'> = {}): LineOf<'claim'> => ({
      kind: 'claim',
      ...by,
      activity: 'playTurns',
      attempt: 1,
      reopen: false,
      ...given,
    }),
    start: (given: Given<'start'> = {}): LineOf<'start'> => ({
      kind: 'start',
      ...by,
      schema_version: 1,
      task_name: 'task',
      settings: SETTINGS,
      prompt: [{ role: 'user', content: 'go', token_ids: [901, 902] }],
      extra_env_info: {},
      ...given,
    }),
    chunk: (given: Given<'chunk'> = {}): LineOf<'chunk'> => ({
      kind: 'chunk',
      ...by,
      turn: 0,
      offset: 0,
      token_ids: [1],
      logprobs: (given.token_ids ?? [1]).map(logprobOf),
      text: '',
      replica: 'http://replica/v1',
      request_id: `request-${writer}`,
      policy_version: null,
      ...given,
    }),
    generation: (given: Given<'generation'> = {}): LineOf<'generation'> => ({
      kind: 'generation',
      ...by,
      turn: 0,
      finish_reason: 'stop',
      stop_reason: null,
      content: 'said',
      token_count: 1,
      queue_s: 0,
      generate_s: 0,
      ...given,
    }),
    observation: (given: Given<'observation'> = {}): LineOf<'observation'> => ({
      kind: 'observation',
      ...by,
      turn: 0,
      message: { role: 'environment', content: 'seen' },
      token_ids: [801],
      reward: 0,
      rewards: {},
      terminated: false,
      truncated: false,
      metadata: null,
      next_stop_strings: null,
      step_s: 0,
      ...given,
    }),
    fault: (given: Given<'fault'> = {}): LineOf<'fault'> => ({
      kind: 'fault',
      ...by,
      turn: 0,
      type: 'GenerationUnavailable',
      message: 'refused',
      replica: null,
      ...given,
    }),
    result: (given: Given<'result'> = {}): LineOf<'result'> => ({
      kind: 'result',
      ...by,
      attempt: 0,
      text: '{"reward":1}',
      reward: 1,
      failure_class: null,
      terminal: false,
      persist: true,
      usage: null,
      run_s: 0,
      ...given,
    }),
    life: (given: Given<'life'> = {}): LineOf<'life'> => ({
      kind: 'life',
      ...by,
      life: 1,
      restart: 'replay',
      ...given,
    }),
    material: (given: Given<'material'> = {}): LineOf<'material'> => ({
      kind: 'material',
      ...by,
      hash: 'hash',
      ...given,
    }),
    call: (given: Given<'call'> = {}): LineOf<'call'> => ({
      kind: 'call',
      ...by,
      turn: 0,
      life: 1,
      key: `key-${given.turn ?? 0}`,
      parent: null,
      stream: false,
      system: null,
      tools: null,
      news: [{ role: 'user', content: 'go' }],
      prompt_ids: [901],
      asked: {},
      ...given,
    }),
    answer: (given: Given<'answer'> = {}): LineOf<'answer'> => ({
      kind: 'answer',
      ...by,
      turn: 0,
      content: 'said',
      tool_calls: [],
      malformed: 0,
      ...given,
    }),
    served: (given: Given<'served'> = {}): LineOf<'served'> => ({
      kind: 'served',
      ...by,
      turn: 0,
      life: 1,
      whole: true,
      ...given,
    }),
    refused: (given: Given<'refused'> = {}): LineOf<'refused'> => ({
      kind: 'refused',
      ...by,
      life: 1,
      key: 'key',
      code: 'rollout_limit',
      message: 'refused',
      limit: 'calls',
      ...given,
    }),
    exit: (given: Given<'exit'> = {}): LineOf<'exit'> => ({
      kind: 'exit',
      ...by,
      life: 1,
      code: 0,
      signal: null,
      tail: '',
      submission: null,
      ...given,
    }),
    end: (given: Given<'end'> = {}): LineOf<'end'> => ({
      kind: 'end',
      ...by,
      stop_reason: 'terminated',
      totals: { turn_count: 0, total_reward: 0, total_tokens: 0 },
      failure: null,
      ...given,
    }),
  };
}

export type Author = ReturnType<typeof author>;

export function foldOf(lines: Iterable<JournalLine>): Trajectory {
  const trajectory = emptyTrajectory();
  for (const line of lines) applyLine(trajectory, line);
  return trajectory;
}

/** The lines of a whole turn: sampled tokens, the end of the generation, and the environment's answer. */
export function wholeTurn(
  by: Author,
  {
    turn = 0,
    ids = [1],
    ...observed
  }: { turn?: number; ids?: number[] } & Given<'observation'> = {},
): JournalLine[] {
  return [
    by.chunk({ turn, token_ids: ids }),
    by.generation({ turn, token_count: ids.length }),
    by.observation({ turn, ...observed }),
  ];
}

/** The lines of a whole call: its beginning, sampled tokens, the end of the generation, and its answer. */
export function wholeCall(
  by: Author,
  { turn = 0, ids = [1], ...given }: { turn?: number; ids?: number[] } & Given<'call'> = {},
): JournalLine[] {
  return [
    by.call({ turn, ...given }),
    by.chunk({ turn, token_ids: ids }),
    by.generation({ turn, token_count: ids.length }),
    by.answer({ turn }),
  ];
}

/** The lines of an agent that has begun so many calls. */
export const askedCalls = (by: Author, count: number): JournalLine[] => [
  by.start({ plays: 'agent', prompt: [] }),
  by.life(),
  ...Array.from({ length: count }, (_, turn) => by.call({ turn, cause: 'separate' })),
];

/** The lines of a life in which an agent of NeMo Gym answers: its beginning, its answer and its end. */
export const gymLife = (
  by: Author,
  { life = 1, code = 0, ...result }: { life?: number; code?: number } & Given<'result'> = {},
): JournalLine[] => [by.life({ life }), by.result(result), by.exit({ life, code })];

/** A line as activities append it; the journal adds writer and time. */
export function entryOf(line: JournalLine): Entry {
  const entry: Partial<JournalLine> = { ...line };
  delete entry.writer;
  delete entry.at;
  return entry as Entry;
}
