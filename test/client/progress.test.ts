import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BatchProgress } from '../../src/activities/contract.js';
import type { Found, Look } from '../../src/client/batch-client.js';
import { followBatch } from '../../src/client/progress.js';
import { createScreen } from '../../src/client/screen.js';
import { eventually } from '../../lab/bed/waiting.js';

/** A terminal that records what was written and what is on its screen: enough for a board. */
class FakeTerminal extends EventEmitter {
  readonly isTTY: boolean;
  columns = 80;
  rows = 24;
  written = '';
  lines: string[] = [''];
  row = 0;

  constructor(isTTY: boolean) {
    super();
    this.isTTY = isTTY;
  }

  write(text: string): void {
    this.written += text;
    // What a terminal reads: sequences, line ends, text.
    for (const [piece] of text.matchAll(/\u001b\[\??\d*[a-zA-Z]|\n|\r|[^\u001b\n\r]+/g))
      this.take(piece);
  }

  private take(piece: string): void {
    const up = /^\u001b\[(\d+)A$/.exec(piece);
    if (piece === '\n') this.lines[++this.row] ??= '';
    else if (up !== null) this.row -= Number(up[1]);
    else if (piece === '\u001b[J') this.lines.length = this.row + 1;
    else if (!/^[\u001b\r]/.test(piece)) this.lines[this.row] = piece;
    if (piece === '\u001b[J') this.lines[this.row] = '';
  }
}

const progressOf = (done: number, change: Partial<BatchProgress> = {}): BatchProgress => ({
  phase: 'running',
  requested: 8,
  done,
  running: 8 - done,
  valid: done,
  failed: 0,
  turns: done * 5,
  tokens: done * 100,
  reward_sum: 0,
  waiting: null,
  elapsed_s: done,
  turns_per_s: 5,
  tokens_per_s: 100,
  ...change,
});

/** Answers the looks one after the other; the last one is closed. */
function batchOf(looks: readonly (BatchProgress | null)[]): () => Promise<Look> {
  let next = 0;
  return () => {
    const progress = looks[next];
    if (progress === undefined) throw new Error('looked at after its end');
    next += 1;
    return Promise.resolve({
      closed: next === looks.length,
      progress,
      trouble: progress === null ? 'waiting' : null,
    });
  };
}

const PLAIN_EVERY_MS = 30;

const follow = (terminal: FakeTerminal, looks: readonly (BatchProgress | null)[]) =>
  followBatch({
    batchId: 'b',
    look: batchOf(looks),
    screen: createScreen(terminal, {}),
    signal: new AbortController().signal,
    intervalMs: 5,
    plainEveryMs: PLAIN_EVERY_MS,
  });

describe('where the output is no terminal', () => {
  test('a line is printed only when something changed, and not more often than agreed', async () => {
    const terminal = new FakeTerminal(false);
    const many = [0, 1, 2, 3, 4, 5, 6, 7].flatMap((done) => [progressOf(done), progressOf(done)]);
    const began = performance.now();
    await follow(terminal, [...many, progressOf(8, { phase: 'done' })]);
    const took_ms = performance.now() - began;
    const lines = terminal.written.trimEnd().split('\n');
    assert.equal(new Set(lines).size, lines.length, 'no line twice');
    // The first and the last line are not paced.
    const most = Math.floor(took_ms / PLAIN_EVERY_MS) + 2;
    assert.ok(lines.length >= 3 && lines.length <= most, `${lines.length} lines in ${took_ms} ms`);
    assert.match(lines.at(-1) ?? '', /^b done: 8 of 8 done/);
    assert.ok(!terminal.written.includes('\u001b'), 'no escape sequences');
  });

  test('times and rates alone are no news', async () => {
    const terminal = new FakeTerminal(false);
    const same = Array.from({ length: 20 }, (_, second) =>
      progressOf(3, { elapsed_s: second, turns_per_s: second }),
    );
    await follow(terminal, same);
    assert.equal(terminal.written.trimEnd().split('\n').length, 1);
  });
});

describe('on a terminal', () => {
  test('the board stays in place below what is said, and is gone at the end with the cursor back', () => {
    const terminal = new FakeTerminal(true);
    const screen = createScreen(terminal, { NO_COLOR: '1' });
    screen.say('before');
    screen.show(() => ['board 1', 'of two lines']);
    screen.say('worker ended by SIGKILL;\nit starts again');
    screen.show(() => ['board 2']);
    assert.deepEqual(terminal.lines, [
      'before',
      'worker ended by SIGKILL;',
      'it starts again',
      'board 2',
      '',
    ]);
    screen.close();
    assert.deepEqual(terminal.lines, ['before', 'worker ended by SIGKILL;', 'it starts again', '']);
    assert.ok(
      terminal.written.lastIndexOf('\u001b[?25h') > terminal.written.lastIndexOf('\u001b[?25l'),
    );
  });

  test('a batch that is followed leaves no trace of its board', async () => {
    const terminal = new FakeTerminal(true);
    const { ended, progress } = await follow(terminal, [null, progressOf(1), progressOf(8)]);
    assert.deepEqual([ended, progress?.done], ['closed', 8]);
    assert.deepEqual(terminal.lines, ['']);
    assert.equal(terminal.listenerCount('resize'), 0);
  });

  test('a new width means a new screen: the last lines that fit, and the board below', () => {
    const terminal = new FakeTerminal(true);
    const screen = createScreen(terminal, {});
    for (const line of ['one', 'two', 'x'.repeat(50), 'four']) screen.say(line);
    screen.show(({ columns }) => ['b'.repeat(columns)]);
    [terminal.columns, terminal.rows] = [40, 6];
    terminal.written = '';
    terminal.emit('resize');
    assert.ok(terminal.written.startsWith('\u001b[H\u001b[2J'));
    assert.deepEqual(terminal.written.match(/[a-z]{2,}/g), [
      'two',
      'x'.repeat(50),
      'four',
      'b'.repeat(39),
    ]);
    screen.close();
    assert.equal(terminal.listenerCount('resize'), 0);
  });

  test('NO_COLOR means no colours, CI and dumb terminals no board', () => {
    const colours = (env: NodeJS.ProcessEnv) =>
      createScreen(new FakeTerminal(true), env).style().colour;
    assert.deepEqual(
      [colours({}), colours({ NO_COLOR: '' }), colours({ NO_COLOR: '1' })],
      [true, true, false],
    );
    for (const env of [{ CI: 'true' }, { TERM: 'dumb' }]) {
      assert.equal(createScreen(new FakeTerminal(true), env).live, false);
    }
  });
});

describe('while a look takes long', { concurrency: 2 }, () => {
  const LOOK_MS = 4500;
  /** One answer, then a slow look; the third look closes. */
  async function linesOf(troubles: readonly (string | null)[]): Promise<string[]> {
    const terminal = new FakeTerminal(false);
    const waiting = { service: 'engine', message: 'refused' };
    let looks = 0;
    await followBatch({
      batchId: 'b',
      look: async () => {
        const progress = looks === 0 ? progressOf(3, { waiting }) : null;
        const trouble = troubles[looks] ?? null;
        looks += 1;
        if (looks > 1) await sleep(LOOK_MS);
        return { closed: looks > 2, progress, trouble };
      },
      screen: createScreen(terminal, {}),
      signal: new AbortController().signal,
      intervalMs: 100,
      plainEveryMs: 100,
    });
    return terminal.written.trimEnd().split('\n');
  }

  test('the last numbers stay with how old they are, and no cause is guessed', async () => {
    const [first, silent, ...more] = await linesOf([]);
    assert.match(first ?? '', /^b running: 3 of 8 done.*, waiting for engine: refused$/);
    assert.match(silent ?? '', /^b running: 3 of 8 done.*, no answer for \d+ s$/);
    assert.deepEqual(more, [], 'its age alone is no news');
  });

  test('a cause is told as long as looks find it', async () => {
    const [, silent, told, untold] = await linesOf([null, 'no worker', null]);
    assert.match(silent ?? '', /no answer for \d+ s$/);
    assert.match(told ?? '', /, no worker \(no answer for \d+ s\)$/);
    assert.match(untold ?? '', /no answer for \d+ s$/);
  });
});

test('following ends at once when it is interrupted, also within a look', async () => {
  const controller = new AbortController();
  const following = followBatch({
    batchId: 'b',
    look: () => sleep(60_000, { closed: true, progress: null, trouble: null }, { ref: false }),
    screen: createScreen(new FakeTerminal(true), {}),
    signal: controller.signal,
  });
  setTimeout(() => {
    controller.abort();
  }, 20);
  assert.equal((await following).ended, 'aborted');
});

test('following ends at once when it is interrupted, also between looks', async () => {
  const controller = new AbortController();
  const following = followBatch({
    batchId: 'b',
    look: () => Promise.resolve({ closed: false, progress: progressOf(1), trouble: null }),
    screen: createScreen(new FakeTerminal(true), {}),
    signal: controller.signal,
    intervalMs: 60_000,
  });
  setTimeout(() => {
    controller.abort();
  }, 20);
  assert.equal((await following).ended, 'aborted');
});

describe('what a look tells before it is over', () => {
  async function boardOf(found: Found, shows: RegExp) {
    const controller = new AbortController();
    const terminal = new FakeTerminal(true);
    const following = followBatch({
      batchId: 'b',
      look: async (tell) => {
        tell(found);
        return await sleep(60_000, { closed: true, progress: null, trouble: null }, { ref: false });
      },
      screen: createScreen(terminal, { NO_COLOR: '1' }),
      signal: controller.signal,
      intervalMs: 20,
    });
    const lines = await eventually('what it shows', () => {
      const shown = terminal.lines.slice();
      return shows.test(shown.join('\n')) && shown;
    });
    controller.abort();
    return { lines, followed: await following };
  }

  test('is shown: since when the batch runs, and who gives no answer', async () => {
    const begun_ms = Date.now() - 90_000;
    const silent =
      /^no answer from the workers of task queue q for (\d+) s; last seen (\d+) s ago$/m;
    const { lines, followed } = await boardOf(
      { begun_ms, seen: { taskQueue: 'q', ago_s: 8 } },
      silent,
    );
    assert.match(lines[0] ?? '', /^b  open {60,}[1-9]:\d\d$/);
    const [for_s = 0, ago_s = 0] = (silent.exec(lines[1] ?? '') ?? []).slice(1).map(Number);
    assert.ok(for_s >= 3 && Math.abs(ago_s - for_s - 8) <= 1, lines[1]);
    assert.equal(followed.isKnown, true);
  });

  test('is nothing of a server that is away: then nothing is known of the batch', async () => {
    const { lines, followed } = await boardOf({}, /^b {2}not seen yet$/m);
    assert.equal(lines[0], 'b  not seen yet');
    assert.deepEqual(followed, { ended: 'aborted', isKnown: false, progress: null });
  });
});
