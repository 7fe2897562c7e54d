import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { chmod, mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { describeError } from '../../src/platform/errors.js';
import { undici } from '../../src/platform/http/undici.js';
import { lastLines, runCommand } from '../../src/platform/process/run-command.js';
import type { ArchivePins } from './version.js';
import { checkTemporalCli, TEMPORAL_CLI_VERSION } from './version.js';

export interface InstallTarget {
  /** Final place of the program. */
  path: string;
  /** The Go module that pins the CLI. */
  moduleFolder: string;
  downloadOrigin: string;
  archives: ArchivePins;
  env: NodeJS.ProcessEnv;
  say: (line: string) => void;
}

export type Installed = { path: string; version: string } | { missed: string };

const CONNECT_TIMEOUT_MS = 10_000;
const STALL_TIMEOUT_MS = 30_000;
const DOWNLOAD_TIMEOUT_MS = 15 * 60_000;
const BUILD_TIMEOUT_MS = 45 * 60_000;
const PROGRESS_EVERY_MS = 30_000;
/** Several times the size of an archive. */
const MOST_ARCHIVE_BYTES = 256 * 2 ** 20;

/**
 * The official archive, a tar.gz with `temporal` in it. Nothing is unpacked before its checksum matches the pinned one.
 */
export function downloadTemporalCli(target: InstallTarget): Promise<Installed> {
  const platform = { linux: 'linux', darwin: 'darwin' }[process.platform as string];
  const arch = { x64: 'amd64', arm64: 'arm64' }[process.arch as string];
  if (platform === undefined || arch === undefined) {
    return Promise.resolve({
      missed: `there is no archive for ${process.platform} ${process.arch}`,
    });
  }
  const pinned = target.archives[`${platform}/${arch}`];
  if (pinned === undefined) {
    return Promise.resolve({ missed: `no SHA-256 is pinned for ${platform} ${arch}` });
  }
  const url = `${target.downloadOrigin}/cli/archive/v${TEMPORAL_CLI_VERSION}?platform=${platform}&arch=${arch}`;
  return install(target, async (folder) => {
    const archive = path.join(folder, 'temporal.tar.gz');
    const sha256 = await save(url, { ...target, file: archive });
    if (sha256 !== pinned) {
      throw new Error(`${url}: expected SHA-256 ${pinned}, got ${sha256}; it is not run`);
    }
    const { ok, problem, output } = await runCommand({
      command: 'tar',
      args: ['-xzf', archive, '-C', folder, 'temporal'],
      env: target.env,
      timeoutMs: 5 * 60_000,
    });
    if (!ok)
      throw new Error(`${url} could not be unpacked with tar: ${problem} ${lastLines(output, 3)}`);
    return path.join(folder, 'temporal');
  });
}

/** Through the user's proxy, if there is one. Returns the SHA-256 of what was saved. */
async function save(
  url: string,
  { file, env, say }: InstallTarget & { file: string },
): Promise<string> {
  const hash = createHash('sha256');
  const measure = async function* (chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    let bytes = 0;
    for await (const chunk of chunks) {
      bytes += chunk.length;
      if (bytes > MOST_ARCHIVE_BYTES)
        throw new Error(`it has more than ${MOST_ARCHIVE_BYTES} bytes`);
      hash.update(chunk);
      yield chunk;
    }
  };
  const { EnvHttpProxyAgent, fetch } = undici();
  const dispatcher = new EnvHttpProxyAgent({
    ...proxies(env),
    connect: { timeout: CONNECT_TIMEOUT_MS },
    headersTimeout: STALL_TIMEOUT_MS,
    bodyTimeout: STALL_TIMEOUT_MS,
  });
  try {
    const response = await fetch(url, {
      dispatcher,
      signal: AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS),
    });
    if (!response.ok || response.body === null) throw new Error(`HTTP status ${response.status}`);
    say(`Downloading the Temporal CLI ${TEMPORAL_CLI_VERSION} from ${url}`);
    await withProgress(say, {
      still: 'still downloading the Temporal CLI',
      work: pipeline(Readable.fromWeb(response.body), measure, createWriteStream(file)),
    });
    return hash.digest('hex');
  } catch (error) {
    throw new Error(`${url} cannot be downloaded: ${describeError(error)}`);
  } finally {
    await dispatcher.destroy();
  }
}

