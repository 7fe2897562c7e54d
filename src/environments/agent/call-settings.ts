import { z } from 'zod';
import { REASONING_PARSERS, TOOL_PARSERS } from '../../model/journal/agent-lines.js';
import { Duration, Positive, oneOf, orNull } from '../../model/field-kinds.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { bytesOf, Size } from '../../platform/size.js';
import { Fault } from '../../model/faults.js';
import type { ExactEnvironment, ProgramRules } from '../environment.js';

/** How the calls of programs are answered, whoever runs them. */

const limit = (what: string) => orNull(Positive).describe(what);

export const CALL_LIMITS = {
  calls: limit('calls of one rollout, beside the limit `max_rollout_turns`; null: that alone'),
  parallel: Positive.default(16).describe('calls of one rollout at once; others wait'),
  sequences: limit('separate conversations of one rollout; null: any number'),
  sampled_tokens: limit('sampled tokens of one rollout; null: any number'),
  body: Size.default('8MiB').describe('size limit of one request of a program'),
  call: Duration.default('30m').describe('longest time that one call waits and generates'),
};

export const CALL_FIELDS = {
  dialect_defaults: z
    .strictObject({
      tool_parser: oneOf(TOOL_PARSERS, 'hermes').describe(
        'form of tool calls in an answer; `none`: they stay text',
      ),
      reasoning_parser: orNull(z.enum(REASONING_PARSERS)).describe(
        'form of thoughts in an answer; null or `none`: they stay text',
      ),
    })
    .prefault({})
    .describe('how the gateway reads answers of the policy'),
  history: oneOf(['append', 'template'], 'append').describe(
    '`append`: a conversation goes on from the sampled ids. `template`: each request is rendered whole, and begins a new sequence if its ids differ',
  ),
  restart: oneOf(['replay', 'fresh'], 'replay').describe(
    '`replay`: a program that begins again gets its answers from the journal, as long as it asks the same. `fresh`: all answers are sampled anew',
  ),
  structured: oneOf(['refuse', 'allow'], 'refuse').describe(
    'whether programs may ask for JSON (`response_format`)',
  ),
};

type Read<Fields> = { [K in keyof Fields]: z.output<Fields[K]> };
type CallSettings = Read<typeof CALL_FIELDS> & { limits: Read<typeof CALL_LIMITS> };

export function callRules(
  { dialect_defaults, history, restart, structured, limits }: CallSettings,
  { verify }: { verify: string | null },
): Omit<ProgramRules, 'asks_policy' | 'run'> {
  const { tool_parser, reasoning_parser } = dialect_defaults;
  const { calls, parallel, sequences, sampled_tokens, body, call } = limits;
  return {
    program: { verify, tool_parser, reasoning_parser: reasoning_parser ?? 'none', history },
    restart,
    structured,
    limits: {
      ...{ calls, parallel, sequences, sampled_tokens },
      body: bytesOf(body),
      call_ms: toMs(call),
    },
  };
}

/** The `step` of an environment whose agent moves by itself, for who asks it all the same. */
export const answersNoTurn: ExactEnvironment['step'] = () =>
  Promise.reject(
    new Fault({
      type: 'EnvironmentRejected',
      message: 'an agent plays whole rollouts: it answers no single turn',
    }),
  );
