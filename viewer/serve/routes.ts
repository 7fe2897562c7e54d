import { follow, SELDOM } from '../../src/client/follow.js';
import type { RolloutRef } from '../../src/model/batch-request.js';
import { BATCH_ID, placeText, rolloutId } from '../../src/model/workflow-safe/rollout-id.js';
import { allOf, inLists } from '../../src/platform/waits/several-at-once.js';
import type { RolloutEntry, RunDocument } from '../documents.js';
import { readDocument } from '../read/rollout.js';
import type { RunReader, RunStore } from '../read/runs.js';
import { createRunReader, listRuns } from '../read/runs.js';
import type { Bundle } from '../shell.js';
import { SERVED_SHELL } from '../shell.js';
import type { Answering } from './answers.js';
import { answer, answerJson, answerLines, beginEvents, sendEvent } from './answers.js';
import { createRecent } from './recent.js';

/** What is asked of the store, by path. */

/** What is known of a whole batch changes seldom, and its result may be far away. */
const WHOLE_MS = 10_000;
/** Runs whose journals are remembered, so that only those that grow are read again. */
const MOST_READERS = 8;
const MOST_WORDS = 200;

/** Nothing of a path reaches the store but ids that it would accept. */
export function createRoutes({ store, bundle }: { store: RunStore; bundle: Bundle }) {
  const recent = createRecent();
  const seldom = createRecent(WHOLE_MS);
  const readers = new Map<string, RunReader>();
  const readerOf = (id: string): RunReader => {
    const reader = readers.get(id) ?? createRunReader(store, id);
    readers.delete(id);
    readers.set(id, reader);
    for (const oldest of readers.keys()) {
      if (readers.size <= MOST_READERS) break;
      readers.delete(oldest);
    }
    return reader;
  };
  const given: Given = { store, recent, seldom, readerOf };
  return async ({ pathname, searchParams }: URL, to: Answering): Promise<void> => {
    const [first = '', ...rest] = pathname.slice(1).split('/').map(decodeURIComponent);
    if (rest.length === 0) {
      if (first === '') answer(to, { type: 'html', body: SERVED_SHELL });
      else if (first === 'page.js') answer(to, { type: 'js', body: bundle.js });
      else if (first === 'page.css') answer(to, { type: 'css', body: bundle.css });
      else notFound(to);
      return;
    }
    const [what = '', id = '', ...of] = rest;
    if (first === 'api' && what === 'runs' && id === '')
      answerJson(to, await recent('runs', async () => JSON.stringify(await listRuns(store))));
    else if (first !== 'api' || !BATCH_ID.test(id)) notFound(to);
    else if (what === 'rollouts') await answerRollout({ id, of }, { ...given, to });
    else await answerRun({ what, id, of, words: searchParams.get('q') ?? '' }, { ...given, to });
  };
}

interface Given {
  store: RunStore;
  recent: ReturnType<typeof createRecent>;
  seldom: ReturnType<typeof createRecent>;
  readerOf: (id: string) => RunReader;
}

type To = Given & { to: Answering };

const notFound = (to: Answering): void => {
  answer(to, { status: 404, type: 'text', body: 'the store has no such run or rollout' });
};

async function answerRun(
  { what, id, of, words }: { what: string; id: string; of: readonly string[]; words: string },
  { to, ...given }: To,
): Promise<void> {
  const { store, recent, readerOf } = given;
  if ((await store.findRequest(id)) === null) {
    notFound(to);
    return;
  }
  const reader = readerOf(id);
  const which = [what, ...of].join('/');
  if (which === 'runs')
    answerJson(to, await recent(`run ${id}`, async () => JSON.stringify(await reader.run())));
  else if (which === 'runs/rollouts') await answerLines(to, inLists(reader.entries()));
  else if (which === 'runs/facts') await answerLines(to, inLists(reader.facts()));
  else if (which === 'runs/follow') await followRun({ id, reader }, { to, ...given });
  else if (which === 'search') await answerLines(to, reader.search(words.slice(0, MOST_WORDS)));
  else notFound(to);
}

