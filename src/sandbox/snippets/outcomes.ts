import { z } from 'zod';
import { listOf } from '../../model/untrusted.js';

/** The outcome of one block of code. The process that ran the code wrote it, so it is untrusted text. */

/** A lone surrogate is not valid text for a tokenizer. */
const Text = z.string().transform((text) => Buffer.from(text).toString());
const Cut = z.int().nonnegative().default(0);

const Shown = {
  /** `pformat` of the value or of the exception; null: nothing. */
  value: Text.nullable(),
  value_cut: Cut,
  evaluated: z.boolean(),
  stdout: Text,
  stdout_cut: Cut,
};

const Raises = z.object({ status: z.literal('raises'), type: Text, message: Text });

export const Outcome = z.discriminatedUnion('status', [
  z.object({ status: z.literal('ok'), ...Shown }),
  z.object({ status: z.literal('error'), ...Shown }),
  /** Where upstream's step raises (`nemo-rl`). */
  Raises,
]);
export type Outcome = z.infer<typeof Outcome>;

export const Outcomes = listOf(Outcome).refine(({ length }) => length > 0, 'expected at least one');

export const Excess = z.enum(['timeout', 'cpu', 'memory', 'processes', 'disk', 'ended']);
export type Excess = z.infer<typeof Excess>;

/** The outcomes of a turn's blocks, up to the first that failed, or why there are none. */
export type Ran = { outcomes: Outcome[] } | { killed: Excess };

export type Blocks = string[];

export interface RunRequest {
  /** The rollout that owns the variables. */
  session: string;
  /** What ran before, turn by turn. Together with `blocks` it determines the outcome. */
  history: Blocks[];
  blocks: Blocks;
  /** Called with the outcome of each turn that had to run again; throws if it differs from the first time. */
  check: (turn: number, ran: Ran) => void;
  signal: AbortSignal;
}

export interface Sandbox {
  /** How it confines code, by name. Throws `EnvironmentUnavailable` if it cannot run code. */
  level(signal: AbortSignal): Promise<string>;
  run(request: RunRequest): Promise<Ran>;
  close(): Promise<void>;
}
