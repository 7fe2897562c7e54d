import { BaseUrl } from '../../model/base-url.js';
import { z } from 'zod';
import { Duration } from '../../model/field-kinds.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { bytesOf, MAX_ANSWER, MaxAnswer } from '../../platform/size.js';
import { defineKind, STEP_QUEUE } from '../kind.js';
import { createHttpEnvironment } from './environment.js';
import { TOKEN, tokenOf } from './token.js';

export const http = defineKind({
  settings: z.strictObject({
    kind: z.literal('http').describe('a service of yours'),
    url: BaseUrl.describe(
      'base URL of the service. `/step`, `/begin`, `/end`, `/health` and `/global_post_process_and_metrics` are appended',
    ),
    ...TOKEN,
    timeout: Duration.default('5m').describe(
      'for one call, from connecting to the last byte of the answer',
    ),
    max_answer: MaxAnswer.default(MAX_ANSWER).describe('size limit of one answer'),
    ...STEP_QUEUE,
  }),
  answers: () => 'a service',
  roles: null,
  make: (settings, context) =>
    createHttpEnvironment({
      url: settings.url,
      token: tokenOf(settings, context),
      timeout_ms: toMs(settings.timeout),
      max_answer_bytes: bytesOf(settings.max_answer),
      answers: context.answers,
    }),
});
