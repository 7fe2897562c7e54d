import assert from 'node:assert/strict';
import { symlink } from 'node:fs/promises';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { findInHub, howToDownload, hubCache, hubPage, pathOf } from '../../src/platform/hub.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { cacheOf } from './hub-cache.js';

const COMMIT = 'a'.repeat(40);

async function cache(t: TestContext): Promise<string> {
  const directory = await makeTemporaryDirectory('hub');
  t.after(directory.remove);
  const own = 'datasets--org--set.v1';
  await cacheOf(directory.path, {
    [`${own}/refs/main`]: COMMIT,
    [`${own}/refs/refs/convert/parquet`]: 'b',
    [`${own}/blobs/1`]: '{}',
    [`${own}/snapshots/${COMMIT}/README.md`]: '',
    [`${own}/snapshots/b/train/0.parquet`]: '',
    'models--org--bert/refs/main': `${COMMIT}\n`,
    [`models--org--bert/snapshots/${COMMIT}/vocab.txt`]: '[UNK]',
  });
  const snapshot = path.join(directory.path, own, 'snapshots', COMMIT);
  await symlink('../../blobs/1', path.join(snapshot, 'all.jsonl'));
  await symlink('../../blobs/2', path.join(snapshot, 'lost.jsonl'));
  return directory.path;
}

describe('a name of the Hub', () => {
  test('is a file or folder of its cache, by branch, commit or other reference', async (t) => {
    const folder = await cache(t);
    const cases: [name: string, found: string][] = [
      ['datasets/org/set.v1/all.jsonl', `datasets--org--set.v1/snapshots/${COMMIT}/all.jsonl`],
      ['datasets/org/set.v1', `datasets--org--set.v1/snapshots/${COMMIT}`],
      [`datasets/org/set.v1@${COMMIT}`, `datasets--org--set.v1/snapshots/${COMMIT}`],
      [
        'datasets/org/set.v1@refs%2Fconvert%2Fparquet/train/',
        'datasets--org--set.v1/snapshots/b/train',
      ],
      ['org/bert/vocab.txt', `models--org--bert/snapshots/${COMMIT}/vocab.txt`],
    ];
    for (const [name, found] of cases) {
      const env = { HF_HUB_CACHE: folder, HF_HUB_OFFLINE: '1' };
      assert.equal(await pathOf(`hf://${name}`, env), path.join(folder, found));
    }
    assert.equal(await pathOf('docs/a.jsonl', {}), 'docs/a.jsonl');
  });

  test('that no cache has, or whose content is gone, is said with the command that gets it', async (t) => {
    const folder = await cache(t);
    for (const name of ['lost.jsonl', 'none.jsonl']) {
      await assert.rejects(pathOf(`hf://datasets/org/set.v1/${name}`, { HF_HUB_CACHE: folder }), {
        message: `hf://datasets/org/set.v1/${name}: expected it in the cache of the Hugging Face Hub (${folder}); get it by: hf download org/set.v1 ${name} --repo-type dataset --cache-dir ${folder}`,
      });
    }
    assert.equal(await findInHub('hf://org/bert@dev', [folder]), null);
    assert.equal(
      await findInHub('hf://org/bert/vocab.txt', ['/nowhere', folder]),
      path.join(folder, `models--org--bert/snapshots/${COMMIT}/vocab.txt`),
    );
  });

  test('is downloaded from the mirror that is named, also where the Hub is switched off', () => {
    const env = {
      HF_HUB_CACHE: '/c',
      HF_ENDPOINT: 'https://mirror.example/',
      HF_HUB_OFFLINE: 'True',
    };
    const prefix = 'HF_ENDPOINT=https://mirror.example/ HF_HUB_OFFLINE=0 hf download';
    const cases: [name: string, command: string][] = [
      ['hf://datasets/o/n', `${prefix} o/n --repo-type dataset --cache-dir /c`],
      [
        'hf://datasets/o/n@v1/en',
        `${prefix} o/n --include 'en/*' --repo-type dataset --revision v1 --cache-dir /c`,
      ],
      ['hf://o/m/vocab.txt', `${prefix} o/m vocab.txt --cache-dir /c`],
    ];
    for (const [name, command] of cases) assert.equal(howToDownload(name, env), command);
    assert.equal(
      hubPage('o/n', { file: 'a.jsonl', env }),
      'https://mirror.example/datasets/o/n/resolve/main/a.jsonl',
    );
    assert.equal(hubPage('o/n', { file: null, env: {} }), 'https://huggingface.co/datasets/o/n');
  });

  test('of another form is refused', async () => {
    for (const name of [
      'hf://set',
      'hf://datasets/set',
      'hf://spaces/o/n',
      'hf://datasets/o/n/../../x',
      'hf://o/n@../x',
      'hf://datasets/',
    ])
      await assert.rejects(
        pathOf(name, {}),
        /^Error: expected hf:\/\/datasets\/ORGANISATION\/NAME.*, got hf:/,
      );
  });
});

test('the cache of the Hub is where its own programs have it', () => {
  const cases: [env: Record<string, string>, folder: string][] = [
    [{ HOME: '/h' }, '/h/.cache/huggingface/hub'],
    [{ HOME: '/h', XDG_CACHE_HOME: '/x' }, '/x/huggingface/hub'],
    [{ HOME: '/h', XDG_CACHE_HOME: '/x', HF_HOME: '~/hf' }, '/h/hf/hub'],
    [{ HOME: '/h', HF_HOME: '/hf', HF_HUB_CACHE: '' }, '/hf/hub'],
    [{ HOME: '/h', HF_HOME: '/hf', HUGGINGFACE_HUB_CACHE: '/old' }, '/old'],
    [{ HF_HOME: '/hf', HUGGINGFACE_HUB_CACHE: '/old', HF_HUB_CACHE: '/new' }, '/new'],
  ];
  for (const [env, folder] of cases) assert.equal(hubCache(env), folder);
});
