/** Journals as the documents that pages show. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { appendFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { JournalLine } from '../../src/model/journal.js';
import { lineText } from '../../src/model/journal.js';
import { outcomeOf } from '../../src/model/journal/outcome.js';
import { pictureName } from '../../src/model/picture-names.js';
import { toRow } from '../../src/model/results/row.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import type { CallPart, RolloutDocument } from '../../viewer/documents.js';
import { allOf } from '../../src/platform/waits/several-at-once.js';
import { readDocument } from '../../viewer/read/rollout.js';
import { createRunReader, listRuns } from '../../viewer/read/runs.js';
import { author, foldOf, SETTINGS, wholeCall, wholeTurn } from '../fakes/journal-lines.js';
import { pictureOf } from '../fakes/pictures.js';
import { BATCH, REF, sampleOf } from '../fakes/temporary-store.js';
import { agentJournal, linesOf, sample } from '../gateway/agent-rows.js';
import { storeOf } from './journals.js';

const [a, b] = [author('a'), author('b')];
const RELEASED = path.join(PROJECT_ROOT, 'test', 'releases', '0.1.0', 'store');

/** How many ids train, by the row and by the document. */
function trainedBoth(lines: readonly JournalLine[], document: RolloutDocument): [number, number] {
  const trajectory = foldOf(lines);
  const outcome = outcomeOf(trajectory, { stop_reason: 'stopped' });
  const row = toRow({ sample, ref: REF, semantics: 'standard', trajectory, outcome });
  const sum = (runs: readonly { start: number; end: number }[]): number =>
    runs.reduce((total, { start, end }) => total + end - start, 0);
  const inRow = [row, ...(row.sequences ?? [])].map(({ train_mask }) => sum(train_mask));
  const shown = document.calls.map(({ answer }) => sum(answer.tokens.trained));
  return [inRow.reduce((x, y) => x + y, 0), shown.reduce((x, y) => x + y, 0)];
}

const documentOf = async (
  t: Parameters<typeof storeOf>[0],
  lines: readonly JournalLine[],
): Promise<RolloutDocument> => readDocument(REF, (await storeOf(t, { '0-0': lines })).store);

const answerAt = ({ calls }: RolloutDocument, number: number): CallPart['answer'] => {
  const call = calls[number];
  assert.ok(call);
  return call.answer;
};

