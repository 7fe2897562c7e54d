import assert from 'node:assert/strict';
import { cpSync, readFileSync, readdirSync, truncateSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { RequestEntry } from '../../simulator/request-log.js';
import { startSimulator } from '../../simulator/server.js';
import { parseLine } from '../../src/model/journal.js';
import { outcomeOf } from '../../src/model/journal/outcome.js';
import type { Sampled } from '../../src/model/journal/open-answers.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import { toRow } from '../../src/model/results/row.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import { foldOf } from '../fakes/journal-lines.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { readRows } from '../../lab/bed/batch.js';
import { createPlayer } from '../harness/played-batch.js';
import { startWithoutPenalties } from '../servers/without-penalties.js';
import { plainly } from '../fakes/plainly.js';
import { contextOf } from '../../src/model/journal/trajectory.js';
import { turnsOf } from '../../src/model/journal/calls.js';

/**
 * What earlier releases left in their stores (test/releases, written by its record.ts) means what it meant, and is
 * played on from any byte.
 */
const RELEASES = path.join(PROJECT_ROOT, 'test', 'releases');
/** More tears for a longer search. */
const TEARS = Number(process.env['STORE_TEARS'] ?? 3);
const SEED = Number(process.env['STORE_SEED'] ?? 7);
/** What no engine continues, or what these requests do not allow: their turns may start over. */
const STARTS_OVER = new Set(['penalties', 'one_version']);

interface Kept {
  batch_id: string;
  row: number;
  file: string;
  text: Buffer;
}

const releases = readdirSync(RELEASES, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

const storeOf = (release: string): string => path.join(RELEASES, release, 'store');

const batchesOf = (root: string): string[] =>
  readdirSync(root)
    .filter((name) => !name.startsWith('_'))
    .sort();

const journalsOf = (root: string): Kept[] =>
  batchesOf(root).flatMap((batch_id) => {
    const folder = path.join(root, batch_id, 'journals');
    return readdirSync(folder)
      .sort()
      .map((name) => {
        const file = path.join(folder, name);
        return { batch_id, row: Number.parseInt(name), file, text: readFileSync(file) };
      });
  });

const folded = (text: Buffer): Trajectory =>
  foldOf(
    text
      .toString()
      .split('\n')
      .map(parseLine)
      .filter((line) => line !== null),
  );

/** The turn in progress, without the tokens whose weights are not known: they are said anew. */
function saidIn({
  token_ids,
  logprobs,
  segments,
}: Sampled): Pick<Sampled, 'token_ids' | 'logprobs'> {
  const pending = segments.find(({ version_source }) => version_source === 'pending');
  const end = pending?.start ?? token_ids.length;
  return { token_ids: token_ids.slice(0, end), logprobs: logprobs.slice(0, end) };
}

/** The state that the last whole turn left is dropped when another one is whole. */
const wholeIn = (trajectory: Trajectory) =>
  turnsOf(trajectory).map(({ observation, ...turn }) => ({
    ...turn,
    observation: { ...observation, metadata: null },
  }));

/** What was in the journal still counts, and what follows continues it. */
function checkPlayedOn(
  batch_id: string,
  {
    before,
    after,
    first,
  }: { before: Trajectory; after: Trajectory; first: RequestEntry | undefined },
): void {
  assert.notEqual(after.end, null);
  assert.deepEqual(wholeIn(after).slice(0, before.observations.length), wholeIn(before));
  if (before.start !== null) assert.deepEqual(after.start, before.start);
  const turn = before.observations.length;
  const said = saidIn(openAnswer(before));
  const mayDiffer = STARTS_OVER.has(batch_id) && openAnswer(before).finish === null;
  if (mayDiffer && after.restarted_turns.includes(turn)) return;
  const now = turnsOf(after)[turn];
  if (now === undefined) {
    assert.equal(said.token_ids.length, 0, 'said tokens are in no turn');
    return;
  }
  // A stop string may end among the tokens that a killed attempt had.
  const length = Math.min(said.token_ids.length, now.token_ids.length);
  if (length < said.token_ids.length) assert.equal(typeof now.generation.stop_reason, 'string');
  assert.deepEqual(now.token_ids.slice(0, length), said.token_ids.slice(0, length));
  assert.deepEqual(now.logprobs.slice(0, length), said.logprobs.slice(0, length));
  if (before.start !== null && first?.turn === turn)
    assert.equal(first.prompt_tokens, contextOf(before).length + said.token_ids.length);
}

for (const release of releases) {
  describe(`the store of ${release}`, () => {
    test('has twenty journals: of several turns, resumed, moved, started over, unfinished', () => {
      const journals = journalsOf(storeOf(release));
      const all = journals.map(({ text }) => folded(text));
      const count = (has: (one: Trajectory) => boolean): number => all.filter(has).length;
      const lines = journals.flatMap(({ text }) => text.toString().split('\n').map(parseLine));
      assert.equal(journals.length, 20);
      const labelled = (by: string): boolean =>
        lines.some((line) => line?.kind === 'chunk' && line.version_source === by);
      const found = {
        of_several_turns: count(({ observations }) => observations.length > 1) >= 10,
        resumed: count(({ inherited_tokens }) => inherited_tokens > 0) >= 8,
        started_over: count(({ restarted_turns }) => restarted_turns.length > 0) >= 2,
        with_waste: count(({ wasted_tokens }) => wasted_tokens > 0) >= 3,
        unfinished: count(({ end }) => end === null) >= 3,
        with_a_broken_reply: count(({ faults }) => 'ProtocolError' in faults) >= 1,
        moved: labelled('pending'),
        by_record: labelled('record'),
      };
      assert.deepEqual(
        Object.entries(found).filter(([, is]) => !is),
        [],
        'kinds that are not there',
      );
    });

    test('gives the rows that it gave', async () => {
      const root = storeOf(release);
      const store = createFileStore({ root, max_cached_bytes: 1_000_000 });
      let rows = 0;
      for (const batch_id of batchesOf(root)) {
        const { semantics } = (await store.findRequest(batch_id)) ?? assert.fail();
        for (const then of await readRows(path.join(root, batch_id, 'rollouts.jsonl'))) {
          const ref = { batch_id, row: then.row, repeat: then.repeat };
          const trajectory = await store.readTrajectory(ref);
          const sample = await store.readSample(ref);
          const outcome = outcomeOf(trajectory, { stop_reason: 'stopped' });
          const now = toRow({ sample, ref, semantics, trajectory, outcome });
          // Later releases may have more columns.
          const columns = Object.keys(then);
          for (const column of columns)
            assert.deepEqual(
              plainly(now[column]),
              then[column],
              `${batch_id} ${then.row}: ${column}`,
            );
          rows += 1;
        }
      }
      assert.ok(rows >= 15, `${rows} rows`);
    });

    test(`is played on, each journal torn at ${TEARS} random bytes`, async (t) => {
      const simulator = await startSimulator({ settings: { seed: 5 }, port: 0 });
      const engine = await startWithoutPenalties(simulator.url);
      t.after(async () => {
        await engine.close();
        await simulator.close();
      });
      const requests = async (method: 'GET' | 'DELETE'): Promise<RequestEntry[]> => {
        const answer = await fetch(`${simulator.url}/simulator/requests`, { method });
        return ((await answer.json()) as { requests?: RequestEntry[] }).requests ?? [];
      };
      const play = async (places: readonly number[]): Promise<void> => {
        const root = await temporaryFolder(t);
        cpSync(storeOf(release), root, { recursive: true });
        const torn = journalsOf(root).map((one, at) => {
          const length = (places[at] ?? 0) % (one.text.length + 1);
          truncateSync(one.file, length);
          return { ...one, before: folded(one.text.subarray(0, length)) };
        });
        const player = await createPlayer({
          store: { kind: 'file', root },
          inputs_dir: root,
          generation: { default: { kind: 'vllm', base_urls: [`${engine.url}/v1`] } },
          environments: { sliding_puzzle: { kind: 'sliding_puzzle' } },
        });
        await requests('DELETE');
        try {
          for (const batch_id of batchesOf(root)) {
            const request: unknown = JSON.parse(
              readFileSync(path.join(root, batch_id, 'batch.json'), 'utf8'),
            );
            const { failure, failures, rollouts } = await player.playBatch(batch_id, request);
            assert.deepEqual([failure, failures], [null, []]);
            assert.equal(rollouts.length, torn.filter((one) => one.batch_id === batch_id).length);
          }
        } finally {
          await player.close();
        }
        const sent = await requests('GET');
        for (const { batch_id, row, file, before } of torn) {
          const first = sent.find(({ rollout_id }) => rollout_id === `${batch_id}/${row}-0`);
          checkPlayedOn(batch_id, { before, after: folded(readFileSync(file)), first });
        }
      };
      const place = fc.noBias(fc.integer({ min: 0, max: 2 ** 30 }));
      await fc.assert(fc.asyncProperty(fc.array(place, { minLength: 20, maxLength: 20 }), play), {
        numRuns: TEARS,
        seed: SEED,
        endOnFailure: true,
      });
    });
  });
}
