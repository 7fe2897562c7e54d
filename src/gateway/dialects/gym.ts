import type { Refusal } from '../request/refusals.js';
import type { Answering, Dialect } from './dialect.js';

/**
 * As NeMo Gym's own model servers have it: a conversation that is over gets an empty answer that is cut, behind which
 * agents end and are verified. They take a refusal for a fault.
 */
export const ofGym = (dialect: Dialect): Dialect => ({
  ...dialect,
  refusal: (refusal, how) => {
    if (!isOver(refusal)) return dialect.refusal(refusal);
    const { stream } = dialect;
    if (how?.stream !== true || stream === null)
      return { status: 200, body: dialect.answer(NOTHING) };
    return { status: 200, body: stream.first(NOTHING) + stream.last(NOTHING, how.asked) };
  },
});

/** Whether nothing more of this life is answered: its context is full, or a limit of its rollout is reached. */
const isOver = ({ code, limit }: Refusal): boolean =>
  code === 'context_length_exceeded' || (code === 'rollout_limit' && limit !== 'connections');

const NOTHING: Answering = {
  rollout_id: 'over',
  turn: 0,
  call: {
    line: { at: 0, asked: {} },
    prompt_length: 0,
    sampled: {
      token_ids: [],
      logprobs: [],
      top_logprobs: [],
      generation: { finish_reason: 'length' },
    },
    answer: { content: '', tool_calls: [], malformed: 0 },
  },
};
