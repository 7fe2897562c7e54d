/** Agents of a real NeMo Gym whose model server is the gateway of a worker that is killed. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { linesOf, textsInFolder } from '../../lab/bed/journal-texts.js';
import { startPolicyBed } from '../../lab/bed/policy-bed.js';
import { eventually } from '../../lab/bed/waiting.js';
import { firstFreePort } from '../../dev/free-port.js';
import { AGENTS, startGym } from './nemo-gym/stack.js';

const dir = process.env['ROLLOUT_INTEROP_NEMO_GYM_RELEASE'];
const BATCH = 'nemo-gym';
const REPEATS = 4;
const ENDS_WITHIN_MS = 600_000;

/** What the simulator's policy does with the tools of `example_multi_step`. */
const STEPS = [
  'Call: {"name": "get_synonym_value", "arguments": {"synonym": "Warm"}}',
  'Call: {"name": "get_synonym_value", "arguments": {"synonym": "Hot"}}',
  'Call: {"name": "extract_synonym_values", "arguments": {"synonym_values": [711, 407]}}',
  'Answer: done',
];

interface GymRow {
  responses_create_params: { input: { role: string; content: string }[] };
}

async function samplesOf(gym: string) {
  const rows = await Promise.all(
    ['mcqa', 'example_multi_step'].map(async (name, index) => {
      const file = path.join(gym, 'resources_servers', name, 'data', 'example.jsonl');
      const lines = (await readFile(file, 'utf8')).trim().split('\n');
      return lines.map((line) => {
        const row = JSON.parse(line) as GymRow;
        const asked = row.responses_create_params.input.at(-1);
        if (index === 1 && asked !== undefined) asked.content += `\n${STEPS.join('\n')}`;
        return { agent: AGENTS[index], row };
      });
    }),
  );
  return rows.flat().map(({ agent, row }, task_index) => ({
    message_log: [],
    task_name: 'gym',
    extra_env_info: { agent, task_index, rollout_index: 0, row: JSON.stringify(row) },
  }));
}

test(
  'a real NeMo Gym asks the gateway, whose worker is killed under new weights',
  { skip: dir === undefined && 'set ROLLOUT_INTEROP_NEMO_GYM_RELEASE' },
  async (t) => {
    if (dir === undefined) return;
    const [head, port] = [await firstFreePort(0), await firstFreePort(0)];
    const bed = await startPolicyBed({
      name: 'nemo-gym',
      simulator: { max_model_len: 65_536, tokens_per_second: 60, thinking_tokens: 20 },
      environments: { gym: { kind: 'gym_agent', head_server: `http://127.0.0.1:${head}` } },
      worker: { gateway: { listen: `127.0.0.1:${port}` } },
    });
    t.after(bed.end);
    await bed.publish(await bed.weights(1));
    await startGym(t, { dir, folder: bed.directory, gateway: { head, port } });
    const samples = await samplesOf(path.join(dir, 'gym'));
    const batch = bed.batch(BATCH);
    await batch.start({
      samples,
      num_repeats: REPEATS,
      max_seq_len: 32_768,
      max_rollout_turns: 50,
      generation: { max_new_tokens: 512 },
    });
    const answers = async (): Promise<number> =>
      [...(await textsInFolder(bed.journals(BATCH))).values()]
        .flatMap(linesOf)
        .filter(({ kind }) => kind === 'answer').length;
    await eventually('some answers', async () => (await answers()) > samples.length);
    await bed.worker.kill();
    await bed.publish(await bed.weights(2));
    const { rollouts, failures } = await batch.outcome(ENDS_WITHIN_MS);

    assert.deepEqual([rollouts.length, failures.length], [samples.length * REPEATS, 0]);
    const versions = new Set<string | null>();
    for (const row of rollouts) {
      assert.deepEqual([row.logprobs_mode, row.untokenized], ['processed', undefined]);
      for (const { version } of row.policy_versions) versions.add(version);
      for (const { role, token_ids, generation_logprobs } of row.message_log)
        if (role === 'assistant') assert.equal(generation_logprobs?.length, token_ids.length);
    }
    assert.deepEqual([...versions].toSorted(), ['1', '2']);
    assert.ok(
      rollouts.some(({ lives = 0 }) => lives > 1),
      'no life was lost',
    );
    assert.ok(rollouts.some(({ calls = 0, total_reward }) => calls > 2 && total_reward === 1));
    for (const text of (await textsInFolder(bed.journals(BATCH))).values()) {
      const sampled = linesOf(text).flatMap((line) =>
        line.kind === 'generation' ? [line.turn] : [],
      );
      assert.equal(new Set(sampled).size, sampled.length, 'a call was sampled twice');
    }
  },
);