describe('a rollout', () => {
  test('has its answers with the texts of their chunks, and where another request went on', async (t) => {
    const document = await documentOf(t, [
      a.claim({ at: 1 }),
      a.start({ at: 2 }),
      a.chunk({ token_ids: [1, 2], text: 'ab', at: 3, policy_version: '5' }),
      b.claim({ attempt: 2, at: 9 }),
      b.chunk({ offset: 2, token_ids: [3], text: 'c', at: 10, replica: 'http://other/v1' }),
      b.generation({ token_count: 3, content: 'abc', queue_s: 0.25, generate_s: 0.5 }),
      b.observation({ at: 11, reward: 1, rewards: { right: 1 }, terminated: true }),
      b.end({ at: 12 }),
    ]);
    assert.deepEqual(answerAt(document, 0).tokens, {
      ids: [1, 2, 3],
      logprobs: [-0.002, -0.003, -0.004],
      top: [],
      pieces: [
        { start: 0, end: 2, text: 'ab', at: 3 },
        { start: 2, end: 3, text: 'c', at: 10 },
      ],
      requests: [
        { start: 0, end: 2, replica: 'http://replica/v1', version: '5' },
        { start: 2, end: 3, replica: 'http://other/v1', version: null },
      ],
      trained: [{ start: 0, end: 3 }],
    });
    const [call] = document.calls;
    assert.deepEqual(
      { text: call?.answer.text, inherited: call?.answer.inherited, began_at: call?.began_at },
      { text: 'abc', inherited: 2, began_at: 2 },
    );
    assert.deepEqual(call?.observation?.rewards, { right: 1 });
    assert.deepEqual(document.facts.versions, ['5', null]);
    assert.deepEqual(
      document.happenings.map(({ kind, at }) => [kind, at]),
      [
        ['attempt', 1],
        ['attempt', 9],
        ['end', 12],
      ],
    );
    assert.equal(document.calls.length, 1, 'no turn follows the last');
  });

  test('that sampled an answer again shows the last one, and one that lost its session the last life', async (t) => {
    const again = await documentOf(t, [
      a.claim(),
      a.start(),
      a.chunk({ token_ids: [1, 2, 3], text: 'old' }),
      b.claim({ attempt: 2 }),
      b.chunk({ token_ids: [4], text: 'new' }),
    ]);
    const { tokens, restarted, is_whole } = answerAt(again, 0);
    assert.deepEqual(
      tokens.pieces.map(({ text }) => text),
      ['new'],
    );
    assert.deepEqual(
      { ids: tokens.ids, restarted, is_whole },
      { ids: [4], restarted: true, is_whole: false },
    );
    const over = await documentOf(t, [
      a.claim(),
      a.start(),
      ...wholeTurn(a, { ids: [1] }),
      a.fault({ turn: 1, type: 'EnvironmentStateLost', message: 'gone' }),
      a.start({ over: true }),
      a.chunk({ token_ids: [9], text: 'anew' }),
    ]);
    assert.deepEqual(
      over.calls.map(({ answer }) => answer.tokens.pieces.map(({ text }) => text)),
      [['anew']],
    );
  });

  test('cuts a piece where another attempt goes on from the middle of it', async (t) => {
    const document = await documentOf(t, [
      a.claim(),
      a.start(),
      a.chunk({ token_ids: [1, 2, 3], text: 'abc' }),
      b.claim({ attempt: 2 }),
      b.chunk({ offset: 2, token_ids: [7], text: 'x' }),
    ]);
    assert.deepEqual(
      answerAt(document, 0).tokens.pieces.map(({ start, end, text }) => ({ start, end, text })),
      [
        { start: 0, end: 2, text: 'abc' },
        { start: 2, end: 3, text: 'x' },
      ],
    );
  });

  test('that is masked, or failed, says why nothing of it trains', async (t) => {
    const played = [
      ...wholeTurn(a, { ids: [1], truncated: true }),
      a.end({ stop_reason: 'truncated' }),
    ];
    const why = async (start: Parameters<typeof a.start>[0], lines: JournalLine[]) =>
      answerAt(await documentOf(t, [a.claim(), a.start(start), ...lines]), 0).untrained;
    assert.equal(await why({}, played), null);
    assert.match(
      (await why({ settings: { ...SETTINGS, overlong: 'mask' } }, played)) ?? '',
      /overlong is mask/,
    );
    assert.match((await why({ untrained: true }, played)) ?? '', /loss_multiplier 0/);
    const failure = { type: 'EnvironmentFailed', message: 'no', turn: 1 };
    const failed = [...wholeTurn(a, { ids: [1] }), a.end({ stop_reason: 'failed', failure })];
    assert.equal(await why({}, failed), 'EnvironmentFailed');
  });

  test('that forks another one says so, and trains in its own tokens alone', async (t) => {
    const fork = { rollout_id: 'other/0-0', at: 'token:2', train_prefix: false, lines: 1 };
    const lines = [
      a.claim(),
      a.start({ fork }),
      a.chunk({ token_ids: [1, 2], inherited: true }),
      a.chunk({ offset: 2, token_ids: [3], request_id: 'own' }),
      a.generation({ token_count: 3 }),
      a.observation({ terminated: true }),
      a.end(),
    ];
    const document = await documentOf(t, lines);
    assert.deepEqual(document.forked_from, { rollout_id: 'other/0-0', at: 'token:2' });
    assert.deepEqual(answerAt(document, 0).tokens.trained, [{ start: 2, end: 3 }]);
    assert.deepEqual(trainedBoth(lines, document), [1, 1]);
  });

  test('trains in as many tokens as its row, whatever an agent has done', async (t) => {
    const { store, fileOf } = await storeOf(t, {});

    await fc.assert(
      fc.asyncProperty(agentJournal, async (given) => {
        const lines = await linesOf(given);
        await writeFile(fileOf('0-0'), lines.map(lineText).join(''));
        const document = await readDocument(REF, store);
        if (document.entry.ended === null) return;
        const [row, shown] = trainedBoth(lines, document);
        assert.equal(shown, row);
      }),
      { numRuns: 60 },
    );
  });

  test('of an earlier release is read, and trains in as many tokens as its row', async () => {
    const store = createFileStore({ root: RELEASED, formats: ['jsonl'], max_cached_bytes: 0 });
    for (const { id } of await listRuns(store)) {
      const names = readdirSync(path.join(RELEASED, id, 'journals'));
      for (const name of names) {
        const row = Number.parseInt(name);
        const lines: JournalLine[] = [];
        const ref = { batch_id: id, row, repeat: 0 };
        await store.readTrajectory(ref, (line) => lines.push(line));
        const document = await readDocument(ref, store);
        if (document.entry.ended === null) continue;
        const [inRow, shown] = trainedBoth(lines, document);
        assert.equal(shown, inRow, document.id);
        for (const { answer } of document.calls)
          assert.equal(answer.tokens.pieces.at(-1)?.end, answer.tokens.ids.length, document.id);
      }
    }
  });

  test('shows the pictures of its sample and of its environment, and asks nobody for others', async (t) => {
    const [shown, sampled] = [
      pictureOf({ width: 2, height: 2, colour: [255, 0, 0] }),
      pictureOf({ width: 1, height: 1, colour: [0, 0, 255] }),
    ];
    const image = (url: string) => ({ type: 'image_url' as const, image_url: { url } });
    const text = { type: 'text' as const, text: 'look' };
    const prompt = [text, image(sampled), image('https://elsewhere/x.png')];
    const { store } = await storeOf(t, {
      '0-0': [
        a.claim(),
        a.start({
          prompt: [
            {
              role: 'user',
              token_ids: [1, 2, 3],
              content: [
                text,
                image('sample:message_log.0.content.1'),
                image('https://elsewhere/x.png'),
              ],
            },
          ],
        }),
        ...wholeTurn(a, {
          message: {
            role: 'environment',
            content: [image(pictureName(shown)), image(pictureName('data:,lost'))],
          },
        }),
      ],
      samples: [sampleOf('', { message_log: [{ role: 'user', content: prompt }] })],
    });
    const hash = pictureName(shown).slice('sha256:'.length);
    await store.facts.put({ series: [BATCH, 'pictures', hash], n: 0, text: shown });
    const document = await readDocument(REF, store);
    assert.deepEqual(document.prompt[0]?.parts, [
      { kind: 'text', text: 'look' },
      { kind: 'picture', url: sampled, name: 'picture' },
      { kind: 'picture', url: null, name: 'https://elsewhere/x.png' },
    ]);
    assert.deepEqual(document.calls[0]?.observation?.message?.parts, [
      { kind: 'picture', url: shown, name: 'picture' },
      { kind: 'picture', url: null, name: pictureName('data:,lost') },
    ]);
  });

  test('of a program has its calls as a tree, with what each of them was asked anew', async (t) => {
    const document = await documentOf(t, [
      a.claim(),
      a.start({ plays: 'agent', prompt: [] }),
      a.life({ at: 5 }),
      a.material({ hash: 'sys', system: 'be brief' }),
      ...wholeCall(a, { turn: 0, cause: 'first', ids: [1, 2], system: 'sys' }),
      a.served({ turn: 0 }),
      ...wholeCall(a, {
        turn: 1,
        parent: 0,
        system: 'sys',
        news: [{ role: 'tool', content: 'out', tool_call_id: 'c0', is_error: true }],
      }),
      a.served({ turn: 1 }),
      ...wholeCall(a, {
        turn: 2,
        parent: 0,
        message: 1,
        cause: 'resampled',
        system: 'sys',
        fork: { call: 0, ids: 1 },
        prompt_ids: [],
        news: [],
      }),
      a.exit({ at: 7, tail: 'bye' }),
      a.observation({ reward: 0.5, terminated: true, message: null, token_ids: [] }),
      a.end(),
    ]);
    assert.deepEqual(
      document.calls.map(({ parent, cause, fork, news }) => ({
        parent,
        cause,
        fork,
        roles: news.map(({ role }) => role),
      })),
      [
        { parent: null, cause: 'first', fork: null, roles: ['system', 'user'] },
        { parent: 0, cause: null, fork: { call: 0, ids: 3 }, roles: ['tool'] },
        { parent: 0, cause: 'resampled', fork: { call: 0, ids: 1 }, roles: [] },
      ],
    );
    assert.equal(document.calls[1]?.news[0]?.is_error, true);
    assert.equal(document.calls[2]?.answer.untrained, 'unread');
    assert.deepEqual(document.lives, [
      { life: 1, started_at: 5, exit: { at: 7, code: 0, signal: null, tail: 'bye' } },
    ]);
    assert.equal(document.verdict?.reward, 0.5);
    assert.ok(document.calls.every(({ observation }) => observation === null));
  });
});

