import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createHttpEnvironment } from '../../src/environments/http/environment.js';
import { Fault } from '../../src/model/faults.js';
import { servePython, withoutPython as skip } from './python-server.js';
import { eventually } from '../../lab/bed/waiting.js';

const SOURCE = `
import time

class One:
    def step(self, message_log_batch, metadata):
        said = message_log_batch[0][-1]["content"]
        with open("ran", "a") as ran:
            ran.write(said + " ")
        while said == "hang":
            time.sleep(0.01)
        return {"observations": [{"role": "user", "content": said}], "rewards": [1], "terminateds": [1]}

class Many(One):
    thread_safe = True
`;

const SIBLINGS = ['a', 'b', 'c'];

async function scene(t: TestContext, name: string) {
  const { url, folder } = await servePython(t, { source: SOURCE, name });
  const ran = async (): Promise<string[]> =>
    (await readFile(path.join(folder, 'ran'), 'utf8').catch(() => '')).split(' ').filter(Boolean);
  const { signal } = new AbortController();
  /** One attempt at the step of the rollout that says so. */
  const attempt = async (said: string, timeout_ms: number): Promise<unknown> => {
    const environment = createHttpEnvironment({ url, timeout_ms });
    const log = [{ role: 'assistant', content: said }];
    const key = { idempotency_key: `b/0-0/${said}`, signal };
    return await environment
      .step({ message_log: log, metadata: {} }, key)
      .then(({ observation }) => observation?.content)
      .finally(() => environment.close());
  };
  /** Tried again as an activity is. */
  const step = async (said: string, timeout_ms: number): Promise<unknown> => {
    for (;;) {
      try {
        return await attempt(said, timeout_ms);
      } catch (error) {
        if (!(error instanceof Fault) || error.type !== 'EnvironmentUnavailable') throw error;
        await sleep(200);
      }
    }
  };
  /** Its fault, once it has one; `began` when it runs. */
  const hang = (timeout_ms: number) => {
    const fault = attempt('hang', timeout_ms).then(
      () => assert.fail('it answered'),
      (error: unknown) => error as Fault,
    );
    const began = eventually('its step', async () => (await ran()).length > 0);
    return { fault, began };
  };
  return { attempt, step, hang, ran };
}

const waits = { skip, concurrency: 3 };

describe('one of four siblings hangs in a Python environment', waits, () => {
  test('that takes one call at a time: it fails before the worker gives up, and the others go through', async (t) => {
    const { hang, step, ran } = await scene(t, 'One');
    const hanging = hang(8000);
    await hanging.began;
    const answers = await Promise.all(SIBLINGS.map((said) => step(said, 8000)));
    assert.deepEqual(answers, SIBLINGS);
    const fault = await hanging.fault;
    assert.equal(fault.type, 'EnvironmentFailed');
    assert.match(
      fault.message,
      /answered 500: NoAnswer: step did not answer within \d\.\d s, and its process was ended \(at mine\.py:\d+ in step: /,
    );
    assert.deepEqual((await ran()).sort(), ['a', 'b', 'c', 'hang']);
  });

  test('that is thread safe: the others are answered while it hangs', async (t) => {
    const { hang, attempt } = await scene(t, 'Many');
    let failed = false;
    const hanging = hang(8000);
    void hanging.fault.then(() => (failed = true));
    await hanging.began;
    const answers = await Promise.all(SIBLINGS.map((said) => attempt(said, 8000)));
    assert.deepEqual(answers, SIBLINGS);
    assert.equal(failed, false);
    assert.equal((await hanging.fault).type, 'EnvironmentFailed');
  });

  test('a call that gave up before its turn says what it waited for, and is never run', async (t) => {
    const { hang, attempt, ran } = await scene(t, 'One');
    const hanging = hang(8000);
    await hanging.began;
    await assert.rejects(attempt('a', 3000), {
      name: 'EnvironmentUnavailable',
      message:
        /answered 503: NoTurn: waited \d\.\d s for its turn: step b\/0-0\/hang has been running for \d+\.\d s \(at mine\.py:\d+ in step: /,
    });
    assert.equal((await hanging.fault).type, 'EnvironmentFailed');
    assert.equal(await attempt('b', 20_000), 'b');
    assert.deepEqual(await ran(), ['hang', 'b']);
  });
});
