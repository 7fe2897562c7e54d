import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { runCommand } from '../../src/cli/command-line.js';
import type { JournalLine } from '../../src/model/journal.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import { requestOf, sampleOf, temporaryFolder } from '../fakes/temporary-store.js';

const by = author('by');
const whole = (reward: number, ids = [1, 2, 3]): JournalLine[] => [
  by.start(),
  ...wholeTurn(by, { ids, reward, terminated: true }),
  by.end(),
];

/** A store, and a command whose output is caught. */
async function stored(t: TestContext) {
  const folder = await temporaryFolder(t);
  const config = path.join(folder, 'temporal.yaml');
  await writeFile(config, 'store: { kind: file, root: store }\nenvironments: {}\n');
  const root = path.join(folder, 'store');
  const store = createFileStore({ root, max_cached_bytes: 1_000_000, formats: ['jsonl'] });
  const lines: string[] = [];
  const errors: string[] = [];
  t.mock.method(console, 'log', (line: string) => lines.push(line));
  t.mock.method(console, 'error', (line: string) => errors.push(line));
  return {
    root,
    lines,
    errors,
    /** Journals by place, `0-1`. */
    batch: async (
      batch_id: string,
      { samples, journals }: { samples: string[]; journals: Record<string, JournalLine[]> },
    ): Promise<void> => {
      await store.createBatch({ batch_id, request: requestOf({ num_repeats: 2 }), samples });
      for (const [place, written] of Object.entries(journals)) {
        const [row = 0, repeat = 0] = place.split('-').map(Number);
        const journal = await store.claim({ batch_id, row, repeat }, { activity: 'openRollout' });
        for (const line of written) await journal.append(entryOf(line));
        await journal.commit();
      }
    },
    diff: (...args: string[]) => runCommand(['diff', ...args, '--config', config]),
  };
}

const [one, other] = [sampleOf('one'), sampleOf('other')];

describe('diff', () => {
  test('of a batch with itself is nothing', async (t) => {
    const { batch, diff, lines } = await stored(t);
    await batch('a', { samples: [one], journals: { '0-0': whole(1), '0-1': whole(2) } });
    assert.equal(await diff('a', 'a', '--json'), 0);
    assert.deepEqual(lines, []);
    assert.equal(await diff('a', 'a'), 0);
    assert.deepEqual(lines, ['0 of 2 pairs differ']);
  });

  test('pairs rollouts by the content of their sample and by repeat, whatever their row', async (t) => {
    const { batch, diff, lines } = await stored(t);
    const [first, second] = [whole(1, [1]), whole(2, [2])];
    await batch('a', { samples: [one, other], journals: { '0-0': first, '1-0': second } });
    const turned = JSON.stringify(
      Object.fromEntries(Object.entries(JSON.parse(one) as object).toReversed()),
    );
    await batch('b', { samples: [other, turned], journals: { '0-0': second, '1-0': first } });
    assert.equal(await diff('a', 'b'), 0);
    await batch('c', { samples: [one, one], journals: { '0-0': first, '1-0': first } });
    lines.length = 0;
    assert.equal(await diff('a', 'c'), 1);
    assert.deepEqual(lines, [
      'a/1-0: only in A',
      'c/1-0: only in B',
      '0 of 1 pairs differ; 2 rollouts have no other',
    ]);
  });

  test('says the token, the text, the reward and the end', async (t) => {
    const { batch, diff, lines } = await stored(t);
    await batch('a', { samples: [one], journals: { '0-0': whole(1) } });
    const cut = [
      by.start(),
      by.chunk({ token_ids: [1, 9] }),
      by.generation({ token_count: 2, content: 'sad' }),
      by.observation({ reward: 0.5, terminated: true }),
    ];
    await batch('b', {
      samples: [one],
      journals: { '0-0': [...cut, by.end({ stop_reason: 'truncated' })] },
    });
    assert.equal(await diff('a/0-0', 'b/0-0'), 1);
    assert.equal(
      lines[0],
      'a/0-0, b/0-0: turn 0, id 1 of its answer: 2 / 9; turn 0, answer: "said" / "sad"; reward 1 / 0.5; terminated / truncated',
    );
    lines.length = 0;
    assert.equal(await diff('a', 'b', '--json'), 1);
    assert.deepEqual(
      lines.map((line) => JSON.parse(line) as unknown),
      [
        {
          ...{ a: 'a/0-0', b: 'b/0-0' },
          token: { turn: 0, of: 'answer', index: 1, a: 2, b: 9 },
          text: { turn: 0, of: 'answer', a: 'said', b: 'sad' },
          reward: { a: 1, b: 0.5 },
          stop_reason: { a: 'terminated', b: 'truncated' },
        },
      ],
    );
  });

  test('refuses with exit code 2 what are not two batches or two rollouts of the store', async (t) => {
    const { batch, diff, errors } = await stored(t);
    await batch('a', { samples: [one], journals: { '0-0': whole(1) } });
    for (const [args, said] of [
      [['a'], /expected two batches or two rollouts, got 1/],
      [['a', 'aa'], /no batch aa in .*; did you mean a\?|no batch aa in/],
      [['a', 'a/0-0'], /expected two batches or two rollouts, got one of each/],
      [['a/0-0', 'a/0-9'], /rollout a\/0-9 has no journal/],
      [['a', '../a'], /expected BATCH or BATCH\/ROW-REPEAT/],
    ] as const) {
      errors.length = 0;
      assert.equal(await diff(...args), 2);
      assert.match(errors.join(), said);
    }
  });

  test('that cannot compare ends with exit code 2, for 1 means that they differ', async (t) => {
    const { batch, diff, errors, root } = await stored(t);
    await batch('a', { samples: [one], journals: { '0-0': whole(1), '0-1': whole(2) } });
    const journal = path.join(root, 'a', 'journals', '0-1.jsonl');
    await writeFile(journal, '{"kind":"of-later","writer":"a"}\n');
    assert.equal(await diff('a', 'a'), 2);
    assert.match(errors.join(), /a later version wrote it/);
    errors.length = 0;
    assert.equal(await runCommand(['diff', 'a', 'a', '--config', path.join(root, 'none')]), 2);
    assert.match(errors.join(), /none/);
  });
});
