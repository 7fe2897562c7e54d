/** Reports: what their files have, and what no text in them can do. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { lineText } from '../../src/model/journal.js';
import type {
  ReportDocument,
  RolloutDocument,
  RolloutEntry,
  RolloutFacts,
  RunDocument,
} from '../../viewer/documents.js';
import { escapedJson } from '../../viewer/report/blocks.js';
import type { ReportOptions, Target } from '../../viewer/report/report.js';
import { writeReport } from '../../viewer/report/report.js';
import { author, wholeTurn } from '../fakes/journal-lines.js';
import { BATCH, temporaryFolder } from '../fakes/temporary-store.js';
import type { Journals } from './journals.js';
import { storeOf } from './journals.js';

const a = author('a');
const BUNDLE = {
  js: 'document.title = "</script><!--<SCRIPT>";',
  css: 'b { content: "</style>" }',
};
const WHOLE: Target = { id: BATCH, steps: null, row: null, repeat: null };

/** What would run, or end a block, wherever it is not escaped. */
const HOSTILE = '</script><script>alert(1)</script><!--<script> \u2028 \ud800 ${x} "quoted" \u202e';
const played = (text: string) => [
  a.claim(),
  a.start({ prompt: [{ role: HOSTILE, content: HOSTILE, token_ids: [1] }] }),
  ...wholeTurn(a, { ids: [1], message: { role: 'environment', content: text } }),
];

async function written(
  t: TestContext,
  {
    journals,
    targets = [WHOLE],
    ...given
  }: Partial<ReportOptions> & { journals: Journals; targets?: Target[] },
) {
  const { store } = await storeOf(t, journals);
  const folder = await temporaryFolder(t);
  const file = path.join(folder, 'report.html');
  const options = { store, bundle: BUNDLE, file, max_bytes: 1e6, ...given };
  const { files, rollouts } = await writeReport(targets, options);
  const pages = await Promise.all(
    files.map(async ({ name }) => readFile(path.join(folder, name), 'utf8')),
  );
  assert.deepEqual((await readdir(folder)).sort(), files.map(({ name }) => name).sort());
  for (const [at, { bytes }] of files.entries())
    assert.equal(bytes, Buffer.byteLength(pages[at] ?? ''));
  return { files, pages, rollouts, folder };
}

/** The blocks of a page as a browser cuts them: each ends at the first end of a script. */
function blocksOf(page: string): Map<string, unknown> {
  const blocks = new Map<string, unknown>();
  for (const [, type, id = '', text = ''] of page.matchAll(
    /<script type="([^"]+)" id="([^"]+)">(.*?)<\/script>/gs,
  )) {
    const json =
      type === 'application/gzip' ? gunzipSync(Buffer.from(text, 'base64')).toString() : text;
    blocks.set(id, JSON.parse(json));
  }
  return blocks;
}

