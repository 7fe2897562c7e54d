import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { EnvironmentMessage, Metadata } from '../environment.js';
import {
  fieldIn,
  fieldsIn,
  isForeignObject,
  withField,
  type ForeignObject,
} from '../../model/foreign-object.js';
import { plainOf, writeJson } from '../../platform/json/kept.js';
import { isRecord } from '../../platform/json/object.js';
import { SESSION_KEY, withoutSession } from '../../model/journal/session.js';
import { numberOfBoolean, recordOf } from '../../model/untrusted.js';

/** Bodies and answers of Gym's `/reset` and `/step` (`resources_servers/gymnasium/base.py`, `nemo_gym/openai_utils.py`). */

/** The identity of a rollout's session, in its metadata. */
export const SessionState = z.strictObject({
  /** `<rollout_id>/begin-<life>/<deployment>` */
  id: z.string(),
  cookies: recordOf(z.string()),
  /** How many messages the sample's own prompt has. Later messages belong to the session. */
  prompt_messages: z.int(),
  steps: z.int(),
  step_idempotency: z.boolean(),
  explicit_close: z.boolean(),
});
export type SessionState = z.infer<typeof SessionState>;

export function sessionOf(metadata: ForeignObject): SessionState | null {
  const { data } = SessionState.safeParse(plainOf(fieldIn(metadata, SESSION_KEY)));
  return data ?? null;
}

/** A Gym row as `/reset` and `/step` take it: the sample's fields, its prompt as the request's input. */
export function rowOf(
  metadata: ForeignObject,
  prompt: readonly EnvironmentMessage[],
): ForeignObject {
  const name = 'responses_create_params';
  const row = withoutSession(metadata);
  const given = fieldIn(row, name);
  const params = isForeignObject(given) ? given : {};
  const input = prompt.map(({ role, content }) => ({ role, content }));
  return withField(row, { name, value: withField(params, { name: 'input', value: input }) });
}

/** The same for every attempt at a step, and different in each life and deployment. Gym's servers accept at most 128 characters. */
export const requestIdOf = ({ id }: SessionState, idempotency_key: string): string =>
  createHash('sha256').update(`${id} ${idempotency_key}`).digest('hex').slice(0, 32);

/** The text as a `NeMoGymResponse`, without a time: the same step has the same bytes in every attempt. */
export function responseOf(
  text: string,
  { id, row }: { id: string; row: ForeignObject },
): Metadata {
  const params = fieldsIn(fieldIn(row, 'responses_create_params') as ForeignObject);
  const model = params['model'];
  return {
    id: `resp_${id}`,
    created_at: 0,
    model: typeof model === 'string' ? model : 'policy',
    object: 'response',
    output: [
      {
        id: `msg_${id}`,
        content: [{ annotations: [], text, type: 'output_text' }],
        role: 'assistant',
        status: 'completed',
        type: 'message',
      },
    ],
    parallel_tool_calls: params['parallel_tool_calls'] ?? true,
    tool_choice: params['tool_choice'] ?? 'auto',
    tools: params['tools'] ?? [],
  };
}

const MAX_TOOL_OUTPUTS = 1024;

export const IN_ANSWERS = { info: { tool_outputs: [{ output: 'all' }] } } as const;

const Info = recordOf(z.unknown());

/** Upstream's agent fails at an entry without an output, too. */
const StepInfo = Info.superRefine(({ tool_outputs: outputs }, context) => {
  const refuse = (message: string, at?: number): void => {
    const path = at === undefined ? ['tool_outputs'] : ['tool_outputs', at];
    context.addIssue({ code: 'custom', path, message });
  };
  if (outputs === undefined || outputs === null) return;
  if (!Array.isArray(outputs)) {
    refuse('expected a list');
    return;
  }
  if (outputs.length > MAX_TOOL_OUTPUTS)
    refuse(`expected at most ${MAX_TOOL_OUTPUTS} tool outputs, got more`);
  else
    for (const [at, entry] of outputs.entries())
      if (!isRecord(entry) || entry['output'] === undefined)
        refuse('expected an object with output', at);
});

export const ResetAnswer = z.looseObject({
  observation: z.string().nullish(),
  info: Info.nullish(),
});
export type ResetAnswer = z.infer<typeof ResetAnswer>;

export const StepAnswer = z
  .looseObject({
    observation: z.string().nullish(),
    /** Upstream treats a missing reward as 0, but no reward is not 0. */
    reward: numberOfBoolean(z.number({ error: 'expected a finite number' })),
    terminated: z.boolean().default(false),
    truncated: z.boolean().default(false),
    info: StepInfo.nullish(),
  })
  // `done` is of older interfaces: alone it would end nothing.
  .refine(
    ({ done, terminated, truncated }) => done === undefined || done === (terminated || truncated),
    {
      error: 'expected terminated or truncated to say it, too',
      path: ['done'],
    },
  );
export type StepAnswer = z.infer<typeof StepAnswer>;

/** The text that the policy reads. Upstream's agent makes items of a conversation of it. */
export function observationText({
  observation,
  info,
}: Pick<StepAnswer, 'observation' | 'info'>): string {
  const outputs = (info?.['tool_outputs'] ?? []) as { output: unknown }[];
  const texts = outputs.map(({ output }) =>
    typeof output === 'string' ? output : writeJson(output),
  );
  return [...texts, observation ?? ''].filter((text) => text !== '').join('\n');
}
