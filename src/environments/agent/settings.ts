import { z } from 'zod';
import { REASONING_PARSERS, TOOL_PARSERS } from '../../model/calls/parsers/names.js';
import { Duration } from '../../model/durations.js';
import { Size } from '../../platform/size.js';
import { BaseUrl } from '../http/base-url.js';

const limit = (what: string) => z.int().positive().nullable().default(null).describe(what);

const Run = z.strictObject({
  url: BaseUrl.describe(
    'a service that runs programs: `/runs/<rollout>.<life>` and `/health` are appended',
  ),
  headers_env: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe('the variable that holds headers of every request to it, `name: value`, one a line'),
  command: z
    .null({
      error:
        'expected no command: workers do not start programs themselves yet; serve yours with python -m rollout_environment.agent, and name its url',
    })
    .default(null)
    .describe('not yet: a program that the worker starts itself'),
});

const Limits = z
  .strictObject({
    calls: limit('answers of one rollout; null: `max_rollout_turns`, which is a limit anyway'),
    parallel: z
      .int()
      .positive()
      .default(16)
      .describe('calls of one rollout at the same time; others wait'),
    sequences: limit('conversations that do not continue another one; null: any number'),
    sampled_tokens: limit('sampled tokens of one rollout; null: any number'),
    body: Size.default('8MiB').describe('size limit of one request of a program'),
    call: Duration.default('30m').describe('how long one call may wait and generate'),
    run: Duration.nullable()
      .default(null)
      .describe('how long a program may run; null: as long as `rollout_timeout` allows'),
  })
  .prefault({});

/** Programs that own their loop, each a run of a service. */
export const AgentSettings = z.strictObject({
  kind: z.literal('agent').describe('programs of yours that own their loop, and ask the policy'),
  run: Run.describe('where programs run'),
  verify: z
    .string()
    .nullable()
    .default(null)
    .describe(
      "another environment of this file, which says what a rollout is worth; null: the program's own reward",
    ),
  dialect_defaults: z
    .strictObject({
      tool_parser: z
        .enum(TOOL_PARSERS)
        .default('hermes')
        .describe('how tool calls stand in the text of an answer'),
      reasoning_parser: z
        .enum(REASONING_PARSERS)
        .nullable()
        .default(null)
        .describe('how thoughts stand there; null: they are text'),
    })
    .prefault({})
    .describe('how answers of the policy are read'),
  history: z
    .enum(['append', 'template'])
    .default('append')
    .describe(
      '`append`: a conversation goes on from the ids that were sampled; `template`: each request is rendered whole, and begins a sequence where its ids differ',
    ),
  restart: z
    .enum(['replay', 'fresh'])
    .default('replay')
    .describe(
      '`replay`: a program that begins again is answered from the journal as far as it asks the same; `fresh`: anew',
    ),
  structured: z
    .enum(['refuse', 'allow'])
    .default('refuse')
    .describe('whether programs may ask for JSON (`response_format`)'),
  limits: Limits.describe('of one rollout'),
  task_queue: z
    .string()
    .min(1)
    .optional()
    .describe('its rollouts run on this queue instead of `<temporal.task_queue>-agent`'),
  max_concurrent: z.int().positive().default(8).describe('rollouts at once, per worker'),
});
export type AgentSettings = z.infer<typeof AgentSettings>;
