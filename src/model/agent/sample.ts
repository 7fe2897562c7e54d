import { z } from 'zod';
import { nullIsAbsent } from '../absent.js';
import { Duration } from '../field-kinds.js';
import { whyNoJson } from '../../platform/json/fault-place.js';
import { dataProblem } from '../../platform/json/depth.js';
import { plainOf } from '../../platform/json/kept.js';
import { isRecord } from '../../platform/json/object.js';
import type { Problem } from '../problems.js';
import { preview, problemsOf } from '../problems.js';
import type { Sample } from '../sample.js';

/** Default number of attempts for a row of NeMo Gym. */
const MAX_ATTEMPTS = 3;

/** `extra_env_info` of a sample that an agent plays as a whole: a row of NeMo Gym, and the agent that plays it. */
export const AgentSample = z.preprocess(
  plainOf,
  nullIsAbsent(
    z.strictObject({
      /** The name of its server. It becomes a search attribute, and a workflow with a longer one hangs. */
      agent: z.string().min(1).max(255),
      /** `_ng_task_index` and `_ng_rollout_index`. */
      task_index: z.int().nonnegative(),
      rollout_index: z.int().nonnegative(),
      /** How often the row failed before this batch. */
      attempt_index: z.int().nonnegative().default(0),
      max_attempts: z.int().positive().default(MAX_ATTEMPTS),
      /** Limit of one run, from connecting to the last byte of the answer; null: the environment's. */
      timeout: Duration.nullable().default(null),
      /** The row as JSON text. It is sent exactly as written here, so numbers keep their digits. */
      row: z.string(),
    }),
  ),
);
export type AgentSample = z.infer<typeof AgentSample>;

export function agentSampleProblems(
  { message_log, extra_env_info: info = {} }: Pick<Sample, 'message_log' | 'extra_env_info'>,
  { sampling = 'row' }: { sampling?: 'row' | 'request' | undefined } = {},
): Problem[] {
  const parsed = AgentSample.safeParse(info);
  const problems = parsed.success
    ? rowProblems(parsed.data.row, { isStamped: sampling === 'request' })
    : problemsOf(parsed.error, plainOf(info));
  return [
    ...problems.map(({ where, what }) => ({ where: `extra_env_info.${where}`, what })),
    ...(message_log.length > 0
      ? [
          {
            where: 'message_log',
            what: `expected [], since the agent is given the row, got ${message_log.length} messages`,
          },
        ]
      : []),
  ];
}

function rowProblems(text: string, { isStamped }: { isStamped: boolean }): Problem[] {
  const expected = 'expected the JSON text of an object';
  const problem = dataProblem(text);
  if (problem !== null) return [{ where: 'row', what: problem }];
  let row: unknown;
  try {
    row = JSON.parse(text);
  } catch (error) {
    return [
      { where: 'row', what: `${expected}, got ${preview(text)} (${whyNoJson(text, error)})` },
    ];
  }
  if (!isRecord(row)) return [{ where: 'row', what: `${expected}, got ${preview(row)}` }];
  const { responses_create_params: params } = row;
  if (!isStamped || isRecord(params)) return [];
  const what = `expected responses_create_params, an object, which \`sampling: request\` writes to, got ${preview(params)}`;
  return [{ where: 'row', what }];
}