describe('a run', () => {
  const ended = (reward: number): JournalLine[] => [
    a.claim({ at: 1 }),
    a.start({ at: 2 }),
    a.chunk({ token_ids: [1], text: 'Straße' }),
    a.generation({ token_count: 1, content: 'Straße [x' }),
    a.observation({ at: 4, reward, terminated: true }),
    a.fault({ turn: 1, message: 'refused by 127.0.0.1' }),
    a.end({
      at: 5,
      glance: {
        task_name: 'task',
        total_reward: reward,
        turn_count: 1,
        assistant_tokens: 1,
        started_at: 2,
        attempts: 1,
        faults: 1,
      },
    }),
  ];

  test('lists its rollouts, and folds again only a journal that has grown', async (t) => {
    const { store, fileOf } = await storeOf(t, { '0-0': ended(1), '0-1': ended(0) });
    let folds = 0;
    const counted = {
      ...store,
      readTrajectory: (...given: Parameters<typeof store.readTrajectory>) => {
        folds += 1;
        return store.readTrajectory(...given);
      },
    };
    const reader = createRunReader(counted, BATCH);
    assert.deepEqual(
      (await allOf(reader.entries())).map(({ repeat, reward, is_valid, started_at, wall_s }) => ({
        repeat,
        reward,
        is_valid,
        started_at,
        wall_s,
      })),
      [
        { repeat: 0, reward: 1, is_valid: true, started_at: 2, wall_s: 3 },
        { repeat: 1, reward: 0, is_valid: true, started_at: 2, wall_s: 3 },
      ],
    );
    const run = await reader.run();
    assert.deepEqual([run?.requested, run?.begun], [2, 2]);
    assert.equal(folds, 0);
    const facts = await allOf(reader.facts());
    assert.deepEqual(
      facts.map(({ fault_types, characters }) => ({ fault_types, characters })),
      [
        { fault_types: ['GenerationUnavailable'], characters: 9 },
        { fault_types: ['GenerationUnavailable'], characters: 9 },
      ],
    );
    await allOf(reader.facts());
    assert.equal(folds, 2);
    await appendFile(fileOf('0-1'), lineText(b.claim()));
    await allOf(reader.facts());
    assert.equal(folds, 3);
    assert.equal(await createRunReader(store, 'none').run(), null);
  });

  test('of which a replica failed, and which has no answer, has the replica and no answer', async (t) => {
    const fault = a.fault({ turn: 0, message: 'refused', replica: 'http://other/v1' });
    const failure = { type: 'ProtocolError', message: 'refused', turn: 0 };
    const { store } = await storeOf(t, {
      '0-0': ended(1),
      '0-1': [a.claim(), a.start(), fault, a.end({ stop_reason: 'failed', failure })],
      '10-0': [a.claim(), a.start(), ...wholeTurn(a, { ids: [1] })],
      '2-0': [
        a.claim(),
        a.start(),
        a.chunk({ token_ids: [1], text: '' }),
        a.generation({ content: '', token_count: 1 }),
      ],
    });
    const facts = await allOf(createRunReader(store, BATCH).facts());
    assert.deepEqual(
      facts.map(({ row, repeat, answer }) => [`${row}-${repeat}`, answer]),
      [
        ['0-0', 'Straße [x'],
        ['0-1', null],
        ['2-0', ''],
        ['10-0', 'said'],
      ],
    );
    assert.deepEqual(facts[1]?.replicas, ['http://other/v1']);
  });

  test('is searched in every text, whatever its case and whatever a pattern would mean', async (t) => {
    const { store } = await storeOf(t, { '0-0': ended(1) });
    const placesOf = async (words: string) =>
      (await allOf(createRunReader(store, BATCH).search(words)))
        .flat()
        .map(({ place, before, found, after }) => `${place}: ${before}|${found}|${after}`);
    assert.deepEqual(await placesOf('straSSE'), []);
    assert.deepEqual(await placesOf('STRAßE ['), ['answer 0: |Straße [|x']);
    assert.deepEqual(await placesOf('seen'), ['observation 0: |seen|']);
    assert.deepEqual(await placesOf('GO'), ['prompt: |go|']);
    assert.deepEqual(await placesOf('127.0'), [
      'fault: GenerationUnavailable: refused by |127.0|.0.1',
    ]);
    assert.deepEqual(await placesOf('.*'), []);
    assert.deepEqual(await placesOf(''), []);
  });
});
