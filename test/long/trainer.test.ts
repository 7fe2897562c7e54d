/**
 * The examples of a trainer, run as their README says: separate Python programs with the project's own package.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { PYTHON_PACKAGES, TRAINER_EXAMPLE, trainerInstall } from '../../dev/trainer-example.js';
import type { Row } from '../../src/model/results/row.js';
import { readRows } from '../../lab/bed/batch.js';
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';

const install = trainerInstall(process.env);
const skip = existsSync(install.stamp)
  ? false
  : 'what the Python package needs is not installed: `node tools/setup.mjs --test` says why';

const PUZZLE = path.join('examples', 'sliding-puzzle');
const [SAMPLES, REQUEST] = ['samples.jsonl', 'batch.json'];
/** For the example's 16 samples with four rollouts each. */
const GROUPS = 4;
const ROLLOUTS = 4 * GROUPS;
/** As in the README. */
const COMMAND = /^python (start_batch\.py --batch-id (\S+))$/m;
const DUMP = `
import json, sys
from durable_rollouts import to_arrays
with open(sys.argv[1]) as file:
    arrays = to_arrays(json.loads(line) for line in file)
lengths = arrays.attention_mask.sum(axis=1)
assert all(mask[:n].all() and not mask[n:].any() for mask, n in zip(arrays.attention_mask, lengths))
names = {"ids": arrays.input_ids, "loss_mask": arrays.loss_mask > 0, "logprobs": arrays.logprobs}
print(json.dumps([{name: array[i, :n].tolist() for name, array in names.items()} for i, n in enumerate(lengths)]))
`;

interface Request {
  generation?: object;
}

interface Arrays {
  ids: number[];
  loss_mask: boolean[];
  logprobs: number[];
}

/** The rules of docs/training-data.md for a row. */
function arraysOf(row: Row): Arrays {
  const arrays: Arrays = { ids: [], loss_mask: [], logprobs: [] };
  for (const { token_ids, generation_logprobs } of row.message_log) {
    const behind = arrays.ids.length >= row.prompt_tokens;
    const sampled = behind ? generation_logprobs : undefined;
    arrays.ids.push(...token_ids);
    for (const k of token_ids.keys()) {
      arrays.loss_mask.push(sampled !== undefined && row['loss_multiplier'] !== 0);
      arrays.logprobs.push(Math.fround(sampled?.[k] ?? 0));
    }
  }
  return arrays;
}

