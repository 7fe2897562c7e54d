/** Modules of which a loop holds the process, well before the deadline of its call. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { ModuleCalls } from '../../src/environments/module/calls.js';
import { environmentOver } from '../../src/environments/http/environment.js';
import { createAllowance } from '../../src/platform/waits/allowance.js';

/** `until`: it loops until there is such a file. Each answer has what its process has played so far. */
const SOURCE = `
import { appendFileSync, existsSync } from 'node:fs';
const played = [];
export default {
  stepOne: ({ message_log, metadata }) => {
    const said = message_log.at(-1).content;
    while (metadata.until !== '' && !existsSync(metadata.until)) {}
    played.push(said);
    appendFileSync(new URL('played', import.meta.url), said + ' ');
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
      answers: createAllowance(0),
    },
  );
  t.after(() => calls.end());
  await calls.ready();
  const close = (): Promise<void> => Promise.resolve();
  const served = environmentOver({ at: 'mine', call: calls.send, timeout_ms, close });
  const { signal } = new AbortController();
  const names = (idempotency_key: string) => ({ idempotency_key, signal });
  const step = async (content: string, until = '') => {
    const turn = { message_log: [{ role: 'assistant', content }], metadata: { until } };
    const { observation } = await served.step(turn, names(`b/0-0/${content}`));
    return observation?.content;
  };
  return {
    step,
    served,
    names,
    open: path.join(folder, 'open'),
    played: () => readFile(path.join(folder, 'played'), 'utf8'),
  };
}

describe('a loop in a module', () => {
  test('keeps its process, and another one answers the calls behind it before its deadline', async (t) => {
    const { step, open, played } = await callsOf(t);
    const ended: string[] = [];
    const looping = step('loop', open).then((seen) => ended.push(`loop: ${seen}`));
    const others = ['a', 'b'].map(async (said) => ended.push(`${said}: ${await step(said)}`));
    await Promise.all(others);
    assert.equal(await step('c'), 'a b c');
    await writeFile(open, '');
    await looping;
    assert.deepEqual(ended, ['a: a', 'b: a b', 'loop: loop']);
    assert.equal(await step('d'), 'a b c d', 'by the process that serves now');
    assert.equal(await played(), 'a b c loop d ', 'each once, by one process');
  });

  test('fails at its deadline, also where others went on without it', async (t) => {
    const { step, open } = await callsOf(t, { timeout_ms: 3000 });
    const looping = step('loop', open).then(
      () => assert.fail('it answered'),
      (error: unknown) => String(error),
    );
    assert.equal(await step('a'), 'a');
    assert.match(await looping, /mine did not answer step within 3s .*: its code held the process/);
    assert.equal(await step('b'), 'a b');
  });

  test('holds up the others where the module may hold something for each rollout', async (t) => {
    const { step, open } = await callsOf(t, { more: 'begin: () => null,' });
    const looping = step('loop', open);
    setTimeout(() => void writeFile(open, ''), 3000);
    assert.equal(await step('a'), 'loop a');
    assert.equal(await looping, 'loop');
  });

  test('holds up a beginning, and its end comes behind it, though its caller has left', async (t) => {
    const more = `begin: () => { played.push('begin'); return null; }, end: () => { played.push('end'); },`;
    const { step, served, names, open } = await callsOf(t, { more });
    const looping = step('loop', open);
    const gone = new AbortController();
    const sample = { message_log: [], metadata: {} };
    const given = { idempotency_key: 'b/0-0/begin-0', signal: gone.signal };
    const begun = assert.rejects(served.begin!(sample, given), /stopped/);
    setTimeout(() => {
      gone.abort(new Error('stopped'));
    }, 500);
    await begun;
    const ended = served.end!({}, names('b/0-0/end-0'));
    setTimeout(() => void writeFile(open, ''), 500);
    await Promise.all([looping, ended]);
    assert.equal(await step('a'), 'loop begin end a');
  });
});
