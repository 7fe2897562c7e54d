import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { encode } from '../../simulator/policy/tokenizer.js';
import { chatml, forgetful, withoutEnvironment } from '../fakes/chatml.js';
import type { Template } from '../fakes/scripted-service.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { startTemplateServer } from '../servers/template-server.js';
import { runHere } from '../harness/command-here.js';

/** One that counts its messages: nothing that was sent stays as it was. */
const counting: Template = (messages, options) => [
  ...encode(`${messages.length} messages\n`),
  ...chatml(messages, options),
];

async function check(
  t: TestContext,
  { template, args = [] }: { template: Template; args?: string[] },
) {
  const server = await startTemplateServer(template);
  t.after(() => server.close());
  const file = path.join(await temporaryFolder(t), 'temporal.yaml');
  const config = {
    generation: { default: { kind: 'vllm', base_urls: [server.base_url] } },
    environments: { sliding_puzzle: { kind: 'sliding_puzzle' } },
  };
  // JSON is YAML.
  await writeFile(file, JSON.stringify(config));
  const { status, stdout, stderr } = await runHere(t, 'check-template', '--config', file, ...args);
  return { code: status, stderr, lines: stdout.trimEnd().split('\n'), server };
}

const OF = (role: string): string[] => [
  `user → ${role}, with thinking`,
  `user → ${role}`,
  `system, user → ${role}, with thinking`,
  `system, user → ${role}`,
];
const ALL = ['user', 'tool', 'environment'].flatMap(OF);

/** What is said of each conversation. */
const found = (lines: string[]): Record<string, string> =>
  Object.fromEntries(
    lines.slice(1).map(
      (line) =>
        line
          .trim()
          .split(/: (.*)/)
          .slice(0, 2) as [string, string],
    ),
  );

describe('temporal-rollout check-template', () => {
  test('says of a template that keeps what was said that every role is continued exactly, and exits with 0', async (t) => {
    const { code, lines, stderr, server } = await check(t, {
      template: chatml,
      args: ['--template-kwargs', '{"tone": "dry"}'],
    });
    assert.equal(code, 0, stderr);
    assert.equal(lines[0], `${server.base_url}, model policy:`);
    assert.deepEqual(
      lines.slice(1),
      ALL.map((what) => `  ${what}: continued exactly`),
    );
    for (const { chat_template_kwargs } of server.chats)
      assert.deepEqual(chat_template_kwargs, { tone: 'dry' });
  });

  test('says of one that cuts thoughts which token of which message it rewrites, and what helps; the rest it continues', async (t) => {
    const { code, lines, stderr } = await check(t, { template: forgetful });
    assert.equal(code, 0, stderr);
    const told = found(lines);
    assert.deepEqual(Object.keys(told), ALL);
    for (const [what, said] of Object.entries(told))
      if (!what.endsWith('with thinking')) assert.equal(said, 'continued exactly');
      else
        assert.match(
          said,
          /^the chat template rewrites what was said: at token \d+, message \d \(assistant\), expected token 60 "<" again, got token 111 "o": choose one: a template .*--chat-template.*role_map/,
        );
  });

  test('exits with 1 where no role can be continued', async (t) => {
    const { code, lines } = await check(t, { template: counting });
    assert.equal(code, 1);
    const told = found(lines);
    assert.deepEqual(Object.keys(told), ALL);
    for (const said of Object.values(told))
      assert.match(
        said,
        /^the chat template rewrites what was said: at token 0, prompt \(messages? 0.*\), expected token 49 "1" again, got token 51 "3": choose one: a template/,
      );
  });

  test('says what a role that is left out is to be mapped by', async (t) => {
    const { code, lines, stderr } = await check(t, { template: withoutEnvironment });
    assert.equal(code, 0, stderr);
    const told = found(lines);
    for (const what of OF('user')) assert.equal(told[what], 'continued exactly');
    for (const what of OF('environment'))
      assert.match(
        told[what] ?? '',
        /^the chat template leaves out messages of role environment: map it .*role_map/,
      );
  });

  test('exits with 2 for a service that there is not, and says which there are', async (t) => {
    const { code, lines, stderr } = await check(t, {
      template: chatml,
      args: ['--service', 'defualt'],
    });
    assert.deepEqual([code, lines], [2, ['']]);
    assert.match(stderr, /unknown service "defualt"; .* has default/);
  });
});
