/** mini-swe-agent and OpenCode in the sandbox of programs, whose policy is a real engine. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import type { AgentSettings } from '../../src/environments/agent/settings.js';
import type { Row } from '../../src/model/results/row.js';
import { startBatch } from '../../lab/bed/batch.js';
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import type { TemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { WorkerProcess } from '../../lab/bed/worker.js';
import { answersIn, written } from './answers.js';
import type { KeptEngine } from './engine-process.js';
import { keepEngine } from './engine-process.js';
import { suite, WITHOUT_START } from './engine.js';
import { LOGPROB_TOLERANCE, SPECIAL_TOKENS } from './play.js';
import type { RecordingProxy } from './recording-proxy.js';
import { startRecordingProxy } from './recording-proxy.js';
import { makeCheckpoint } from './torch-logprobs.js';

const QUEUE = 'agent-programs';
const ROLLOUTS = 16;
const CALLS = 4;
const ENDS_WITHIN_MS = 900_000;
/** OpenCode's instructions and tools are some 20,000 tokens of the tiny model. */
const MOST_TOKENS = 49_152;

/** `venv` with mini-swe-agent, `node_modules` with opencode-ai (README.md). */
const AGENTS = process.env['ROLLOUT_INTEROP_AGENTS'] ?? '';
const VENV = path.join(AGENTS, 'venv');
const OPENCODE = path.join(AGENTS, 'node_modules', 'opencode-linux-x64');
const without = [path.join(VENV, 'bin', 'mini'), path.join(OPENCODE, 'bin', 'opencode')].filter(
  (program) => AGENTS === '' || !existsSync(program),
);
const skip =
  WITHOUT_START !== false || without.length === 0
    ? WITHOUT_START
    : `no agents: set ROLLOUT_INTEROP_AGENTS to a folder that has ${without.join(' and ')} (test/interop/README.md)`;

const COMMAND = '(echo [a-z]{1,8}|ls -a|cat said)';
const END = 'echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT';
const callOf = (given: string): string =>
  String.raw`<tool_call>\n\{"name": "bash", "arguments": \{${given}\}\}\n</tool_call>`;
/** A random policy calls no tool by itself: a grammar makes it. What it chooses within that is sampled. */
const GRAMMARS = {
  mini: callOf(`"command": "(${COMMAND}|${END})"`),
  opencode: callOf(`"command": "${COMMAND}", "description": "[a-z]{1,8}"`),
};

type Run = Partial<AgentSettings['run']>;
const submit: Run['submit'] = ['sh', '-c', 'ls -A {folder} | wc -l'];

const MINI: Run = {
  command: [
    ...['mini', '--model=policy', '--model-class=litellm', '--task={prompt}'],
    ...['--yolo', '--exit-immediately', '-cmini', '-cagent.cost_limit=0'],
    ...['-cmodel.cost_tracking=ignore_errors', '-cmodel.model_kwargs.custom_llm_provider=openai'],
    ...['-cmodel.model_kwargs.api_base={base_url}', '-cmodel.model_kwargs.api_key={key}'],
  ] as [string, ...string[]],
  env: { MSWEA_CONFIGURED: 'true', MSWEA_SILENT_STARTUP: 'true' },
  mounts: [VENV],
  submit,
};

const CONFIG = {
  provider: {
    gw: {
      npm: '@ai-sdk/openai-compatible',
      name: 'gw',
      options: { baseURL: '{base_url}', apiKey: '{key}' },
      models: { policy: { name: 'policy', limit: { context: 40_000, output: 1000 } } },
    },
  },
  ...{ model: 'gw/policy', small_model: 'gw/policy', permission: 'allow' },
};
const OPEN: Run = {
  command: [
    ...['sh', '-c', 'printf %s "$1" > /tmp/opencode.json; exec opencode run --format json "$2"'],
    ...['sh', JSON.stringify(CONFIG), '{prompt}'],
  ] as [string, ...string[]],
  env: {
    OPENCODE_CONFIG: '/tmp/opencode.json',
    OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_DISABLE_AUTOUPDATE: '1',
  },
  mounts: [OPENCODE],
  submit,
};

