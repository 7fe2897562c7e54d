/**
 * What the pages show, as JSON: the reader writes these documents from journals, a report carries them in its file, and
 * `serve` answers with them. Times are seconds since 1970, durations seconds; texts are as they were journalled.
 *
 * A place on a page is the fragment of its address: `#/<run>`, `#/<run>/<row>` or `#/<run>/<row>-<repeat>`.
 */

/**
 * A report is one file, or one with others beside it. Its documents stand in `<script>` blocks that nothing runs:
 *
 * - id `report`: this document;
 * - id `run:<id>`: RunDocument; id `rollouts:<id>`: RolloutEntry[]; id `facts:<id>`: RolloutFacts[];
 * - id `rollout:<batch>/<row>-<repeat>`: RolloutDocument.
 *
 * A block of type `application/json` is JSON in which each `<` is written `\u003c`; one of type `application/gzip` is
 * base64 of its gzip. The page draws into `<div id="page">`, which stands before the script.
 */
export interface ReportDocument {
  made_at: number;
  runs: RunEntry[];
  /** Of a split report: the file (beside this one) with a rollout's block, by `<batch>/<row>-<repeat>`. */
  files: Record<string, string>;
}

/** A batch or stream in the list of all. */
export interface RunEntry {
  id: string;
  kind: 'batch' | 'stream';
  created_at: number | null;
  /** It has a result. A stream has none before its end. */
  is_closed: boolean;
  /** Rollouts that its request asks for; null: of a stream, no number is known. */
  requested: number | null;
  completed: number | null;
  mean_reward: number | null;
  /** Of a stream: the steps that were closed. */
  steps: number | null;
  forked_from: ForkedFrom | null;
  /** Why nothing else is known of it. */
  problem: string | null;
}

/** The rollout whose beginning a fork has, and where it goes on by itself: `turn:3`, `token:1250`. */
export interface ForkedFrom {
  rollout_id: string;
  at: string;
}

/** A batch, or a stream's steps: what stands above the list of its rollouts. */
export interface RunDocument extends RunEntry {
  /** Rollouts that have a journal. */
  begun: number;
  /** What people look for of the request, by field: model, generation, limits, metadata. */
  settings: Record<string, unknown>;
  /** Of its result; null: it has none yet. */
  metrics: Record<string, number> | null;
  /** What its result says in words. */
  notes: string[];
  /** Of a stream, each closed step. */
  closed_steps: StepEntry[];
}

export interface StepEntry {
  step: number;
  version: number | null;
  completed: number;
  failed: number;
  mean_reward: number | null;
  metrics: Record<string, number>;
  /** The rows of its rollouts. */
  groups: number[];
}

/** A rollout as a list shows it, from its journal's last lines alone. */
export interface RolloutEntry {
  row: number;
  repeat: number;
  task_name: string | null;
  /** Its stop reason; null: it has not ended. */
  ended: string | null;
  is_valid: boolean;
  /** Of a valid end. */
  reward: number | null;
  reward_so_far: number;
  turns: number;
  /** Sampled tokens. */
  tokens: number;
  started_at: number | null;
  wall_s: number | null;
  attempts: number;
  faults: number;
  failure: { type: string; message: string; turn: number } | null;
  /** In a line: its failure, the last words of a valid one, or what an unfinished one waits for. */
  reason: string | null;
}

/** What lists are filtered and summed by, from a whole journal. */
export interface RolloutFacts {
  row: number;
  repeat: number;
  /** Those that sampled, and those whose fault it has. */
  replicas: string[];
  versions: (string | null)[];
  /** Parts of the reward by name. */
  rewards: Record<string, number>;
  finish_reasons: string[];
  fault_types: string[];
  /** Names of tools that the policy called. */
  tools: string[];
  prompt_tokens: number;
  /** The beginning of its last answer, in a line: '' is an empty one; null: there is none. */
  answer: string | null;
  /** Sampled characters. */
  characters: number;
  /** Characters of its longest observation: the same number in many rollouts says that something cuts them. */
  longest_observation: number;
  mean_logprob: number | null;
}

