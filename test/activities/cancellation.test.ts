import assert from 'node:assert/strict';
import { stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { ApplicationFailure } from '@temporalio/activity';
import { CancelledFailure } from '@temporalio/activity';
import type { Environment } from '../../src/environments/environment.js';
import { Fault } from '../../src/model/faults.js';
import type { Bench } from '../fakes/activity-bench.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { scriptedAgent } from '../fakes/scripted-agent.js';
import { deltaOf, idsOf, says, scriptedService } from '../fakes/scripted-service.js';
import { BATCH, REF, sampleOf } from '../fakes/temporary-store.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import { eventually } from '../../lab/bed/waiting.js';
import { turnsOf } from '../../src/model/journal/calls.js';

/** Cancels once the journal says that something has happened. */
const cancelWhen = (happened: () => boolean) => (cancel: () => void) => {
  const timer = setInterval(() => {
    if (!happened()) return;
    clearInterval(timer);
    cancel();
  }, 5);
};

const tokensOf = async (bench: Bench): Promise<number[]> =>
  openAnswer(await bench.elsewhere().readTrajectory(REF)).token_ids;

describe('an attempt that is cancelled', () => {
  test('in the middle of a stream stops the engine and leaves its tokens in the journal', async (t) => {
    const service = scriptedService([
      { deltas: [deltaOf('half '), deltaOf('way')], then: 'silence' },
    ]);
    const bench = await activityBench(t, { service });
    await bench.started();
    const { error, waiting } = await bench.run('generateTurn', {
      input: AT,
      cancelling: cancelWhen(() => service.requests.length === 1),
    });
    assert.ok(error instanceof CancelledFailure);
    assert.deepEqual(waiting, []);
    assert.deepEqual(await tokensOf(bench), idsOf('half way'));
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const { faults } = read;
    assert.deepEqual([open.generation, faults], [null, {}]);
    bench.checkPlayed();
  });

  test('while an engine that cut it off does not say whether it is paused ends at once', async (t) => {
    const cut = new Fault({ type: 'GenerationUnavailable', message: 'cut' });
    const service = scriptedService([{ then: cut }]);
    let isAsked = false;
    service.isPaused = () => {
      isAsked = true;
      return new Promise(() => undefined);
    };
    const bench = await activityBench(t, { service });
    await bench.started();
    const cancelling = cancelWhen(() => isAsked);
    const { error } = await bench.run('generateTurn', { input: AT, cancelling });
    assert.ok(error instanceof CancelledFailure);
  });

  test('in the second turn keeps the first', async (t) => {
    const service = scriptedService([says('one'), { deltas: [deltaOf('tw')], then: 'silence' }]);
    const environment: Environment = {
      step: () =>
        Promise.resolve({
          observation: { role: 'environment', content: 'seen' },
          reward: 1,
          terminated: false,
        }),
    };
    const bench = await activityBench(t, { service, environments: { task: environment } });
    await bench.started();
    const { error } = await bench.run('playTurns', {
      input: AT,
      cancelling: cancelWhen(() => service.requests.length === 2),
    });
    assert.ok(error instanceof CancelledFailure);
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const { total_reward } = read;
    const turns = turnsOf(read);
    assert.deepEqual([turns.length, total_reward, open.token_ids], [1, 1, idsOf('tw')]);
  });

  test('in the environment keeps the generation, and counts no fault', async (t) => {
    let stepping = false;
    const slow: Environment = {
      step: (_, { signal }) => {
        stepping = true;
        return new Promise((__, reject) => {
          signal.addEventListener('abort', () => {
            reject(signal.reason as Error);
          });
        });
      },
    };
    const bench = await activityBench(t, {
      service: scriptedService([says('said')]),
      environments: { task: slow },
    });
    await bench.started();
    const { error } = await bench.run('playTurns', {
      input: AT,
      cancelling: cancelWhen(() => stepping),
    });
    assert.ok(error instanceof CancelledFailure);
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const { faults } = read;
    assert.deepEqual([open.generation?.content, faults], ['said', {}]);
  });

  test('can be finished at once: what it wrote is a partial message of the row', async (t) => {
    const service = scriptedService([{ deltas: [deltaOf('half')], then: 'silence' }]);
    const bench = await activityBench(t, { service });
    await bench.started();
    await bench.run('generateTurn', {
      input: AT,
      cancelling: cancelWhen(() => service.requests.length === 1),
    });
    await bench.result('finishRollout', { rollout: REF, stop_reason: 'cancelled', failure: null });
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const { end } = read;
    assert.equal(end?.stop_reason, 'cancelled');
    assert.deepEqual(open.token_ids, idsOf('half'));
  });
});

describe('an attempt whose rollout is finished without waiting for it', () => {
  const FINISH = { rollout: REF, stop_reason: 'stopped', failure: null } as const;

  function withResolvers(): { promise: Promise<void>; resolve: () => void } {
    let resolve = (): void => undefined;
    const promise = new Promise<void>((settle) => (resolve = settle));
    return { promise, resolve };
  }

  /** An engine whose second chunk comes once `go` is called, and that is silent then. */
  function heldEngine() {
    const service = scriptedService([]);
    const said = withResolvers();
    const gate = withResolvers();
    const closed = { yet: false };
    service.generate = async (_, { signal, onDelta }) => {
      onDelta(deltaOf('x'.repeat(64)));
      said.resolve();
      await gate.promise;
      onDelta(deltaOf('y'.repeat(64)));
      return await new Promise((__, reject) => {
        signal.addEventListener('abort', () => {
          closed.yet = true;
          reject(signal.reason as Error);
        });
      });
    };
    return { service, said: said.promise, go: gate.resolve, closed };
  }

  test('ends with its next chunk: the stream is closed, nothing is warned of, and no fault is counted', async (t) => {
    const { service, said, go, closed } = heldEngine();
    const bench = await activityBench(t, { service });
    await bench.started();
    const running = bench.run('generateTurn', { input: AT });
    await said;
    const { result } = await bench.result('finishRollout', FINISH);
    go();
    const { error, warnings, waiting } = await running;
    assert.deepEqual([result.stop_reason, closed.yet], ['stopped', true]);
    const { type, nonRetryable, category } = error as ApplicationFailure;
    assert.deepEqual([type, nonRetryable, category], ['StoreFault', false, 'BENIGN']);
    assert.deepEqual([warnings, waiting], [[], []]);
    const read = await bench.elsewhere().readTrajectory(REF);
    assert.deepEqual([read.end?.stop_reason, read.faults], ['stopped', {}]);
    assert.equal(openAnswer(read).token_ids.length, 64);
  });

  test("costs an agent's row none of its attempts", async (t) => {
    const agent = scriptedAgent(['hang', {}]);
    const bench = await activityBench(t, { environments: { task: agent.environment } });
    const extra_env_info = {
      agent: 'a',
      task_index: 0,
      rollout_index: 0,
      row: '{}',
      max_attempts: 1,
    };
    const { program } = agent.environment.program!.rules;
    await bench.started({ plays: 'agent', program, prompt: [], extra_env_info });
    let end = (): void => undefined;
    const hanging = bench.run('playTurns', { input: AT, cancelling: (cancel) => (end = cancel) });
    await eventually('its request', () => agent.requests.length > 0);
    await bench.result('finishRollout', FINISH);
    end();
    assert.ok((await hanging).error !== undefined);
    await bench.run('openRollout', { input: REF });
    assert.equal((await bench.result('playTurns', AT)).ended, 'terminated');
    assert.deepEqual(
      agent.requests.map(({ attempt }) => attempt),
      [0, 0],
    );
  });

  test('ends soon where it is silent, too; until then its heartbeats say where it is', async (t) => {
    const service = scriptedService([{ deltas: [deltaOf('half')], then: 'silence' }]);
    const bench = await activityBench(t, { service });
    await bench.started();
    const running = bench.run('generateTurn', { input: AT });
    await eventually('its request', () => service.requests.length > 0);
    await new Promise((resolve) => setTimeout(resolve, 400));
    await bench.result('finishRollout', FINISH);
    const { error, heartbeats } = await running;
    assert.match(String(error), /another attempt has taken over/);
    const { at } = heartbeats.at(-1) as { at: unknown };
    assert.deepEqual(at, { turn: 0, tokens: 4, asks: 'generation' });
    assert.deepEqual((await bench.elsewhere().readTrajectory(REF)).faults, {});
  });

  test('does not open it again where it comes to its journal only then; the next run does', async (t) => {
    const service = scriptedService([{ deltas: [deltaOf('half')], then: 'silence' }]);
    const bench = await activityBench(t, { service, plays_on: true });
    await bench.started();
    await bench.run('finishRollout', { input: FINISH, run_id: 'a' });
    const late = await bench.run('openRollout', { input: REF, run_id: 'a' });
    assert.match(String(late.error), /another attempt has taken over/);
    assert.equal(service.requests.length, 0);
    const { store } = bench.dependencies;
    assert.equal((await bench.elsewhere().readTrajectory(REF)).end?.stop_reason, 'stopped');
    assert.equal((await store.findEnd(REF))?.stop_reason, 'stopped');
    await bench.run('openRollout', {
      input: REF,
      run_id: 'b',
      cancelling: cancelWhen(() => service.requests.length === 1),
    });
    assert.equal((await bench.elsewhere().readTrajectory(REF)).end, null);
    bench.checkPlayed();
  });

  test('does not reopen the results of one that was started by hand', async (t) => {
    const sample = JSON.parse(sampleOf('go')) as unknown;
    const input = { sample, max_rollout_turns: 0 };
    const bench = await activityBench(t);
    const by_hand = { workflow_id: BATCH, run_id: 'a' };
    await bench.run('openRollout', { input, ...by_hand });
    const finish = { ...FINISH, rollout: input };
    await bench.run('finishRollout', { input: finish, ...by_hand });
    const { error } = await bench.run('openRollout', { input, ...by_hand });
    assert.match(String(error), /another attempt has taken over/);
    await stat(path.join(bench.root, BATCH, 'metrics.json'));
  });
});

describe('a stream whose journal cannot be written', () => {
  test('is stopped: an engine does not generate tokens that are not kept', async (t) => {
    const service = scriptedService([{ deltas: [deltaOf('x'.repeat(64))], then: 'silence' }]);
    const bench = await activityBench(t, { service });
    await bench.started();
    const { store } = bench.dependencies;
    const { claim } = { claim: store.claim.bind(store) };
    store.claim = async (...given) => {
      const journal = await claim(...given);
      return { ...journal, append: () => Promise.reject(new Error('the disk is full')) };
    };
    const { error } = await bench.run('generateTurn', { input: AT });
    assert.match(String(error), /the disk is full/);
  });
});

describe('an attempt at planning that is given up', () => {
  /** A batch that another attempt has closed while this one was busy. */
  async function givenUp(
    t: TestContext,
    { name, input }: { name: 'planBatch' | 'openRollout'; input: unknown },
  ): Promise<void> {
    let cancel = (): void => undefined;
    const metrics = (): string => path.join(bench.root, BATCH, 'metrics.json');
    let isSecond = false;
    const closedMeanwhile = async (): Promise<void> => {
      if (!isSecond) return;
      await writeFile(metrics(), '{}');
      cancel();
    };
    const service = scriptedService([], {
      describe: async () => {
        if (name === 'openRollout') await closedMeanwhile();
        return { models: [{ id: 'policy', max_model_len: 4096 }], version: null };
      },
    });
    const bench: Bench = await activityBench(t, {
      service,
      countOpenRollouts: async () => {
        await closedMeanwhile();
        return 0;
      },
    });
    const given = { input, workflow_id: BATCH };
    assert.equal((await bench.run(name, given)).error, undefined);
    isSecond = true;
    const { error } = await bench.run(name, {
      ...given,
      cancelling: (means) => (cancel = means),
    });
    assert.ok(error instanceof CancelledFailure, String(error));
    await stat(metrics());
  }

  const sample = JSON.parse(sampleOf('go')) as unknown;

  test('does not open a batch again that has been closed', (t) =>
    givenUp(t, { name: 'planBatch', input: { samples: [sample] } }));

  test('does not reopen its own closed rollout', (t) =>
    givenUp(t, { name: 'openRollout', input: { sample } }));
});