function proxies(env: NodeJS.ProcessEnv): {
  httpProxy?: string;
  httpsProxy?: string;
  noProxy?: string;
} {
  const httpProxy = env['http_proxy'] ?? env['HTTP_PROXY'];
  const httpsProxy = env['https_proxy'] ?? env['HTTPS_PROXY'];
  const noProxy = env['no_proxy'] ?? env['NO_PROXY'];
  return {
    ...(httpProxy === undefined ? {} : { httpProxy }),
    ...(httpsProxy === undefined ? {} : { httpsProxy }),
    ...(noProxy === undefined ? {} : { noProxy }),
  };
}

/** For machines that reach a Go module proxy but not temporal.download. */
export async function buildTemporalCli(target: InstallTarget): Promise<Installed> {
  const go = await runCommand({
    command: 'go',
    args: ['version'],
    env: target.env,
    timeoutMs: 60_000,
  });
  if (!go.ok) return { missed: `\`go version\`: ${go.problem} ${lastLines(go.output, 3)}`.trim() };
  return install(target, async (folder) => {
    const built = path.join(folder, 'temporal');
    target.say(
      `Building the Temporal CLI ${TEMPORAL_CLI_VERSION} from source with Go, since this machine has none and it could not be`,
    );
    target.say(
      `downloaded. That takes 6 to 12 minutes on 2 cores, once: it is kept as ${target.path}`,
    );
    const { ok, problem, output } = await withProgress(target.say, {
      still: 'still building the Temporal CLI',
      work: runCommand({
        command: 'go',
        args: buildArguments(built),
        cwd: target.moduleFolder,
        env: { ...target.env, CGO_ENABLED: '0' },
        timeoutMs: BUILD_TIMEOUT_MS,
      }),
    });
    if (!ok)
      throw new Error(
        `\`go build\` in ${target.moduleFolder}: ${problem}\n${lastLines(output, 10)}`,
      );
    return built;
  });
}

const buildArguments = (out: string): string[] => [
  'build',
  '-trimpath',
  '-ldflags',
  `-s -w -X github.com/temporalio/cli/internal/temporalcli.Version=${TEMPORAL_CLI_VERSION}`,
  '-o',
  out,
  'github.com/temporalio/cli/cmd/temporal',
];

/**
 * Creates the program in its own folder beside the final place, and moves it there once it runs and reports the right
 * version. Two concurrent installations each move a whole program; the last one stays, and both find it.
 */
export async function install(
  target: InstallTarget,
  make: (folder: string) => Promise<string>,
): Promise<Installed> {
  const place = path.dirname(target.path);
  let folder: string | null = null;
  try {
    await mkdir(place, { recursive: true });
    folder = await mkdtemp(path.join(place, 'unfinished-'));
    const made = await make(folder);
    await chmod(made, 0o755);
    const checked = await checkTemporalCli(made);
    if ('problem' in checked) return { missed: checked.problem };
    if (checked.version !== TEMPORAL_CLI_VERSION) {
      return { missed: `expected version ${TEMPORAL_CLI_VERSION}, got ${checked.version}` };
    }
    await rename(made, target.path);
    return { path: target.path, version: checked.version };
  } catch (error) {
    return { missed: describeError(error) };
  } finally {
    if (folder !== null) await rm(folder, { recursive: true, force: true });
  }
}

/** Reports every half minute that a long task continues. */
export async function withProgress<T>(
  say: (line: string) => void,
  { still, work }: { still: string; work: Promise<T> },
): Promise<T> {
  const started = performance.now();
  const timer = setInterval(() => {
    const seconds = Math.round((performance.now() - started) / 1000);
    say(`  … ${still} (${Math.floor(seconds / 60)} min ${seconds % 60} s)`);
  }, PROGRESS_EVERY_MS);
  try {
    return await work;
  } finally {
    clearInterval(timer);
  }
}
