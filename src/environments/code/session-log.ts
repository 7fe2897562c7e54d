import { z } from 'zod';
import { nullIsAbsent } from '../../model/absent.js';
import type { Turn } from '../environment.js';
import { rejected, rejectedFields } from '../rejections.js';
import { codeOf, type MessageCode } from './format.js';
import type { CodeSettings } from './settings.js';

/**
 * What ran before this step, from the rollout's log, which is its state. `executed_messages` in the metadata are the
 * messages whose code took effect; code that was killed is not among them.
 */

const CodeMetadata = nullIsAbsent(
  z.looseObject({
    executed_messages: z.array(z.int().nonnegative()).default([]),
    /** Upstream's initial variables. Here code creates all variables. */
    context: z
      .record(z.string(), z.unknown())
      .refine((variables) => Object.keys(variables).length === 0, {
        error: 'expected none or an empty object, got variables',
      })
      .optional(),
  }),
);

export interface ExecutedTurn {
  /** Its index in the log. */
  message: number;
  code: MessageCode;
  observation: string;
}

/** Throws `EnvironmentRejected` for metadata that does not fit the log. */
export function executedTurns(
  { message_log: log, metadata }: Turn,
  { settings }: { settings: CodeSettings },
): ExecutedTurn[] {
  const subject = 'code: extra_env_info of the sample';
  const parsed = CodeMetadata.safeParse(metadata);
  if (!parsed.success) throw rejectedFields({ subject, error: parsed.error, input: metadata });
  const { executed_messages: all } = parsed.data;
  return all.map((message, i) => {
    const code = codeOf(log[message]?.content ?? '', settings);
    const observation = log[message + 1];
    const isInOrder = i === 0 || (all[i - 1] ?? 0) < message;
    if (code === null || observation === undefined || !isInOrder) {
      const what = `expected messages with code, each followed by an observation, in order, got ${message} of ${log.length}`;
      throw rejected({ subject, problems: [{ where: `executed_messages.${i}`, what }] });
    }
    return { message, code, observation: observation.content };
  });
}