/** First all rollouts, then those that have changed. */
async function followRun(
  { id, reader }: { id: string; reader: RunReader },
  { to, recent, seldom }: To,
): Promise<void> {
  const wholeRun = () => seldom(`whole ${id}`, reader.run);
  const look = () =>
    recent(`list ${id}`, async () => {
      const run = await wholeRun();
      const entries = await allOf(reader.entries());
      const is_over = run?.is_closed === true && entries.every(({ ended }) => ended !== null);
      return { run, entries, is_over };
    });
  const sent = new Map<string, string>();
  const news = (key: string, text: string): boolean =>
    sent.get(key) !== text && Boolean(sent.set(key, text));
  const sendRun = (run: RunDocument | null): void => {
    const text = JSON.stringify(run);
    if (news('run', text)) sendEvent(to, `event: run\ndata: ${text}`);
  };
  const sendEntries = (entries: readonly RolloutEntry[]): void => {
    const changed = entries
      .map((entry) => ({ key: placeText(entry), text: JSON.stringify(entry) }))
      .filter(({ key, text }) => news(key, text));
    if (changed.length > 0) sendEvent(to, `data: [${changed.map(({ text }) => text).join(',')}]`);
  };
  beginEvents(to);
  if (to.is_head) return;
  sendRun(await wholeRun());
  for await (const entries of inLists(reader.entries())) {
    if (to.signal.aborted) return;
    sendEntries(entries);
  }
  const is_over = await follow({
    look,
    draw: ({ run, entries, is_over }) => {
      if (to.response.writableNeedDrain) return false;
      sendRun(run);
      sendEntries(entries);
      return is_over;
    },
    signal: to.signal,
    ...SELDOM,
  });
  if (is_over) sendEvent(to, OVER);
}

const OVER = 'event: over\ndata: null';

async function answerRollout(
  { id, of: [place = '', ...more] }: { id: string; of: readonly string[] },
  { to, ...given }: To,
): Promise<void> {
  const [, row, repeat] = /^(\d{1,9})-(\d{1,9})$/.exec(place) ?? [];
  const which = more.join('/');
  if (row === undefined || repeat === undefined || !['', 'follow'].includes(which)) {
    notFound(to);
    return;
  }
  const ref = { batch_id: id, row: Number(row), repeat: Number(repeat) };
  if (which === 'follow') {
    await followRollout(ref, { to, ...given });
    return;
  }
  const { text, size } = await readNow(ref, given);
  if (size === 0) notFound(to);
  else answerJson(to, text);
}

interface Now {
  size: number;
  text: string;
  has_ended: boolean;
}

/** Its document as it is; each of its states is read once, however many look at it. */
async function readNow(ref: RolloutRef, { store, recent }: Given): Promise<Now> {
  const size = await sizeOf(ref, { store, recent });
  return await recent(`rollout ${rolloutId(ref)} ${size}`, async () => {
    const document = await readDocument(ref, store);
    return { size, text: JSON.stringify(document), has_ended: document.entry.ended !== null };
  });
}

const sizeOf = (
  ref: RolloutRef,
  { store, recent }: Pick<Given, 'store' | 'recent'>,
): Promise<number> => recent(`size ${rolloutId(ref)}`, () => store.journalSize(ref));

/** Its document, whenever its journal has grown. */
async function followRollout(ref: RolloutRef, { to, ...given }: To): Promise<void> {
  let known = -1;
  beginEvents(to);
  const is_over = await follow({
    look: async (): Promise<Now | null> =>
      (await sizeOf(ref, given)) === known ? null : await readNow(ref, given),
    draw: (now) => {
      if (now === null || to.response.writableNeedDrain) return false;
      known = now.size;
      sendEvent(to, `data: ${now.text}`);
      return now.has_ended;
    },
    signal: to.signal,
    ...SELDOM,
  });
  if (is_over) sendEvent(to, OVER);
}
