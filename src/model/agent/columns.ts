import { keptJson } from '../../platform/json/kept.js';
import { lastResult } from '../journal/calls.js';
import type { Trajectory } from '../journal/trajectory.js';
import type { Row } from '../results/row-columns.js';

const UNTOKENIZED =
  'expected calls of its agent that this policy answered, got none: its own model server did (model_server: own), or nobody was asked';

/** What a row has of an agent's answer, beside the columns of its calls; `row-columns.ts` explains them. */
export function resultColumns({
  calls,
  ...trajectory
}: Trajectory): Pick<Row, 'agent_result' | 'untokenized' | 'reward_shaping'> {
  const result = lastResult(trajectory);
  if (result === null) return {};
  return {
    agent_result: keptJson(result.text),
    ...(calls.length === 0 && result.reward !== null && { untokenized: UNTOKENIZED }),
    ...(result.shaping !== undefined && { reward_shaping: result.shaping }),
  };
}
