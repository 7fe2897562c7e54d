import { answered, type Life } from '../journal/calls.js';
import type { Trajectory } from '../journal/trajectory.js';
import { isProgram } from '../turn/stop-rules.js';
import type { Row } from './row-columns.js';
import { sequencesOf } from './sequences.js';

/** Columns of a row whose agent asked for answers; `row-columns.ts` explains them. */
type CallColumns = Pick<
  Row,
  | 'sequences'
  | 'calls'
  | 'lives'
  | 'unanswered'
  | 'malformed_calls'
  | 'structured_calls'
  | 'resampled'
  | 'program_end'
  | 'all_tokens'
  | 'over_span'
> &
  Partial<
    Pick<
      Row,
      | 'message_log'
      | 'prompt_tokens'
      | 'finish_reasons'
      | 'turn_count'
      | 'total_tokens'
      | 'assistant_tokens'
      | 'env_tokens'
      | 'policy_versions'
      | 'segments'
    >
  >;

/**
 * In place of the columns from turns, which an agent has none of: those of its main sequence, and all others.
 * `trains`: whether main does.
 */
export function callColumns(
  trajectory: Trajectory,
): { columns: CallColumns; trains: boolean } | null {
  if (!isProgram(trajectory)) return null;
  const { calls, lives } = trajectory;
  const structured = calls.filter(({ line }) => line.asked.structured !== undefined).length;
  const counts = {
    calls: calls.length,
    lives: lives.length,
    malformed_calls: calls.reduce((sum, { answer }) => sum + (answer?.malformed ?? 0), 0),
    ...(structured > 0 && { structured_calls: structured }),
    resampled: calls.filter(({ line }) => line.cause === 'resampled').length,
    ...endOf(lives.at(-1)),
  };
  const made = sequencesOf(trajectory);
  if (made === null) {
    const all_tokens = { sampled: 0, trained: 0, sequences: 0 };
    return { columns: { ...counts, unanswered: 0, sequences: [], all_tokens }, trains: false };
  }
  const {
    sequences: [main, ...others],
    all_tokens,
    paths,
  } = made;
  const { message_log, assistant_tokens, finish_reasons, policy_versions, segments, over_span } =
    main;
  const prompt_tokens = calls[main.calls[0] ?? 0]?.prompt_length ?? 0;
  const ids = message_log.reduce((sum, { token_ids }) => sum + token_ids.length, 0);
  return {
    columns: {
      ...{ message_log, prompt_tokens, finish_reasons },
      turn_count: answered(main.calls.flatMap((call) => calls[call] ?? [])),
      total_tokens: ids - prompt_tokens,
      assistant_tokens,
      env_tokens: ids - prompt_tokens - assistant_tokens,
      ...{ policy_versions, segments },
      ...counts,
      unanswered: paths.read.filter((isRead) => !isRead).length,
      all_tokens,
      sequences: others.map((one) => ({ ...one, train_mask: [] })),
      ...(over_span === true && { over_span }),
    },
    trains: main.train,
  };
}

/** How the last life ended. */
function endOf(life: Life | undefined): Pick<Row, 'program_end'> {
  if (!life?.exit) return {};
  const { code, signal, tail, submission, said } = life.exit;
  return { program_end: { code, signal, tail, submission, metadata: said?.metadata ?? null } };
}