/** A rollout, whole. */
export interface RolloutDocument {
  /** `<batch>/<row>-<repeat>` */
  id: string;
  batch_id: string;
  entry: RolloutEntry;
  facts: RolloutFacts;
  model: string | null;
  settings: Record<string, unknown>;
  forked_from: ForkedFrom | null;
  prompt: Message[];
  /** In the order in which they began. A loop's turns are calls, each of which continues the one before it. */
  calls: CallPart[];
  /** The verdict on a program's work; a loop's answers stand at its calls. */
  verdict: Observation | null;
  lives: Life[];
  refused: { life: number; code: string; message: string }[];
  /** What an agent of NeMo Gym answered, as JSON text. */
  agent_result: string | null;
  /** Scores that were given afterwards, by scorer. */
  scores: Record<string, { reward?: number; rewards?: Record<string, number>; note?: string }>;
  happenings: Happening[];
}

export type Happening =
  | { kind: 'attempt'; at: number; attempt: number; activity: string; why: string | null }
  | {
      kind: 'fault';
      at: number;
      turn: number;
      type: string;
      message: string;
      replica: string | null;
    }
  | { kind: 'over'; at: number; life: number }
  | { kind: 'end'; at: number; stop_reason: string };

export interface Life {
  life: number;
  started_at: number;
  exit: { at: number; code: number | null; signal: string | null; tail: string } | null;
}

/** A message's parts are texts and pictures in reading order. */
export interface Message {
  role: string;
  parts: Part[];
  /** How many ids it has; null: of a program's message, nobody knows. */
  token_count: number | null;
  reasoning?: string;
  tool_calls?: { id: string; name: string; arguments: string }[];
  tool_call_id?: string;
  is_error?: boolean;
}

export type Part =
  | { kind: 'text'; text: string }
  /** `url` is a data URL; null: the store does not have it, or it stands elsewhere and is not fetched. */
  | { kind: 'picture'; url: string | null; name: string };

export interface CallPart {
  number: number;
  /** Of a program: its life, the call that it continues, why it does not continue the last one. */
  life: number | null;
  parent: number | null;
  cause: string | null;
  /** Its prompt begins with so many ids of that call. */
  fork: { call: number; ids: number } | null;
  prompt_tokens: number;
  /** Messages of a program's request that its parent does not have. */
  news: Message[];
  /** When it began: the end of what was before it, or its request. */
  began_at: number | null;
  queue_s: number | null;
  generate_s: number | null;
  answer: Answer;
  /** How a loop's environment answered; null: it has not. */
  observation: Observation | null;
}

export interface Answer {
  text: string;
  reasoning: string | null;
  tool_calls: { id: string; name: string; arguments: string }[];
  malformed: number;
  is_whole: boolean;
  finish_reason: string | null;
  stop_reason: string | number | null;
  /** It was cut, and sampled again from its beginning. */
  restarted: boolean;
  /** Tokens that an earlier attempt had sampled. */
  inherited: number;
  tokens: Tokens;
  /** null: it trains; otherwise why not. */
  untrained: string | null;
}

/** Sampled tokens. All lists are by token, but runs, which have `start` and `end` (exclusive). */
export interface Tokens {
  ids: number[];
  /** To five digits; empty: none were asked for. */
  logprobs: number[];
  /** `[id, logprob]`, the likeliest first; empty: none were asked for. */
  top: [number, number][][];
  /** Pieces of text as they streamed. Text lags ids by an unfinished character. */
  pieces: { start: number; end: number; text: string; at: number }[];
  /** Which request sampled them: a new run is a seam. */
  requests: { start: number; end: number; replica: string; version: string | null }[];
  /** Which of them train. */
  trained: { start: number; end: number }[];
}

export interface Observation {
  at: number;
  message: Message | null;
  reward: number;
  rewards: Record<string, number>;
  terminated: boolean;
  truncated: boolean;
  /** What the environment took as the policy's answer. */
  answer: string | null;
  step_s: number;
}

/**
 * A place where a text was found. `serve` answers in lines of JSON, as they come, where a whole run is asked for: each a
 * list of RolloutEntry, RolloutFacts or Hit. Who follows a run gets such lists of entries, first all and then those that
 * have changed, and events `run`, RunDocuments; who follows a rollout gets RolloutDocuments. An event `over` is the last.
 */
export interface Hit {
  row: number;
  repeat: number;
  /** Where: `prompt`, `answer 3`, `observation 3`, `call 2`, `fault`, … */
  place: string;
  before: string;
  found: string;
  after: string;
}
