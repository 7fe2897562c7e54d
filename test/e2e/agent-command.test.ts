/** Programs that workers start themselves, under kills. */
import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { AgentSettings } from '../../src/environments/agent/settings.js';
import { identify } from '../../src/platform/process/identity.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import { readJournal, startBatch } from '../../lab/bed/batch.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { WorkerProcess } from '../../lab/bed/worker.js';

type AgentRun = Partial<AgentSettings['run']>;
const QUEUE = 'agent-command';
const PROGRAM = path.join(PROJECT_ROOT, 'test', 'servers', 'agent_program.py');
/** The task's `does` becomes a file. */
const SETUP = 'import json, sys; open("does", "w").write(json.load(sys.stdin)["metadata"]["does"])';
/** What a verifier sees: the submission, and the program's exit. */
const VERIFIER = `export default { stepOne: ({ metadata: { submission } }) => ({ observation: 'verified', reward: Number(submission), terminated: true }) };`;

const sampleOf = (does: string, task_name = 'own') => ({
  message_log: [{ role: 'user', content: 'Say: 42' }],
  task_name,
  extra_env_info: { does },
});

/** One that nobody has waited for yet has ended, too. */
const living = async (pids: readonly number[]): Promise<number[]> => {
  const found = await Promise.all(pids.map((pid) => identify(pid)));
  return found.filter(({ command }) => command !== '').map(({ pid }) => pid);
};

describe('programs that a worker starts', () => {
  let bed: Testbed;
  let marks = '';
  let worker: WorkerProcess;
  let startWorker: (name: string) => Promise<WorkerProcess>;
  const others = new Set<string>();

  before(async () => {
    for (const name of await folders()) others.add(name);
    bed = await startTestbed('agent-command');
    marks = path.join(bed.directory, 'marks');
    await mkdir(marks);
    const verifier = path.join(bed.directory, 'verifier.mjs');
    await writeFile(verifier, VERIFIER);
    const run: AgentRun = {
      command: ['python3', PROGRAM, '{prompt}'],
      setup: ['python3', '-c', SETUP],
      submit: ['cat', '{folder}/said.txt'],
      env: { MARKS: marks },
      sandbox: 'none',
    };
    const generation = await bed.simulate({ default: { seed: 1 } });
    startWorker = (name) =>
      bed.startWorker({
        task_queue: QUEUE,
        name,
        generation,
        environments: {
          own: { kind: 'agent', run, verify: 'submission' },
          unready: {
            kind: 'agent',
            run: { ...run, setup: ['sh', '-c', 'echo no disk; exit 4'] },
            verify: 'submission',
          },
          submission: { kind: 'module', path: verifier },
        },
        worker: { heartbeat_timeout: '2s' },
      });
    worker = await startWorker('first');
  });
  after(() => bed.end());

  const folders = async (): Promise<string[]> =>
    (await readdir(tmpdir())).filter(
      (name) => name.startsWith('rollout-program-') && !others.has(name),
    );
  /** Of all lives of the programs that did this: the process, and what it has started. */
  const pidsOf = async (does: string): Promise<number[][]> => {
    const names = (await readdir(marks)).filter(
      (name) => name.startsWith(`${does}.`) && !name.endsWith('.part'),
    );
    return await Promise.all(
      names.map(
        async (name) => JSON.parse(await readFile(path.join(marks, name), 'utf8')) as number[],
      ),
    );
  };
  const nothingIsLeft = async (does: string, lives: number): Promise<void> => {
    const pids = await pidsOf(does);
    assert.equal(pids.length, lives);
    assert.deepEqual(await living(pids.flat()), []);
    await eventually('removal of folders', async () => (await folders()).length === 0);
  };
  const start = (batch_id: string, request: Record<string, unknown>) =>
    startBatch(bed.batch(batch_id, QUEUE), {
      max_seq_len: 4096,
      generation: { max_new_tokens: 64 },
      ...request,
    });
  const play = async (batch_id: string, request: Record<string, unknown>): Promise<BatchOutcome> =>
    await (await start(batch_id, request)).outcome();
  const linesOf = async (batch_id: string) =>
    await readJournal(bed.store_root, { batch_id, row: 0, repeat: 0 });

  test('are verified by what they submit, and leave nothing behind', async () => {
    const { failure, failures, rollouts } = await play('ends', {
      samples: [sampleOf('ends')],
      num_repeats: 2,
    });
    assert.deepEqual([failure, failures], [null, []]);
    const ends = rollouts.map(({ total_reward, stop_reason }) => [total_reward, stop_reason]);
    assert.deepEqual(ends, [
      [42, 'terminated'],
      [42, 'terminated'],
    ]);
    const exit = (await linesOf('ends')).find((line) => line.kind === 'exit');
    assert.deepEqual([exit?.code, exit?.submission, exit?.tail], [0, '42', 'the key is (key)\n']);
    await nothingIsLeft('ends', 2);
  });

  test('that are killed, or fail, begin again as often as the request allows', async () => {
    const { rollouts, failures } = await play('fails', {
      samples: [sampleOf('dies once'), sampleOf('fails'), sampleOf('loses')],
      attempts: { agent: 2 },
    });
    assert.deepEqual(
      rollouts.map(({ total_reward }) => total_reward),
      [42],
    );
    const said = failures.map(({ failure }) => failure?.message ?? '').sort();
    assert.match(said[0] ?? '', /^its program failed in life 2 \(exit 1\): boom\n/);
    assert.match(
      said[1] ?? '',
      /life 2 \(exit 1\): run\.submit: it failed \(exit 1\); it printed at its end: cat: \S+said\.txt: No such file/,
    );
    await nothingIsLeft('dies once', 2);
    await nothingIsLeft('fails', 2);
  });

  test('that are late are ended', async () => {
    const { failures } = await play('late', {
      samples: [sampleOf('sleeps')],
      rollout_timeout: '4s',
    });
    assert.equal(failures[0]?.stop_reason, 'timeout');
    await nothingIsLeft('sleeps', 1);
  });

  test('whose folder cannot be made ready say why', async () => {
    const { failures } = await play('unready', {
      samples: [sampleOf('ends', 'unready')],
      attempts: { environment: 1 },
    });
    assert.equal(
      failures[0]?.failure?.message,
      'environments.unready.run.setup: it failed (exit 4); it printed at its end: no disk',
    );
  });

  test('die with their worker, and begin again without a cost', async () => {
    const batch = await start('killed', { samples: [sampleOf('waits')], attempts: { agent: 1 } });
    const [pids = []] = await eventually(
      'the program',
      async () => (await pidsOf('waits')).length > 0 && (await pidsOf('waits')),
    );
    await worker.kill('SIGKILL');
    await eventually(
      'the end of what the worker had started',
      async () => (await living(pids)).length === 0,
    );
    worker = await startWorker('second');
    const { rollouts, failure } = await batch.outcome();
    assert.equal(failure, null);
    assert.deepEqual(
      rollouts.map(({ total_reward }) => total_reward),
      [42],
    );
    const lives = (await linesOf('killed')).filter(({ kind }) => kind === 'life');
    assert.equal(lives.length, 2);
    await nothingIsLeft('waits', 2);
  });
});
