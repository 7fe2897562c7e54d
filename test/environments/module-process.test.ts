/** Modules in processes of their own: what their code holds up, and what it does not. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { ForeignObject } from '../../src/model/foreign-object.js';
import type { ExactEnvironment, TurnAnswer } from '../../src/environments/environment.js';
import type { EnvironmentContext } from '../../src/environments/kind.js';
import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import { PYTHON_VARIABLE } from '../../src/environments/math/grader-install.js';
import { identify, isAlive } from '../../src/platform/process/identity.js';
import { bareContext } from '../fakes/environment-context.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { faultOf } from '../harness/fault-of.js';
import { corpusFile, indexFolder, linesOf } from './retriever/corpus-file.js';

interface Given {
  source?: string;
  timeout?: string;
  context?: Partial<EnvironmentContext>;
}

async function make(
  t: TestContext,
  { source = SOURCE, timeout = '2s', context = {} }: Given = {},
): Promise<ExactEnvironment> {
  const folder = await mkdtemp(path.join(tmpdir(), 'module-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = path.join(folder, 'mine.mjs');
  await writeFile(file, source);
  const settings = EnvironmentSettings.parse({ kind: 'module', path: file, timeout });
  const environment = await createEnvironment(settings, bareContext({ name: 'mine', ...context }));
  t.after(() => environment.close?.());
  return environment;
}

const { signal } = new AbortController();
const say = (
  environment: ExactEnvironment,
  said: string | { content: string; signal: AbortSignal },
): Promise<TurnAnswer<ForeignObject>> => {
  const { content, signal: asked } = typeof said === 'string' ? { content: said, signal } : said;
  return environment.step(
    { message_log: [{ role: 'assistant', content }], metadata: {} },
    { idempotency_key: `b/0-0/${content}`, signal: asked },
  );
};

/** `loop`: forever. `wait`: never answers, and blocks nothing. Anything else is answered. */
const SOURCE = `
const id = String(Math.random());
export default () => {
  return {
    stepOne: async ({ message_log }) => {
      const said = message_log.at(-1).content;
      if (said === 'wait') await new Promise(() => undefined);
      if (said === 'throw') throw new RangeError('no such move');
      if (said === 'exit') process.exit(3);
      if (said === 'pid') return { observation: String(process.pid), reward: 1, terminated: true };
      while (said === 'loop') {}
      return { observation: said === 'id' ? id : said, reward: 1, terminated: true };
    },
  };
};`;

