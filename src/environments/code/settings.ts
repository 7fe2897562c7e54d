import type { Limits } from '../../sandbox/limits.js';
import { z } from 'zod';
import { Duration } from '../../model/durations.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { bytesOf, MAX_ANSWER, MaxAnswer, Size } from '../../platform/size.js';
import { BaseUrl } from '../../model/base-url.js';
import { TOKEN } from '../http/token.js';
import { STEP_QUEUE } from '../step-queue.js';

/** Limits apply to one turn's code and all that it starts. */
export const CodeSettings = z.strictObject({
  kind: z.literal('code').describe("runs the policy's code in a sandbox"),
  semantics: z
    .enum(['standard', 'nemo-rl'])
    .default('standard')
    .describe("`nemo-rl` has upstream's quirks"),
  terminate_on_evaluation: z
    .boolean()
    .default(true)
    .describe('code that ends with an expression that has a value ends the rollout'),
  timeout: Duration.default('10s').describe("of one turn's code, on the clock"),
  cpu: Duration.default('10s').describe(
    "processor time of one turn's code, of all processes together",
  ),
  memory: Size.default('512MiB').describe('of all processes together'),
  processes: z
    .int()
    .positive()
    .default(32)
    .describe("concurrent processes and threads, the interpreter's own included"),
  disk: Size.default('64MiB').describe('files in the working directory, and each file'),
  max_output: z
    .int()
    .positive()
    .default(8192)
    .describe('characters of output, and of a result; the rest is only counted'),
  max_sandboxes: z
    .int()
    .positive()
    .default(64)
    .describe('concurrent interpreters in this worker: a new one ends the least recently used one'),
  idle_timeout: Duration.default('60s').describe(
    'an interpreter that is unused for this long ends; it is made again when needed',
  ),
  unsafe: z
    .boolean()
    .default(false)
    .describe('runs code without confinement if this machine offers no sandbox'),
  python: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe(
      'the interpreter: a path, or a name on PATH. null: the first `python3` that the sandbox can use',
    ),
  url: BaseUrl.nullable().default(null).describe('a sandbox service instead of this machine'),
  ...TOKEN,
  max_answer: MaxAnswer.default(MAX_ANSWER).describe('size limit of one answer of that service'),
  ...STEP_QUEUE,
});
export type CodeSettings = z.infer<typeof CodeSettings>;

export function limitsOf(settings: CodeSettings): Limits {
  const { timeout, cpu, memory, processes, disk, max_output } = settings;
  return {
    timeout_ms: toMs(timeout),
    cpu_ms: toMs(cpu),
    memory: bytesOf(memory),
    processes,
    disk: bytesOf(disk),
    max_output,
  };
}
