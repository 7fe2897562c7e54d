import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { COMMANDS } from '../../src/cli/commands.js';
import { SimulatorSettings } from '../../simulator/settings.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { requestOf, sampleOf, temporaryFolder, temporaryStore } from '../fakes/temporary-store.js';
import { runHere } from '../harness/command-here.js';
import { MAIN } from '../../lab/bed/command.js';

test('the help says which commands take no --config, and theirs do not name it', async (t) => {
  const { stdout } = await runHere(t, '--help');
  const [, listed = ''] = /All except (.+?) take --config FILE/s.exec(stdout) ?? [];
  const without = Object.entries(COMMANDS).filter(
    ([, command]) => command?.usage.includes('--config') === false,
  );
  assert.deepEqual(listed.split(/, | and /).sort(), without.map(([name]) => name).sort());
  const { status, stderr } = await runHere(t, 'learning', '--config', 'temporal.yaml');
  assert.deepEqual([status, /^Unknown option '--config'/.test(stderr)], [2, true]);
});

test('the help lists each command', async (t) => {
  const { stdout } = await runHere(t, '--help');
  const listed = [...stdout.matchAll(/^ {2}temporal-rollout ([a-z0-9|-]+)/gm)];
  const names = listed.flatMap(([, words = '']) => words.split('|'));
  assert.deepEqual(names.sort(), Object.keys(COMMANDS).sort());
});

test('--version says which release this is', async (t) => {
  const own = await readFile(path.join(PROJECT_ROOT, 'package.json'), 'utf8');
  const { version } = JSON.parse(own) as { version: string };
  assert.match(version, /^\d+\.\d+\.\d+/);
  assert.deepEqual(await runHere(t, '--version'), {
    status: 0,
    stdout: `${version}\n`,
    stderr: '',
  });
});

describe('a mistyped', () => {
  test('option is answered with the one of the command that it probably means', async (t) => {
    const { status, stderr } = await runHere(t, 'show', 'b', '--fallow');
    assert.equal(status, 2);
    assert.match(
      stderr,
      /^Unknown option '--fallow'; did you mean --follow\?\n\ntemporal-rollout show/,
    );
  });

  test('service of new weights is refused before anything starts, with those that temporal.yaml has', async (t) => {
    const file = path.join(await temporaryFolder(t), 'temporal.yaml');
    const serviceAt = (port: number) => `{kind: vllm, base_urls: [http://127.0.0.1:${port}/v1]}`;
    // Nothing listens there: a command that went on would say so.
    const temporal = 'temporal: {address: "127.0.0.1:1"}';
    await writeFile(
      file,
      `${temporal}\ngeneration: {default: ${serviceAt(1)}, big: ${serviceAt(2)}}\nenvironments: {}\n`,
    );
    const { status, stderr } = await runHere(
      t,
      'policy',
      'publish',
      '--service',
      'bigg',
      '--version',
      '2',
      '--config',
      file,
    );
    assert.equal(status, 2);
    assert.equal(
      stderr,
      `temporal-rollout policy: unknown service "bigg"; ${file} has default, big; did you mean big?\n`,
    );
  });

  test('command is answered in one line with the one that it probably means, or with where all are', async (t) => {
    const { status, stderr } = await runHere(t, 'sho');
    assert.deepEqual([status, stderr], [2, 'unknown command "sho"; did you mean show?\n']);
    const other = await runHere(t, 'xyzzy');
    assert.equal(other.stderr, 'unknown command "xyzzy"; temporal-rollout --help lists all\n');
  });

  test('setting is named by check, with the others and once each', async (t) => {
    const file = path.join(await temporaryFolder(t), 'temporal.yaml');
    await writeFile(file, 'generation: {}\nenviroments: {}\n');
    const { status, stdout } = await runHere(t, 'check', '--json', '--config', file);
    assert.equal(status, 1);
    const { part, what } = JSON.parse(stdout) as { part: string; what: string };
    assert.equal(part, 'settings');
    assert.equal(
      what,
      `${file} is not valid: environments: expected an object such as { math: { kind: math } }, got nothing; enviroments: unknown field; did you mean environments?`,
    );
  });
});

test('a version of weights that is no number is refused, with what was expected and what came', async (t) => {
  const { status, stderr } = await runHere(
    t,
    'policy',
    'publish',
    '--version',
    'seven',
    '--path',
    '/w',
  );
  assert.equal(status, 2);
  assert.equal(
    stderr,
    'temporal-rollout policy: --version: expected an integer, 0 or more, got "seven"\n',
  );
});

