import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingHttpHeaders } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import type { Program } from '../../src/environments/environment.js';
import { bareContext } from '../fakes/environment-context.js';
import { faultText } from '../harness/fault-of.js';
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
const over = (): Promise<void> => Promise.resolve();
const serve = (): void => {
  throw new Error('a service has no listener of its own');
};

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

const ended = (more: object): string =>
  JSON.stringify({ state: 'ended', exit: { code: 0 }, ...more });

/** What a service says, and what becomes of it. */
const WRONG: [
  name: string,
  says: { status: number; body: string; headers?: Record<string, string> },
  is: RegExp,
][] = [
  ['no state', { status: 200, body: '{}' }, /^EnvironmentRejected: .* answered: state: /],
  ['no JSON', { status: 200, body: '<html>' }, /^EnvironmentRejected: .*expected JSON/],
  [
    'a redirect',
    { status: 302, body: '', headers: { location: 'http://other/' } },
    /^EnvironmentRejected: .*302.*redirects are not followed/,
  ],
  [
    'a reward that is no number',
    { status: 200, body: ended({ reward: '1' }) },
    /^EnvironmentRejected: .*reward: /,
  ],
  [
    'components that do not add up',
    { status: 200, body: ended({ reward: 1, rewards: { a: 3 } }) },
    /^EnvironmentRejected: .*rewards: expected components that add up to reward 1, got 3/,
  ],
  [
    'too much',
    { status: 200, body: ended({ submission: 'x'.repeat(2 ** 21) }) },
    /^EnvironmentRejected: .*(large|bytes|MiB)/,
  ],
  ['500', { status: 500, body: 'boom' }, /^EnvironmentFailed: PUT .* answered 500: boom/],
  ['503', { status: 503, body: 'busy' }, /^EnvironmentUnavailable: PUT .* answered 503: busy/],
  ['403', { status: 403, body: 'no' }, /^EnvironmentRejected: PUT .* answered 403: no/],
];

describe('a service of programs that answers a start with', () => {
  for (const [name, says, is] of WRONG)
    test(`${name} is a fault that says so`, async (t) => {
      const { program, service } = await served(t);
      service.instead = () => says;
      assert.match(
        await faultText(program.start('b/0-0.1', { task: TASK, serve, over, signal })),
        is,
      );
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
    await program.start('b/0-0.1', { task: TASK, serve, over, signal });
    await program.start('b/0-0.1', { task: TASK, serve, over, signal });
    assert.equal(service.started.length, 1);
    await program.start('b/0-0.1', { task: { ...TASK, key: 'other' }, serve, over, signal });
    assert.deepEqual([service.started.length, service.stopped], [2, ['b/0-0.1']]);
    const state = await program.wait('b/0-0.1', { seconds: 5, signal });
    assert.ok(state !== 'gone' && state.state === 'ended');
    assert.deepEqual([state.reward, state.exit.code], [1, 0]);
  });
});

describe('headers of a service', () => {
  const environmentOf = (url: string, value: string | undefined) =>
    createEnvironment(
      EnvironmentSettings.parse({ kind: 'agent', run: { url, headers_env: 'SWE_HEADERS' } }),
      bareContext({ name: 'swe', env: (name) => (name === 'SWE_HEADERS' ? value : undefined) }),
    );

  test('go with every request, several of them, and are named in no fault', async (t) => {
    const seen: IncomingHttpHeaders[] = [];
    const server = createServer(({ headers }, response) => {
      seen.push(headers);
      response.writeHead(418).end(`you sent ${headers.authorization ?? 'nothing'}`);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const lines = 'Authorization: Bearer token-of-this-test\r\nX-Team: rollouts of a team\n\n';
    const environment = await environmentOf(`http://127.0.0.1:${port}`, lines);
    t.after(async () => {
      await environment.close?.();
      server.close();
    });
    const { program } = environment;
    assert.ok(program !== undefined);
    const told = await Promise.all([
      faultText(program.health(signal)),
      faultText(program.start('b/0-0.1', { task: TASK, signal, serve: () => undefined, over })),
      faultText(program.wait('b/0-0.1', { seconds: 0, signal })),
      faultText(program.stop('b/0-0.1', signal)),
    ]);
    assert.equal(seen.length, 4);
    for (const { authorization, ...headers } of seen)
      assert.deepEqual(
        [authorization, headers['x-team']],
        ['Bearer token-of-this-test', 'rollouts of a team'],
      );
    for (const text of told) assert.doesNotMatch(text, /token-of-this-test/);
    assert.match(told[1], /you sent \[secret\]/);
  });

  test('are refused where they are none, without their text', async () => {
    const told = (value: string | undefined): Promise<string> =>
      environmentOf('http://127.0.0.1:1', value).then(
        () => 'made',
        (error: unknown) => (error as Error).message,
      );
    const where =
      'environments.swe.run.headers_env: expected the environment variable SWE_HEADERS to hold';
    assert.equal(await told(undefined), `${where} headers, it is not set`);
    assert.equal(await told(' \n'), `${where} headers, it is not set`);
    for (const wrong of ['a-secret-without-a-name', 'Two Words: x', 'Key: é', 'Key:'])
      assert.equal(await told(wrong), `${where} \`name: value\`, one a line, got another text`);
  });
});

describe('settings of an agent', () => {
  const problems = (settings: object): string => {
    const { error } = EnvironmentSettings.safeParse({ kind: 'agent', ...settings });
    return error?.issues.map(({ message }) => message).join('; ') ?? '';
  };
  const run = { url: 'http://127.0.0.1:9100' };
  const command = ['mini'];
  test('name a service or a command', () => {
    assert.equal(problems({ run }), '');
    assert.equal(problems({ run: { command } }), '');
    assert.match(problems({ run: { ...run, command } }), /expected no command beside url/);
    assert.match(problems({ run: {} }), /expected url, .* or command, .*; got neither/);
    assert.match(problems({ run: { ...run, submit: ['git'] } }), /expected none without command/);
    assert.match(problems({ run: { command, headers_env: 'A' } }), /expected none without url/);
    assert.match(problems({ run: { command: [] } }), /./);
    assert.match(
      problems({ run: { command, sandbox: 'none', mounts: ['.'] } }),
      /expected no mounts with sandbox none/,
    );
  });

  test('give setup and submit no way to the policy, and submit nothing of the folder by itself', () => {
    const wrong = (more: object, is: RegExp): void => {
      assert.match(problems({ run: { command, ...more } }), is);
    };
    wrong({ setup: ['fetch', '{base_url}'] }, /neither \{base_url\} nor \{key\}, got one/);
    wrong({ submit: ['grade', '--key={key}'] }, /use verify where a model judges/);
    wrong({ submit: ['./grade'] }, /expected a program on PATH or an absolute path.*got \.\/grade/);
    wrong({ submit: 'patch' }, /expected diff, or a program and its arguments as a list/);
    wrong({ submit_mounts: ['t'] }, /expected none without a command of submit/);
    wrong({ submit: 'diff', submit_mounts: ['t'] }, /expected none without a command of submit/);
    wrong(
      { submit: ['grade'], submit_mounts: ['t'], sandbox: 'none' },
      /expected no submit_mounts with sandbox none/,
    );
    assert.equal(problems({ run: { command, submit: 'diff' } }), '');
    assert.equal(problems({ run: { command, submit: ['{folder}/own'] } }), '');
  });
});
