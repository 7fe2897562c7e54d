/**
 * Environments of others, with their own packages: Gymnasium and OpenEnv behind `wrap`, and one of verifiers as an agent.
 * A simulated policy plays them, and a worker is killed. Rewards are those that the packages give the same replies.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';
import type { Row } from '../../src/model/results/row.js';
import { exampleIn } from '../docs/example.js';
import { startBatch } from '../../lab/bed/batch.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';
import { suite } from './engine.js';

const PYTHON = process.env['ROLLOUT_OTHERS_PYTHON'] ?? '';
const PROGRAMS = path.join(PYTHON_PACKAGES, 'tests', 'others');
const QUEUE = 'others';
const [SAMPLES, REPEATS, TURNS] = [4, 3, 3];
/** Python with these packages takes half a minute to import them on a loaded machine. */
const STARTS_WITHIN_MS = 300_000;

const SAMPLES_OF = `
import json, sys
import games, play
infos = [{"seed": seed} for seed in range(${SAMPLES})]
print(json.dumps([*games.lake.samples(infos, "lake"), *games.count.samples(infos, "count"), *play.samples("sums")]))
`;

interface Evaluated {
  rewards: Record<string, number>;
  observed: string[];
}

suite('environments of others, with their own packages', {
  skip:
    PYTHON === ''
      ? 'no environments of others: set ROLLOUT_OTHERS_PYTHON to a Python with python/tests/others/requirements.txt, and uv on PATH'
      : false,
  timeout: 1_800_000,
  tests: () => {
    let bed: Testbed;
    let folder: string;
    let urls: string[];
    const ending: (() => Promise<unknown>)[] = [];

    const python = (args: string[], env: Record<string, string> = {}) => {
      const child = spawn(PYTHON, args, {
        cwd: folder,
        env: { ...process.env, ...env, PYTHONPATH: `${PYTHON_PACKAGES}:${PROGRAMS}:${folder}` },
        stdio: ['pipe', 'pipe', 'pipe'],
      });
      const ended = once(child, 'close');
      return { child, ended };
    };
    const serve = async (args: string[], env: Record<string, string> = {}): Promise<string> => {
      const { child, ended } = python(args, env);
      let said = '';
      child.stderr.on('data', (data: Buffer) => (said += data.toString()));
      createInterface({ input: child.stdout }).on('line', (line) => (said += `${line}\n`));
      ending.push(async () => {
        child.kill('SIGTERM');
        child.stdin.end();
        await ended;
      });
      return await eventually({ what: args.join(' '), timeout_ms: STARTS_WITHIN_MS }, () => {
        assert.equal(child.exitCode, null, said);
        return /http:\/\/\S+/.exec(said)?.[0];
      });
    };
    const answer = async (
      args: string[],
      { input = '', env = {} }: { input?: string; env?: Record<string, string> },
    ): Promise<string> => {
      const { child, ended } = python(args, env);
      child.stdin.end(input);
      const [said, complained] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
      assert.equal(child.exitCode, 0, complained);
      return said;
    };

    before(async () => {
      bed = await startTestbed('interop-others');
      folder = path.join(bed.directory, 'play');
      await mkdir(folder);
      await copyFile(path.join(PROGRAMS, 'addition.py'), path.join(folder, 'addition.py'));
      await writeFile(
        path.join(folder, 'play.py'),
        await exampleIn('docs/verifiers.md', '# play.py'),
      );
      const openenv = await serve([path.join(PROGRAMS, 'counting.py')]);
      const env = { OPENENV_URL: openenv };
      urls = [
        openenv,
        ...(await Promise.all([
          serve(['-m', 'rollout_environment', 'games:lake', '--port', '0'], env),
          serve(['-m', 'rollout_environment', 'games:count', '--port', '0'], env),
          serve(['-m', 'rollout_environment.agent', 'play:run', '--port', '0'], env),
        ])),
      ];
    });
    after(async () => {
      await bed.end();
      for (const end of ending.reverse()) await end();
    });

    test('earn what their own packages give the same replies, also where a worker is killed', async () => {
      const [openenv = '', lake = '', count = '', sums = ''] = urls;
      const env = { OPENENV_URL: openenv };
      const generation = await bed.simulate({
        default: { thinking_tokens: 4, skill: 0.4, seed: 1, tokens_per_second: 20 },
      });
      const environments = {
        lake: { kind: 'http', url: lake },
        count: { kind: 'http', url: count },
        sums: { kind: 'agent', run: { url: sums } },
      } as const;
      const worker = await bed.startWorker({ task_queue: QUEUE, generation, environments });
      const samples = JSON.parse(await answer(['-c', SAMPLES_OF], { env })) as {
        extra_env_info: object;
      }[];
      assert.equal(samples.length, 3 * SAMPLES);
      const batch = await startBatch(bed.batch('others', QUEUE), {
        samples,
        num_repeats: REPEATS,
        max_seq_len: 4096,
        max_rollout_turns: TURNS,
        generation: { max_new_tokens: 32 },
      });
      const journals = path.join(bed.store_root, 'others', 'journals');
      const journalled = async (): Promise<{ name: string; journal: string }[]> => {
        const names = await readdir(journals).catch(() => []);
        return await Promise.all(
          names.map(async (name) => ({
            name,
            journal: await readFile(path.join(journals, name), 'utf8'),
          })),
        );
      };
      await eventually({ what: 'some turns', timeout_ms: STARTS_WITHIN_MS }, async () => {
        const all = await journalled();
        return (
          all.filter(({ journal }) => countOf(journal, 'generation') > 0).length > SAMPLES &&
          all.some(asksAgain)
        );
      });
      await worker.kill('SIGKILL');
      const cut = (await journalled()).filter(asksAgain).map(({ name }) => name);
      await bed.startWorker({ task_queue: QUEUE, name: `${QUEUE}-2`, generation, environments });
      const { rollouts, failures } = await batch.outcome(900_000);
      assert.deepEqual(
        failures.map(({ failure }) => failure),
        [],
      );
      assert.equal(rollouts.length, 3 * SAMPLES * REPEATS);

      const lines = rollouts.map((row) =>
        JSON.stringify({ ...row, info: samples[row.row]!.extra_env_info }),
      );
      const evaluated = (
        await answer([path.join(PROGRAMS, 'evaluate.py')], { input: lines.join('\n'), env })
      )
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as Evaluated);
      const seen: Record<string, Set<number>> = {
        lake: new Set(),
        count: new Set(),
        sums: new Set(),
      };
      for (const [at, row] of rollouts.entries()) {
        const { rewards, observed } = evaluated[at]!;
        const sum = Object.values(rewards).reduce((a, b) => a + b);
        assert.ok(
          Math.abs(row.total_reward - sum) < 1e-9,
          `${row.rollout_id}: ${row.total_reward}, not ${sum}`,
        );
        if (row.task_name === 'sums') assert.deepEqual(row.rewards, rewards, row.rollout_id);
        assert.deepEqual(observedIn(row), observed, row.rollout_id);
        seen[row.task_name]!.add(row.total_reward);
      }
      const lives = rollouts
        .filter(({ lives = 1 }) => lives > 1)
        .map((row) => `${row.row}-${row.repeat}.jsonl`);
      assert.ok(cut.length > 0, 'the kill is within a rollout of a program');
      assert.deepEqual(
        cut.filter((name) => !lives.includes(name)),
        [],
      );
      console.log({
        rollouts: rollouts.length,
        cut,
        lives,
        ...Object.fromEntries(Object.entries(seen).map(([name, rewards]) => [name, [...rewards]])),
      });
      assert.ok(seen['count']!.size > 3 && seen['sums']!.size > 1, 'rewards differ');
    });
  },
});

const countOf = (journal: string, kind: string): number =>
  journal.split(`"kind":"${kind}"`).length - 1;

/** A program of verifiers has an answer, and waits for another one. */
const asksAgain = ({ journal }: { journal: string }): boolean =>
  countOf(journal, 'answer') > 0 && countOf(journal, 'call') > countOf(journal, 'answer');

/** Behind the first reply: what the environment, or the program, said. */
const observedIn = ({ message_log, task_name }: Row): string[] => {
  const first = message_log.findIndex(({ role }) => role === 'assistant');
  const role = task_name === 'sums' ? 'user' : 'environment';
  return message_log
    .slice(first)
    .filter((message) => message.role === role)
    .map(({ content }) => (typeof content === 'string' ? content : ''));
};
