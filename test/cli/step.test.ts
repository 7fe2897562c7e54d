import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestContext } from 'node:test';
import { playSteps } from '../../src/cli/step/step.js';
import { UsageError } from '../../src/platform/command.js';
import { describeError } from '../../src/platform/errors.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { writeJson } from '../../src/platform/json/kept.js';
import { MAIN } from '../../lab/bed/command.js';
import { startJsonServer } from '../servers/json-server.js';

const EXAMPLE = path.join(PROJECT_ROOT, 'examples', 'custom-environment');

/** No step needs it, but temporal.yaml does. */
const GENERATION = {
  generation: { default: { kind: 'vllm', base_urls: ['http://127.0.0.1:8000/v1'] } },
};

interface Steps {
  lines: string[];
  /** null: each line's own. */
  environment?: string | null;
  environments?: object;
  options?: string[];
}

/** The options of a command that plays these lines. */
async function given(
  t: TestContext,
  { lines, environment = 'words', environments, options = [] }: Steps,
): Promise<string[]> {
  const folder = await mkdtemp(path.join(tmpdir(), 'step-'));
  t.after(() => rm(folder, { recursive: true }));
  const input = path.join(folder, 'lines.jsonl');
  await writeFile(input, lines.map((line) => `${line}\n`).join(''));
  const own = path.join(folder, 'temporal.yaml');
  // JSON is YAML.
  if (environments !== undefined)
    await writeFile(own, JSON.stringify({ ...GENERATION, environments }));
  const config = environments === undefined ? path.join(EXAMPLE, 'temporal.yaml') : own;
  const named = environment === null ? [] : ['--environment', environment];
  return ['--input', input, '--config', config, ...options, ...named];
}

/** The command in this process, which would take a second to start. */
async function step(t: TestContext, steps: Steps) {
  const args = await given(t, steps);
  const errors: string[] = [];
  const { mock } = t.mock.method(console, 'error', (line: string) => errors.push(line));
  const printed: Record<string, unknown>[] = [];
  const play = playSteps(args, () => (result) => {
    printed.push(JSON.parse(writeJson(result)) as Record<string, unknown>);
    return Promise.resolve();
  });
  try {
    const status = await play.catch((error: unknown) => {
      if (!(error instanceof UsageError)) throw error;
      errors.push(describeError(error));
      return 2;
    });
    return { status, printed, stderr: errors.join('\n') };
  } finally {
    mock.restore();
  }
}

const said = (content: string, more: object = {}): string =>
  JSON.stringify({
    message_log: [{ role: 'assistant', content }],
    metadata: { words: 3 },
    ...more,
  });

