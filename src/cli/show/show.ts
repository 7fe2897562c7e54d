import { writeJson } from '../../platform/json/kept.js';
import type { Entry } from '../../client/show/entry.js';
import { isFailed } from '../../client/show/entry.js';
import { groupPage } from '../../client/show/group-page.js';
import { resultOf } from '../../client/list/find-result.js';
import type { List } from '../../client/show/list-page.js';
import { LIST_HEAD, listPage } from '../../client/show/list-page.js';
import type { Rollout } from '../../client/show/read-batch.js';
import { createBatchReader, readRollout } from '../../client/show/read-batch.js';
import { rolloutJson } from '../../client/show/rollout-json.js';
import { blocksOf, headingOf } from '../../client/show/rollout-page.js';
import { select } from '../../client/show/selection.js';
import { follow, SELDOM } from '../../client/follow.js';
import type { Screen } from '../../client/screen.js';
import { commandLine } from '../../platform/command.js';
import type { RolloutRef } from '../../model/batch-request.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { plainJson } from '../../platform/plain.js';
import type { TrajectoryStore } from '../../trajectories/trajectory-store.js';
import { meantBatch, withStoreThatAnswers } from '../store.js';
import { styleOf, withScreen, write } from '../terminal.js';
import type { ShowOptions } from './show-options.js';
import { parseShow } from './show-options.js';

/** Rollouts from their journals. No server and no worker is needed; what only a server knows is said if one answers. */
export async function showCommand(args: string[]): Promise<number> {
  const options = parseShow(args);
  await withStoreThatAnswers(options.config, ({ store }) => showFrom(store, options));
  return 0;
}

async function showFrom(store: TrajectoryStore, options: ShowOptions): Promise<void> {
  const { batch_id, place } = options;
  const reader = createBatchReader(store, batch_id);
  const requested = await reader.requested();
  if (requested === null) {
    const text = await notPlanned(options, store);
    throw new Error([text, ...(await waitingNow(options, [batch_id]))].join('; '));
  }
  const show: Show = { options, store, reader, requested };
  if (place === null) await showList(show);
  else if (place.repeat === null) await showGroup(show, place.row);
  else await showRollout(show, { row: place.row, repeat: place.repeat });
}

interface Show {
  options: ShowOptions;
  store: TrajectoryStore;
  reader: ReturnType<typeof createBatchReader>;
  requested: number;
}

const json = (value: unknown): string => plainJson(writeJson(value));

async function showList(show: Show): Promise<void> {
  const { options, reader, requested } = show;
  const look = async (): Promise<List> => {
    const entries = await reader.entries();
    if (entries.length === 0) await throwIfDeleted(show);
    const { batch_id, selection } = options;
    const shown = select(entries, selection);
    const hides_failed = selection.worst && countFailed(shown) < countFailed(entries);
    return { batch_id, entries, shown, requested, hides_failed };
  };
  if (!options.follow) {
    const list = await look();
    if (options.json) await write(list.shown.map(json));
    else {
      const waiting = isOver(list) ? [] : await waitingNow(options, [options.batch_id]);
      await write([...listPage(list, styleOf()), ...waiting.flatMap((line) => ['', line])]);
    }
    return;
  }
  await withScreen(process.stdout, async (screen, signal) => {
    const printed = new Set<string>();
    const draw = (list: List): boolean => {
      if (screen.live && !options.json) screen.show((wide) => listPage(list, wide));
      else printEnded(list, { printed, screen, options });
      return isOver(list);
    };
    await follow({ look, draw, signal, ...SELDOM });
    if (screen.live && !options.json) {
      const list = await look();
      screen.show(null);
      screen.print(listPage(list, screen.style()));
    }
  });
}

/** The Temporal client takes half a second to load. If it fails, the page is shown without this line. */
async function waitingNow({ config }: ShowOptions, ids: readonly string[]): Promise<string[]> {
  const loaded = import('./waiting-now.js').then((now) => now.waitingNow(config, ids));
  const waiting = await loaded.catch(() => null);
  return waiting === null ? [] : [waiting];
}

const isOver = ({ entries, requested }: List): boolean =>
  entries.length >= requested && entries.every(({ ended }) => ended !== null);

const workflowsOf = (ref: RolloutRef): string[] => [rolloutId(ref), ref.batch_id];

const countFailed = (entries: readonly Entry[]): number => entries.filter(isFailed).length;

/** For output that cannot be redrawn: each rollout once, when it has ended. */
function printEnded(
  list: List,
  { printed, screen, options }: { printed: Set<string>; screen: Screen; options: ShowOptions },
): void {
  for (const entry of list.shown) {
    const key = `${entry.row}-${entry.repeat}`;
    if (entry.ended === null || printed.has(key)) continue;
    printed.add(key);
    const lines = listPage({ ...list, shown: [entry], hides_failed: false }, styleOf()).slice(
      LIST_HEAD,
    );
    screen.print(options.json ? [json(entry)] : lines);
  }
}

