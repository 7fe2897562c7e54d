/** Modules of which a loop holds the thread, well before the deadline of its call. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { ModuleCalls } from '../../src/environments/module/calls.js';

/** `until`: it loops until there is such a file. Each answer has what its thread has played so far. */
const SOURCE = `
import { existsSync } from 'node:fs';
const played = [];
export default {
  stepOne: ({ message_log, metadata }) => {
    const said = message_log.at(-1).content;
    while (metadata.until !== '' && !existsSync(metadata.until)) {}
    played.push(said);
    return { observation: played.join(' '), reward: 1, terminated: true };
  },
  /* more */
};`;

async function callsOf(t: TestContext, { more = '', timeout_ms = 60_000 } = {}) {
  const folder = await mkdtemp(path.join(tmpdir(), 'module-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = path.join(folder, 'mine.mjs');
  await writeFile(file, SOURCE.replace('/* more */', more));
  const calls = new ModuleCalls(
    { path: file, export: 'default', settings: {}, name: 'mine' },
    {
      timeout_ms,
      patience_ms: 200,
      subject: 'mine',
      answer: () => assert.fail('the module asks for something'),
    },
  );
  t.after(() => calls.end());
  await calls.ready();
  const step = async (content: string, until = ''): Promise<string | undefined> => {
    const turn = { message_log: [{ role: 'assistant', content }], metadata: { until } };
    const context = { idempotency_key: `b/0-0/${content}` };
    const answer = await calls.call({ call: 'step', turn, context }, {});
    return (answer as { observation: string }).observation;
  };
  return { step, open: path.join(folder, 'open') };
}

describe('a loop in a module', () => {
  test('keeps its thread, and another one answers the calls behind it before its deadline', async (t) => {
    const { step, open } = await callsOf(t);
    const ended: string[] = [];
    const looping = step('loop', open).then((seen) => ended.push(`loop: ${seen}`));
    const others = ['a', 'b'].map(async (said) => ended.push(`${said}: ${await step(said)}`));
    await Promise.all(others);
    assert.equal(await step('c'), 'a b c');
    await writeFile(open, '');
    await looping;
    assert.deepEqual(ended, ['a: a', 'b: a b', 'loop: loop']);
    assert.equal(await step('d'), 'a b c d', 'by the thread that serves now');
  });

  test('fails at its deadline, also where others went on without it', async (t) => {
    const { step, open } = await callsOf(t, { timeout_ms: 3000 });
    const looping = step('loop', open).then(
      () => assert.fail('it answered'),
      (error: unknown) => String(error),
    );
    assert.equal(await step('a'), 'a');
    assert.match(await looping, /mine did not answer step within 3s .*: its code held the thread/);
    assert.equal(await step('b'), 'a b');
  });

  test('holds up the others where the module may hold something for each rollout', async (t) => {
    const { step, open } = await callsOf(t, { more: 'begin: () => null,' });
    const looping = step('loop', open);
    setTimeout(() => void writeFile(open, ''), 3000);
    assert.equal(await step('a'), 'loop a');
    assert.equal(await looping, 'loop');
  });
});
