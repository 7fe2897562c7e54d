import assert from 'node:assert/strict';
import { stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { CancelledFailure } from '@temporalio/activity';
import type { Environment } from '../../src/environments/environment.js';
import { Fault } from '../../src/model/faults.js';
import type { Bench } from '../fakes/activity-bench.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { deltaOf, idsOf, says, scriptedService } from '../fakes/scripted-service.js';
import { BATCH, REF, sampleOf } from '../fakes/temporary-store.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';

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
    const service = scriptedService([{ deltas: [deltaOf('half '), deltaOf('way')], then: 'silence' }]); // prettier-ignore
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
    assert.deepEqual([open.line, faults], [null, {}]);
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
    const { turns, total_reward } = read;
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
    const bench = await activityBench(t, { service: scriptedService([says('said')]), environments: { task: slow } }); // prettier-ignore
    await bench.started();
    const { error } = await bench.run('playTurns', {
      input: AT,
      cancelling: cancelWhen(() => stepping),
    });
    assert.ok(error instanceof CancelledFailure);
    const read = await bench.elsewhere().readTrajectory(REF);
    const open = openAnswer(read);
    const { faults } = read;
    assert.deepEqual([open.line?.content, faults], ['said', {}]);
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