async function showGroup(show: Show, row: number): Promise<void> {
  const { options, store, reader } = show;
  const { batch_id } = options;
  const entries = await reader.entries({ row });
  if (entries.length === 0) throw new Error(await notThere(show, { row, repeat: null }));
  if (options.json) {
    // One at a time: a group of long rollouts may be larger than memory.
    for (const { repeat } of entries) {
      const rollout = await readRollout({ batch_id, row, repeat }, store);
      await write([json(rolloutJson(rollout, options))]);
    }
    return;
  }
  const rollouts: Rollout[] = [];
  for (const { repeat } of entries)
    rollouts.push(await readRollout({ batch_id, row, repeat }, store));
  const list = { batch_id: `${batch_id}/${row}`, entries, shown: entries };
  await write([
    ...listPage({ ...list, requested: entries.length }, styleOf()),
    '',
    ...groupPage(rollouts, styleOf()),
  ]);
}

async function showRollout(show: Show, place: { row: number; repeat: number }): Promise<void> {
  const { options, store, reader } = show;
  const { tokens, turns, call, batch_id } = options;
  const ref = { batch_id, ...place };
  const siblings = await reader.entries({ row: place.row });
  const isThere = siblings.some(({ repeat }) => repeat === place.repeat);
  if (!isThere && !options.follow) throw new Error(await notThere(show, place));
  if (options.follow) {
    await followRollout(show, ref);
    return;
  }
  const rollout = await readRollout(ref, store);
  if (options.json) {
    await write([json(rolloutJson(rollout, { tokens }))]);
    return;
  }
  if (call !== null && rollout.trajectory.calls[call] === undefined)
    throw new Error(
      `--call: expected a call of ${rolloutId(ref)}, which has ${rollout.trajectory.calls.length}, got ${call}`,
    );
  const page = { style: styleOf(), tokens, turns, call };
  const blocks = blocksOf(rollout, page).flatMap(({ lines }) => lines);
  const waiting = rollout.entry.ended === null ? await waitingNow(options, workflowsOf(ref)) : [];
  await write([...headingOf(rollout, { siblings, style: styleOf() }), ...waiting, ...blocks]);
}

/** Turns as they come, each printed once. */
async function followRollout(
  { options, store }: Show,
  ref: { batch_id: string; row: number; repeat: number },
): Promise<void> {
  await withScreen(process.stdout, async (screen, signal) => {
    const printed = new Set<string>();
    let size = -1;
    const look = async (): Promise<Rollout | null> => {
      const now = await store.journalSize(ref);
      if (now === size) return null;
      size = now;
      return await readRollout(ref, store);
    };
    const draw = (rollout: Rollout | null): boolean => {
      if (rollout === null) return false;
      const has_ended = rollout.entry.ended !== null;
      const { tokens, turns } = options;
      for (const { key, lines } of blocksOf(rollout, { style: styleOf(), tokens, turns })) {
        // It changes until it is a turn.
        if (printed.has(key) || (key.startsWith('open.') && !has_ended)) continue;
        printed.add(key);
        screen.print(lines);
      }
      if (has_ended) screen.print(['', ...headingOf(rollout, { siblings: [], style: styleOf() })]);
      return has_ended;
    };
    await follow({ look, draw, signal, ...SELDOM });
  });
}

/** Only the server knows which of them it is, and `show` needs none. */
async function notPlanned(
  { batch_id, config }: ShowOptions,
  store: TrajectoryStore,
): Promise<string> {
  const elsewhere =
    config === undefined ? ' (run it in the folder of its temporal.yaml, or with --config)' : '';
  return [
    `no batch ${batch_id} in ${store.name}${await meantBatch(batch_id, store)}: either none was started under this id for this store${elsewhere}`,
    `or it is still being planned: ${commandLine(`watch ${batch_id}`, config)}`,
    `or it failed in planning: ${commandLine(`result ${batch_id}`, config)}`,
  ].join(', ');
}

/** Throws an error for the user where a batch has a result, and its journals were deleted: nothing is lost. */
async function throwIfDeleted({ options: { batch_id }, store }: Show): Promise<void> {
  const outputs = store.outputs(batch_id);
  const result = await resultOf(outputs);
  if (result === null || (await store.listJournals(batch_id)).length > 0) return;
  const { requested, completed, failed } = result.counts;
  // A batch that was stopped at once has played none.
  if (completed + failed === 0) return;
  throw new Error(
    `the journals of ${batch_id} were deleted, and show reads nothing else. Its result has ${completed} of ${requested} rollouts: ${outputs.files.rollouts}`,
  );
}

/** Its journal begins when a worker takes it. */
async function notThere(
  show: Show,
  { row, repeat }: { row: number; repeat: number | null },
): Promise<string> {
  const { options, requested } = show;
  const { batch_id } = options;
  await throwIfDeleted(show);
  const what = repeat === null ? `row ${row}` : `rollout ${row}-${repeat}`;
  const text = `${what} of ${batch_id} has no journal: it has not started, or the batch has only ${requested} rollouts`;
  const ids = workflowsOf({ batch_id, row, repeat: repeat ?? 0 });
  return [text, ...(await waitingNow(options, ids))].join('; ');
}