describe('a module whose code does not come back', () => {
  test('from a loop fails its turn within the deadline, while another environment and this process continue', async (t) => {
    const [mine, other] = [await make(t), await make(t)];
    let beats = 0;
    const beating = setInterval(() => (beats += 1), 20);
    t.after(() => {
      clearInterval(beating);
    });
    const looping = faultOf(say(mine, 'loop'));
    assert.equal((await say(other, 'hi')).reward, 1);
    const { type, message } = await looping;
    assert.equal(type, 'EnvironmentFailed');
    assert.match(
      message,
      /export default of .*mine\.mjs did not answer within 2s \(its timeout\): its code held the process/,
    );
    assert.ok(beats > 5, `${beats} beats of the event loop`);
    assert.equal((await say(mine, 'again')).reward, 1, 'in a process that was started again');
  });

  test('costs calls that had not begun nothing', async (t) => {
    const mine = await make(t);
    const looping = faultOf(say(mine, 'loop'));
    const others = await Promise.all(['a', 'b', 'c'].map((content) => say(mine, content)));
    assert.deepEqual(
      others.map(({ observation }) => observation?.content),
      ['a', 'b', 'c'],
    );
    assert.equal((await looping).type, 'EnvironmentFailed');
  });

  test('costs a call that had begun, and is neither late nor the last that began, no attempt', async (t) => {
    const mine = await make(t, { timeout: '5s' });
    const late = faultOf(say(mine, 'wait'));
    // A loop is seen after a second; the next deadline comes after it.
    await sleep(3500);
    const innocent = faultOf(say(mine, 'wait'));
    await sleep(200);
    const last = faultOf(say(mine, 'loop'));
    const types = (await Promise.all([late, innocent, last])).map(({ type }) => type);
    assert.deepEqual(types, ['EnvironmentFailed', 'EnvironmentUnavailable', 'EnvironmentFailed']);
  });

  test('from a promise fails its own turn alone', async (t) => {
    const mine = await make(t);
    const waiting = faultOf(say(mine, 'wait'));
    assert.equal((await say(mine, 'hi')).reward, 1);
    const { type, message } = await waiting;
    assert.equal(type, 'EnvironmentFailed');
    assert.match(message, /did not answer step within 2s .*: its promise has not settled$/);
  });

  test('from several promises at once fails their turns alone: what it holds stays', async (t) => {
    const mine = await make(t);
    const idOf = async () => (await say(mine, 'id')).observation?.content;
    const before = await idOf();
    const waiting = await Promise.all(
      ['wait', 'wait', 'wait'].map((said) => faultOf(say(mine, said))),
    );
    assert.deepEqual(
      waiting.map(({ type }) => type),
      Array(3).fill('EnvironmentFailed'),
    );
    // A process that seems to be held by a loop is ended a second later.
    await sleep(1500);
    assert.equal(await idOf(), before, 'its process was ended');
  });

  test('since it ends its process costs its turn alone', async (t) => {
    const mine = await make(t);
    const { type, message } = await faultOf(say(mine, 'exit'));
    assert.equal(type, 'EnvironmentFailed');
    assert.match(message, /ended its process with exit code 3/);
    assert.equal((await say(mine, 'hi')).reward, 1);
  });

  test('since somebody kills its process is no answer: the turn is asked again', async (t) => {
    const mine = await make(t);
    const pid = Number((await say(mine, 'pid')).observation?.content);
    const waiting = faultOf(say(mine, 'wait'));
    assert.equal((await say(mine, 'hi')).reward, 1);
    const cut = faultOf(say(mine, 'wait'));
    await sleep(500);
    process.kill(pid, 'SIGKILL');
    const faults = await Promise.all([waiting, cut]);
    assert.deepEqual(
      faults.map(({ type, retryable }) => [type, retryable]),
      [
        ['EnvironmentUnavailable', true],
        ['EnvironmentFailed', true],
      ],
    );
    assert.match(faults[1].message, /ended its process by SIGKILL$/);
    assert.notEqual((await say(mine, 'pid')).observation?.content, String(pid));
  });

  test('ends with its worker, though a loop holds it', async (t) => {
    const folder = await temporaryFolder(t);
    const file = path.join(folder, 'mine.mjs');
    await writeFile(file, SOURCE);
    const program = fileURLToPath(
      new URL(`module-owner${path.extname(import.meta.url)}`, import.meta.url),
    );
    const owner = spawn(process.execPath, [...process.execArgv, program, file], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [data] = (await once(owner.stdout, 'data')) as [Buffer];
    const looping = await identify(Number(data.toString()));
    assert.ok(await isAlive(looping));
    await sleep(500);
    owner.kill('SIGKILL');
    while (await isAlive(looping)) await sleep(50);
  });

  test('is ended even if its caller has left', async (t) => {
    const mine = await make(t);
    const cancelled = new AbortController();
    const looping = say(mine, { content: 'loop', signal: cancelled.signal });
    cancelled.abort(new Error('cancelled'));
    await assert.rejects(looping, { message: 'cancelled' });
    assert.equal((await say(mine, 'hi')).reward, 1);
  });
});

describe('a module in its process', () => {
  test('throws with its own text', async (t) => {
    const mine = await make(t);
    await assert.rejects(say(mine, 'throw'), {
      message: 'RangeError: no such move (at mine.mjs:8 in stepOne)',
    });
  });

  test('that answers what cannot be sent is rejected', async (t) => {
    const source = `export default { step: () => ({ observations: [() => 1] }) };`;
    const { type, message } = await faultOf(say(await make(t, { source }), 'hi'));
    assert.equal(type, 'EnvironmentRejected');
    assert.match(message, /what no JSON can hold/);
  });

  for (const [what, metadata] of [
    ['a circle', '(() => { const one = {}; one.one = one; return one; })()'],
    ['a BigInt', '{ n: 10n }'],
  ] as const)
    test(`that answers ${what} is rejected, since the next attempt would too`, async (t) => {
      const source = `export default { stepOne: () => ({ observation: '', reward: 0, terminated: true, metadata: ${metadata} }) };`;
      const { type, message } = await faultOf(say(await make(t, { source }), 'hi'));
      assert.equal(type, 'EnvironmentRejected');
      assert.match(message, /what no JSON can hold/);
    });

  test('is given variables, retrievers and reports; its worker hears what it read', async (t) => {
    const told: string[] = [];
    const wiki = await corpusFile(t, { text: linesOf(['a query', 'none']), num_results: 1 });
    for (const [name, value] of [
      ['XDG_CACHE_HOME', await indexFolder(t)],
      ['MODULE_KEY', 'secret'],
    ] as const) {
      process.env[name] = value;
      t.after(() => Reflect.deleteProperty(process.env, name));
    }
    const context: Partial<EnvironmentContext> = {
      env: (variable) => void told.push(`reads ${variable}`),
      report: (message) => void told.push(message),
      environments: { wiki },
    };
    const source = `
      export default async (settings, context) => {
        const wiki = await context.retriever('wiki');
        context.report(context.env('MODULE_KEY') + context.env('MODULE_NONE'));
        return {
          stepOne: () => {
            const [{ id, text }, ...more] = wiki.search('query');
            return { observation: text + id + more.length + wiki.document_count, reward: 0, terminated: true };
          },
        };
      };`;
    const { observation } = await say(await make(t, { source, context }), 'hi');
    assert.equal(observation?.content, 'a query002');
    assert.deepEqual(told.slice(1), ['reads MODULE_KEY', 'reads MODULE_NONE', 'secretundefined']);
  });

  test('passes on the faults of what it was given', async (t) => {
    process.env[PYTHON_VARIABLE] = '/none';
    t.after(() => Reflect.deleteProperty(process.env, PYTHON_VARIABLE));
    const source = `
      export default (settings, { grader }) => ({ stepOne: (turn, { signal }) => grader.compare({ gold: '1', answer: '1' }, signal) });`;
    const { type, message } = await faultOf(say(await make(t, { source }), 'hi'));
    assert.equal(type, 'EnvironmentUnavailable');
    assert.match(message, /^the grader \(\/none\) cannot be started: .*; it needs Python/);
  });

  test('reads the rollouts for its metrics one by one, and has its other functions', async (t) => {
    const source = `
      let ended = 0;
      export default {
        stepOne: () => ({ observation: '', reward: 0, terminated: true }),
        globalPostProcessAndMetrics: async (rollouts) => {
          let sum = 0;
          for await (const { total_reward } of rollouts) sum += total_reward;
          return { sum };
        },
        health: () => { throw new Error('not well'); },
        close: () => { ended += 1; },
      };`;
    const mine = await make(t, { source });
    function* rollouts() {
      for (let total_reward = 1; total_reward <= 4; total_reward++)
        yield { message_log: [], total_reward, rewards: {}, extra_env_info: {} };
    }
    assert.deepEqual(await mine.globalPostProcessAndMetrics?.(rollouts(), signal), { sum: 10 });
    await assert.rejects(mine.health!(signal), { message: 'not well (at mine.mjs:10 in health)' });
    await mine.close?.();
  });

  test('that loops while it is loaded does not start, and says so', async (t) => {
    await assert.rejects(make(t, { source: 'while (true) {}' }), {
      message: /did not load within/,
    });
  });
});
