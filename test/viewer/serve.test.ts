/** The page's server: who may ask it, and what it says of a store. */
import assert from 'node:assert/strict';
import { appendFile, chmod, readFile, stat, writeFile } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { eventually, within } from '../../lab/bed/waiting.js';
import type { JournalLine } from '../../src/model/journal.js';
import { lineText } from '../../src/model/journal.js';
import type { Hit, RolloutDocument, RolloutEntry, RunDocument } from '../../viewer/documents.js';
import { startViewer } from '../../viewer/serve/serve.js';
import { addressOf, tokenIn } from '../../viewer/serve/token.js';
import { author, wholeTurn } from '../fakes/journal-lines.js';
import { BATCH, requestOf, sampleOf, temporaryFolder } from '../fakes/temporary-store.js';
import type { Journals } from './journals.js';
import { storeOf } from './journals.js';

const a = author('a');
const TOKEN = 'a-token-of-this-test';
const BUNDLE = { js: 'run()', css: 'b {}' };
const RUNNING: JournalLine[] = [a.claim(), a.start(), ...wholeTurn(a, { ids: [1] })];

interface Asked {
  method?: string;
  headers?: Record<string, string>;
  /** With the cookie. */
  known?: boolean;
}

async function viewerOf(t: TestContext, journals: Journals = { '0-0': RUNNING }) {
  const made = await storeOf(t, journals);
  const reads = { lists: new Map<string, number>(), folds: 0 };
  const store = {
    ...made.store,
    listJournals: (id: string) => {
      reads.lists.set(id, (reads.lists.get(id) ?? 0) + 1);
      return made.store.listJournals(id);
    },
    readTrajectory: (...given: Parameters<typeof made.store.readTrajectory>) => {
      reads.folds += 1;
      return made.store.readTrajectory(...given);
    },
  };
  const viewer = await startViewer({ store, bundle: BUNDLE, token: TOKEN, port: 0 });
  t.after(viewer.close);
  const { port } = new URL(viewer.url);
  const cookie = { cookie: `other=1; rollouts_${port}=${TOKEN}` };
  /** Not `fetch`, which sends no other host and no path as it is. */
  const open = (asked: string, { method = 'GET', headers = {}, known = true }: Asked = {}) =>
    new Promise<http.IncomingMessage>((resolve, reject) => {
      const given = { ...(known && cookie), ...headers };
      http
        .request({ host: '127.0.0.1', port, path: asked, method, headers: given }, resolve)
        .on('error', reject)
        .end();
    });
  const ask = async (asked: string, given?: Asked) => {
    const answer = await open(asked, given);
    let body = '';
    for await (const part of answer.setEncoding('utf8')) body += part as string;
    return { status: answer.statusCode, headers: answer.headers, body };
  };
  const json = async <T>(asked: string): Promise<T> => JSON.parse((await ask(asked)).body) as T;
  return { ...made, viewer, port, reads, open, ask, json };
}

/** The data of an event stream, one after the other. */
async function* eventsOf(
  answer: http.IncomingMessage,
): AsyncGenerator<{ name: string; data: unknown }> {
  let text = '';
  for await (const part of answer.setEncoding('utf8')) {
    const events = `${text}${part as string}`.split('\n\n');
    text = events.pop() ?? '';
    for (const event of events) {
      const [, , name = '', data = ''] = /^(event: (.*)\n)?data: (.*)$/s.exec(event) ?? [];
      yield { name, data: JSON.parse(data) as unknown };
    }
  }
}

async function nextOf<T>(
  events: AsyncGenerator<{ name: string; data: unknown }>,
  name = '',
): Promise<T> {
  for (;;) {
    const next = await within('an event', events.next());
    if (next.done === true) assert.fail('the events have ended');
    if (next.value.name === name) return next.value.data as T;
  }
}

