/** Lives of a program: what ends them, which of them count, and what the rollout is then. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApplicationFailure } from '@temporalio/activity';
import { putLimits } from '../../src/activities/limits/limit-facts.js';
import { programBench } from '../fakes/program-bench.js';
import { author } from '../fakes/journal-lines.js';
import { applyToStanding, newStanding, waitingOf } from '../../src/model/journal/standing.js';
import { REF } from '../fakes/temporary-store.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { Ended, Running } from '../servers/agent-service.js';

const once = async ({ task, ask }: Running): Promise<Ended> => {
  const said = await ask(task.message_log);
  return { reward: said.length };
};
type Asking = Pick<Running, 'task' | 'signal'>;
async function statusOf({ task, signal }: Asking, messages: object[]): Promise<number> {
  const { status } = await fetch(`${task.base_url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${task.key}` },
    body: JSON.stringify({ messages }),
    signal,
  });
  return status;
}
/** As programs that give up with the first error. */
const onceOnly = async (running: Running): Promise<Ended> => {
  const status = await statusOf(running, running.task.message_log);
  if (status !== 200) throw new Error(`got ${status}`);
  return { reward: 3 };
};
const untilStopped = ({ signal }: Pick<Running, 'signal'>): Promise<Ended> =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => {
      reject(new Error('stopped'));
    });
  });

