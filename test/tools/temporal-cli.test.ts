import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { promisify } from 'node:util';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { findTemporalCli } from '../../tools/temporal-cli/find.js';
import {
  TEMPORAL_CLI_ARCHIVES,
  TEMPORAL_CLI_VERSION,
  TEMPORAL_CLI_WHEELS,
} from '../../tools/temporal-cli/version.js';
import { CACHED, PLATFORMS, goThatBuilds, machine } from './cli-machine.js';
import { temporalOf, writeProgram } from '../dev/fakes.js';

describe('the pinned version of the Temporal CLI', () => {
  test('is the one of the Go module', async () => {
    const module = await readFile(
      path.join(PROJECT_ROOT, 'tools', 'temporal-cli', 'go.mod'),
      'utf8',
    );
    assert.match(module, new RegExp(`temporalio/cli v${TEMPORAL_CLI_VERSION} `));
  });

  test('has a checksum for every platform that an archive is asked for', () => {
    assert.deepEqual(Object.keys(TEMPORAL_CLI_ARCHIVES).sort(), [...PLATFORMS].sort());
    assert.deepEqual(Object.keys(TEMPORAL_CLI_WHEELS).sort(), [...PLATFORMS].sort());
    for (const pins of [TEMPORAL_CLI_ARCHIVES, TEMPORAL_CLI_WHEELS])
      for (const sha256 of Object.values(pins)) assert.match(sha256 ?? '', /^[0-9a-f]{64}$/);
  });
});

describe('the Temporal CLI is looked for', () => {
  test('in TEMPORAL_CLI_PATH before PATH', async (t) => {
    const { options, at } = await machine(t);
    const own = await writeProgram(at('own', 'temporal'), temporalOf('1.9.0'));
    await writeProgram(at('bin', 'temporal'), temporalOf('1.8.2'));
    const found = await findTemporalCli({
      ...options,
      env: { ...options.env, TEMPORAL_CLI_PATH: own },
    });
    assert.deepEqual(found, { path: own, version: '1.9.0', source: 'TEMPORAL_CLI_PATH' });
  });

  test('on PATH before the cache', async (t) => {
    const { options, said, at } = await machine(t);
    await writeProgram(at('cache', CACHED), temporalOf('1.8.2'));
    const onPath = await writeProgram(at('bin', 'temporal'), temporalOf('1.7.0'));
    assert.deepEqual(await findTemporalCli(options), {
      path: onPath,
      version: '1.7.0',
      source: 'PATH',
    });
    assert.deepEqual(said, []);
  });

  test('in the cache, without a word, when PATH has none', async (t) => {
    const { options, said, at } = await machine(t);
    const cached = await writeProgram(at('cache', CACHED), temporalOf('1.8.2'));
    assert.deepEqual(await findTemporalCli(options), {
      path: cached,
      version: '1.8.2',
      source: 'cache',
    });
    assert.deepEqual(said, []);
  });

  test('elsewhere, with a message, if the one on PATH is too old', async (t) => {
    const { options, said, at } = await machine(t);
    await writeProgram(at('bin', 'temporal'), temporalOf('1.6.2'));
    await writeProgram(at('cache', CACHED), temporalOf('1.8.2'));
    assert.equal((await findTemporalCli(options)).source, 'cache');
    assert.match(said.join('\n'), /PATH: .*bin\/temporal is version 1\.6\.2, older than 1\.7/);
  });

  test('nowhere else when TEMPORAL_CLI_PATH names something that is not it', async (t) => {
    const { options, at } = await machine(t);
    await writeProgram(at('bin', 'temporal'), temporalOf('1.8.2'));
    const other = await writeProgram(at('own', 'temporal'), "console.log('hello');");
    for (const given of [other, at('missing')]) {
      await assert.rejects(
        findTemporalCli({ ...options, env: { ...options.env, TEMPORAL_CLI_PATH: given } }),
        (error: Error) => error.message.startsWith(`TEMPORAL_CLI_PATH is ${given}, but `),
      );
    }
  });
});