/** Of this host, with one of the agents as their program. */
function processesOfAgents(): string[] {
  const said = (read: () => string): string => {
    try {
      return read();
    } catch {
      return '';
    }
  };
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(
      (pid) =>
        said(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8')) +
        said(() => readlinkSync(`/proc/${pid}/exe`)),
    )
    .filter((text) => text.includes(VENV) || text.includes(OPENCODE));
}

const foldersOfLives = (): string[] =>
  readdirSync(tmpdir()).filter((name) => name.startsWith('rollout-code-'));

const VERIFIER = `export default { stepOne: ({ metadata: { submission } }) => ({ observation: 'seen', reward: Number(submission), terminated: true }) };`;

suite('agents of others in their sandbox, on a real engine', {
  skip,
  timeout: 2_400_000,
  tests: () => {
    let engine: KeptEngine;
    let files: TemporaryDirectory;
    let proxy: RecordingProxy;
    let bed: Testbed;
    let startWorker: (name: string) => Promise<WorkerProcess>;
    let worker: WorkerProcess;
    const others = new Set(foldersOfLives());
    const mounted = readFileSync('/proc/self/mountinfo', 'utf8');

    before(async () => {
      const template = path.join(PROJECT_ROOT, 'test/interop/tools-template.jinja');
      const flags = ['--chat-template', template, '--max-model-len', String(MOST_TOKENS)];
      const whole = ['--no-enable-chunked-prefill', '--max-num-batched-tokens', '65536'];
      files = await makeTemporaryDirectory('interop-agents');
      const model = path.join(files.path, 'model');
      makeCheckpoint(model, 0, MOST_TOKENS);
      engine = await keepEngine('interop-agent-programs', {
        env: { MODEL: model },
        flags: [...flags, ...whole],
      });
      proxy = await startRecordingProxy(engine.base_url);
      bed = await startTestbed('interop-agent-programs');
      const verifier = path.join(bed.directory, 'verifier.mjs');
      await writeFile(verifier, VERIFIER);
      startWorker = (name) =>
        bed.startWorker({
          task_queue: QUEUE,
          name,
          generation: {
            default: { kind: 'vllm', base_urls: [proxy.base_url], special_tokens: SPECIAL_TOKENS },
          },
          environments: {
            mini: { kind: 'agent', run: MINI, verify: 'seen', max_concurrent: 4 },
            opencode: { kind: 'agent', run: OPEN, verify: 'seen', max_concurrent: 4 },
            seen: { kind: 'module', path: verifier },
          },
          worker: { heartbeat_timeout: '10s' },
        });
      worker = await startWorker('first');
    });
    after(async () => {
      await bed.end();
      await proxy.close();
      await engine.end();
      await files.remove();
    });

    const start = (
      batch_id: string,
      { of, rollouts }: { of: keyof typeof GRAMMARS; rollouts: number },
    ) => {
      const samples = Array.from({ length: rollouts }, (_, row) => ({
        message_log: [{ role: 'user', content: `Task ${row}: say hello.` }],
        task_name: of,
        extra_env_info: {},
      }));
      return startBatch(bed.batch(batch_id, QUEUE), {
        samples,
        max_seq_len: MOST_TOKENS,
        max_rollout_turns: CALLS,
        generation: { max_new_tokens: 100, structured_outputs: { regex: GRAMMARS[of] } },
        rollout_timeout: '30m',
      });
    };

    /** Every sampled id of a row is one that the engine has sampled behind the same ids, with its logprob. */
    function assertAsRecorded(rows: readonly Row[]): number {
      const read = new Map(proxy.recorded.map((one) => [written(one), one]));
      let tokens = 0;
      for (const answer of rows.flatMap(answersIn)) {
        const there = read.get(written(answer));
        assert.ok(there !== undefined, 'ids that the engine did not say');
        for (const [k, logprob] of answer.logprobs.entries())
          assert.ok(Math.abs(logprob - (there.logprobs[k] ?? NaN)) <= LOGPROB_TOLERANCE);
        tokens += answer.token_ids.length;
      }
      return tokens;
    }

    async function assertNothingIsLeft(): Promise<void> {
      await eventually('the end of all agents', () => processesOfAgents().length === 0);
      await eventually('removal of their folders', () =>
        foldersOfLives().every((name) => others.has(name)),
      );
      assert.equal(readFileSync('/proc/self/mountinfo', 'utf8'), mounted);
    }

    for (const of of ['mini', 'opencode'] as const)
      test(`${of}: all ids and logprobs of its rows are what the engine said, and nothing is sampled beside them`, async (t) => {
        proxy.recorded.length = 0;
        const { failure, failures, rollouts } = await (
          await start(of, { of, rollouts: ROLLOUTS })
        ).outcome(ENDS_WITHIN_MS);
        assert.deepEqual([failure, failures], [null, []]);
        assert.equal(rollouts.length, ROLLOUTS);
        const tokens = assertAsRecorded(rollouts);
        const sampled = proxy.recorded.filter(({ prompt_ids }) => prompt_ids.length > 4);
        const answers = rollouts.flatMap(answersIn);
        assert.equal(answers.length, sampled.length);
        const beside = rollouts.flatMap(({ sequences = [] }) =>
          sequences.map(({ cause }) => cause),
        );
        const longest = Math.max(...sampled.map(({ prompt_ids }) => prompt_ids.length));
        t.diagnostic(
          `${answers.length} calls, ${tokens} tokens, prompts up to ${longest}; sequences beside: ${JSON.stringify(beside)}`,
        );
        await assertNothingIsLeft();
      });

    test('a killed worker leaves no process, no folder and no mount, and costs no rollout', async (t) => {
      proxy.recorded.length = 0;
      const batches = [await start('killed-mini', { of: 'mini', rollouts: 6 })];
      batches.push(await start('killed-opencode', { of: 'opencode', rollouts: 6 }));
      await eventually({ what: 'both agents', timeout_ms: 240_000 }, () => {
        const said = processesOfAgents().join('\n');
        return said.includes(VENV) && said.includes(OPENCODE) && proxy.recorded.length > 12;
      });
      await worker.kill('SIGKILL');
      await eventually('the end of all agents', () => processesOfAgents().length === 0);
      await eventually('removal of their folders', () =>
        foldersOfLives().every((name) => others.has(name)),
      );
      worker = await startWorker('second');
      const lives: (number | undefined)[] = [];
      for (const batch of batches) {
        const { failure, failures, rollouts } = await batch.outcome(ENDS_WITHIN_MS);
        assert.deepEqual([failure, failures, rollouts.length], [null, [], 6]);
        assertAsRecorded(rollouts);
        lives.push(...rollouts.map((row) => row.lives));
      }
      t.diagnostic(`lives: ${lives.join(' ')}`);
      assert.ok(lives.some((one) => (one ?? 0) > 1));
      await assertNothingIsLeft();
    });
  },
});
