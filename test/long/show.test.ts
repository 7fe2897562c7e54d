/**
 * `show` and `watch` for rollouts whose worker and server are dead, for very long ones, and for some with control
 * characters.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { BatchResult } from '../../src/activities/contract.js';
import type { JournalLine } from '../../src/model/journal.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import { BATCH, requestOf, sampleOf, temporaryStore } from '../fakes/temporary-store.js';
import { startBatch } from '../../lab/bed/batch.js';
import { outputOf, startCommand } from '../../lab/bed/command.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import type { Stack } from '../../lab/bed/stack.js';
import { startStack } from '../../lab/bed/stack.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { WorkerProcess } from '../../lab/bed/worker.js';

const ID = 'looked-at';
const QUEUE = 'show';
/** Too little memory for a program that holds a long page's text besides its journal. */
const SMALL_HEAP = ['--max-old-space-size=96'];

describe('a batch whose worker and server are dead', () => {
  let stack: Stack;
  let worker: WorkerProcess;
  let at: string[];

  const startWorker = (): Promise<WorkerProcess> =>
    stack.startWorker({ task_queue: QUEUE, worker: { turn_slice: '0s', heartbeat_timeout: '2s' } });

  before(async () => {
    const simulator = { thinking_tokens: 8, skill: 0, seed: 1, tokens_per_second: 60 };
    stack = await startStack({ name: 'show', own_server: true, simulator });
    worker = await startWorker();
    at = ['--config', path.join(stack.directory, `${QUEUE}.yaml`)];
    const request = puzzleRequest(
      { samples: 2, num_repeats: 2 },
      { max_rollout_turns: 1000, max_in_flight: 3 },
    );
    const { handle } = await startBatch(stack.batch(ID, QUEUE), request);
    await eventually('a few turns', async () => {
      const list = await outputOf(['show', ID, '--where', 'turns>=3', '--json', ...at]).catch(
        () => '',
      );
      return list.split('\n').length > 3;
    });
    assert.equal((await handle.describe()).status.name, 'RUNNING');
    await worker.kill('SIGKILL');
    await stack.killServer();
  });
  after(() => stack.end());

  test('is in the list of batches as unfinished, and the list says which part it lacks', async () => {
    const list = startCommand(['list', ...at]);
    assert.equal(await list.exited, 1, list.output());
    assert.match(list.output(), /does not answer, so this is what the store has/);
    assert.match(
      list.stdout(),
      /^looked-at +batch +unfinished +\d{4}-\d\d-\d\d \d\d:\d\d +- +- +-$/m,
    );
  });

  test('has a list of its rollouts', async () => {
    const lines = (await outputOf(['show', ID, ...at])).split('\n');
    // A board may happen to be solved, which is no fault of the list.
    const [, unfinished] =
      /^looked-at {2}4 rollouts: \d valid, .*?(\d) unfinished/.exec(lines[0] ?? '') ?? [];
    assert.ok(Number(unfinished) > 0, lines[0]);
    assert.equal(
      lines.filter((line) => /^\d-\d .* unfinished$/.test(line)).length,
      Number(unfinished),
    );
  });

  test('is read, group by group and turn by turn', async () => {
    const group = await outputOf(['show', `${ID}/0`, ...at]);
    assert.match(group, /^looked-at\/0-0 .*\| looked-at\/0-1 /m);
    assert.match(group, /^reward [-\d.]+.* \| reward /m);
    const page = await outputOf(['show', `${ID}/0-0`, ...at]);
    assert.match(page, /^-- user \(prompt, \d+ tokens\)$/m);
    assert.match(page, /^-- turn 1: assistant, \d+ tokens, logprob -\d\.\d{3}, stop/m);
    assert.match(page, /^-- turn 1: environment, reward 0$/m);
    assert.doesNotMatch(await outputOf(['show', `${ID}/0-0`, '--turns', '1', ...at]), /-- turn 0/);
  });

  test('that is watched shows what it waits for, and only what is known when the watcher leaves', async () => {
    const watch = startCommand(['watch', ID, ...at]);
    const missing = `waiting for the Temporal server at ${stack.server().address}`;
    await eventually('the server to be missed', () => watch.output().includes(missing));
    watch.interrupt();
    assert.equal(await watch.exited, 130);
    assert.match(
      watch.output(),
      new RegExp(`not known whether batch ${ID} runs.*\n  temporal-rollout watch ${ID}`),
    );
  });

  test('that is watched is followed to its result once both are back', async () => {
    const watch = startCommand(['watch', ID, ...at]);
    await stack.startServer();
    await startWorker();
    await eventually('the board to count', () => /running: \d of 4 done/.test(watch.output()));
    const running = JSON.parse(await outputOf(['list', '--running', '--json', ...at])) as Record<
      string,
      unknown
    >;
    assert.deepEqual([running['id'], running['state'], running['requested']], [ID, 'running', 4]);
    await outputOf(['stop', ID, ...at]);
    assert.equal(await watch.exited, 0, watch.output());
    assert.match(watch.output(), /\n\d of 4 rollouts completed, \d stopped\n {2}rollouts {2}\//);
    const result = JSON.parse(await outputOf(['result', ID, '--json', ...at])) as BatchResult;
    const { requested, completed, stopped } = result.counts;
    assert.deepEqual([requested, completed + stopped], [4, 4]);
    const listed = new RegExp(`^looked-at +batch +ended +.* ${completed} of 4 +${stopped} `, 'm');
    assert.match(await outputOf(['list', ...at]), listed);
    assert.equal(await outputOf(['list', '--running', ...at]), 'no batches and no streams\n');
  });
});

/** All characters except line ends that a terminal does not show as they are. */
const COMMANDS = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/;

describe('show', () => {
  const a = author('a');

  /** A store with this batch of one row, and how commands reach it. */
  async function batchOf(
    t: Parameters<typeof temporaryStore>[0],
    rollouts: Iterable<JournalLine>[],
  ): Promise<string[]> {
    const { root, store } = await temporaryStore(t);
    await store.createBatch({
      batch_id: BATCH,
      request: requestOf({ num_repeats: rollouts.length }),
      samples: [sampleOf('go')],
    });
    for (const [repeat, lines] of rollouts.entries()) {
      const journal = await store.claim({ batch_id: BATCH, row: 0, repeat }, { activity: 'x' });
      for (const line of lines) await journal.append(entryOf(line));
      await journal.commit();
    }
    const file = path.join(path.dirname(root), 'temporal.yaml');
    await writeFile(
      file,
      JSON.stringify({ store: { kind: 'file', root }, generation: {}, environments: {} }),
    );
    return ['--config', file];
  }

  test('reads a rollout of 2,000 turns to its last one, in a small heap', async (t) => {
    const turns = Array.from({ length: 2000 }, (_, turn) =>
      wholeTurn(a, {
        turn,
        ids: Array<number>(20).fill(turn),
        message: { role: 'tool', content: `answer ${turn}: ${'word '.repeat(40)}` },
      }),
    );
    const at = await batchOf(t, [[a.start(), ...turns.flat(), a.end()]]);
    const page = await outputOf(['show', `${BATCH}/0-0`, ...at], SMALL_HEAP);
    assert.equal(page.match(/^-- turn \d+: assistant/gm)?.length, 2000);
    assert.match(page, /^-- turn 1999: tool, reward 0\nanswer 1999: word/m);
    const few = await outputOf(['show', `${BATCH}/0-0`, '--turns', '1500-1501', ...at], SMALL_HEAP);
    assert.deepEqual(few.match(/^-- turn \d+: assistant/gm), [
      '-- turn 1500: assistant',
      '-- turn 1501: assistant',
    ]);
  });

  test('reads a rollout of 100,000 tokens with each of them, in a small heap', async (t) => {
    const chunks = Array.from({ length: 1000 }, (_, k) =>
      a.chunk({
        offset: 100 * k,
        token_ids: Array.from({ length: 100 }, (_, i) => 100 * k + i),
        text: 'a b '.repeat(50),
      }),
    );
    const content = 'a b '.repeat(50_000);
    const generation = a.generation({ token_count: 100_000, content });
    const lines = [a.start(), ...chunks, generation, a.observation({ terminated: true }), a.end()];
    const at = await batchOf(t, [lines]);
    const page = await outputOf(['show', `${BATCH}/0-0`, '--tokens', ...at], SMALL_HEAP);
    assert.match(page, /^-- turn 0: assistant, 100,000 tokens/m);
    assert.ok(page.includes(content.trimEnd()));
    assert.match(page, / 99999:-100\.000/);
  });

  test('lets nothing of a prompt, a policy, an environment or a failure act on the terminal', async (t) => {
    const evil = 'seen \u001b]0;owned\u0007\u001b[2J\u009b31m\r\u0008\u001bPowned\u001b\\end';
    const prompt = [{ role: `user${evil}`, content: evil, token_ids: [1] }];
    const said: JournalLine[] = [
      a.start({ prompt, task_name: `task ${evil}` }),
      a.fault({ message: evil, replica: evil }),
      a.chunk({ text: evil, replica: evil }),
      a.generation({ content: evil, stop_reason: evil }),
      a.observation({
        message: { role: evil, content: evil },
        rewards: { [evil]: 1 },
        answer: evil,
      }),
      a.chunk({ turn: 1, text: evil }),
    ];
    const failure = { type: `Failed${evil}`, message: evil, turn: 1 };
    const failed = a.end({ stop_reason: 'failed', failure });
    const at = await batchOf(t, [said, [...said, failed]]);
    const pages = [
      [BATCH],
      [`${BATCH}/0`],
      [`${BATCH}/0-0`],
      [`${BATCH}/0-1`, '--tokens'],
      [BATCH, '--json'],
      [`${BATCH}/0-1`, '--json', '--tokens'],
    ];
    for (const page of pages) {
      const text = await outputOf(['show', ...page, ...at]);
      assert.ok(text.includes('seen'), page.join(' '));
      assert.doesNotMatch(text, COMMANDS, page.join(' '));
    }
  });
});
