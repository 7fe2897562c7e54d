import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import type { Row } from '../../src/model/results/row.js';
import { startBatch } from '../../lab/bed/batch.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import type { AgentService, Running } from '../servers/agent-service.js';
import { startAgentService } from '../servers/agent-service.js';
import type { Answer } from './answers.js';
import { answersIn, written } from './answers.js';
import type { KeptEngine } from './engine-process.js';
import { keepEngine } from './engine-process.js';
import { suite, WITHOUT_START } from './engine.js';
import { LOGPROB_TOLERANCE, SPECIAL_TOKENS } from './play.js';
import type { RecordingProxy } from './recording-proxy.js';
import { startRecordingProxy } from './recording-proxy.js';
import { torchLogprobs } from './torch-logprobs.js';

const QUEUE = 'agents';
const ROLLOUTS = 32;
const CALLS = 4;
const TEMPERATURE = 0.7;

const toolOf = (name: string, parameter: string) => ({
  type: 'function',
  function: {
    name,
    description: `${name} of a ${parameter}`,
    parameters: {
      type: 'object',
      properties: { [parameter]: { type: 'string' } },
      required: [parameter],
    },
  },
});
const TOOLS = [toolOf('count', 'word'), toolOf('turn', 'text')];

const resultOf = (name: string, said: string): string =>
  name === 'count' ? String(said.length) : Array.from(said).reverse().join('').slice(0, 12);

interface Answered {
  role: 'assistant';
  content: string | null;
  tool_calls?: { id: string; function: { name: string; arguments: string } }[];
}

/** Its policy calls tools, or says words that the program counts and turns by itself. */
async function program({ task, signal }: Running) {
  let calls = 0;
  let messages: object[] = [{ role: 'system', content: 'Count and turn.' }, ...task.message_log];
  for (let turn = 0; turn < CALLS; turn++) {
    const body = { model: 'policy', messages, tools: TOOLS };
    const given = await fetch(`${task.base_url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${task.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal,
    });
    assert.equal(given.status, 200, await given.clone().text());
    const { choices } = (await given.json()) as { choices: { message: Answered }[] };
    const { message } = choices[0]!;
    const { content, tool_calls = [] } = message;
    calls += tool_calls.length;
    const results = tool_calls.map(({ id, function: { name, arguments: text } }) => {
      const [said = ''] = Object.values(JSON.parse(text) as Record<string, string>);
      return { role: 'tool', tool_call_id: id, content: resultOf(name, said) };
    });
    const words = {
      role: 'user',
      content: resultOf(turn % 2 === 0 ? 'count' : 'turn', content ?? '').replaceAll(
        /[^ -~]/g,
        '?',
      ),
    };
    messages = [...messages, message, ...(results.length > 0 ? results : [words])];
  }
  return { reward: calls };
}

const CALL = String.raw`<tool_call>\n\{"name": "(count", "arguments": \{"word|turn", "arguments": \{"text)": "[a-z]{1,8}"\}\}\n</tool_call>`;

suite('programs on a real engine', {
  skip: WITHOUT_START,
  timeout: 1_200_000,
  tests: () => {
    let engine: KeptEngine;
    let proxy: RecordingProxy;
    let bed: Testbed;
    let service: AgentService;

    before(async () => {
      const template = path.join(PROJECT_ROOT, 'test/interop/tools-template.jinja');
      const flags = ['--chat-template', template, '--max-model-len', '2048'];
      engine = await keepEngine('interop-agents', { env: { TINY_VLLM_NO_ADAPTER: '1' }, flags });
      proxy = await startRecordingProxy(engine.base_url);
      bed = await startTestbed('interop-agents');
      service = await startAgentService(program);
      await bed.startWorker({
        task_queue: QUEUE,
        generation: {
          default: { kind: 'vllm', base_urls: [proxy.base_url], special_tokens: SPECIAL_TOKENS },
        },
        environments: { own: { kind: 'agent', run: { url: service.url }, max_concurrent: 16 } },
        // An engine on the same machine takes all of its time.
        worker: { heartbeat_timeout: '10s' },
      });
    });
    after(async () => {
      await service.close();
      await bed.end();
      await proxy.close();
      await engine.end();
    });

    async function rowsOf(batch_id: string, generation: object): Promise<Row[]> {
      proxy.recorded.length = 0;
      const samples = Array.from({ length: ROLLOUTS }, (_, row) => ({
        message_log: [{ role: 'user', content: `Task ${row}.` }],
        task_name: 'own',
        extra_env_info: {},
      }));
      const batch = await startBatch(bed.batch(batch_id, QUEUE), {
        samples,
        max_seq_len: 2048,
        max_rollout_turns: CALLS,
        generation: { max_new_tokens: 100, seed: 1, ...generation },
      });
      const { failure, failures, rollouts } = await batch.outcome();
      assert.deepEqual([failure, failures], [null, []]);
      assert.equal(rollouts.length, ROLLOUTS);
      return rollouts;
    }

    /** Every path is what the engine read and sampled, and nothing else is. */
    function assertAsRecorded(rows: readonly Row[]): Answer[] {
      const answers = rows.flatMap((row) => {
        assert.deepEqual(row.sequences ?? [], []);
        return answersIn(row);
      });
      assert.equal(answers.length, ROLLOUTS * CALLS);
      // Planning probes the logprobs with four ids.
      const read = proxy.recorded.filter(({ prompt_ids }) => prompt_ids.length > 4).map(written);
      const sampled = answers.map(written);
      assert.deepEqual([new Set(sampled).size, read.length], [sampled.length, sampled.length]);
      assert.ok(
        sampled.every((one) => read.includes(one)),
        'ids that the engine did not say',
      );
      return answers;
    }

    test('have rows whose ids are those that the engine read and sampled, through tools that it calls', async () => {
      const rows = await rowsOf('calls', { structured_outputs: { regex: CALL } });
      assertAsRecorded(rows);
      assert.deepEqual(new Set(rows.map(({ total_reward }) => total_reward)), new Set([CALLS]));
    });

    test('have the logprobs that torch computes of the rows alone', async (t) => {
      const rows = await rowsOf('words', { temperature: TEMPERATURE });
      const answers = assertAsRecorded(rows);
      const expected = torchLogprobs(answers.map((one) => ({ ...one, temperature: TEMPERATURE })));
      const apart = answers.flatMap(({ logprobs }, i) =>
        logprobs.map((got, k) => Math.abs(got - expected[i]![k]!)),
      );
      const worst = apart.reduce((a, b) => Math.max(a, b), 0);
      t.diagnostic(`${apart.length} tokens, at most ${worst.toExponential(1)} apart`);
      assert.ok(apart.length > ROLLOUTS * CALLS * 10 && worst <= LOGPROB_TOLERANCE, `${worst}`);
    });
  },
});
