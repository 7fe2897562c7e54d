import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { lookAt } from '../../src/activities/policy/weight-files.js';
import { isOther } from '../../src/model/policy/target.js';
import { temporaryFolder } from '../fakes/temporary-store.js';

const LARGE = 2 ** 20 + 1;
const TIME = new Date('2026-01-02T03:04:05.000Z');

/** Files by name, all written at one time. */
async function folderOf(t: TestContext, files: Record<string, string | number>): Promise<string> {
  const folder = await temporaryFolder(t);
  for (const [name, content] of Object.entries(files))
    await put(path.join(folder, name), { content });
  return folder;
}

async function put(
  file: string,
  { content, at = TIME }: { content: string | number; at?: Date },
): Promise<void> {
  await writeFile(file, typeof content === 'number' ? Buffer.alloc(content) : content);
  await utimes(file, at, at);
}

async function seen(place: string) {
  const { files, why } = await lookAt(place);
  assert.ok(files !== null, why ?? '');
  return files;
}

const CHECKPOINT = {
  'model-00001-of-00002.safetensors': LARGE,
  'model-00002-of-00002.safetensors': LARGE,
  'model.safetensors.index.json': '{"weight_map": {}}',
};

describe('the files of a checkpoint', () => {
  test('are seen with their size, their time, and whose worker saw them', async (t) => {
    const folder = await folderOf(t, CHECKPOINT);
    const { sha256, ...files } = await seen(folder);
    assert.match(sha256, /^[0-9a-f]{64}$/);
    const bytes = 2 * LARGE + CHECKPOINT['model.safetensors.index.json'].length;
    const expected = { bytes, modified: TIME.toISOString(), whole: false, host: hostname() };
    assert.deepEqual(files, expected);
  });

  for (const [what, change] of [
    [
      'a shard was written again',
      (folder: string) =>
        put(path.join(folder, 'model-00001-of-00002.safetensors'), {
          content: LARGE,
          at: new Date(),
        }),
    ],
    [
      'a shard has another size',
      (folder: string) =>
        put(path.join(folder, 'model-00001-of-00002.safetensors'), { content: LARGE + 1 }),
    ],
    [
      'a shard is gone',
      (folder: string) => rm(path.join(folder, 'model-00002-of-00002.safetensors')),
    ],
    [
      'a shard has another name',
      (folder: string) =>
        rename(
          path.join(folder, 'model-00002-of-00002.safetensors'),
          path.join(folder, 'model-00003-of-00002.safetensors'),
        ),
    ],
    [
      'the index says something else',
      (folder: string) =>
        put(path.join(folder, 'model.safetensors.index.json'), { content: '{"weight_map": []}' }),
    ],
  ] as const)
    test(`are others once ${what}`, async (t) => {
      const folder = await folderOf(t, CHECKPOINT);
      const before = await seen(folder);
      assert.ok(!isOther(before, await seen(folder)));
      await change(folder);
      assert.ok(isOther(before, await seen(folder)));
    });

  test('are the same while other files come and go: an optimizer’s state, a tokenizer, a lock', async (t) => {
    for (const weights of [
      { 'model.safetensors': LARGE },
      { 'pytorch_model.bin': 'small' },
      { 'consolidated.pt': 'x' },
    ]) {
      const folder = await folderOf(t, weights);
      const before = await seen(folder);
      for (const name of [
        'optimizer.pt',
        'optimizer.bin',
        'training_args.bin',
        'trainer_state.json',
        '.lock',
      ])
        await put(path.join(folder, name), { content: 'more', at: new Date() });
      await mkdir(path.join(folder, 'global_step_1'));
      assert.deepEqual(await seen(folder), before);
    }
  });

  test('are read where they are small, so another time is no other content', async (t) => {
    const folder = await folderOf(t, { 'weights.json': '{"seed": 1}' });
    const file = path.join(folder, 'weights.json');
    const before = await seen(file);
    await put(file, { content: '{"seed": 1}', at: new Date() });
    assert.ok(!isOther(before, await seen(file)));
    await put(file, { content: '{"seed": 2}' });
    assert.ok(isOther(before, await seen(file)));
  });
});

test('what cannot be seen from here is said, and holds nobody up', async (t) => {
  const folder = await folderOf(t, { 'README.md': 'none' });
  const pipe = path.join(folder, 'pipe');
  assert.equal(spawnSync('mkfifo', [pipe]).status, 0);
  const missing = path.join(folder, 'missing');
  const cases: [string, RegExp][] = [
    [missing, /^cannot be read \(ENOENT: /],
    [folder, /^is a folder without \.safetensors, /],
    [pipe, /^is neither a file nor a folder of files$/],
    ['org/model', /^is no absolute path$/],
    ['s3:/bucket/model', /^is no absolute path$/],
  ];
  for (const [place, why] of cases) {
    const look = await lookAt(place);
    assert.equal(look.files, null);
    assert.match(look.why, why);
  }
});