test('a batch that the store does not have may still be planned or have failed in planning, and what shows that is named with the same file', async (t) => {
  const folder = await temporaryFolder(t);
  const file = path.join(folder, 'temporal.yaml');
  await writeFile(file, 'store: {root: store}\ngeneration: {}\nenvironments: {}\n');
  const { status, stderr } = await runHere(t, 'show', 'new', '--config', file);
  assert.equal(status, 1);
  assert.equal(
    stderr,
    `temporal-rollout show: no batch new in ${path.join(folder, 'store')}: either none was started under this id for this store, or it is still being planned: temporal-rollout watch new --config ${file}, or it failed in planning: temporal-rollout result new --config ${file}\n`,
  );
});

test('a batch with nearly the same id is named', async (t) => {
  const { root, store } = await temporaryStore(t);
  await store.createBatch({ batch_id: 'step-17', request: requestOf(), samples: [] });
  const file = path.join(path.dirname(root), 'temporal.yaml');
  await writeFile(file, `store: {root: ${root}}\ngeneration: {}\nenvironments: {}\n`);
  const { stderr } = await runHere(t, 'show', 'spet-17', '--config', file);
  assert.match(
    stderr,
    /^temporal-rollout show: no batch spet-17 in .*; did you mean step-17\?: either/,
  );
});

test('a batch whose journals were deleted has its result: nothing looks lost', async (t) => {
  const { root, store } = await temporaryStore(t);
  const batch_id = 'step-17';
  await store.createBatch({ batch_id, request: requestOf(), samples: [sampleOf('one')] });
  const file = path.join(path.dirname(root), 'temporal.yaml');
  await writeFile(file, `store: {root: ${root}}\ngeneration: {}\nenvironments: {}\n`);
  const started = await runHere(t, 'show', batch_id, '--config', file);
  assert.deepEqual([started.status, started.stderr], [0, '']);
  const counts = { requested: 1, completed: 1, failed: 0, timed_out: 0, stopped: 0, cancelled: 0 };
  const outputs = store.outputs(batch_id);
  const { rollouts, failures, groups, metrics } = outputs.files;
  await outputs.putMetrics({
    ...{ schema_version: 1, batch_id, counts, metrics: {}, metadata: {} },
    files: { rollouts, failures, groups, metrics },
  });
  for (const target of [batch_id, `${batch_id}/0`, `${batch_id}/0-0`]) {
    const { status, stderr } = await runHere(t, 'show', target, '--config', file);
    assert.deepEqual(
      [status, stderr],
      [
        1,
        `temporal-rollout show: the journals of step-17 were deleted, and show reads nothing else. Its result has 1 of 1 rollouts: ${rollouts}\n`,
      ],
    );
  }
});

test('show loads nothing that speaks to a server: a list would wait for half a second of code', async (t) => {
  const folder = await temporaryFolder(t);
  const file = path.join(folder, 'temporal.yaml');
  const hooks = path.join(folder, 'hooks.mjs');
  await writeFile(file, 'store: {root: store}\ngeneration: {}\nenvironments: {}\n');
  await writeFile(
    hooks,
    `import { register } from 'node:module';
    const refuses = "export const resolve = (name, context, next) => { if (name.startsWith('@temporalio/client')) throw new Error('show loads ' + name); return next(name, context); };";
    register('data:text/javascript,' + encodeURIComponent(refuses));`,
  );
  const args = ['--import', hooks, MAIN];
  const options = { cwd: PROJECT_ROOT, timeout: 280_000, encoding: 'utf8' } as const;
  const tried = (...more: string[]) =>
    spawnSync(process.execPath, [...args, ...more, '--config', file], options).stderr;
  assert.match(tried('show', 'new'), /^temporal-rollout show: no batch new in /);
  assert.match(tried('watch', 'new'), /show loads @temporalio\/client/);
});

test('a relative path of weights is refused, with the absolute one that it has here', async (t) => {
  const { status, stderr } = await runHere(
    t,
    'policy',
    'publish',
    '--version',
    '2',
    '--path',
    'better.json',
  );
  assert.equal(status, 2);
  const here = path.join(PROJECT_ROOT, 'better.json');
  const said = `--path: expected an absolute path or s3://bucket/prefix, because each engine opens it itself, got "better.json"; here it would be "${here}"`;
  assert.ok(stderr.includes(said), stderr);
});

test('a reader that has seen enough ends a command without an error', async () => {
  const command = spawn(process.execPath, [MAIN, 'help']);
  command.stdout.destroy();
  const [said] = await Promise.all([text(command.stderr), once(command, 'close')]);
  assert.deepEqual([said, command.exitCode], ['', 0]);
});

test('the help of the simulator names each of its settings', () => {
  const usage = COMMANDS['simulator']?.usage ?? '';
  for (const name of Object.keys(SimulatorSettings.shape))
    assert.ok(usage.includes(`--${name.replaceAll('_', '-')} `), name);
});