describe('a missing Temporal CLI is installed', () => {
  /** Serves a tar.gz that holds `temporal`, this program; notes what was asked for. */
  async function origin(
    t: TestContext,
    { program, at }: { program: string; at: (...parts: string[]) => string },
  ) {
    await writeProgram(at('archive', 'temporal'), program);
    await promisify(execFile)('tar', [
      '-czf',
      at('archive.tar.gz'),
      '-C',
      at('archive'),
      'temporal',
    ]);
    const archive = await readFile(at('archive.tar.gz'));
    const asked: string[] = [];
    const server = createServer((request, response) => {
      asked.push(request.url ?? '');
      response.end(archive);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    const sha256 = createHash('sha256').update(archive).digest('hex');
    return {
      downloadOrigin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      archives: Object.fromEntries(PLATFORMS.map((platform) => [platform, sha256])),
      asked,
    };
  }

  /** `tar` and its gzip are the only programs of the real machine. */
  async function linkTar(at: (...parts: string[]) => string): Promise<void> {
    for (const name of ['tar', 'gzip']) {
      const { stdout } = await promisify(execFile)('/bin/sh', ['-c', `command -v ${name}`]);
      await symlink(stdout.trim(), at('bin', name));
    }
  }

  test('from the official archive into the cache', async (t) => {
    const { options, said, at } = await machine(t);
    await linkTar(at);
    const { asked, ...official } = await origin(t, { program: temporalOf('1.8.2'), at });
    const found = await findTemporalCli({ ...options, ...official });
    assert.deepEqual(found, { path: at('cache', CACHED), version: '1.8.2', source: 'download' });
    assert.match(
      asked.join(),
      /^\/cli\/archive\/v1\.8\.2\?platform=(linux|darwin)&arch=(amd64|arm64)$/,
    );
    assert.match(said.join('\n'), /Downloading the Temporal CLI 1\.8\.2 from http/);
    assert.deepEqual(
      await readdir(path.dirname(found.path)),
      ['temporal'],
      'nothing else is left in the cache',
    );
  });

  test('by a Go build when the archive holds another version', async (t) => {
    const { options, at } = await machine(t);
    await linkTar(at);
    await writeProgram(at('bin', 'go'), goThatBuilds('1.8.2'));
    const { downloadOrigin, archives } = await origin(t, { program: temporalOf('1.8.1'), at });
    const found = await findTemporalCli({ ...options, downloadOrigin, archives });
    assert.equal(found.source, 'build with Go');
  });

  test('never from an archive that is not the pinned one: nothing of it is unpacked or run', async (t) => {
    const { options, said, at } = await machine(t);
    const ran = at('it-ran');
    const attack = `require('node:fs').writeFileSync(${JSON.stringify(ran)}, ''); ${temporalOf('1.8.2')}`;
    await linkTar(at);
    const { downloadOrigin } = await origin(t, { program: attack, at });
    await assert.rejects(findTemporalCli({ ...options, downloadOrigin }), ({ message }: Error) => {
      assert.match(
        message,
        /4\. download: .*expected SHA-256 [0-9a-f]{64}, got [0-9a-f]{64}; it is not run/,
      );
      return true;
    });
    assert.match(said.join('\n'), /expected SHA-256/);
    await assert.rejects(access(ran), 'it ran');
    assert.deepEqual(await readdir(path.dirname(at('cache', CACHED))), []);
  });

  test('never from an archive that no checksum is pinned for: it is not even asked for', async (t) => {
    const { options, at } = await machine(t);
    await linkTar(at);
    const { downloadOrigin, asked } = await origin(t, { program: temporalOf('1.8.2'), at });
    await assert.rejects(
      findTemporalCli({ ...options, downloadOrigin, archives: {} }),
      /4\. download: no SHA-256 is pinned for /,
    );
    assert.deepEqual(asked, []);
  });

  test('from an archive of a bounded size', async (t) => {
    const { options } = await machine(t);
    let sent = 0;
    const server = createServer((_, response) => {
      const block = Buffer.alloc(1 << 20);
      const send = (): void => {
        while (!response.destroyed && sent < 600) {
          sent += 1;
          if (!response.write(block)) {
            response.once('drain', send);
            return;
          }
        }
        response.end();
      };
      send();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    const downloadOrigin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await assert.rejects(
      findTemporalCli({ ...options, downloadOrigin }),
      /cannot be downloaded: .*more than 268435456 bytes/,
    );
    assert.ok(sent < 400, `${sent} MiB were taken`);
  });

  test('by a Go build of the pinned module when there is no network, saying why and for how long', async (t) => {
    const { options, said, at } = await machine(t);
    await writeProgram(at('bin', 'go'), goThatBuilds('1.8.2'));
    assert.equal((await findTemporalCli(options)).path, at('cache', CACHED));
    const { args, cwd, cgo } = JSON.parse(await readFile(at('bin', 'go.log'), 'utf8')) as Record<
      string,
      unknown
    >;
    assert.equal(cwd, at('tools', 'temporal-cli'));
    assert.equal(cgo, '0');
    assert.equal((args as string[]).at(-1), 'github.com/temporalio/cli/cmd/temporal');
    assert.match(said.join('\n'), /cannot be downloaded: .*ECONNREFUSED/);
    assert.match(said.join('\n'), /6 to 12 minutes/);
  });

  test('twice at the same time without harm', async (t) => {
    const { options, at } = await machine(t);
    await writeProgram(at('bin', 'go'), goThatBuilds('1.8.2'));
    const both = await Promise.all([findTemporalCli(options), findTemporalCli(options)]);
    const expected = { path: at('cache', CACHED), version: '1.8.2', source: 'build with Go' };
    assert.deepEqual(both, [expected, expected]);
    assert.equal(
      (await readFile(at('bin', 'go.log'), 'utf8')).trim().split('\n').length,
      2,
      'both did build',
    );
    assert.deepEqual(await readdir(path.dirname(expected.path)), ['temporal']);
    assert.equal((await findTemporalCli(options)).source, 'cache');
  });

  test('or the error lists every source, what failed there and what helps', async (t) => {
    const { options, at } = await machine(t);
    await writeProgram(at('bin', 'temporal'), 'process.exit(3);');
    await writeProgram(
      at('bin', 'go'),
      "if (process.argv[2] === 'build') { console.error('proxy.golang.org: no route to host'); process.exit(1); }",
    );
    await mkdir(at('cache', path.dirname(CACHED)), { recursive: true });
    await writeFile(at('cache', CACHED), 'half a download', { mode: 0o755 });
    await assert.rejects(findTemporalCli(options), ({ message }: Error) => {
      assert.match(message, /1\. TEMPORAL_CLI_PATH: not set/);
      assert.match(message, /2\. PATH: .*bin\/temporal --version does not work: exit code 3/);
      assert.match(message, /3\. cache: .*temporal --version does not work: /);
      assert.match(
        message,
        /4\. download: http:\/\/127\.0\.0\.1:2\/cli\/archive\/.* cannot be downloaded/,
      );
      assert.match(
        message,
        /6\. build with Go: .*exit code 1\n.*proxy\.golang\.org: no route to host/,
      );
      assert.match(message, /5\. PyPI: `python3 -m pip`: .*python3/);
      assert.match(message, /- set TEMPORAL_CLI_PATH/);
      return true;
    });
  });
});
