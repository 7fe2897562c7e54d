import { BaseUrl } from '../../model/base-url.js';
import type { Limits } from '../../sandbox/limits.js';
import { z } from 'zod';
import { Flag, On, Positive, Word, oneOf, orNull, Duration } from '../../model/field-kinds.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { bytesOf, MAX_ANSWER, MaxAnswer, Size } from '../../platform/size.js';
import { TOKEN } from '../http/token.js';
import { STEP_QUEUE } from '../kind.js';
import { mostOpenFiles } from '../../platform/process/open-files.js';

/** Limits apply to one turn's code and all that it starts. */
export const CodeSettings = z.strictObject({
  kind: z.literal('code').describe("runs the policy's code in a sandbox"),
  semantics: oneOf(['standard', 'nemo-rl'], 'standard').describe(
    "`nemo-rl`: exactly as NeMo RL's environment, with its quirks",
  ),
  terminate_on_evaluation: On.describe(
    'the rollout ends when code ends with an expression that has a value',
  ),
  timeout: Duration.default('10s').describe("longest time of one turn's code"),
  cpu: Duration.default('10s').describe(
    "processor time of one turn's code, of all processes together",
  ),
  memory: Size.default('512MiB').describe('memory of all processes together'),
  processes: Positive.default(32).describe(
    "processes and threads at once, the interpreter's own included",
  ),
  disk: Size.default('64MiB').describe('size of all files in the working directory'),
  max_output: Positive.default(8192).describe(
    'characters of output, and of a result. The rest is cut',
  ),
  max_sandboxes: Positive.default(64).describe(
    'interpreters at once in this worker. A new one ends the least recently used one',
  ),
  idle_timeout: Duration.default('60s').describe(
    'an interpreter that is unused for this time ends. It is made again when needed',
  ),
  unsafe: Flag.describe('runs code without confinement if this machine offers no sandbox'),
  python: orNull(Word).describe(
    'the interpreter: a path, or a name on PATH. null: the first `python3` that the sandbox can use',
  ),
  url: orNull(BaseUrl).describe('a sandbox service instead of this machine'),
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

/** Pipes of an interpreter, and what its watcher reads. */
const FILES_EACH = 6;
/** The interpreters' share of the files that a process may open. */
const SHARE = 1 / 4;
const FEWEST = 4;

type Sandbox = Pick<CodeSettings, 'max_sandboxes'>;

/** How many interpreters run at once: as many as the settings say, or as the limit of open files has room for. */
export const sandboxesAtOnce = ({ max_sandboxes }: Sandbox, open_files = mostOpenFiles()): number =>
  Math.min(max_sandboxes, Math.max(FEWEST, Math.floor((open_files * SHARE) / FILES_EACH)));

export const filesOfSandboxes = (sandbox: Sandbox, open_files: number): number =>
  sandboxesAtOnce(sandbox, open_files) * FILES_EACH;
