import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { link, mkdir, readFile, readdir, stat, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { collectRollouts } from '../../collection/collect.js';
import { RolloutCollectionConfig } from '../../config/schemas.js';
import { createScreen } from '../../../src/client/screen.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';

const ROWS = '{"responses_create_params":{"input":[]},"agent_ref":{"name":"a"}}\n';

/** A folder with `in.jsonl`, and a collection in it that is refused: what it says. */
async function bed(t: TestContext) {
  const { path: cwd, remove } = await makeTemporaryDirectory('paths');
  t.after(remove);
  const at = (name: string): string => path.join(cwd, name);
  await writeFile(at('in.jsonl'), ROWS);
  const screen = createScreen({ write: () => true, on: () => null, off: () => null }, {});
  const refusal = async (
    config: { input?: string; output?: string; prompt_config?: string },
    settings: { folder?: string } = {},
  ): Promise<string> => {
    const { input = 'in.jsonl', output = 'out.jsonl', ...rest } = config;
    const fields = { input_jsonl_fpath: input, output_jsonl_fpath: output, ...rest };
    const request = {
      config: RolloutCollectionConfig.parse(fields),
      head_server: 'http://127.0.0.1:1',
      settings: {
        ...{ config: null, environment: null, batch_id: null, run_timeout: null },
        ...{ rollout_timeout: '7d', replace: false, folder: at(settings.folder ?? '.rollouts') },
      },
    };
    const signal = new AbortController().signal;
    const context = { cwd, env: {}, screen, signal, giveUp: () => assert.fail('gave up') };
    const before = await readdir(cwd);
    try {
      await collectRollouts(request, context);
    } catch (error) {
      assert.deepEqual(await readdir(cwd), before, 'a file was made or removed');
      assert.equal(await readFile(at('in.jsonl'), 'utf8'), ROWS, 'the data set was touched');
      return String(error);
    }
    return assert.fail('it was not refused');
  };
  return { at, refusal };
}

describe('an input that the collection would write over is refused', () => {
  test('as its results, however it is written', async (t) => {
    const { refusal, at } = await bed(t);
    const expected =
      /input_jsonl_fpath: expected a file that this collection does not write, got 'in\.jsonl', which is where the results of this output_jsonl_fpath would be written: name another output file/;
    assert.match(await refusal({ output: 'in.jsonl' }), expected);
    assert.match(await refusal({ output: at('in.jsonl') }), expected);
    assert.match(await refusal({ output: './nowhere/../in.jsonl' }), expected);
  });

  test('as a file beside them', async (t) => {
    const { refusal, at } = await bed(t);
    await writeFile(at('x_materialized_inputs.jsonl'), ROWS);
    await writeFile(at('x_failures.jsonl'), ROWS);
    for (const input of ['x_materialized_inputs.jsonl', 'x_failures.jsonl']) {
      assert.match(await refusal({ input, output: 'x.jsonl' }), new RegExp(`where '${input}' of`));
    }
  });

  test('by a link to it', async (t) => {
    const { refusal, at } = await bed(t);
    await symlink(at('in.jsonl'), at('soft.jsonl'));
    await link(at('in.jsonl'), at('hard.jsonl'));
    for (const output of ['soft.jsonl', 'hard.jsonl']) {
      assert.match(await refusal({ output }), /where the results of this output_jsonl_fpath/);
    }
  });

  test('as is a prompt', async (t) => {
    const { refusal, at } = await bed(t);
    await writeFile(at('prompt.yaml'), 'user: "{question}"\n');
    const said = await refusal({ prompt_config: 'prompt.yaml', output: 'prompt.yaml' });
    assert.match(said, /prompt_config: expected a file that this collection does not write/);
    assert.ok(existsSync(at('prompt.yaml')));
  });
});

describe('a path that cannot be used is refused by its field', () => {
  test('an output that is empty, a folder, or below a file', async (t) => {
    const { refusal, at } = await bed(t);
    await mkdir(at('folder'));
    const expected = 'Error: output_jsonl_fpath: expected the path of a file to write, got ';
    assert.equal(await refusal({ output: '' }), `${expected}''`);
    assert.equal(await refusal({ output: 'folder' }), `${expected}'folder', a folder`);
    assert.match(
      await refusal({ output: 'in.jsonl/deep/out.jsonl' }),
      /^Error: output_jsonl_fpath: expected a path whose folder can be written to, got 'in\.jsonl\/deep\/out\.jsonl' \(.*in\.jsonl is no folder\)$/,
    );
  });

  test('an output that is a device or a pipe, or has one beside it: it would be removed', async (t) => {
    const { refusal, at } = await bed(t);
    await promisify(execFile)('mkfifo', [at('pipe'), at('x_failures.jsonl')]);
    await symlink('/dev/null', at('null'));
    await mkdir(at('y_collection.json'));
    const expected = 'Error: output_jsonl_fpath: expected the path of a file to write, got ';
    assert.equal(await refusal({ output: '/dev/null' }), `${expected}'/dev/null', a device`);
    assert.equal(await refusal({ output: 'null' }), `${expected}'null', a device`);
    assert.equal(await refusal({ output: 'pipe' }), `${expected}'pipe', a pipe`);
    const beside = `a pipe ('x_failures.jsonl' is written beside it)`;
    assert.equal(await refusal({ output: 'x.jsonl' }), `${expected}'x.jsonl', ${beside}`);
    assert.match(
      await refusal({ output: 'y.jsonl' }),
      /'y\.jsonl', a folder \('y_collection\.json'/,
    );
    assert.ok((await stat('/dev/null')).isCharacterDevice());
  });

  test('an input without an end', async (t) => {
    const { refusal } = await bed(t);
    const expected = 'Error: input_jsonl_fpath: expected the path of a file, got ';
    assert.equal(await refusal({ input: '/dev/zero' }), `${expected}'/dev/zero', a device`);
  });

  test('an input that is empty or a folder', async (t) => {
    const { refusal, at } = await bed(t);
    await mkdir(at('folder'));
    const expected = 'Error: input_jsonl_fpath: expected the path of a file, got ';
    assert.equal(await refusal({ input: '' }), `${expected}''`);
    assert.equal(await refusal({ input: 'folder' }), `${expected}'folder', a folder`);
  });

  test('a place for the Temporal server where nothing can be written', async (t) => {
    const { refusal } = await bed(t);
    assert.match(
      await refusal({}, { folder: 'in.jsonl/.rollouts' }),
      /^Error: --folder: expected a path whose folder can be written to, got '.*in\.jsonl\/\.rollouts' \(.*in\.jsonl is no folder\): name another with --folder DIR$/,
    );
  });
});