describe('the example trainer', { skip }, () => {
  let bed: Testbed;
  let command: string[];
  let batch_id: string;

  before(async () => {
    const readme = await readFile(path.join(TRAINER_EXAMPLE, 'README.md'), 'utf8');
    const [, args = '', id = ''] = COMMAND.exec(readme) ?? [];
    assert.notEqual(args, '', 'the README has no command');
    bed = await startTestbed('trainer');
    const { address, namespace } = bed.server;
    const request = path.join(bed.directory, REQUEST);
    const example = await readFile(path.join(PROJECT_ROOT, PUZZLE, REQUEST), 'utf8');
    await writeFile(request, JSON.stringify({ ...(JSON.parse(example) as object), limit: GROUPS }));
    await mkdir(path.join(bed.inputs_dir, PUZZLE), { recursive: true });
    await copyFile(
      path.join(PROJECT_ROOT, PUZZLE, SAMPLES),
      path.join(bed.inputs_dir, PUZZLE, SAMPLES),
    );
    command = [
      ...args.split(' '),
      '--request',
      request,
      '--address',
      address,
      '--namespace',
      namespace,
    ];
    batch_id = id;
    const generation = await bed.simulate({
      default: { thinking_tokens: 4, skill: 0.5, seed: 1, dev_mode: true },
    });
    await bed.startWorker({
      task_queue: 'rollouts',
      generation,
    });
  });
  after(() => bed.end());

  const start = (
    args: string[],
    { cwd = TRAINER_EXAMPLE, env = {} }: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
  ) =>
    spawn(install.python, args, {
      cwd,
      env: { ...process.env, PYTHONPATH: PYTHON_PACKAGES, PYTHONDONTWRITEBYTECODE: '1', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  type Running = ReturnType<typeof start>;
  const ending = async (child: Running) => {
    const [output, errors, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close') as Promise<[number | null]>,
    ]);
    return { output, errors, code };
  };
  const ranWith = (args: string[]) => ending(start(args));
  const outputOf = async (args: string[]): Promise<string> => {
    const { output, errors, code } = await ranWith(args);
    assert.equal(code, 0, errors);
    return output;
  };
  const rowsFile = (): string => path.join(bed.store_root, batch_id, 'rollouts.jsonl');
  /** Output of the start after the kill. */
  let output: string;

  test('is run as its README says, is killed, and started again has all rollouts', async () => {
    const child = start(command);
    const ended = once(child, 'close');
    const handle = bed.server.client.workflow.getHandle(batch_id);
    await eventually('the batch to be there', () =>
      handle.describe().then(
        () => true,
        () => false,
      ),
    );
    child.kill('SIGKILL');
    assert.deepEqual(await ended, [null, 'SIGKILL']);
    output = await outputOf(command);
    assert.ok(output.startsWith(`${ROLLOUTS} of ${ROLLOUTS} rollouts completed\n`), output);
  });

  test('has the arrays of its rows', async () => {
    const rows = await readRows(rowsFile());
    assert.equal(rows.length, ROLLOUTS);
    const [first, second] = rows as [Row, Row];
    const [prompt, ...played] = first.message_log;
    // Tokens that the policy did not sample, or that must not be trained on.
    const prefilled = { ...prompt!, generation_logprobs: prompt!.token_ids.map(() => -1) };
    const given = [
      ...rows,
      { ...first, message_log: [prefilled, ...played] },
      { ...second, loss_multiplier: 0 },
    ];
    const file = path.join(bed.directory, 'given.jsonl');
    await writeFile(file, given.map((row) => `${JSON.stringify(row)}\n`).join(''));
    const read = JSON.parse(await outputOf(['-c', DUMP, file])) as Arrays[];
    assert.deepEqual(read, given.map(arraysOf));
    assert.deepEqual(read[ROLLOUTS]!.loss_mask, read[0]!.loss_mask);
    assert.ok(!read[ROLLOUTS + 1]!.loss_mask.includes(true));

    const arrays = read.slice(0, ROLLOUTS);
    const trained = arrays.flatMap(({ loss_mask }) => loss_mask).filter(Boolean).length;
    const all = arrays.flatMap(({ ids }) => ids).length;
    assert.ok(trained > ROLLOUTS && trained < all);
    assert.ok(output.includes(`${trained} of ${all} tokens are trained on)\n`), output);
    const spread = (group: number): number =>
      new Set(rows.filter(({ row }) => row === group).map((row) => row.total_reward)).size;
    const differ = Array.from({ length: GROUPS }, (_, group) => group).filter(
      (group) => spread(group) > 1,
    );
    assert.ok(output.includes(`groups with a gradient: ${differ.length} of ${GROUPS}`), output);
  });

  test('started again once its batch has ended has the same rows', async () => {
    const rows = await readFile(rowsFile(), 'utf8');
    assert.equal(await outputOf(command), output);
    assert.equal(await readFile(rowsFile(), 'utf8'), rows);
  });

  test('says on standard error what it started, and Ctrl-C ends it with one line', async () => {
    const child = start(command.map((arg) => (arg === batch_id ? 'interrupted' : arg)));
    const ended = once(child, 'close');
    let errors = '';
    child.stderr.setEncoding('utf8').on('data', (piece: string) => {
      errors += piece;
      // Only once: another one would meet the interpreter as it ends.
      if (!child.killed && errors.includes('started')) child.kill('SIGINT');
    });
    const output = text(child.stdout);
    assert.deepEqual(await ended, [1, null], errors);
    assert.equal(await output, '');
    assert.match(
      errors,
      /^started rolloutBatch interrupted on \S+, namespace \S+, task queue \S+\n/,
    );
    assert.match(errors, /interrupted: the batch continues, and the same command joins it\n$/);
    assert.doesNotMatch(errors, /Traceback|Error/);
  });

  test('refuses rows without logprobs, in which what the policy sampled is marked all the same', async () => {
    const request = path.join(bed.directory, 'without.json');
    const given = JSON.parse(await readFile(path.join(bed.directory, REQUEST), 'utf8')) as Request;
    const generation = { ...given.generation, include_logprobs: false };
    await writeFile(request, JSON.stringify({ ...given, generation, limit: 1 }));
    const id = 'without-logprobs';
    const own = new Map([
      [batch_id, id],
      [path.join(bed.directory, REQUEST), request],
    ]);
    const { code, errors } = await ranWith(command.map((arg) => own.get(arg) ?? arg));
    assert.notEqual(code, 0);
    assert.match(
      errors,
      /ValueError: without-logprobs\/0-0: expected a logprob of each sampled token, got none/,
    );
    const rows = await readRows(path.join(bed.store_root, id, 'rollouts.jsonl'));
    assert.equal(rows.length, 4);
    for (const { message_log, assistant_tokens } of rows) {
      const marked = message_log.filter(({ sampled }) => sampled === true);
      const tokens = marked.flatMap(({ token_ids }) => token_ids);
      assert.ok(assistant_tokens > 0 && tokens.length === assistant_tokens);
    }
  });

  const streamTrainer = (): Running => {
    const { address, namespace } = bed.server;
    const env = { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace };
    return start([path.join(bed.directory, 'trainer', 'stream.py')], { env, cwd: bed.directory });
  };

  test('on a stream, killed and started again continues after its last checkpoint', async () => {
    // Its checkpoints are beside the script.
    const script = path.join(bed.directory, 'trainer', 'stream.py');
    await mkdir(path.dirname(script));
    await copyFile(path.join(TRAINER_EXAMPLE, 'stream.py'), script);
    const killed = streamTrainer();
    const ended = once(killed, 'close');
    const checkpoint = path.join(bed.directory, 'trainer', 'checkpoints', '1.json');
    await eventually('a checkpoint', () => existsSync(checkpoint));
    killed.kill('SIGKILL');
    assert.deepEqual(await ended, [null, 'SIGKILL']);
    const { output, errors, code } = await ending(streamTrainer());
    assert.equal(code, 0, errors);
    assert.match(
      output,
      /^run-1: [12] of 3 steps have a checkpoint in \/.*\/trainer\/checkpoints\nClient\(\S+, namespace \S+, task queue 'rollouts'\)\nstep [12]: /,
    );
    assert.match(output, /\n3\.json: mean reward \d\.\d{3}, \d+ tokens\n$/);
    assert.doesNotMatch(output, /^1\.json/m);
    const rows = await readRows(path.join(bed.store_root, 'run-1', 'steps', '2', 'rollouts.jsonl'));
    assert.equal(rows.length, ROLLOUTS);
    const versions = rows.flatMap(({ policy_versions }) => policy_versions);
    assert.ok(versions.length > 0 && versions.every(({ version }) => Number(version) >= 1));
  });

  test('on a stream, started again when all steps are taken says so, and starts nothing', async () => {
    const handle = bed.server.client.workflow.getHandle('run-1');
    const before = await handle.describe();
    const { output, errors, code } = await ending(streamTrainer());
    assert.equal(code, 0, errors);
    assert.match(output, /\nrun-1: all steps are taken\n$/);
    const { runId, status } = await handle.describe();
    assert.deepEqual([runId, status.name], [before.runId, 'COMPLETED']);
  });

  test('where no server is ends with one line', async () => {
    const nowhere = { TEMPORAL_ADDRESS: '127.0.0.1:1', TEMPORAL_NAMESPACE: 'default' };
    const script = path.join(bed.directory, 'trainer', 'stream.py');
    const { errors, code } = await ending(start([script], { env: nowhere, cwd: bed.directory }));
    assert.match(errors, /^no Temporal server at 127\.0\.0\.1:1; .*\n$/);
    assert.equal(code, 1);
  });

  test('on a stream, without its checkpoints trains on the same rows again, and publishes nothing', async () => {
    await rm(path.join(bed.directory, 'trainer', 'checkpoints'), { recursive: true });
    const { output, errors, code } = await ending(streamTrainer());
    assert.equal(code, 0, errors);
    assert.match(output, /\n3\.json: mean reward \d\.\d{3}, \d+ tokens\n$/);
    assert.doesNotMatch(output, /its weights are version/);
  });

  test('on a new stream, publishes above what is served', async () => {
    const folder = path.join(bed.directory, 'another');
    await mkdir(folder);
    const script = await readFile(path.join(TRAINER_EXAMPLE, 'stream.py'), 'utf8');
    await writeFile(path.join(folder, 'stream.py'), script.replace('"run-1"', '"run-2"'));
    const { address, namespace } = bed.server;
    const env = { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace };
    const { output, errors, code } = await ending(start(['stream.py'], { env, cwd: folder }));
    assert.equal(code, 0, errors);
    const versions = [...output.matchAll(/its weights are version (\d+)/g)].map(([, one]) =>
      Number(one),
    );
    assert.ok(versions.length === 2 && versions.every((one) => one > 2), output);
    assert.match(output, /\n3\.json: mean reward /);
  });
});
