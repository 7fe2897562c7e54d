import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import type { Program } from '../../src/environments/environment.js';
import { Fault } from '../../src/model/faults.js';
import { bareContext } from '../fakes/environment-context.js';
import type { AgentService } from '../servers/agent-service.js';
import { startAgentService } from '../servers/agent-service.js';

const TASK = {
  base_url: 'http://127.0.0.1:1/v1',
  key: 'k',
  prompt: 'p',
  message_log: [],
  metadata: {},
};
const { signal } = new AbortController();

async function served(t: TestContext): Promise<{ program: Program; service: AgentService }> {
  const service = await startAgentService(() => Promise.resolve({ reward: 1 }));
  const settings = EnvironmentSettings.parse({ kind: 'agent', run: { url: service.url } });
  const environment = await createEnvironment(settings, bareContext());
  t.after(async () => {
    await environment.close?.();
    await service.close();
  });
  assert.ok(environment.program !== undefined);
  return { program: environment.program, service };
}

const faultOf = async (asked: Promise<unknown>): Promise<string> => {
  try {
    return JSON.stringify(await asked);
  } catch (error) {
    assert.ok(error instanceof Fault, String(error));
    return `${error.type}: ${error.message}`;
  }
};

const ended = (more: object): string =>
  JSON.stringify({ state: 'ended', exit: { code: 0 }, ...more });

/** What a service says, and what becomes of it. */
const WRONG: [name: string, says: { status: number; body: string; headers?: Record<string, string> }, is: RegExp][] = [
  ['no state', { status: 200, body: '{}' }, /^EnvironmentRejected: .* answered: state: /],
  ['no JSON', { status: 200, body: '<html>' }, /^EnvironmentRejected: .*expected JSON/],
  ['a redirect', { status: 302, body: '', headers: { location: 'http://other/' } }, /^EnvironmentRejected: .*302.*redirects are not followed/],
  ['a reward that is no number', { status: 200, body: ended({ reward: '1' }) }, /^EnvironmentRejected: .*reward: /],
  ['components that do not add up', { status: 200, body: ended({ reward: 1, rewards: { a: 3 } }) }, /^EnvironmentRejected: .*rewards: expected components that add up to reward 1, got 3/],
  ['too much', { status: 200, body: ended({ submission: 'x'.repeat(2 ** 21) }) }, /^EnvironmentRejected: .*(large|bytes|MiB)/],
  ['500', { status: 500, body: 'boom' }, /^EnvironmentFailed: PUT .* answered 500: boom/],
  ['503', { status: 503, body: 'busy' }, /^EnvironmentUnavailable: PUT .* answered 503: busy/],
  ['403', { status: 403, body: 'no' }, /^EnvironmentRejected: PUT .* answered 403: no/],
]; // prettier-ignore

describe('a service of programs that answers a start with', () => {
  for (const [name, says, is] of WRONG)
    test(`${name} is a fault that says so`, async (t) => {
      const { program, service } = await served(t);
      service.instead = () => says;
      assert.match(await faultOf(program.start('b/0-0.1', { task: TASK, signal })), is);
    });
});

describe('a service of programs', () => {
  test('that never had a run says that it is gone', async (t) => {
    const { program } = await served(t);
    assert.equal(await program.wait('b/0-0.1', { seconds: 0, signal }), 'gone');
    await program.stop('b/0-0.1', signal);
  });

  test('begins a run once, and another one in the place of an earlier play’s', async (t) => {
    const { program, service } = await served(t);
    await program.start('b/0-0.1', { task: TASK, signal });
    await program.start('b/0-0.1', { task: TASK, signal });
    assert.equal(service.started.length, 1);
    await program.start('b/0-0.1', { task: { ...TASK, key: 'other' }, signal });
    assert.deepEqual([service.started.length, service.stopped], [2, ['b/0-0.1']]);
    const state = await program.wait('b/0-0.1', { seconds: 5, signal });
    assert.ok(state !== 'gone' && state.state === 'ended');
    assert.deepEqual([state.reward, state.exit.code], [1, 0]);
  });
});

describe('settings of an agent', () => {
  const problems = (settings: object): string => {
    const { error } = EnvironmentSettings.safeParse({ kind: 'agent', ...settings });
    return error?.issues.map(({ message }) => message).join('; ') ?? '';
  };
  const run = { url: 'http://127.0.0.1:9100' };
  test('name no command yet', () => {
    assert.match(problems({ run: { ...run, command: ['mini'] } }), /workers do not start programs/);
    assert.equal(problems({ run }), '');
  });
});