describe('the server of the page', () => {
  test('opens its page by the token once, and by the cookie from then on', async (t) => {
    const { ask, port, viewer } = await viewerOf(t);
    const address = new URL(addressOf(viewer.url, TOKEN));
    const first = await ask(address.pathname + address.search, { known: false });
    assert.equal(first.status, 303);
    assert.equal(first.headers.location, '/');
    const [cookie = ''] = first.headers['set-cookie'] ?? [];
    assert.match(cookie, new RegExp(`^rollouts_${port}=${TOKEN}; HttpOnly; SameSite=Lax; Path=/;`));
    const page = await ask('/', { known: false, headers: { cookie: cookie.split(';')[0] ?? '' } });
    assert.equal(page.status, 200);
    assert.match(page.body, /<div id="page">/);
    assert.ok(!page.body.includes(TOKEN));
    assert.equal((await ask('/page.js')).body, BUNDLE.js);
    assert.equal((await ask('/page.css')).headers['content-type'], 'text/css; charset=utf-8');
  });

  test('says where its address is to whoever has no token, or another', async (t) => {
    const { ask, port } = await viewerOf(t);
    const others = [
      '/',
      '/page.js',
      '/api/runs',
      '/?token=x',
      `/?token=${TOKEN}x`,
      `/api/runs?token=${TOKEN}`,
    ];
    for (const asked of others) {
      const { status, body } = await ask(asked, { known: false });
      assert.equal(status, 401, asked);
      assert.match(body, /up --lines/);
      const isWrong = asked.startsWith('/?token');
      assert.match(body, isWrong ? /token in this address is not that/ : /does not know the token/);
    }
    const cookies = [`rollouts_1=${TOKEN}`, `rollouts_${port}=`, `rollouts_${port}=${TOKEN}x`];
    for (const cookie of cookies)
      assert.equal((await ask('/', { known: false, headers: { cookie } })).status, 401, cookie);
  });

  test('refuses other names of it, other origins and other sites, but for a link that opens the page', async (t) => {
    const { ask, port } = await viewerOf(t);
    const statusOf = async (headers: Record<string, string>, asked = '/api/runs') =>
      (await ask(asked, { headers })).status;
    const navigation = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
    assert.equal(await statusOf({ host: `evil.example:${port}` }), 403);
    assert.equal(await statusOf({ host: '127.0.0.1:1' }), 403);
    assert.equal(await statusOf({ host: `localhost:${port}` }), 200);
    assert.equal(await statusOf({ origin: 'http://evil.example' }), 403);
    assert.equal(await statusOf({ origin: 'null' }), 403);
    assert.equal(await statusOf({ origin: `http://127.0.0.1:${Number(port) + 1}` }), 403);
    assert.equal(await statusOf({ origin: `http://127.0.0.1:${port}` }), 200);
    for (const site of ['cross-site', 'same-site']) {
      assert.equal(await statusOf({ 'sec-fetch-site': site }), 403);
      assert.equal(await statusOf({ 'sec-fetch-site': site, ...navigation }), 403);
      assert.equal(await statusOf({ 'sec-fetch-site': site }, '/'), 403);
      assert.equal(
        await statusOf({ 'sec-fetch-site': site, ...navigation, 'sec-fetch-dest': 'iframe' }, '/'),
        403,
      );
      assert.equal(await statusOf({ 'sec-fetch-site': site, ...navigation }, '/'), 200);
    }
    assert.equal(await statusOf({ 'sec-fetch-site': 'same-origin' }), 200);
  });

  test('changes nothing: other methods are refused, and HEAD has no body', async (t) => {
    const { ask } = await viewerOf(t);
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE']) {
      const { status, headers } = await ask('/api/runs', { method });
      assert.deepEqual([status, headers.allow], [405, 'GET, HEAD'], method);
    }
    for (const asked of ['/', '/api/runs', '/api/runs/batch/facts', '/api/runs/batch/follow'])
      assert.deepEqual(
        await ask(asked, { method: 'HEAD' }).then(({ status, body }) => [status, body]),
        [200, ''],
        asked,
      );
  });

  test('sends the same strict headers with every answer', async (t) => {
    const { ask } = await viewerOf(t);
    for (const [asked, known] of [
      ['/', true],
      ['/', false],
      ['/api/runs', true],
      ['/none', true],
      ['/api/runs/batch/facts', true],
    ] as const) {
      const { headers } = await ask(asked, { known });
      assert.match(
        headers['content-security-policy'] as string,
        /^default-src 'none'; .*script-src 'self'.*frame-ancestors 'none'/,
      );
      assert.equal(headers['x-content-type-options'], 'nosniff');
      assert.equal(headers['referrer-policy'], 'no-referrer');
      assert.equal(headers['cache-control'], 'no-store');
    }
  });

  test('leads nowhere but to ids of the store', async (t) => {
    const { ask, root } = await viewerOf(t);
    await writeFile(path.join(root, 'batch.json'), '{}');
    const nowhere = [
      '/../batch.json',
      '/..%2fbatch.json',
      '/api/runs/..',
      '/api/runs/..%2f..%2fetc',
      '/api/runs/batch%2f..',
      '/api/runs/none',
      '/api/rollouts/batch/0',
      '/api/rollouts/batch/0-0/../..',
      '/api/rollouts/batch/0-0%00',
      '/api/rollouts/batch/9-9',
      '/api/rollouts/batch/99999999999999999999-0',
      '/api/rollouts/../0-0',
      '/api/nothing/batch',
      '//evil.example/',
      '/page.js/',
      '/favicon.ico',
    ];
    for (const asked of nowhere) {
      const { status, body } = await ask(asked);
      assert.deepEqual([status, body], [404, 'the store has no such run or rollout'], asked);
    }
    assert.equal((await ask('/api/runs/%zz')).status, 400);
    assert.equal((await ask('*')).status, 400);
  });

  test('has runs, their rollouts, facts and what is found in them', async (t) => {
    const { ask, json } = await viewerOf(t);
    assert.deepEqual(
      (await json<RunDocument[]>('/api/runs')).map(({ id }) => id),
      [BATCH],
    );
    assert.equal((await json<RunDocument>('/api/runs/batch')).begun, 1);
    assert.equal((await json<RolloutDocument>('/api/rollouts/batch/0-0')).id, 'batch/0-0');
    const lines = async (asked: string) =>
      (await ask(asked)).body
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as unknown);
    for (const what of ['rollouts', 'facts'])
      assert.deepEqual((await lines(`/api/runs/batch/${what}`)).flat().length, 1, what);
    const [hits] = (await lines('/api/search/batch?q=SEEN')) as Hit[][];
    assert.deepEqual(
      hits?.map(({ place, found }) => [place, found]),
      [['observation 0', 'seen']],
    );
    assert.deepEqual(await lines('/api/search/batch?q=absent'), [[]]);
    assert.deepEqual(await lines('/api/search/batch'), []);
  });

  test('tells who follows of each change, and reads for all of them what it reads for one', async (t) => {
    const { open, fileOf, reads } = await viewerOf(t);
    const pages = 20;
    const followed = await Promise.all(
      Array.from({ length: pages }, async () =>
        eventsOf(await open('/api/rollouts/batch/0-0/follow')),
      ),
    );
    const textOf = ({ calls }: RolloutDocument): string =>
      calls.flatMap(({ answer }) => answer.tokens.pieces.map(({ text }) => text)).join('');
    for (const events of followed) assert.equal(textOf(await nextOf(events)), '');
    assert.equal(reads.folds, 1);
    await appendFile(fileOf('0-0'), lineText(a.chunk({ turn: 1, token_ids: [5], text: 'more' })));
    for (const events of followed) assert.equal(textOf(await nextOf(events)), 'more');
    assert.equal(reads.folds, 2);
    const list = eventsOf(await open('/api/runs/batch/follow'));
    assert.equal((await nextOf<RunDocument>(list, 'run')).id, BATCH);
    assert.deepEqual(
      (await nextOf<RolloutEntry[]>(list)).map(({ turns }) => turns),
      [2],
    );
    await writeFile(fileOf('0-1'), RUNNING.map(lineText).join(''));
    assert.deepEqual(
      (await nextOf<RolloutEntry[]>(list)).map(({ repeat }) => repeat),
      [1],
    );
  });

  test('tells who follows what has ended that nothing more will come', async (t) => {
    const { open } = await viewerOf(t, { '0-0': [...RUNNING, a.end()] });
    const rollout = eventsOf(await open('/api/rollouts/batch/0-0/follow'));
    assert.equal((await nextOf<RolloutDocument>(rollout)).entry.ended, 'terminated');
    assert.equal(await nextOf(rollout, 'over'), null);
  });

  test('asks the store for nothing more when those who followed are gone', async (t) => {
    const { open, reads, store } = await viewerOf(t);
    await store.createBatch({ batch_id: 'other', request: requestOf(), samples: [sampleOf('go')] });
    const looks = (id: string): number => reads.lists.get(id) ?? 0;
    const [gone, stays] = await Promise.all(
      [BATCH, 'other'].map((id) => open(`/api/runs/${id}/follow`)),
    );
    await eventually('two looks at both', () => looks(BATCH) > 1 && looks('other') > 1);
    gone?.destroy();
    // One look may be on its way.
    const [before, from] = [looks(BATCH) + 1, looks('other')];
    await eventually('three more looks at the other', () => looks('other') > from + 2);
    assert.ok(looks(BATCH) <= before);
    stays?.destroy();
  });

  test('ends while pages follow', async (t) => {
    const { open, viewer } = await viewerOf(t);
    const answer = await open('/api/runs/batch/follow');
    await nextOf(eventsOf(answer));
    answer.on('error', () => undefined);
    await within('the end', viewer.close());
  });

  test('says what is wrong with a store, without an end to its page', async (t) => {
    const { ask, fileOf } = await viewerOf(t);
    await writeFile(fileOf('0-0'), '{"kind":"of-later","writer":"a"}\n');
    const { status, body } = await ask('/api/rollouts/batch/0-0');
    assert.equal(status, 503);
    assert.match(body, /a later version wrote it/);
    assert.equal((await ask('/')).status, 200);
  });
});

describe('the token of a folder', () => {
  test('is the same at each start, and only its user reads it', async (t) => {
    const folder = path.join(await temporaryFolder(t), 'stack');
    const [one, other] = await Promise.all([tokenIn(folder), tokenIn(folder)]);
    assert.equal(one, other);
    assert.match(one, /^[\w-]{32}$/);
    const file = path.join(folder, 'viewer-token');
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.equal((await readFile(file, 'utf8')).trim(), await tokenIn(folder));
  });

  test('is refused where others may read it, or it is none', async (t) => {
    const folder = await temporaryFolder(t);
    await tokenIn(folder);
    const file = path.join(folder, 'viewer-token');
    await chmod(file, 0o644);
    await assert.rejects(
      tokenIn(folder),
      /viewer-token: expected a file of this user that nobody else may read, got mode 644/,
    );
    await chmod(file, 0o600);
    await writeFile(file, 'short');
    await assert.rejects(tokenIn(folder), /expected a token of 16 letters or more/);
  });
});
