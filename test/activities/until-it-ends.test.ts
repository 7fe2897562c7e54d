import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { untilItEnds } from '../../src/activities/agent/until-it-ends.js';
import { Fault } from '../../src/model/faults.js';
import { commonMs } from '../../src/platform/waits/common-clock.js';

type Life = Parameters<typeof untilItEnds>[1];

/** A program that runs until somebody ends the wait. */
function running(): { life: Life; stopped: string[] } {
  const stopped: string[] = [];
  const program = {
    rules: { run: null },
    wait: async (_: string, { signal }: { signal: AbortSignal }) => {
      await sleep(60_000, undefined, { signal });
      return { state: 'running' };
    },
    stop: (run: string) => {
      stopped.push(run);
      return Promise.resolve();
    },
    cut: (run: string) => {
      stopped.push(run);
      return Promise.resolve({ state: 'ended', exit: { code: null, signal: 'SIGKILL', tail: '' } });
    },
  };
  const playing = { signal: new AbortController().signal };
  const never = new Promise<never>(() => undefined);
  const life = {
    playing,
    program,
    run: 'r.1',
    session: { overstays: never, broken: never },
    begun_at: 0,
  };
  return { life: life as unknown as Life, stopped };
}

test('the wait for a program ends with its journal, and leaves the program to who has it', async () => {
  const { life, stopped } = running();
  const lost = new Fault({ type: 'StoreFault', message: 'claimed by another attempt' });
  const broken = sleep(20).then(() => lost);
  await assert.rejects(
    untilItEnds({ state: 'running' }, { ...life, session: { ...life.session, broken } }),
    (error) => error === lost,
  );
  assert.deepEqual(stopped, []);
});

test('a program that overstays a refusal is ended', async () => {
  const { life, stopped } = running();
  const overstays = sleep(20);
  const ended = await untilItEnds(
    { state: 'running' },
    { ...life, session: { ...life.session, overstays } },
  );
  assert.deepEqual([ended.exit.signal, stopped], ['SIGKILL', ['r.1']]);
});

test('a submission behind a refusal takes no longer than limits.run either', async () => {
  const { life, stopped } = running();
  const cut = async (_: string, signal: AbortSignal): Promise<never> => {
    await sleep(60_000, undefined, { signal });
    throw new Error('it was waited for');
  };
  const program = { ...life.program, rules: { ...life.program.rules, run: '1s' }, cut };
  const overstays = sleep(20);
  const session = { ...life.session, overstays };
  const late = { ...life, program, session, begun_at: commonMs() / 1000 };
  await assert.rejects(untilItEnds({ state: 'running' }, late), {
    type: 'TimedOut',
    message: 'its program ran longer than limits.run 1s',
  });
  assert.deepEqual(stopped, ['r.1']);
});