describe('temporal-rollout step', () => {
  test('plays the example of several turns, which answers the same in TypeScript and in Python', async (t) => {
    const text = await readFile(path.join(EXAMPLE, 'guess-steps.jsonl'), 'utf8');
    const lines = text.trimEnd().split('\n');
    const { status, printed, stderr } = await step(t, { lines, environment: 'guess' });
    assert.equal(status, 0, stderr);
    assert.deepEqual(
      printed.map(({ reward, terminated }) => [reward, terminated]),
      [
        [0, false],
        [1, true],
        [0, true],
      ],
    );
    const steps = JSON.stringify(lines.map((line) => JSON.parse(line) as unknown));
    const play =
      'import json, sys; from guess import Guess; g = Guess(); print(json.dumps([g.step([s["message_log"]], [s["metadata"]]) for s in json.loads(sys.argv[1])]))';
    const python = spawnSync('python3', ['-c', play, steps], {
      cwd: EXAMPLE,
      encoding: 'utf8',
      env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1' },
    });
    assert.equal(python.status, 0, python.stderr);
    const answers = JSON.parse(python.stdout) as Record<string, unknown[]>[];
    assert.deepEqual(
      answers.map(({ observations, rewards, terminateds, metadata }) => ({
        observation: observations?.[0],
        reward: rewards?.[0],
        terminated: terminateds?.[0],
        metadata: metadata?.[0],
      })),
      printed.map(({ observation, reward, terminated, metadata }) => ({
        observation,
        reward,
        terminated,
        metadata,
      })),
    );
  });

  test('prints what the environment answers to each line, in order', async (t) => {
    const { status, printed, stderr } = await step(t, {
      lines: [said('one two three'), said('no')],
    });
    assert.equal(status, 0, stderr);
    assert.deepEqual(printed, [
      {
        observation: { role: 'environment', content: 'Enough.' },
        reward: 1,
        terminated: true,
        metadata: null,
        next_stop_strings: null,
        answer: '3',
      },
      {
        observation: { role: 'environment', content: '1 words; expected 3.' },
        reward: 0,
        terminated: true,
        metadata: null,
        next_stop_strings: null,
        answer: '1',
      },
    ]);
  });

  test('names line and field of what is malformed, runs the others, and exits with 1', async (t) => {
    const { status, printed } = await step(t, {
      lines: ['{', said('a b c'), said('x', { metdata: {} })],
    });
    assert.equal(status, 1);
    const errors = printed.map(({ error }) => error as { message: string } | undefined);
    assert.match(
      errors[0]?.message ?? '',
      /^line 1: expected a JSON object: column 2: expected a name in double quotes or }, got the end$/,
    );
    assert.equal(errors[1], undefined);
    assert.match(errors[2]?.message ?? '', /^line 3: metdata: unknown field/);
  });

  test('grades as a batch does by default, and a row of results by its own semantics', async (t) => {
    const message_log = [
      { role: 'assistant', content: '<answer>B</answer>' },
      { role: 'assistant', content: 'I do not know' },
    ];
    const row = { message_log, task_name: 'vlm', extra_env_info: { ground_truth: 'B' } };
    const result = { ...row, rollout_id: 'b/0-0', total_reward: 1 };
    const said = [
      { role: 'user', content: '?', token_ids: [1, 2] },
      { ...message_log[0], token_ids: [3] },
      { role: 'user', content: 'Sure?', token_ids: [4] },
      { ...message_log[1], token_ids: [5] },
    ];
    const lines = [
      { message_log, metadata: { ground_truth: 'B' } },
      row,
      { ...result, semantics: 'nemo-rl-sync' },
      result,
      { ...result, message_log: said, prompt_tokens: 2 },
    ].map((line) => JSON.stringify(line));
    const reward_functions = [{ name: 'exact_alnum', weight: 1 }];
    const run = {
      lines,
      environment: 'vlm',
      environments: { vlm: { kind: 'vlm', reward_functions } },
    };
    for (const [options, rewards] of [
      [[], [0, 0, 1, 0, 1]],
      [
        ['--semantics', 'standard'],
        [0, 0, 0, 0, 1],
      ],
      [
        ['--semantics', 'nemo-rl-async'],
        [1, 1, 1, 1, 1],
      ],
    ] as const) {
      const { printed } = await step(t, { ...run, options: [...options] });
      assert.deepEqual(
        printed.map(({ reward }) => reward),
        rewards,
        options.join(' '),
      );
    }
    const wrong = await step(t, { ...run, options: ['--semantics', 'standart'] });
    assert.equal(wrong.status, 2);
    assert.match(
      wrong.stderr,
      /--semantics: expected one of standard, nemo-rl-sync, nemo-rl-async, nemo-rl, got "standart"/,
    );
  });

  test('plays samples and rows of results as they are, each in its own environment', async (t) => {
    const message_log = [{ role: 'user', content: 'Say three words.' }];
    const sample = { message_log, task_name: 'words', extra_env_info: { words: 3 } };
    const vlm = { ...sample, task_name: 'tags', extra_env_info: { ground_truth: 'B' } };
    const said = [
      ...message_log,
      { role: 'assistant', content: '<answer>B</answer>', token_ids: [1] },
    ];
    const row = { ...vlm, message_log: said, rollout_id: 'b/0-0', total_reward: 0.25 };
    const reward_functions = [{ name: 'exact_alnum', weight: 1 }];
    const environments = {
      words: { kind: 'module', path: path.join(EXAMPLE, 'environment.ts') },
      tags: { kind: 'vlm', reward_functions },
    };
    const lines = [sample, vlm, row].map((line) => JSON.stringify(line));
    const options = ['--answer', 'one two three'];
    const { status, printed, stderr } = await step(t, {
      lines,
      environment: null,
      environments,
      options,
    });
    assert.equal(status, 0, stderr);
    assert.deepEqual(
      printed.map(({ reward, rollout_id, total_reward }) => [reward, rollout_id, total_reward]),
      [
        [1, undefined, undefined],
        [0, undefined, undefined],
        [1, 'b/0-0', 0.25],
      ],
    );
  });

  test('plays a Python function without a temporal.yaml, and says why one cannot be loaded', async (t) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'step-function-'));
    t.after(() => rm(folder, { recursive: true }));
    await writeFile(path.join(folder, 'lines.jsonl'), `${said('one two')}\n${said('boom')}\n`);
    const source = `print('loading')
def share(reply, sample):
    if reply == 'boom': raise ValueError('no such move')
    return len(reply.split()) / sample['words']
`;
    await writeFile(path.join(folder, 'rewards.py'), source);
    const run = (name: string) =>
      spawnSync(process.execPath, [MAIN, 'step', '--input', 'lines.jsonl', '--function', name], {
        cwd: folder,
        encoding: 'utf8',
        timeout: 280_000,
      });
    const { status, stdout, stderr } = run('rewards:share');
    assert.equal(status, 1, stderr);
    const [first, second] = stdout
      .split('\n')
      .map((line) => (line === '' ? null : (JSON.parse(line) as Record<string, unknown>)));
    assert.deepEqual([first?.['reward'], first?.['terminated']], [2 / 3, true]);
    const message = (second?.['error'] as { message: string }).message;
    assert.match(message, /ValueError: no such move \(at rewards\.py:3 in share: /);
    assert.equal(stderr.match(/Traceback/g)?.length, 1, stderr);
    assert.match(stderr, /step: line 2: Traceback/);
    const missing = run('rewards:shore');
    assert.deepEqual([missing.status, missing.stdout], [1, '']);
    assert.match(
      missing.stderr,
      /cannot load rewards:shore: .*\n.*--function rewards:shore: cannot be served/,
    );
  });

  test('plays rows of a data set by --columns', async (t) => {
    const { printed } = await step(t, {
      lines: ['{"question":"Two words?","count":2}'],
      options: ['--columns', 'question=prompt,count=extra_env_info.words', '--answer', 'one two'],
    });
    assert.equal(printed[0]?.['reward'], 1);
  });

  for (const [columns, problem] of [
    ['question', /--columns: expected COLUMN=NAME such as question=prompt, got "question"/],
    [
      'answer=answer',
      /--columns: answer: expected prompt, extra_env_info\.NAME, message_log, .* or length, got "answer"; for the environment: extra_env_info\.answer/,
    ],
    ['a=prompt,b=message_log', /--columns: expected one column for message_log, got a and b/],
  ] as const)
    test(`exits with 2 for --columns ${columns}, with what was expected`, async (t) => {
      const { status, stderr } = await step(t, {
        lines: [said('x')],
        options: ['--columns', columns],
      });
      assert.equal(status, 2);
      assert.match(stderr, problem);
    });

  test('exits with 2 for a line that names no environment, where none is given', async (t) => {
    const { status, stderr } = await step(t, { lines: [said('x')], environment: null });
    assert.equal(status, 2);
    assert.match(stderr, /line 1 has no task_name, and --environment is missing/);
  });

  for (const [what, line, problem] of [
    [
      'is no text',
      Buffer.from([0x7b, 0xff]),
      /^line 2 of lines\.jsonl: expected UTF-8, got 0xff at byte 1/,
    ],
    ['names no environment', Buffer.from(said('b')), /^line 2 has no task_name/],
  ] as const)
    test(`a line that ${what} ends the command, with the answers to the lines before it`, async (t) => {
      const service = await startJsonServer(
        async ({ route, response }) => {
          if (route !== 'POST /step') return void response.writeHead(404).end();
          await sleep(300);
          const step = { observations: [{ role: 'environment', content: '' }], rewards: [1] };
          response.end(JSON.stringify({ ...step, terminateds: [true], metadata: [null] }));
        },
        (error, { response }) => response.destroy(error as Error),
      );
      t.after(() => service.close());
      const environments = { slow: { kind: 'http', url: service.url } };
      const row = { task_name: 'slow', message_log: [{ role: 'assistant', content: 'a' }] };
      const args = await given(t, {
        lines: [JSON.stringify(row)],
        environment: null,
        environments,
      });
      const [, input = ''] = args;
      await appendFile(input, Buffer.concat([line, Buffer.from('\n')]));
      const printed: unknown[] = [];
      const play = playSteps(args, () => (result) => {
        printed.push(result);
        return Promise.resolve();
      });
      await assert.rejects(play, { message: problem });
      assert.equal((printed[0] as { reward?: number }).reward, 1, JSON.stringify(printed));
    });

  test('prints nothing else on standard output, whatever the environment prints', async (t) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'step-loud-'));
    t.after(() => rm(folder, { recursive: true }));
    const file = path.join(folder, 'loud.mjs');
    const source = `process.stdout.write('loading\\n');
export default { stepOne() { console.log('thinking'); return { observation: '', reward: 1, terminated: true }; } };`;
    await writeFile(file, source);
    const environments = { loud: { kind: 'module', path: file } };
    const args = await given(t, { lines: [said('x')], environment: 'loud', environments });
    const options = { cwd: PROJECT_ROOT, encoding: 'utf8', timeout: 280_000 } as const;
    const { stdout, stderr } = spawnSync(process.execPath, [MAIN, 'step', ...args], options);
    assert.equal((JSON.parse(stdout) as { reward: number }).reward, 1);
    assert.match(stderr, /loading\nthinking/);
  });

  test('says where an environment raised: in the message the place, on standard error the trace', async (t) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'step-raises-'));
    t.after(() => rm(folder, { recursive: true }));
    const file = path.join(folder, 'raises.mjs');
    const source = `const check = () => { throw new RangeError('no such move'); };
export default { stepOne: () => check() };`;
    await writeFile(file, source);
    const environments = { raises: { kind: 'module', path: file } };
    const lines = [said('x')];
    const played = await step(t, { lines, environment: 'raises', environments });
    const { status, printed, stderr } = played;
    assert.equal(status, 1);
    const message = 'RangeError: no such move (at raises.mjs:1 in check)';
    assert.deepEqual(printed, [{ error: { type: 'EnvironmentFailed', message } }]);
    assert.match(
      stderr,
      /line 1: RangeError: no such move\n {4}at check \(.*raises\.mjs:1\)\n {4}at .*raises\.mjs:2/,
    );
    assert.doesNotMatch(stderr, /src\/environments/);
  });

  test('says once why an environment does not answer', async (t) => {
    const environments = { away: { kind: 'http', url: 'http://127.0.0.1:1' } };
    const lines = [said('x')];
    const played = await step(t, { lines, environment: 'away', environments });
    const { status, printed, stderr } = played;
    assert.equal(status, 1, stderr);
    const message = 'POST http://127.0.0.1:1/begin failed: connect ECONNREFUSED 127.0.0.1:1';
    assert.deepEqual(printed, [{ error: { type: 'EnvironmentUnavailable', message } }]);
  });

  test('exits with 2 for an environment that there is not, and says which there are', async (t) => {
    const { status, printed, stderr } = await step(t, { lines: [said('x')], environment: 'wordz' });
    assert.deepEqual([status, printed], [2, []]);
    assert.match(stderr, /unknown environment "wordz"; .* has words/);
  });
});