describe('a life of a program', () => {
  test('is played by the opening, and ends the rollout', async (t) => {
    const bench = await programBench(t, { program: once });
    await bench.opened();
    const [end] = await bench.lines('end');
    assert.deepEqual([end?.stop_reason, end?.totals.total_reward], ['terminated', 3]);
  });

  test('that is longer than limits.run is ended at its service, and the rollout has no reward', async (t) => {
    const bench = await programBench(t, {
      program: untilStopped,
      agent: { limits: { run: '1s' } },
    });
    const opened = bench.opened();
    await assert.rejects(opened, (error) => {
      assert.ok(error instanceof ApplicationFailure && error.nonRetryable === true);
      assert.deepEqual(
        [error.type, error.message],
        ['TimedOut', 'its program ran longer than limits.run 1s'],
      );
      return true;
    });
    assert.deepEqual(bench.agents.stopped, ['batch/0-0.1']);
    assert.deepEqual(
      [(await bench.lines('exit')).length, (await bench.lines('observation')).length],
      [0, 0],
    );
    // A fault would say what the rollout waited for.
    assert.equal((await bench.lines('fault')).length, 0);
  });

  test('that goes on behind a limit is ended, and the rollout ends by that limit, worth 0', async (t) => {
    const goesOn = async ({ task, ask, signal }: Running): Promise<Ended> => {
      await ask(task.message_log);
      await ask([...task.message_log, { role: 'user', content: 'more' }]).catch(() => undefined);
      return await untilStopped({ signal });
    };
    const bench = await programBench(t, {
      program: goesOn,
      request: { max_rollout_turns: 1 },
      times: { overstay_ms: 300 },
    });
    await bench.opened();
    const [[exit], [end]] = [await bench.lines('exit'), await bench.lines('end')];
    assert.deepEqual([exit?.signal, exit?.code], ['SIGKILL', null]);
    assert.deepEqual([end?.stop_reason, end?.totals.total_reward], ['max_turns', 0]);
    assert.equal(bench.agents.stopped[0], 'batch/0-0.1');
  });

  test('that asked for what is never answered is the last one', async (t) => {
    const asks = async ({ task, signal }: Running): Promise<Ended> => {
      const url = `${task.base_url}/embeddings`;
      const headers = { authorization: `Bearer ${task.key}` };
      const { status } = await fetch(url, { method: 'POST', headers, signal });
      throw new Error(`got ${status}`);
    };
    const bench = await programBench(t, { program: asks, request: { attempts: { agent: 3 } } });
    await assert.rejects(bench.opened(), (error) => {
      assert.ok(error instanceof ApplicationFailure && error.nonRetryable === true);
      assert.match(error.message, /never answered \(unknown request URL: POST \/v1\/embeddings/);
      return true;
    });
    assert.equal((await bench.lines('life')).length, 1);
  });

  test('that its service has lost is followed by another one, which costs none of its attempts', async (t) => {
    const lost = async (running: Running): Promise<Ended> => {
      const said = await once(running);
      return running.run.endsWith('.1') ? await untilStopped(running) : said;
    };
    const bench = await programBench(t, { program: lost, request: { attempts: { agent: 1 } } });
    const opened = bench.opened();
    await eventually('an answer', async () => (await bench.lines('answer')).length > 0);
    bench.agents.forget();
    await opened;
    const end = await bench.playsOn();
    assert.deepEqual([end.ended, end.total_reward], ['terminated', 3]);
    assert.deepEqual(
      (await bench.lines('life')).map(({ life }) => life),
      [1, 2],
    );
    const [fault] = await bench.lines('fault');
    assert.match(fault?.message ?? '', /^its service has no run batch\/0-0\.1 any more/);
    assert.equal(fault?.uncounted, true);
  });

  test('that was told another address is ended, and begins again at the new one', async (t) => {
    const bench = await programBench(t, {
      program: (running) => (running.run.endsWith('.1') ? untilStopped(running) : once(running)),
    });
    const attempt = bench.opened();
    await eventually('the first life', () => bench.agents.polls() > 0);
    await bench.moves();
    await bench.playsOn();
    await attempt.catch(() => undefined);
    assert.equal(bench.agents.stopped[0], 'batch/0-0.1');
    const [first, second] = bench.agents.started;
    assert.notEqual(first?.task.base_url, second?.task.base_url);
    assert.notEqual(first?.task.key, second?.task.key);
    const { lives } = await bench.elsewhere().readTrajectory(REF);
    assert.deepEqual(
      lives.map(({ exit }) => exit?.code ?? null),
      [null, 0],
    );
  });
});

/** Asks the policy with the variables that it has, else with what a program has left in a file. Prints the status. */
const ASKS = `import json, os, sys, urllib.error, urllib.request
kept = json.load(open(sys.argv[1])) if os.path.exists(sys.argv[1]) else {}
at = {name: os.environ.get(name, kept.get(name, '')) for name in ('OPENAI_BASE_URL', 'OPENAI_API_KEY')}
body = json.dumps({'messages': [{'role': 'user', 'content': 'Say: yes'}]}).encode()
try:
    request = urllib.request.Request(at['OPENAI_BASE_URL'] + '/chat/completions', body, {'authorization': 'Bearer ' + at['OPENAI_API_KEY']})
    print(urllib.request.urlopen(request, timeout=20).status)
except urllib.error.HTTPError as error:
    print(error.code)
except ValueError:
    print('no address')
json.dump(at, open(sys.argv[2], 'w'))`;

describe('the policy', () => {
  test('answers the program alone: neither setup nor submit, also with the key that the program left', async (t) => {
    const ask = (from: string, to: string): string[] => ['python3', '-c', ASKS, from, to];
    const verdict = { step: () => Promise.resolve(judged), close: () => Promise.resolve() };
    const judged = { observation: null, reward: 1, terminated: true } as never;
    const bench = await programBench(t, {
      program: once,
      agent: {
        run: {
          sandbox: 'none',
          setup: ['sh', '-c', '! env | grep -e BASE_URL -e API_KEY'],
          command: ask('none', 'key'),
          submit: ask('{folder}/key', '/dev/null'),
        },
        verify: 'verdict',
      },
      environments: { verdict },
    });
    await bench.opened();
    const [exit] = await bench.lines('exit');
    assert.deepEqual([exit?.tail, exit?.submission], ['200\n', '410\n']);
    assert.equal((await bench.lines('call')).length, 1);
  });
});

describe('a fault of ours', () => {
  test('gives a life no verdict, whatever its exit, and costs none of its attempts', async (t) => {
    const gives = async (running: Running): Promise<Ended> => {
      if (running.run.endsWith('.2')) await bench.faults(null);
      return await onceOnly(running).catch(() => ({ reward: 7 }));
    };
    const bench = await programBench(t, { program: gives, request: { attempts: { agent: 1 } } });
    await bench.faults({ fault: 'wrong_echo', times: null });
    await bench.opened();
    const end = await bench.playsOn();
    assert.deepEqual([end.ended, end.total_reward], ['terminated', 3]);
  });

  test('that does not end is what the rollout waits for, since its first life, and each pause is longer', async (t) => {
    const bench = await programBench(t, {
      program: (running) => onceOnly(running).catch(() => ({ reward: 7 })),
    });
    const begun_s = Date.now() / 1000;
    await bench.faults({ fault: 'wrong_echo', times: null });
    await bench.opened();
    const opened_s = Date.now() / 1000;
    const pauses: number[] = [];
    let tries = 0;
    for (let life = 2; life <= 4; life++) {
      const { error, waiting } = await bench.plays();
      assert.ok(error instanceof ApplicationFailure && error.nonRetryable !== true, String(error));
      pauses.push(Number(error.nextRetryDelay));
      assert.equal(waiting.includes(null), false, 'nothing has come');
      const standing = newStanding();
      // As it is when the next life has begun and asks nothing yet.
      const lines = [...(await bench.store.readLastLines(REF)), author('').life({ life })];
      for (const line of lines) applyToStanding(standing, line);
      const names = { task: 'task', service: 'default' };
      const said = waitingOf(standing, { names, now_s: Date.now() / 1000 });
      assert.equal(said?.call, 'generation service default');
      assert.match(
        said.message,
        /^life \d has no verdict, since a call of its program ended in a fault of ours: .*prompt echo/,
      );
      assert.ok((said.tries ?? 0) > tries, `${said.tries} tries, before ${tries}`);
      const since_s = Date.parse(said.since ?? '') / 1000;
      assert.ok(since_s > begun_s - 1 && since_s < opened_s + 1, said.since);
      tries = said.tries ?? 0;
    }
    const [first = 0, second = 0, third = 0] = pauses;
    assert.ok(first < second && second < third && third < 60_000, pauses.join());
    await bench.faults(null);
    const { result, waiting } = await bench.plays();
    assert.equal(result?.ended, 'terminated');
    assert.equal(waiting[0], null);
  });
});

describe('changed limits', () => {
  test('reach a program that runs: the next call has them', async (t) => {
    const change = (limits: object): Promise<void> =>
      putLimits({ batch_id: REF.batch_id, limits, run: 'r' }, bench.store.facts);
    const statuses: number[] = [];
    const program = async ({ task, signal }: Running): Promise<Ended> => {
      for (const word of ['one', 'two', 'three', 'four']) {
        const messages = [{ role: 'user', content: `Say: ${word}` }];
        statuses.push(await statusOf({ task, signal }, messages));
        if (word !== 'one') continue;
        await change({ max_rollout_turns: 3 });
        // Attempts look for changes every 20 ms.
        await sleep(1500);
      }
      return {};
    };
    const bench = await programBench(t, { program, request: { max_rollout_turns: 1 } });
    await bench.opened();
    assert.deepEqual(statuses, [200, 200, 200, 400]);
    const [end] = await bench.lines('end');
    assert.equal(end?.stop_reason, 'max_turns');
  });
});
