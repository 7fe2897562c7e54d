import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { BatchRequest } from '../../src/model/batch-request.js';
import type { Entry } from '../../src/model/journal.js';
import { RolloutSettings } from '../../src/model/journal.js';
import { glanceOf } from '../../src/model/journal/outcome.js';
import { totalsOf } from '../../src/model/journal/trajectory.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import { USAGE_HEAD, usageLine } from './command-usage.js';

/**
 * `node --import tsx lab/bench/show.ts [rollouts]`, after `npm run build`: `temporal-rollout show` of a batch of 10,000
 * rollouts of ten turns, of one rollout of 2,000 turns and of one of 100,000 tokens; peak memory and time of each
 * process. No server runs.
 */
const REPEATS = 8;
const AT_ONCE = 32;
const TURN_TOKENS = 40;

interface Played {
  turns: number;
  /** For each turn. */
  tokens: number;
  has_ended?: boolean;
}

function* turnsOf({ turns, tokens }: Played): Generator<Entry> {
  for (let turn = 0; turn < turns; turn++) {
    for (let offset = 0; offset < tokens; offset += 64) {
      const token_ids = Array.from({ length: Math.min(64, tokens - offset) }, (_, i) => 1000 + i);
      yield {
        kind: 'chunk',
        turn,
        offset,
        token_ids,
        logprobs: token_ids.map((id) => -id / 7000),
        text: 'word '.repeat(token_ids.length),
        replica: 'http://127.0.0.1:8000/v1',
        request_id: `bench.${turn}`,
        policy_version: null,
      };
    }
    const content = 'word '.repeat(tokens);
    const whole = { finish_reason: 'stop', stop_reason: null, token_count: tokens } as const;
    yield { kind: 'generation', turn, content, ...whole, queue_s: 0.01, generate_s: 0.5 };
    yield {
      kind: 'observation',
      turn,
      message: { role: 'environment', content: `answer ${turn}` },
      token_ids: [1, 2, 3],
      reward: turn % 2,
      rewards: {},
      terminated: turn === turns - 1,
      truncated: false,
      metadata: null,
      next_stop_strings: null,
      step_s: 0.01,
    };
  }
}

/** A store with a batch of these rollouts, and a temporal.yaml that names the store. */
async function batchOf(
  { folder, batch_id }: { folder: string; batch_id: string },
  rollouts: readonly Played[],
): Promise<void> {
  const store = createFileStore({ root: path.join(folder, 'store'), max_cached_bytes: 0 });
  const rows = Math.ceil(rollouts.length / REPEATS);
  const sample = JSON.stringify({
    message_log: [{ role: 'user', content: 'go' }],
    task_name: 'task',
  });
  const request = BatchRequest.parse({ samples: { path: 'x.jsonl' }, num_repeats: REPEATS });
  await store.createBatch({ batch_id, request, samples: Array<string>(rows).fill(sample) });
  const { generation } = request;
  const settings = RolloutSettings.parse({
    ...request,
    generation: { ...generation, model: 'policy' },
    model: 'policy',
  });
  const write = async (at: number, played: Played): Promise<void> => {
    const ref = { batch_id, row: Math.floor(at / REPEATS), repeat: at % REPEATS };
    const journal = await store.claim(ref, { activity: 'openRollout' });
    await journal.append({
      kind: 'start',
      schema_version: 1,
      task_name: 'task',
      settings,
      prompt: [{ role: 'user', content: 'go', token_ids: [1, 2] }],
      extra_env_info: {},
    });
    const { trajectory } = journal;
    for (const line of turnsOf(played)) {
      const glance = glanceOf(trajectory);
      await journal.append(line.kind === 'observation' ? { ...line, glance } : line);
    }
    if (played.has_ended !== false)
      await journal.append({
        kind: 'end',
        stop_reason: 'terminated',
        totals: totalsOf(trajectory),
        failure: null,
        glance: glanceOf(trajectory),
      });
    await journal.commit();
  };
  const lanes = Array.from({ length: AT_ONCE }, async (_, lane) => {
    for (let at = lane; at < rollouts.length; at += AT_ONCE) {
      const played = rollouts[at];
      if (played !== undefined) await write(at, played);
    }
  });
  await Promise.all(lanes);
}

const count = Number(process.argv[2] ?? 10_000);
const folder = await mkdtemp(path.join(tmpdir(), 'bench-show-'));
try {
  const config = path.join(folder, 'temporal.yaml');
  await writeFile(
    config,
    JSON.stringify({
      store: { kind: 'file', root: path.join(folder, 'store') },
      generation: {},
      environments: {},
    }),
  );
  const short = { turns: 10, tokens: TURN_TOKENS };
  await batchOf({ folder, batch_id: 'ended' }, Array<Played>(count).fill(short));
  const unfinished = { ...short, has_ended: false };
  await batchOf({ folder, batch_id: 'unfinished' }, Array<Played>(count).fill(unfinished));
  await batchOf({ folder, batch_id: 'long' }, [
    { turns: 2000, tokens: TURN_TOKENS },
    { turns: 1, tokens: 100_000 },
  ]);
  console.log(`${count} rollouts of ${short.turns} turns of ${short.tokens} tokens`);
  console.log(`Node.js ${process.versions.node}, load average ${(loadavg()[0] ?? 0).toFixed(1)}\n`);
  console.log(USAGE_HEAD.join('\n'));
  const pages: [string, string[]][] = [
    [`the list of ${count}`, ['ended']],
    ['the same, none ended', ['unfinished']],
    ['its 20 worst', ['ended', '--worst', '20']],
    ['2,000 turns', ['long/0-0']],
    ['the same with tokens', ['long/0-0', '--tokens']],
    ['100,000 tokens', ['long/0-1', '--tokens']],
  ];
  for (const [name, args] of pages)
    console.log(await usageLine(name, ['show', ...args, '--config', config]));
} finally {
  await rm(folder, { recursive: true });
}