describe('a report', () => {
  test('has the documents of its rollouts, whatever they say, and nothing that runs but the page', async (t) => {
    const { pages, rollouts } = await written(t, {
      journals: { '0-0': played(HOSTILE), '0-1': played('fine') },
    });
    const [page = ''] = pages;
    assert.equal(rollouts, 2);
    const blocks = blocksOf(page);
    assert.deepEqual([...blocks.keys()].sort(), [
      'facts:batch',
      'report',
      'rollout:batch/0-0',
      'rollout:batch/0-1',
      'rollouts:batch',
      'run:batch',
    ]);
    const { runs, files } = blocks.get('report') as ReportDocument;
    assert.deepEqual([runs.map(({ id }) => id), files], [[BATCH], {}]);
    assert.equal((blocks.get('run:batch') as RunDocument).begun, 2);
    assert.equal((blocks.get('rollouts:batch') as RolloutEntry[]).length, 2);
    assert.equal((blocks.get('facts:batch') as RolloutFacts[]).length, 2);
    const { prompt, calls } = blocks.get('rollout:batch/0-0') as RolloutDocument;
    // A lone surrogate is no text that UTF-8 has, and JSON keeps it.
    assert.deepEqual(prompt[0]?.parts, [{ kind: 'text', text: HOSTILE }]);
    assert.equal(calls.length, 2);
    assert.equal(page.match(/<script/gi)?.length, blocks.size + 1, 'one script beside the blocks');
    assert.equal(page.match(/<\/script/gi)?.length, blocks.size + 1);
    assert.ok(!page.includes('alert(1)'), 'texts stand packed');
  });

  test('allows the script and the style that it has, and no other thing', async (t) => {
    const { pages } = await written(t, { journals: { '0-0': played('fine') } });
    const [page = ''] = pages;
    const hashOf = (tag: string): string => {
      const [, text = ''] = new RegExp(`<${tag}>(.*?)</${tag}>`, 's').exec(page) ?? [];
      assert.notEqual(text, '');
      return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
    };
    const [, policy = ''] = /Content-Security-Policy" content="([^"]+)"/.exec(page) ?? [];
    assert.deepEqual(policy.split('; '), [
      "default-src 'none'",
      'img-src data:',
      `script-src ${hashOf('script')}`,
      `style-src ${hashOf('style')}`,
      "base-uri 'none'",
      "form-action 'none'",
    ]);
    assert.match(page, /<script>document\.title = "\\x3c\/script>\\x3c!--\\x3cSCRIPT>";<\/script>/);
  });

  test('goes on in further files, each with the same overview and no larger than it may be', async (t) => {
    const journals = Object.fromEntries(
      Array.from({ length: 12 }, (_, row) => [`${row}-0`, played(randomText(30_000))]),
    );
    const max_bytes = 150_000;
    const { files, pages } = await written(t, { journals, max_bytes });
    assert.ok(files.length > 2);
    assert.deepEqual(
      files.slice(0, 2).map(({ name }) => name),
      ['report.html', 'report-2.html'],
    );
    const all = pages.map(blocksOf);
    const overviews = all.map((blocks) =>
      JSON.stringify(['report', 'run:batch', 'facts:batch'].map((id) => blocks.get(id))),
    );
    assert.equal(new Set(overviews).size, 1);
    const { files: places } = all[0]?.get('report') as ReportDocument;
    assert.equal(Object.keys(places).length, 12);
    for (const [id, name] of Object.entries(places)) {
      const has = all.map((blocks) => blocks.has(`rollout:${id}`));
      assert.deepEqual(
        has,
        files.map((file) => file.name === name),
      );
    }
    for (const { bytes } of files) assert.ok(bytes <= max_bytes, `${bytes}`);
  });

  test('says how large it has to be, and leaves nothing, where its overview has no room', async (t) => {
    await assert.rejects(
      written(t, { journals: { '0-0': played('x') }, max_bytes: 1000 }),
      /--max-size: expected more than 0\.1 MB/,
    );
  });

  test('of some rollouts has these alone, and names what the store does not have', async (t) => {
    const journals = { '0-0': played('x'), '0-1': played('y'), '1-0': played('z') };
    const of = async (...targets: Target[]) => {
      const { pages } = await written(t, { journals, targets });
      const ids = [...blocksOf(pages[0] ?? '').keys()];
      return ids.filter((id) => id.startsWith('rollout:')).sort();
    };
    assert.deepEqual(await of({ ...WHOLE, row: 0 }), ['rollout:batch/0-0', 'rollout:batch/0-1']);
    assert.deepEqual(await of({ ...WHOLE, row: 0, repeat: 1 }, { ...WHOLE, row: 1, repeat: 0 }), [
      'rollout:batch/0-1',
      'rollout:batch/1-0',
    ]);
    await assert.rejects(of({ ...WHOLE, row: 7 }), /batch: expected rollouts of row 7, got none/);
    await assert.rejects(of({ ...WHOLE, id: 'other' }), /no batch or stream other in /);
  });

  test('that cannot be written whole leaves no file', async (t) => {
    const { store, fileOf } = await storeOf(t, { '0-0': played('x') });
    await writeFile(fileOf('0-1'), `${lineText(a.claim())}{"kind":"of-later","writer":"a"}\n`);
    const folder = await temporaryFolder(t);
    const file = path.join(folder, 'report.html');
    await assert.rejects(
      writeReport([WHOLE], { store, bundle: BUNDLE, file, max_bytes: 1e6 }),
      /a later version wrote it/,
    );
    assert.deepEqual(await readdir(folder), []);
  });
});

test('JSON in a page has no letter that ends its block', () => {
  const text = escapedJson({ text: HOSTILE });
  assert.doesNotMatch(text, /[<\u2028\u2029]/);
  assert.deepEqual(JSON.parse(text), { text: HOSTILE });
});

/** What gzip makes no shorter. */
const randomText = (length: number): string => {
  let [text, seed] = ['', 1];
  while (text.length < length) {
    seed = (seed * 48_271) % 2_147_483_647;
    text += seed.toString(36);
  }
  return text;
};
