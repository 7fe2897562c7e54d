/**
 * Generated rows of many tokens, written and read as rollouts.jsonl and rollouts.arrow in one run. No policy sampled them.
 * `node --import tsx lab/bench/rows.ts [--rows N] [--tokens N]`; prints a line of JSON for each step.
 */
import { spawnSync } from 'node:child_process';
import { mkdtemp, open, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { trainerInstall, PYTHON_PACKAGES } from '../../dev/trainer-example.js';
import { arrowRows } from '../../src/model/results/arrow/rows.js';
import type { Row } from '../../src/model/results/row.js';
import { writeJson } from '../../src/platform/json/kept.js';
import { END, HEAD } from '../../src/trajectories/arrow/batches.js';
import { packing } from '../../src/trajectories/arrow/packing.js';
import { readOptions } from '../options.js';

const REPEATS = 8;
const TEXT =
  'One of the words of an answer that nobody sampled, to have as many bytes as text has. ';

function rowOf(number: number, tokens: number): Row {
  const [row, repeat] = [Math.floor(number / REPEATS), number % REPEATS];
  const ids = Array.from({ length: tokens }, (_, at) => ((at + number) * 7919) % 150_000);
  const prompt = Math.min(1024, tokens >> 1);
  const sampled = ids.slice(prompt);
  const run = { start: 0, end: sampled.length };
  const content = TEXT.repeat(Math.ceil((4 * sampled.length) / TEXT.length));
  return {
    ...{ task_name: 'generated', schema_version: 1, rollout_id: `rows/${row}-${repeat}` },
    ...{ batch_id: 'rows', row, repeat, idx: row, loss_multiplier: 1, extra_env_info: {} },
    message_log: [
      { role: 'user', content: TEXT, token_ids: ids.slice(0, prompt) },
      {
        role: 'assistant',
        content,
        token_ids: sampled,
        generation_logprobs: sampled.map((id) => -Math.abs(Math.sin(id + number)) * 3),
      },
    ],
    ...{ prompt_tokens: prompt, total_reward: number % 2, rewards: {}, turn_rewards: [number % 2] },
    ...{ finish_reasons: ['stop'], stop_reason: 'terminated', terminated: true, truncated: false },
    ...{ max_turns_reached: false, turn_count: 1, total_tokens: sampled.length },
    ...{ assistant_tokens: sampled.length, env_tokens: 0, attempts: 1, restarted_turns: [] },
    train_mask: [{ start: prompt, end: tokens }],
    policy_versions: [{ ...run, version: '17' }],
    version_source: 'engine',
    segments: [{ ...run, turn: 0, replica: 'http://engine/v1', request_id: `rows/${number}` }],
    logprobs_mode: 'processed',
    timing: { queue_s: 0, generate_s: 1, step_s: 0, wall_s: 1 },
  };
}

/** CPU seconds of this process, so that the generation of rows is left out. */
function stopwatch(): { during: <T>(work: () => T) => T; seconds: () => number } {
  let micros = 0;
  return {
    during: (work) => {
      const before = process.cpuUsage();
      const made = work();
      const { user, system } = process.cpuUsage(before);
      micros += user + system;
      return made;
    },
    seconds: () => micros / 1e6,
  };
}

const say = (line: object): void => {
  console.log(JSON.stringify(line));
};

async function write(folder: string, { rows, tokens }: { rows: number; tokens: number }) {
  const [jsonl, arrow] = [path.join(folder, 'rollouts.jsonl'), path.join(folder, 'rollouts.arrow')];
  const files = { jsonl: await open(jsonl, 'w'), arrow: await open(arrow, 'w') };
  const watch = { jsonl: stopwatch(), arrow: stopwatch() };
  await files.arrow.writeFile(HEAD);
  const pack = packing(async (batch) => {
    await files.arrow.writeFile(batch);
  });
  for (let number = 0; number < rows; number++) {
    const row = rowOf(number, tokens);
    const text = watch.jsonl.during(() => Buffer.from(`${writeJson(row)}\n`));
    await files.jsonl.writeFile(text);
    const sequences = watch.arrow.during(() => arrowRows(row));
    // The first part of it, before anything is awaited, makes the batch.
    await watch.arrow.during(() => pack.add(sequences));
  }
  await watch.arrow.during(() => pack.flush());
  await files.arrow.writeFile(END);
  for (const form of ['jsonl', 'arrow'] as const) {
    await files[form].close();
    const { size } = await stat(path.join(folder, `rollouts.${form}`));
    say({ form, step: 'made', cpu_s: watch[form].seconds(), mb: size / 1e6 });
  }
  const counts = { requested: rows, completed: rows };
  const named = { rollouts: jsonl, failures: '', sequences: arrow };
  await writeFile(path.join(folder, 'metrics.json'), JSON.stringify({ counts, files: named }));
}

const USAGE = 'node --import tsx lab/bench/rows.ts [--rows N] [--tokens N]';
const { rows, tokens } = readOptions({ usage: USAGE }, { rows: 32, tokens: 32_768 });
const size = { rows, tokens };
const folder = await mkdtemp(path.join(tmpdir(), 'bench-rows-'));
try {
  say({ ...size, of: 'generated rows' });
  await write(folder, size);
  const { python } = trainerInstall(process.env);
  const script = path.join(PYTHON_PACKAGES, '..', 'lab', 'bench', 'rows.py');
  const env = { ...process.env, PYTHONPATH: PYTHON_PACKAGES, PYTHONDONTWRITEBYTECODE: '1' };
  for (const form of ['arrow', 'jsonl'])
    spawnSync(python, [script, folder, form], { env, stdio: 'inherit' });
} finally {
  await rm(folder, { recursive: true });
}
