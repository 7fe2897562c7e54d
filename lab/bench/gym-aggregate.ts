import { createWriteStream } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createRandom } from '../../simulator/random.js';
import { USAGE_HEAD, usageLine } from './command-usage.js';

/**
 * `node --import tsx lab/bench/gym-aggregate.ts [rows]`, after `npm run build`: `temporal-rollout aggregate` and `profile`
 * over a million results of 4 rollouts a task, in any order; peak memory and time of each process. No server runs.
 */
const ROLLOUTS = 4;
const SHARDS = 4;

const random = createRandom(1);
const whole = (limit: number): number => Math.floor(random() * limit);

/** About 800 bytes. */
function result(task: number, rollout: number): string {
  const [input_tokens, output_tokens] = [whole(500), whole(4000)];
  const usage = { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens };
  return JSON.stringify({
    responses_create_params: { input: [{ role: 'user', content: `question ${task}` }] },
    response: {
      output: [{ type: 'message', content: 'x'.repeat(400) }],
      usage: { ...usage, input_tokens_details: { cached_tokens: 0 } },
    },
    reward: whole(2),
    score: random(),
    turns: whole(10),
    solved: random() < 0.5,
    ...keyOf(task, rollout),
  });
}

const keyOf = (task: number, rollout: number) => ({
  _ng_task_index: task,
  _ng_rollout_index: rollout,
  agent_ref: { type: 'responses_api_agents', name: 'simple_agent' },
});

const input = (task: number, rollout: number): string =>
  JSON.stringify({ question: `question ${task}`, ...keyOf(task, rollout) });

/** Rows of one shard: those of 1000 tasks, shuffled as they complete in a real run. */
function* lines({ rows, shard }: { rows: number; shard: number }): Generator<string> {
  const tasks = Math.ceil(rows / ROLLOUTS);
  const size = 1000;
  for (let first = shard * size; first < tasks; first += size * SHARDS) {
    const keys = Array.from({ length: Math.min(size, tasks - first) * ROLLOUTS }, (_, index) => ({
      task: first + Math.floor(index / ROLLOUTS),
      rollout: index % ROLLOUTS,
      order: random(),
    })).sort((a, b) => a.order - b.order);
    yield `${keys.map(({ task, rollout }) => result(task, rollout)).join('\n')}\n`;
  }
}

function* inputs(rows: number): Generator<string> {
  for (let task = 0; task < rows / ROLLOUTS; task++) {
    for (let rollout = 0; rollout < ROLLOUTS; rollout++) yield `${input(task, rollout)}\n`;
  }
}

const rows = Number(process.argv[2] ?? 1_000_000);
const folder = await mkdtemp(path.join(tmpdir(), 'bench-gym-'));
const at = (name: string): string => path.join(folder, name);
try {
  let bytes = 0;
  for (let shard = 0; shard < SHARDS; shard++) {
    await pipeline(lines({ rows, shard }), createWriteStream(at(`shard-${shard}.jsonl`)));
    bytes += (await stat(at(`shard-${shard}.jsonl`))).size;
  }
  await pipeline(inputs(rows), createWriteStream(at('inputs.jsonl')));
  const load = (loadavg()[0] ?? 0).toFixed(1);
  console.log(`${rows} results, ${(bytes / 2 ** 20).toFixed(0)} MB in ${SHARDS} shards`);
  console.log(`Node.js ${process.versions.node}, load average ${load}\n`);
  console.log(USAGE_HEAD.join('\n'));
  const merged = at('merged.jsonl');
  const glob = `+input_glob='${at('shard-*.jsonl')}'`;
  const aggregate = [glob, `+output_jsonl_fpath='${merged}'`, '+head_server.port=1'];
  console.log(await usageLine('aggregate', ['aggregate', ...aggregate]));
  const profile = [
    `+materialized_inputs_jsonl_fpath='${at('inputs.jsonl')}'`,
    `+rollouts_jsonl_fpath='${merged}'`,
  ];
  console.log(await usageLine('profile', ['profile', ...profile]));
} finally {
  await rm(folder, { recursive: true });
}
