import { lastLines, runCommand } from '../platform/process/run-command.js';

/** What is downloaded or built when the machine has none. `tools/temporal-cli/go.mod` pins the same. */
export const TEMPORAL_CLI_VERSION = '1.8.2';
/** The oldest that is taken from PATH: its server has what the workflows use. */
export const MINIMUM_VERSION = [1, 7] as const;

/** Runs `temporal --version`: a file of that name may be of another platform, cut short, or something else. */
export async function checkTemporalCli(
  file: string,
): Promise<{ path: string; version: string } | { problem: string }> {
  const { ok, output, problem } = await runCommand({
    command: file,
    args: ['--version'],
    timeoutMs: 20_000,
  });
  if (!ok)
    return {
      problem: `${file} --version does not work: ${[problem, lastLines(output, 3)].join(' ').trim()}`,
    };
  const found = /temporal version (\d+)\.(\d+)\.(\d+\S*)/.exec(output);
  if (found === null)
    return { problem: `${file} --version names no version: ${lastLines(output, 3)}` };
  const [, major = '', minor = '', patch = ''] = found;
  const version = `${major}.${minor}.${patch}`;
  const [leastMajor, leastMinor] = MINIMUM_VERSION;
  const old =
    Number(major) < leastMajor || (Number(major) === leastMajor && Number(minor) < leastMinor);
  if (old)
    return { problem: `${file} is version ${version}, older than ${MINIMUM_VERSION.join('.')}` };
  return { path: file, version };
}
