import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { toMs } from '../../model/workflow-safe/durations.js';
import { PROJECT_ROOT } from '../../platform/project-root.js';
import { LATE, within } from '../../platform/waits/abort.js';
import type { ProgramEnd } from '../environment.js';
import type { Argv, CommandSettings } from './command-settings.js';
import type {
  Command,
  Confined,
  Ended,
  Part,
  RunningCommand,
} from '../../sandbox/programs/confinement.js';

/** What a program has left, read once nothing of it lives. */

export interface Submitted {
  submission: string | null;
  /** It has failed. */
  exit?: ProgramEnd['exit'];
}

type Start = (
  argv: Argv,
  more: Pick<Command, 'input' | 'most_output'> & { part: Part },
) => Promise<RunningCommand>;

const MOST_SUBMISSION = 2 ** 20;
/** How many characters of what a command said a message has. */
const MOST_SAID = 1000;
/** Makes patches, without running anything of the folder. */
const PATCH = path.join(PROJECT_ROOT, 'python', 'sandbox', 'patch.py');

/** What a patch of the folder needs to be told: `keep` before the program, `print` behind it. */
async function patching(what: 'keep' | 'print', { python, folder, kept }: Confined): Promise<Argv> {
  // Its source, since commands do not see where it is.
  return [python, '-I', '-S', '-c', await readFile(PATCH, 'utf8'), what, folder, kept];
}

/** Before the program: the folder as a patch begins with it. Returns why it cannot be kept; null: it is. */
export async function kept(
  { submit }: Pick<CommandSettings, 'submit'>,
  { confined, start }: { confined: Confined; start: Start },
): Promise<string | null> {
  if (submit !== 'diff') return null;
  const running = await start(await patching('keep', confined), { part: 'patch' });
  const ended = await running.ended;
  return ended.code === 0 ? null : whyFailed(ended, running.tail());
}

export async function submitted(
  { submit, submit_time }: Pick<CommandSettings, 'submit' | 'submit_time'>,
  { confined, start, input }: { confined: Confined; start: Start; input: string },
): Promise<Submitted> {
  if (submit === null) return { submission: null };
  const running =
    submit === 'diff'
      ? await start(await patching('print', confined), {
          ...{ part: 'patch', most_output: MOST_SUBMISSION },
        })
      : await start(submit, { part: 'submit', input, most_output: MOST_SUBMISSION });
  const in_time = await within(toMs(submit_time), running.ended);
  running.end();
  const ended = await running.ended;
  if (in_time !== LATE && ended.code === 0 && !ended.is_cut)
    return { submission: ended.output.toString() };
  const why =
    in_time === LATE
      ? `expected it to end within limits.submit ${submit_time}, it did not`
      : ended.is_cut
        ? `expected at most ${MOST_SUBMISSION} bytes, it printed more`
        : whyFailed(ended, running.tail());
  const { signal } = ended;
  const code = signal === null || in_time === LATE ? ended.code || 1 : null;
  const exit = { code, signal: code === null ? signal : null, tail: `run.submit: ${why}` };
  return { submission: null, exit };
}

export function whyFailed({ code, signal, excess }: Ended, tail: string): string {
  const how = excess ?? (signal === null ? `exit ${code ?? 'unknown'}` : `signal ${signal}`);
  const said = tail.trim().slice(-MOST_SAID);
  return `it failed (${how}); ${said === '' ? 'it printed nothing' : `it printed at its end: ${said}`}`;
}
